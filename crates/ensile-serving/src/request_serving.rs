//! The requests of a connection are decoded, carried out, and replied or set aside.
//!
//! Invariants:
//! - R1: while replies wait, each reply whose epoch is not known to be durable is parked.
//! - W18: no later request of a connection is carried out before a request that is set aside.
//! - W19: nothing of the core is borrowed while a request is carried out.
//!
//! Neighbours: [`crate::ServingLoop`] and `busy_poll` serve; `dispatch` takes a request; `loop_core` has the
//! connections.

use std::cell::RefCell;
use std::task::Waker;

use ensile_net::{ConnectionId, LentBytes, Transport};
use ensile_resp::{ProtocolError, ReplyDecoder, ReplyEncoder, ReplyLimits, Request};

use crate::client_state::{Client, ClientSession};
use crate::deferred_replies::PARKED_BYTES;
use crate::dispatch;
use crate::execution::{Ahead, TOGETHER};
use crate::limits::{REPLY_BYTES, REQUEST_LIMITS, STRANGER_UNSENT_BYTES, protocol_error_text};
use crate::loop_core::LoopCore;
use crate::outcome::{ANSWERED, Outcome};
use crate::reply::NewReply;
use crate::served_program::{BusyCall, ServedProgram, ServiceCall};
use crate::state::ServingState;

/// Length in bytes of the replies behind which a connection's turn ends: the other clients of the loop wait meanwhile.
const TURN_BYTES: usize = 1 << 20;

/// Requests of a turn of the loop.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LoopTurn {
    /// Time in nanoseconds at which the loop had received the requests.
    pub(crate) begun_nanos: u64,
    /// Number of requests that are replied at once.
    pub(crate) replied: u64,
    /// Length in bytes of the replies to the connection whose turn it is.
    pub(crate) written_bytes: usize,
}

/// Requests of a group that are carried out.
struct ServedRequests {
    taken: usize,
    /// Outcome of the last request.
    outcome: Outcome,
    /// True if a client without authorization leaves too many replies unsent.
    is_flood: bool,
}

struct ServedGroup {
    /// Number of taken requests.
    taken: u64,
    /// True if the next group may be taken.
    goes_on: bool,
}

const NO_GROUP: ServedGroup = ServedGroup { taken: 0, goes_on: false };

/// The parts of a loop that requests need.
pub(crate) struct RequestServing<'l, T, S: ServedProgram> {
    pub(crate) core: &'l RefCell<LoopCore<T, S>>,
    pub(crate) server: &'l ServingState<S>,
    /// The program's state of the loop. `None` while the state is with a request under way: other requests then get
    /// `BUSY` (W19).
    pub(crate) loop_state: Option<&'l mut S::LoopState>,
    /// Waker of requests that are set aside.
    pub(crate) waker: &'l Waker,
    /// Reply that is being written.
    pub(crate) reply: &'l mut Vec<u8>,
    pub(crate) turn: &'l mut LoopTurn,
}

