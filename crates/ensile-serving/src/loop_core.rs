//! The parts of a loop that serve its connections: sockets, sessions, waiting replies, and requests that are set aside.
//!
//! The core is borrowed for the steps between two requests, and not while the program carries a request out. So a long
//! request can have the loop serve its other connections (`busy_poll`).
//!
//! Invariants:
//! - Each open connection has a place for its session. The session is elsewhere only while requests of the connection
//!   are carried out.
//! - W19: an event that needs the program's state of the loop waits in `late` while a request is under way.
//!
//! Neighbours: [`crate::ServingLoop`] steps; `request_serving` takes the requests of a connection; `loop_clients` has
//! the clients for letters.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use ensile_base::sync::Ordering;
use ensile_net::{CloseReason, ConnectionId, LentBytes, NetEvent, NetLoop, Transport};
use ensile_resp::ReplyEncoder;

use crate::client_state::{ClientSession, EventWait};
use crate::deferred_replies::{Arrivals, ParkedReplies};
use crate::loop_traffic::LoopTraffic;
use crate::served_program::ServedProgram;
use crate::state::ServingState;

/// Text of the error for a request that is set aside when the server ends.
const SERVER_ENDS: &str =
    "the server ends, and the request is not carried out: send it again once the server runs";

/// Session of a connection.
type OwnedSession<S> = Box<ClientSession<<S as ServedProgram>::ClientState>>;

/// Sockets, sessions and waiting replies of a loop.
pub(crate) struct LoopCore<T, S: ServedProgram> {
    pub(crate) net: NetLoop<T>,
    pub(crate) state: Arc<ServingState<S>>,
    /// Sessions of the open connections. `None` while requests of the connection are carried out.
    pub(crate) sessions: HashMap<ConnectionId, Option<OwnedSession<S>>>,
    pub(crate) parked: ParkedReplies,
    pub(crate) traffic: Arc<LoopTraffic>,
    /// Connections whose first unread request waits for a wake-up.
    pub(crate) set_aside: Vec<ConnectionId>,
    /// As `set_aside`, for requests that came while another request was under way. A wake-up in this time is theirs.
    pub(crate) set_aside_while_busy: Vec<ConnectionId>,
    /// Events that wait for the end of the request under way (W19).
    pub(crate) late: VecDeque<NetEvent>,
    /// True if other connections were served since the begin of the request under way.
    pub(crate) was_polled: bool,
    /// True while other connections are served during a request.
    pub(crate) is_polling: bool,
    /// Error of a wait during a request: the loop ends behind the request.
    pub(crate) failed: Option<io::Error>,
}

impl<T: Transport, S: ServedProgram> LoopCore<T, S> {
    pub(crate) fn new(net: NetLoop<T>, state: Arc<ServingState<S>>, traffic: Arc<LoopTraffic>) -> Self {
        let parked = ParkedReplies::new(&net.wake_up());
        Self {
            net,
            state,
            sessions: HashMap::new(),
            parked,
            traffic,
            set_aside: Vec::new(),
            set_aside_while_busy: Vec::new(),
            late: VecDeque::new(),
            was_polled: false,
            is_polling: false,
            failed: None,
        }
    }

    /// The next event, the events first that have waited for the end of a request.
    pub(crate) fn next_event(&mut self) -> Option<NetEvent> {
        self.late.pop_front().or_else(|| self.net.next_event())
    }

    pub(crate) fn session_mut(&mut self, id: ConnectionId) -> Option<&mut ClientSession<S::ClientState>> {
        self.sessions.get_mut(&id)?.as_deref_mut()
    }

    /// Notes a connection.
    pub(crate) fn open(&mut self, id: ConnectionId) {
        // Relaxed: a figure for people.
        self.state.connections.fetch_add(1, Ordering::Relaxed);
        // Relaxed: the number is a name; `fetch_add` gives each number once.
        let number = self.state.opened.fetch_add(1, Ordering::Relaxed) + 1;
        let mut session = Box::new(ClientSession::new(number, id, self.state.clock.nanos()));
        session.set_authorized(self.state.service.is_authorized(&session.client));
        let earlier = self.sessions.insert(id, Some(session));
        debug_assert!(earlier.is_none(), "W9: a loop uses a name of a connection once");
    }

