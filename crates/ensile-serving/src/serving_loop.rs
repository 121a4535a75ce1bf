//! One loop of a server: takes the requests of its connections, and sends the replies once the replies may go.
//!
//! Invariants:
//! - R1: while replies wait, each reply whose epoch is not known to be durable is parked.
//! - Every request gets one reply, an error if the request was not carried out.
//! - W18: a request that is set aside stays unread, and is called again after each wake-up of the loop. No later
//!   request of its connection is carried out before.
//!
//! Neighbours: `ensile-net` has the loop of sockets; `dispatch` takes requests; `deferred_replies` has the parked
//! replies; [`crate::threads`] runs loops.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use ensile_base::sync::Ordering;
use ensile_net::{
    CloseReason, ConnectionId, ListenAddress, LoopWakeUp, NetEvent, NetLimits, NetLoop, ReplyQueue, Transport,
};
use ensile_resp::{ProtocolError, ReplyDecoder, ReplyEncoder, ReplyLimits, Request};

use crate::client_state::{Client, ClientSession, EventWait};
use crate::deferred_replies::{Arrivals, PARKED_BYTES, ParkedReplies};
use crate::dispatch;
use crate::execution::{Ahead, TOGETHER};
use crate::latency::LoopLatencies;
use crate::limits::{REPLY_BYTES, REQUEST_LIMITS, STRANGER_UNSENT_BYTES, protocol_error_text};
use crate::loop_clients::ClientsOfLoop;
use crate::mail::{LoopClients as _, LoopMail};
use crate::outcome::{ANSWERED, Outcome};
use crate::reply::NewReply;
use crate::served_program::{ServedProgram, ServiceCall};
use crate::state::ServingState;

/// Longest wait of an ending server for clients to take their replies.
pub const END_WAIT: Duration = Duration::from_secs(10);

/// Silence after which an ending server no longer waits for a client that has all its replies.
const END_QUIET: Duration = Duration::from_secs(1);

const _: () =
    assert!(END_QUIET.as_millis() < END_WAIT.as_millis(), "W14: a quiet client does not take the whole wait");

/// Interval at which a loop reports the number of served requests, and looks at the log.
const REPORT_NANOS: u64 = 1_000_000_000;

/// Text of the error for a request that is set aside when the server ends.
const SERVER_ENDS: &str =
    "the server ends, and the request is not carried out: send it again once the server runs";

struct ServedGroup {
    /// Number of taken requests.
    taken: u64,
    /// True if the next group may be taken.
    goes_on: bool,
}

/// Requests of a turn of the loop.
#[derive(Clone, Copy, Debug, Default)]
struct LoopTurn {
    /// Time in nanoseconds at which the loop had received the requests.
    begun_nanos: u64,
    /// Number of requests that are replied at once.
    replied: u64,
}

/// One loop of a server.
pub struct ServingLoop<T, S: ServedProgram> {
    net: NetLoop<T>,
    state: Arc<ServingState<S>>,
    loop_state: S::LoopState,
    sessions: HashMap<ConnectionId, ClientSession<S::ClientState>>,
    parked: ParkedReplies,
    latencies: Arc<LoopLatencies>,
    turn: LoopTurn,
    /// Connections whose first unread request waits for a wake-up.
    set_aside: Vec<ConnectionId>,
    /// Letters to the loop.
    mail: Arc<LoopMail<S::Letter>>,
    /// Reply that is being written.
    reply: Vec<u8>,
    /// Requests served since the last report, and the time of the report.
    unreported: u64,
    reported_nanos: u64,
    /// Reported number of replies that no client had waited for.
    unheard_told: u64,
    /// Largest memory of the connections since a peak was reported as fallen, in bytes.
    room_peak_bytes: usize,
    /// True if a reply could not be made durable.
    has_failed: bool,
}

impl<T, S: ServedProgram> std::fmt::Debug for ServingLoop<T, S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServingLoop").field("sessions", &self.sessions.len()).finish_non_exhaustive()
    }
}