impl<T: Transport, S: ServedProgram> RequestServing<'_, T, S> {
    /// Carries out the requests that a connection has sent, as far as replies have room.
    pub(crate) fn serve(&mut self, id: ConnectionId) {
        let lent = self.core.borrow_mut().lend(id);
        let Some((mut session, mut lent)) = lent else { return };
        let (mut served, mut is_cut) = (0, false);
        self.turn.written_bytes = 0;
        if self.loop_state.is_none() && session.is_set_aside {
            self.set_aside_again(&lent);
        } else {
            loop {
                let group = self.serve_group(&mut session, &mut lent);
                served += group.taken;
                is_cut = group.goes_on && self.turn.written_bytes > TURN_BYTES;
                if !group.goes_on || is_cut {
                    break;
                }
            }
        }
        let mut core = self.core.borrow_mut();
        if is_cut
            && let Some(replies) = core.net.replies_of_lent(&lent)
            && replies.has_room()
        {
            // The other connections have their turns before.
            replies.set_aside();
            replies.resume();
        }
        core.give_back(session, lent);
        core.traffic.count_requests(served);
        drop(core);
        // A large reply does not keep its memory.
        self.reply.shrink_to(REQUEST_LIMITS.inline_bytes_max);
    }

    /// Sets a request aside that was set aside before the request under way began: the program may keep state for the
    /// request.
    fn set_aside_again(&self, lent: &LentBytes) {
        let mut core = self.core.borrow_mut();
        debug_assert!(self.loop_state.is_none(), "W19: the request comes again behind the request under way");
        // A connection without room is heard again later.
        if let Some(replies) = core.net.replies_of_lent(lent)
            && replies.has_room()
        {
            replies.set_aside();
            core.set_aside.push(lent.connection());
        }
    }

    /// Carries out a group of requests of a connection. Looks ahead: the memory that the group is about to use is
    /// requested at once.
    fn serve_group(
        &mut self,
        session: &mut ClientSession<S::ClientState>,
        lent: &mut LentBytes,
    ) -> ServedGroup {
        // Requests after the end are not carried out: the client that asked for the end gets no reply.
        if self.server.is_to_end() || !self.core.borrow_mut().has_room(lent) {
            return NO_GROUP;
        }
        session.is_set_aside = false;
        let service = &*self.server.service;
        // A password may have been set since the last request.
        if session.decoder.is_between_requests() {
            session.set_authorized(service.is_authorized(&session.client));
        }
        let ClientSession { decoder, client, .. } = session;
        let requests = decoder.decode(lent.unread(), TOGETHER);
        if requests.is_empty() {
            let (consumed, error) = (requests.consumed_bytes(), requests.error());
            self.note_no_request(session, lent, consumed, error);
            return NO_GROUP;
        }
        let (mut commands, mut ahead) = ([None; TOGETHER], Ahead::<S>::new());
        for (place, request) in commands.iter_mut().zip(requests.iter()) {
            *place = ahead.note(request, client.database);
        }
        if let Some(loop_state) = &mut self.loop_state {
            ahead.prefetch(service, loop_state);
        }
        let called = requests.iter().zip(commands);
        let ServedRequests { taken, outcome, is_flood } = self.serve_requests(client, lent, called);
        if let Some(loop_state) = &mut self.loop_state {
            service.end_group(loop_state);
        }
        debug_assert!(taken > 0 || outcome.sets_aside(), "W3: a connection with room goes on");
        let behind = requests.begin(taken);
        let consumed = behind.unwrap_or(requests.consumed_bytes());
        debug_assert!(taken == 0 || consumed > 0, "W2: a request has bytes");
        if behind.is_some() {
            decoder.go_back();
        }
        lent.consume(consumed);
        session.set_authorized(service.is_authorized(&session.client));
        session.is_set_aside = outcome.sets_aside();
        let mut core = self.core.borrow_mut();
        match outcome {
            Outcome::Busy if self.loop_state.is_none() => core.set_aside_while_busy.push(lent.connection()),
            Outcome::Busy => core.set_aside.push(lent.connection()),
            Outcome::Wait { until_nanos } => core.wait_for_event(session, until_nanos),
            _ => {}
        }
        drop(core);
        let ends = outcome == Outcome::ReplyAndClose || is_flood;
        if ends {
            self.close_when_sent(session, lent.connection());
        }
        let goes_on = !ends && !outcome.sets_aside();
        ServedGroup { taken: taken as u64, goes_on }
    }

    /// No whole request is left: more bytes must arrive, or the bytes are no request.
    fn note_no_request(
        &mut self,
        session: &mut ClientSession<S::ClientState>,
        lent: &mut LentBytes,
        consumed: usize,
        error: Option<ProtocolError>,
    ) {
        let Some(error) = error else { return lent.consume(consumed) };
        debug_assert!(!session.client.is_in_exec, "Q1: a queue is decoded by itself");
        let told = protocol_error_text(error, session.limits());
        if let Some(replies) = self.core.borrow_mut().net.replies_of_lent(lent) {
            replies.reply(|buffer| ReplyEncoder::new(buffer, session.client.version).error("ERR", &told));
        }
        self.close_when_sent(session, lent.connection());
    }

    /// Ends a connection after its replies. The requests and the queue of the client give their memory back.
    fn close_when_sent(&mut self, session: &mut ClientSession<S::ClientState>, id: ConnectionId) {
        // Without the program's state of the loop, the event of the connection's end does both.
        if let Some(loop_state) = &mut self.loop_state {
            self.server.service.end_client(loop_state, &mut session.client);
            session.release();
        }
        self.core.borrow_mut().net.close_when_sent(id);
    }

    /// Carries requests out, as far as replies have room and the client stays the same.
    #[inline]
    fn serve_requests<'r>(
        &mut self,
        client: &mut Client<S::ClientState>,
        lent: &LentBytes,
        called: impl Iterator<Item = (Request<'r>, Option<&'static S::Command>)>,
    ) -> ServedRequests {
        let service = &*self.server.service;
        let was_authorized = service.is_authorized(client);
        let mut served = ServedRequests { taken: 0, outcome: ANSWERED, is_flood: false };
        // The group begins with room.
        let mut room = ReplyRoom { is_left: true, unsent_bytes: 0 };
        for (request, command) in called {
            if !room.is_left || served.taken > 0 && self.server.is_to_end() {
                break;
            }
            (served.outcome, room) = self.serve_request(client, lent, request, command);
            if served.outcome.sets_aside() {
                break;
            }
            served.taken += 1;
            let is_authorized = service.is_authorized(client);
            served.is_flood = !is_authorized && room.unsent_bytes > STRANGER_UNSENT_BYTES;
            // The later requests were decoded within the limits of another client.
            let has_changed = is_authorized != was_authorized;
            if has_changed || served.is_flood || !matches!(served.outcome, Outcome::Reply(_)) {
                break;
            }
        }
        served
    }

    /// Carries a request out, and sends or parks the reply.
    #[inline]
    fn serve_request(
        &mut self,
        client: &mut Client<S::ClientState>,
        lent: &LentBytes,
        request: Request<'_>,
        command: Option<&'static S::Command>,
    ) -> (Outcome, ReplyRoom) {
        let Self { core, server, loop_state, waker, reply, turn } = self;
        let (service, waker) = (&*server.service, &**waker);
        reply.clear();
        let mut new_reply = NewReply::new(reply, REPLY_BYTES, client.version);
        let outcome = match loop_state {
            Some(loop_state) => {
                let loop_state = &mut **loop_state;
                dispatch::take(
                    ServiceCall { loop_state, client, request, server, waker },
                    command,
                    &mut new_reply,
                )
            }
            None => dispatch::take_while_busy(
                BusyCall { client, request, server, waker },
                command,
                &mut new_reply,
            ),
        };
        let is_several = new_reply.is_several();
        debug_assert!(
            is_several && reply_count(reply).is_some_and(|count| count > 0)
                || reply_count(reply) == Some(usize::from(outcome != Outcome::Stop && !outcome.sets_aside())),
            "a request has one reply"
        );
        turn.written_bytes += reply.len();
        let is_silent = !outcome.sets_aside() && client.silence.takes_reply();
        let mut core = core.borrow_mut();
        if core.was_polled && loop_state.is_some() {
            core.end_polls();
        }
        let LoopCore { net, parked, .. } = &mut *core;
        // The connection may have ended during the request.
        let Some(replies) = net.replies_of_lent(lent) else { return (outcome, ReplyRoom::default()) };
        match outcome {
            Outcome::Reply(_) | Outcome::ReplyAndClose if is_silent => {}
            Outcome::Reply(epoch)
                if service.waits_for_durability() && !parked.knows(epoch, service.durable_epochs()) =>
            {
                let slot = replies.reserve(reply.len() + PARKED_BYTES);
                parked.park(epoch, slot, reply, turn.begun_nanos);
                client.parked = epoch.max(client.parked);
            }
            Outcome::Reply(_) | Outcome::ReplyAndClose => {
                turn.replied += 1;
                replies.reply_written(reply);
            }
            Outcome::Stop => server.stop(),
            Outcome::Busy => replies.set_aside(),
            Outcome::Wait { .. } => replies.set_aside_for_event(),
        }
        // A request that is set aside leaves no room, and is asked for again by a wake-up.
        let is_left = !outcome.sets_aside() && turn.written_bytes <= TURN_BYTES && replies.has_room();
        (outcome, ReplyRoom { is_left, unsent_bytes: replies.unsent_bytes() })
    }
}

/// Room for the replies of a connection.
#[derive(Clone, Copy, Debug, Default)]
struct ReplyRoom {
    /// True if another request may be taken.
    is_left: bool,
    unsent_bytes: usize,
}

/// Number of whole replies in these bytes; `None` for bytes that are no replies.
fn reply_count(mut bytes: &[u8]) -> Option<usize> {
    // An error's line may be longer than a client's limit.
    let limits = ReplyLimits { line_bytes_max: bytes.len(), ..ReplyLimits::default() };
    let (mut decoder, mut count) = (ReplyDecoder::new(limits), 0);
    while !bytes.is_empty() {
        bytes = &bytes[decoder.decode(bytes).ok()??.consumed_bytes()..];
        count += 1;
    }
    Some(count)
}

#[cfg(test)]
mod tests {
    use ensile_resp::{ReplyEncoder, RespVersion};

    use super::reply_count;

    #[test]
    fn a_reply_with_a_long_line_counts_as_one() {
        let mut bytes = Vec::new();
        ReplyEncoder::new(&mut bytes, RespVersion::Resp2).error("ERR", &"x".repeat(100_000));
        assert_eq!(reply_count(&bytes), Some(1));
        assert_eq!(reply_count(&bytes[1..]), None);
    }
}