    /// Forgets an ended connection. Returns true if waiting replies of the connection may be kept.
    pub(crate) fn forget(
        &mut self,
        id: ConnectionId,
        reason: CloseReason,
        loop_state: &mut S::LoopState,
    ) -> bool {
        let mut session = self.sessions.remove(&id).flatten();
        if let Some(session) = &mut session {
            self.state.service.end_client(loop_state, &mut session.client);
            if let Some(timer) = session.wait.take().and_then(|wait| wait.timer) {
                self.net.cancel_timer(timer);
            }
        }
        debug_assert!(session.is_some(), "W9: a connection is opened before its end, and ends once");
        // Relaxed: a figure for people.
        let open = self.state.connections.fetch_sub(1, Ordering::Relaxed);
        debug_assert!(open > 0, "each loop counts a connection before its end");
        let is_evicted = reason == CloseReason::Evicted;
        // Relaxed: a figure for people.
        self.state.evicted.fetch_add(u64::from(is_evicted), Ordering::Relaxed);
        if let CloseReason::Tls(_) = reason {
            self.state.note_tls_failure(self.net.last_tls_failure().unwrap_or_default());
        }
        session.is_some_and(|session| self.parked.waits_for(session.client.parked))
    }

    /// Drops the waiting replies of ended connections. The call looks at every waiting reply.
    pub(crate) fn forget_ended(&mut self) {
        let Self { parked, sessions, .. } = self;
        parked.forget_ended(|id| sessions.contains_key(id));
    }

    /// Keeps the session of an ended connection until the request under way has ended, without its requests. The
    /// session counts as a connection meanwhile, so clients that come and go leave no more sessions than connections
    /// are permitted (W16, W19).
    pub(crate) fn keep_ended(&mut self, id: ConnectionId, end: NetEvent) {
        debug_assert!(self.is_polling, "W19: the program's state of the loop is elsewhere");
        if let Some(session) = self.session_mut(id) {
            session.release_requests();
        }
        self.late.push_back(end);
        self.net.set_kept_count(self.late.len());
    }

    /// Takes session and arrived bytes of a connection, for its requests. `None` if the connection has ended.
    pub(crate) fn lend(&mut self, id: ConnectionId) -> Option<(OwnedSession<S>, LentBytes)> {
        let lent = self.net.lend(id)?;
        let session = self.sessions.get_mut(&id).and_then(Option::take);
        debug_assert!(
            session.is_some(),
            "W9: an open connection has a session, and is served once at a time"
        );
        match session {
            Some(session) => Some((session, lent)),
            None => {
                self.net.give_back(lent);
                None
            }
        }
    }

    /// Takes session and bytes of a connection back. The connection may have ended meanwhile, and its end is an event
    /// that is still to come.
    pub(crate) fn give_back(&mut self, session: OwnedSession<S>, lent: LentBytes) {
        if let Some(replies) = self.net.replies_of_lent(&lent) {
            replies.set_owner_bytes(session.memory_bytes());
            replies.set_listener(session.client.is_listener);
        }
        debug_assert_eq!(session.client.connection, lent.connection(), "W9: a session is of its connection");
        let place = self.sessions.get_mut(&lent.connection());
        debug_assert!(place.is_some(), "W19: the end of a connection waits for the request under way");
        if let Some(place) = place {
            *place = Some(session);
        }
        self.net.give_back(lent);
    }

    /// True if another request of a connection may be taken.
    pub(crate) fn has_room(&mut self, lent: &LentBytes) -> bool {
        self.net.replies_of_lent(lent).is_some_and(|replies| replies.has_room())
    }