impl<T: Transport, S: ServedProgram> ServingLoop<T, S> {
    /// Creates a loop over this transport, without listeners, on the thread that steps the loop.
    pub fn new(transport: T, state: Arc<ServingState<S>>, limits: NetLimits) -> Self {
        let net = NetLoop::new(transport, state.clock.clone(), limits).with_memory(state.memory.clone());
        *state.limits.lock() = limits;
        // Relaxed: a figure for people.
        state.loops.fetch_add(1, Ordering::Relaxed);
        let parked = ParkedReplies::new(&net.wake_up());
        let mail = Arc::new(LoopMail::new(net.wake_up()));
        let loop_state = state.service.begin_loop(&mail);
        let reported_nanos = state.clock.nanos();
        let latencies = Arc::new(LoopLatencies::new());
        state.latencies.lock().push(Arc::clone(&latencies));
        Self {
            net,
            state,
            loop_state,
            sessions: HashMap::new(),
            parked,
            latencies,
            turn: LoopTurn { begun_nanos: reported_nanos, replied: 0 },
            set_aside: Vec::new(),
            mail,
            reply: Vec::new(),
            unreported: 0,
            reported_nanos,
            unheard_told: 0,
            room_peak_bytes: 0,
            has_failed: false,
        }
    }

    /// Accepts connections at `address`; returns the bound address.
    ///
    /// # Errors
    /// The system's error: choose another address.
    pub fn listen(&mut self, address: &ListenAddress) -> io::Result<ListenAddress> {
        self.net.listen(address)
    }

    /// Handle that ends a wait of this loop.
    #[must_use]
    pub fn wake_up(&self) -> LoopWakeUp {
        self.net.wake_up()
    }

    /// State of the loop that the service keeps.
    pub fn loop_state(&mut self) -> &mut S::LoopState {
        &mut self.loop_state
    }

    /// Number of replies that wait until they are durable.
    #[must_use]
    pub fn deferred_count(&self) -> usize {
        self.parked.count()
    }

    /// Memory of all clients of the server's loops together, in bytes that count (W16).
    #[must_use]
    pub fn client_memory_bytes(&self) -> usize {
        self.state.memory.bytes()
    }

    /// The transport, for a test that plays the clients.
    pub fn transport_mut(&mut self) -> &mut T {
        self.net.transport_mut()
    }

    /// Sends replies, waits for `wait_max` at most, and serves the received requests. Returns false once the server is
    /// to end.
    ///
    /// # Errors
    /// The system's error for the wait itself: the loop cannot go on.
    pub fn step(&mut self, wait_max: Duration) -> io::Result<bool> {
        self.step_sockets(wait_max)?;
        self.take_letters();
        let are_durable = self.parked.fill_durable(&mut self.net, self.state.service.durable_epochs());
        if !are_durable && !self.has_failed {
            self.has_failed = true;
            self.state.look_at_log();
        }
        self.report();
        Ok(!self.state.has_stopped())
    }

    /// Takes a step of the loop of sockets, and handles the events.
    fn step_sockets(&mut self, wait_max: Duration) -> io::Result<()> {
        self.net.step(wait_max)?;
        // Messages from before this step go to the listeners from before this step.
        self.take_letters();
        self.turn = LoopTurn { begun_nanos: self.state.clock.nanos(), replied: 0 };
        let mut keeps_for_ended = false;
        while let Some(event) = self.net.next_event() {
            match event {
                NetEvent::Opened(id) => self.open(id),
                NetEvent::Received(id) => self.serve(id),
                NetEvent::Silent(id) => self.release_room(id),
                NetEvent::Closed(id, reason) => {
                    let mut session = self.sessions.remove(&id);
                    if let Some(session) = &mut session {
                        self.state.service.end_client(&mut self.loop_state, &mut session.client);
                        if let Some(timer) = session.wait.take().and_then(|wait| wait.timer) {
                            self.net.cancel_timer(timer);
                        }
                    }
                    debug_assert!(
                        session.is_some(),
                        "W9: a connection is opened before its end, and ends once"
                    );
                    keeps_for_ended |=
                        session.is_some_and(|session| self.parked.waits_for(session.client.parked));
                    // Relaxed: a figure for people.
                    let open = self.state.connections.fetch_sub(1, Ordering::Relaxed);
                    debug_assert!(open > 0, "each loop counts a connection before its end");
                    let is_evicted = reason == CloseReason::Evicted;
                    // Relaxed: a figure for people.
                    self.state.evicted.fetch_add(u64::from(is_evicted), Ordering::Relaxed);
                }
                NetEvent::WokenUp => self.resume_set_aside(),
                NetEvent::TimerDue(number) => self.clients().resume(ConnectionId::of_number(number)),
                NetEvent::AcceptPaused(_) => {}
            }
        }
        if keeps_for_ended {
            // Once for all connections that ended in this step: the call looks at every waiting reply.
            self.parked.forget_ended(|id| self.sessions.contains_key(id));
        }
        debug_assert_eq!(self.sessions.len(), self.net.stats().open, "each open connection has a session");
        Ok(())
    }

    /// Reports the load, which a policy of checkpoints may follow.
    fn report(&mut self) {
        let now_nanos = self.state.clock.nanos();
        self.count_latencies(now_nanos);
        if now_nanos - self.reported_nanos >= REPORT_NANOS {
            self.reported_nanos = now_nanos;
            let requests = std::mem::take(&mut self.unreported);
            let turned_away = self.state.turned_away_of(requests);
            debug_assert!(turned_away <= requests, "a request that the log refuses is a request");
            let unheard = self.net.stats().unheard - self.unheard_told;
            self.unheard_told += unheard;
            // Relaxed: a figure for people.
            self.state.unheard.fetch_add(unheard, Ordering::Relaxed);
            self.report_fallen_peak();
            self.state.service.report_load(requests - turned_away, turned_away + unheard);
            self.state.look_at_log();
            self.state.look_at_evicted();
        }
    }

    /// Counts the times of the requests that were replied in this turn.
    fn count_latencies(&mut self, now_nanos: u64) {
        let LoopTurn { begun_nanos, replied } = self.turn;
        if replied > 0 {
            self.latencies.count(now_nanos.saturating_sub(begun_nanos), replied);
        }
        for Arrivals { nanos, requests } in self.parked.take_sent() {
            self.latencies.count(now_nanos.saturating_sub(nanos), requests);
        }
    }

    /// Reports a peak of the connections' memory of which less than half is in use now. The use under a steady load
    /// falls less, and its freed memory is used again (W17).
    fn report_fallen_peak(&mut self) {
        let peak = self.net.take_room_peak();
        self.room_peak_bytes = self.room_peak_bytes.max(peak);
        debug_assert!(peak >= self.net.stats().room_bytes, "W17: the memory now is below its peak");
        let fallen = self.room_peak_bytes - peak;
        if fallen > peak {
            self.room_peak_bytes = peak;
            // Relaxed: the number guards no data; the next look sees what is not seen now.
            self.state.fallen_bytes.fetch_add(fallen, Ordering::Relaxed);
        }
    }

    /// Takes the last steps, after the close of the objects: sends the replies that are durable now, and lets clients
    /// take their waiting replies, and an end after the replies (W14). The steps take at most [`END_WAIT`], whatever
    /// the clients do.
    ///
    /// # Errors
    /// As for [`step`](Self::step).
    pub fn end(&mut self) -> io::Result<()> {
        // Requests that come from now on are not carried out.
        self.state.stop();
        self.refuse_set_aside();
        self.net.end_all(END_QUIET);
        let nanos = || self.state.clock.nanos();
        let until_nanos = nanos().saturating_add(END_WAIT.as_nanos() as u64);
        while self.net.stats().open > 0 && self.state.clock.nanos() < until_nanos {
            self.parked.fill_durable(&mut self.net, self.state.service.durable_epochs());
            let left = until_nanos.saturating_sub(self.state.clock.nanos());
            self.step_sockets(Duration::from_nanos(left))?;
        }
        Ok(())
    }

    fn open(&mut self, id: ConnectionId) {
        // Relaxed: a figure for people.
        self.state.connections.fetch_add(1, Ordering::Relaxed);
        // Relaxed: the number is a name; `fetch_add` gives each number once.
        let number = self.state.opened.fetch_add(1, Ordering::Relaxed) + 1;
        let mut session = ClientSession::new(number, id, self.state.clock.nanos());
        session.set_authorized(self.state.service.is_authorized(&session.client));
        let earlier = self.sessions.insert(id, session);
        debug_assert!(earlier.is_none(), "W9: a loop uses a name of a connection once");
    }

    /// Has the requests called again that were set aside: each in the turn of its connection.
    fn resume_set_aside(&mut self) {
        for id in std::mem::take(&mut self.set_aside) {
            // The connection may have ended.
            let Some((_, replies)) = self.net.parts(id) else { continue };
            replies.resume();
            debug_assert!(
                self.sessions.get(&id).is_some_and(|session| session.is_set_aside),
                "W18: a connection is in the list while its request is set aside"
            );
        }
    }

    /// Hands the letters that have come to the service.
    fn take_letters(&mut self) {
        for letter in self.mail.take() {
            let Self { net, sessions, parked, state, loop_state, .. } = self;
            let mut clients = ClientsOfLoop { net, sessions, parked, state };
            state.service.take_letter(loop_state, &mut clients, letter);
        }
    }