    /// Has the requests called again that were set aside: each in the turn of its connection.
    pub(crate) fn resume_set_aside(&mut self) {
        for id in std::mem::take(&mut self.set_aside) {
            // The connection may have ended.
            let Some((_, replies)) = self.net.parts(id) else { continue };
            replies.resume();
            debug_assert!(
                self.session_mut(id).is_some_and(|session| session.is_set_aside),
                "W18: a connection is in the list while its request is set aside"
            );
        }
    }

    /// Has the requests called again that came while another request was under way, and were set aside.
    pub(crate) fn resume_set_aside_while_busy(&mut self) {
        for id in std::mem::take(&mut self.set_aside_while_busy) {
            let Some((_, replies)) = self.net.parts(id) else { continue };
            replies.resume();
            if let Some(session) = self.session_mut(id) {
                session.is_set_aside = false;
            }
        }
    }

    /// Ends the time in which other connections were served during a request.
    #[cold]
    pub(crate) fn end_polls(&mut self) {
        debug_assert!(self.was_polled, "W19: the time has begun");
        self.was_polled = false;
        self.net.set_kept_count(0);
        if std::mem::take(&mut self.is_polling) {
            self.failed = Some(io::Error::other("the loop panicked during a request"));
        }
        // The wake-up of any of these requests may have come already.
        self.set_aside.append(&mut self.set_aside_while_busy);
        self.resume_set_aside();
    }

    /// Sets a request aside that waits for an event, up to this time.
    pub(crate) fn wait_for_event(&mut self, session: &mut ClientSession<S::ClientState>, until_nanos: u64) {
        let left = until_nanos.saturating_sub(self.state.clock.nanos());
        let number = session.client.connection.number();
        let timer = (until_nanos < u64::MAX).then(|| self.net.set_timer(Duration::from_nanos(left), number));
        debug_assert!(session.wait.is_none(), "W18: a request waits once");
        session.wait = Some(EventWait { timer });
    }

    /// Refuses the requests that are set aside, at the end of the server: nothing calls the requests again.
    pub(crate) fn refuse_set_aside(&mut self) {
        self.set_aside.clear();
        let sessions = self.sessions.iter_mut().filter_map(|(id, session)| Some((id, session.as_mut()?)));
        for (id, session) in sessions.filter(|(_, session)| session.is_set_aside) {
            session.is_set_aside = false;
            session.wait = None;
            let Some((_, replies)) = self.net.parts(*id) else { continue };
            let version = session.client.version;
            replies.reply(|buffer| ReplyEncoder::new(buffer, version).error("ERR", SERVER_ENDS));
        }
        debug_assert_eq!(self.set_aside_count(), 0, "every request has one reply");
    }

    /// Number of connections whose request is set aside and is not called again yet.
    pub(crate) fn set_aside_count(&self) -> usize {
        self.sessions.values().flatten().filter(|session| session.is_set_aside).count()
    }

    /// Gives back the memory that earlier requests of a silent client took (W17).
    pub(crate) fn release_room(&mut self, id: ConnectionId) {
        let Some(session) = self.sessions.get_mut(&id).and_then(Option::as_mut) else { return };
        if let Some((_, replies)) = self.net.parts(id) {
            let before = session.memory_bytes();
            session.decoder.release_room();
            debug_assert!(session.memory_bytes() <= before, "W17: a silent client takes no more memory");
            replies.set_owner_bytes(session.memory_bytes());
        }
    }

    /// Sends the replies that are durable by now. False if a reply will not become durable.
    pub(crate) fn fill_durable(&mut self) -> bool {
        let Self { net, parked, state, .. } = self;
        parked.fill_durable(net, state.service.durable_epochs())
    }

    /// Counts the times of the requests whose waiting replies were sent by now.
    pub(crate) fn count_sent(&mut self, now_nanos: u64) {
        for Arrivals { nanos, requests } in self.parked.take_sent() {
            self.traffic.latencies.count(now_nanos.saturating_sub(nanos), requests);
        }
    }
}