    fn clients(&mut self) -> ClientsOfLoop<'_, T, S> {
        let Self { net, sessions, parked, state, .. } = self;
        ClientsOfLoop { net, sessions, parked, state }
    }

    /// Sets a request aside that waits for an event, up to this time.
    fn wait_for_event(&mut self, id: ConnectionId, until_nanos: u64) {
        let left = until_nanos.saturating_sub(self.state.clock.nanos());
        let timer =
            (until_nanos < u64::MAX).then(|| self.net.set_timer(Duration::from_nanos(left), id.number()));
        if let Some(session) = self.sessions.get_mut(&id) {
            debug_assert!(session.wait.is_none(), "W18: a request waits once");
            session.wait = Some(EventWait { timer });
        }
    }

    /// Refuses the requests that are set aside, at the end of the server: nothing calls the requests again.
    fn refuse_set_aside(&mut self) {
        self.set_aside.clear();
        for (id, session) in self.sessions.iter_mut().filter(|(_, session)| session.is_set_aside) {
            session.is_set_aside = false;
            session.wait = None;
            let Some((_, replies)) = self.net.parts(*id) else { continue };
            let version = session.client.version;
            replies.reply(|buffer| ReplyEncoder::new(buffer, version).error("ERR", SERVER_ENDS));
        }
        debug_assert_eq!(self.set_aside_count(), 0, "every request has one reply");
    }

    /// Number of connections whose request is set aside and is not called again yet.
    #[must_use]
    pub fn set_aside_count(&self) -> usize {
        self.sessions.values().filter(|session| session.is_set_aside).count()
    }

    /// Carries out the requests that a connection has sent, as far as replies have room.
    fn serve(&mut self, id: ConnectionId) {
        let mut served = 0;
        loop {
            let group = self.serve_group(id);
            served += group.taken;
            if !group.goes_on {
                break;
            }
        }
        if let (Some(session), Some((_, replies))) = (self.sessions.get(&id), self.net.parts(id)) {
            replies.set_owner_bytes(session.memory_bytes());
            replies.set_listener(session.client.is_listener);
        }
        self.count_served(served);
    }

    /// Carries out a group of requests of a connection. Looks ahead: the memory that the group is about to use is
    /// requested at once.
    fn serve_group(&mut self, id: ConnectionId) -> ServedGroup {
        const NONE: ServedGroup = ServedGroup { taken: 0, goes_on: false };
        let (Some(session), Some((received, replies))) = (self.sessions.get_mut(&id), self.net.parts(id))
        else {
            return NONE;
        };
        // Requests after the end are not carried out: the client that asked for the end gets no reply.
        if self.state.has_stopped() || !replies.has_room() {
            replies.set_owner_bytes(session.memory_bytes());
            return NONE;
        }
        session.is_set_aside = false;
        let server = &*self.state;
        let service = &*server.service;
        // A password may have been set since the last request.
        if session.decoder.is_between_requests() {
            session.set_authorized(service.is_authorized(&session.client));
        }
        let ClientSession { decoder, client, .. } = session;
        let requests = decoder.decode(received, TOGETHER);
        if requests.is_empty() {
            let (consumed, error) = (requests.consumed_bytes(), requests.error());
            self.note_no_request(id, consumed, error);
            return NONE;
        }
        let (mut commands, mut ahead) = ([None; TOGETHER], Ahead::<S>::new());
        for (place, request) in commands.iter_mut().zip(requests.iter()) {
            *place = ahead.note(request, client.database);
        }
        ahead.prefetch(service, &mut self.loop_state);
        let mut serving = RequestServing {
            server,
            loop_state: &mut self.loop_state,
            parked: &mut self.parked,
            reply: &mut self.reply,
            turn: &mut self.turn,
        };
        let called = requests.iter().zip(commands);
        let ServedRequests { taken, outcome, is_flood } = serving.serve_requests(client, replies, called);
        service.end_group(&mut self.loop_state);
        debug_assert!(taken > 0 || outcome.sets_aside(), "W3: a connection with room goes on");
        let behind = requests.begin(taken);
        let consumed = behind.unwrap_or(requests.consumed_bytes());
        debug_assert!(consumed <= received.len(), "W2: a request is taken from the arrived bytes");
        debug_assert!(taken == 0 || consumed > 0, "W2: a request has bytes");
        if behind.is_some() {
            decoder.go_back();
        }
        session.set_authorized(service.is_authorized(&session.client));
        session.is_set_aside = outcome.sets_aside();
        match outcome {
            Outcome::Busy => self.set_aside.push(id),
            Outcome::Wait { until_nanos } => self.wait_for_event(id, until_nanos),
            _ => {}
        }
        self.net.consume(id, consumed);
        let ends = outcome == Outcome::ReplyAndClose || is_flood;
        if ends {
            self.close_when_sent(id);
        }
        let goes_on = !ends && !outcome.sets_aside();
        ServedGroup { taken: taken as u64, goes_on }
    }

    /// No whole request is left: more bytes must arrive, or the bytes are no request.
    fn note_no_request(&mut self, id: ConnectionId, consumed: usize, error: Option<ProtocolError>) {
        let (Some(session), Some((_, replies))) = (self.sessions.get_mut(&id), self.net.parts(id)) else {
            return;
        };
        if let Some(error) = error {
            let told = protocol_error_text(error, session.limits());
            replies.reply(|buffer| ReplyEncoder::new(buffer, session.client.version).error("ERR", &told));
            self.close_when_sent(id);
        } else {
            self.net.consume(id, consumed);
        }
    }

    /// Ends a connection after its replies. The requests and the queue of the client give their memory back.
    fn close_when_sent(&mut self, id: ConnectionId) {
        if let Some(session) = self.sessions.get_mut(&id) {
            self.state.service.end_client(&mut self.loop_state, &mut session.client);
            session.release();
        }
        self.net.close_when_sent(id);
    }

    /// Gives back the memory that earlier requests of a silent client took (W17).
    fn release_room(&mut self, id: ConnectionId) {
        if let (Some(session), Some((_, replies))) = (self.sessions.get_mut(&id), self.net.parts(id)) {
            let before = session.memory_bytes();
            session.decoder.release_room();
            debug_assert!(session.memory_bytes() <= before, "W17: a silent client takes no more memory");
            replies.set_owner_bytes(session.memory_bytes());
        }
    }

    /// Counts the served requests of a connection.
    fn count_served(&mut self, served: u64) {
        // A large reply does not keep its memory.
        self.reply.shrink_to(REQUEST_LIMITS.inline_bytes_max);
        self.unreported += served;
        // Relaxed: a figure for people.
        self.state.requests.fetch_add(served, Ordering::Relaxed);
    }
}

/// Requests of a group that are carried out.
struct ServedRequests {
    taken: usize,
    /// Outcome of the last request.
    outcome: Outcome,
    /// True if a client without authorization leaves too many replies unsent.
    is_flood: bool,
}

/// The parts of a loop that a request needs.
struct RequestServing<'l, S: ServedProgram> {
    server: &'l ServingState<S>,
    loop_state: &'l mut S::LoopState,
    parked: &'l mut ParkedReplies,
    /// Reply that is being written.
    reply: &'l mut Vec<u8>,
    turn: &'l mut LoopTurn,
}

impl<S: ServedProgram> RequestServing<'_, S> {
    /// Carries requests out, as far as replies have room and the client stays the same.
    #[inline]
    fn serve_requests<'r>(
        &mut self,
        client: &mut Client<S::ClientState>,
        replies: &mut ReplyQueue,
        called: impl Iterator<Item = (Request<'r>, Option<&'static S::Command>)>,
    ) -> ServedRequests {
        let service = &*self.server.service;
        let was_authorized = service.is_authorized(client);
        let mut served = ServedRequests { taken: 0, outcome: ANSWERED, is_flood: false };
        for (request, command) in called {
            if !replies.has_room() {
                break;
            }
            served.outcome = self.serve_request(client, replies, request, command);
            if served.outcome.sets_aside() {
                break;
            }
            served.taken += 1;
            let is_authorized = service.is_authorized(client);
            served.is_flood = !is_authorized && replies.unsent_bytes() > STRANGER_UNSENT_BYTES;
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
        replies: &mut ReplyQueue,
        request: Request<'_>,
        command: Option<&'static S::Command>,
    ) -> Outcome {
        let Self { server, loop_state, parked, reply, turn } = self;
        let service = &*server.service;
        reply.clear();
        let mut new_reply = NewReply::new(reply, REPLY_BYTES, client.version);
        let call = ServiceCall { loop_state: &mut **loop_state, client, request, server };
        let outcome = dispatch::take(call, command, &mut new_reply);
        let is_several = new_reply.is_several();
        debug_assert!(
            is_several && reply_count(reply).is_some_and(|count| count > 0)
                || reply_count(reply) == Some(usize::from(outcome != Outcome::Stop && !outcome.sets_aside())),
            "a request has one reply"
        );
        let is_silent = !outcome.sets_aside() && client.silence.takes_reply();
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
        outcome
    }
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
