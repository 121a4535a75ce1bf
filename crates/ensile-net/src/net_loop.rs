//! The loop: turns of connections, and events for the caller.
//!
//! A step sends told replies, waits, and takes arrivals. Between steps the caller takes events, reads arrived bytes,
//! and replies. A connection has a turn if the transport tells readiness, if the caller has touched the connection, or
//! if a time limit may be over. No step walks over every connection.
//!
//! Neighbours: [`crate::connection`] and [`crate::replies`] below; a server's thread above.

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use ensile_base::clock::Clock;
use ensile_base::sync::Arc;

use crate::connection::{Connection, LentBytes};
use crate::event::{CloseReason, ConnectionId, NetEvent, TlsFailure};
use crate::limits::NetLimits;
use crate::memory::{ConnectionMemory, LoopMemory, round_to_unit};
use crate::replies::{ReplyQueue, ReplySlot};
use crate::timers::{TimerId, Timers};
use crate::tls::{TlsConfig, TlsSession};
use crate::transport::{ConnectionEnds, ListenAddress, LoopWakeUp, Readiness, SocketToken, Transport};

/// Counts of a loop since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NetStats {
    /// Number of open connections.
    pub open: usize,
    /// Number of accepted connections.
    pub accepted: u64,
    /// Number of received bytes of requests.
    pub received_bytes: u64,
    /// Number of sent bytes of replies. Bytes of replies by TLS count once they are encrypted.
    pub sent_bytes: u64,
    /// Number of turns of connections in a TLS handshake.
    pub handshake_turns: u64,
    /// Number of steps that have waited.
    pub waits: u64,
    /// Memory of the connections, in bytes, with the room that buffers keep (W16).
    pub room_bytes: usize,
    /// Number of replies, told or not, without a waiting client at the break of the connection. The told but not wholly
    /// sent replies of a connection count as a single reply.
    pub unheard: u64,
}

#[derive(Debug)]
enum TimerPurpose {
    Caller(u64),
    Connection(ConnectionId),
    Accept,
    Room,
}

#[derive(Debug)]
struct ConnectionPlace {
    generation: u32,
    connection: Option<Box<Connection>>,
}

/// Sockets and timers of one thread.
#[derive(Debug)]
pub struct NetLoop<T> {
    transport: T,
    clock: Clock,
    limits: NetLimits,
    places: Vec<ConnectionPlace>,
    free: Vec<u32>,
    /// Number of places that are given up: no generation is left.
    given_up: usize,
    /// Listeners: true if connections may wait at the listener.
    listeners: Vec<bool>,
    /// TLS of each listener.
    listener_tls: Vec<Option<TlsConfig>>,
    accept_is_paused: bool,
    /// Number of ended connections of which the owner still keeps a state.
    kept_count: usize,
    /// True once the listeners are closed.
    is_over: bool,
    timers: Timers<TimerPurpose>,
    events: VecDeque<NetEvent>,
    /// Connections with a turn in the next step.
    listed: Vec<ConnectionId>,
    memory: LoopMemory,
    /// Connection that the caller has touched last, and that is not counted since.
    touched: Option<ConnectionId>,
    /// True while a timer is set for the room of silent connections.
    is_room_timed: bool,
    last_panic: Option<Box<str>>,
    last_tls_failure: Option<Box<str>>,
    ready: Vec<Readiness>,
    stats: NetStats,
}

/// Longest wait of a step while another loop is to close a connection: that loop says nothing when it has.
const OVER_WAIT: Duration = Duration::from_millis(1);

/// Most handshakes of TLS that go on before other connections have a turn: a step of a handshake takes up to a few
/// milliseconds.
const HANDSHAKES_MAX: usize = 2;

const _: () = assert!(HANDSHAKES_MAX > 0, "W20: handshakes go on");

/// First token of a listener. No generation gets there: the count would take four thousand million connections at one
/// place.
const LISTENERS: u64 = (u32::MAX as u64) << 32;

impl<T: Transport> NetLoop<T> {
    /// A loop without listeners.
    pub fn new(transport: T, clock: Clock, limits: NetLimits) -> Self {
        let memory = LoopMemory::new(ConnectionMemory::new(usize::MAX), transport.wake_up());
        Self {
            transport,
            clock,
            limits,
            places: Vec::new(),
            free: Vec::new(),
            given_up: 0,
            listeners: Vec::new(),
            listener_tls: Vec::new(),
            accept_is_paused: false,
            kept_count: 0,
            is_over: false,
            timers: Timers::new(),
            events: VecDeque::new(),
            listed: Vec::new(),
            memory,
            touched: None,
            is_room_timed: false,
            last_panic: None,
            last_tls_failure: None,
            ready: Vec::new(),
            stats: NetStats::default(),
        }
    }

    /// A loop with a memory limit over every connection of the loops with the same `memory` (W16). The call comes
    /// before the loop listens.
    #[must_use]
    pub fn with_memory(self, memory: Arc<ConnectionMemory>) -> Self {
        debug_assert!(self.places.is_empty(), "W16: connections count in the memory that they began with");
        let wake_up = self.transport.wake_up();
        Self { memory: LoopMemory::new(memory, wake_up), ..self }
    }

    /// Text of the last panic in the writer of a reply: see [`CloseReason::Panicked`].
    #[must_use]
    pub fn last_panic(&self) -> Option<&str> {
        self.last_panic.as_deref()
    }

    /// Text of the last failure of a connection's TLS: see [`CloseReason::Tls`].
    #[must_use]
    pub fn last_tls_failure(&self) -> Option<&str> {
        self.last_tls_failure.as_deref()
    }

    /// Accepts connections at `address`. The returned address has the found port in the place of port 0.
    ///
    /// # Errors
    /// An error of the system: choose another address, or remove the file of a Unix socket without a listener. An error
    /// after [`end_all`](Self::end_all): a loop that ends takes no listener (W14).
    pub fn listen(&mut self, address: &ListenAddress) -> io::Result<ListenAddress> {
        self.listen_by(address, None)
    }

    /// As [`listen`](Self::listen), for clients with TLS only. The caller sees requests and replies, and no records
    /// (W20).
    ///
    /// # Errors
    /// As for [`listen`](Self::listen).
    pub fn listen_tls(&mut self, address: &ListenAddress, tls: TlsConfig) -> io::Result<ListenAddress> {
        self.listen_by(address, Some(tls))
    }

    fn listen_by(&mut self, address: &ListenAddress, tls: Option<TlsConfig>) -> io::Result<ListenAddress> {
        if self.is_over {
            return Err(io::Error::other("the loop ends, and takes no listener"));
        }
        let listener = SocketToken(LISTENERS + self.listeners.len() as u64);
        let at = self.transport.listen(address, listener, self.limits.keepalive)?;
        self.listeners.push(true);
        self.listener_tls.push(tls);
        debug_assert_eq!(
            self.listeners.len(),
            self.listener_tls.len(),
            "W20: a listener has TLS, or has none"
        );
        Ok(at)
    }

    /// A handle that ends a wait of this loop from another thread.
    pub fn wake_up(&self) -> LoopWakeUp {
        self.transport.wake_up()
    }

    /// The transport, for a test that plays its clients.
    pub fn transport_mut(&mut self) -> &mut T {
        &mut self.transport
    }

    /// Counts since the loop was made.
    #[must_use]
    pub fn stats(&self) -> NetStats {
        NetStats { open: self.open_count(), room_bytes: self.memory.bytes(), ..self.stats }
    }

    /// Largest [`NetStats::room_bytes`] since the last call. A peak that falls leaves free memory in the allocator.
    pub fn take_room_peak(&mut self) -> usize {
        self.memory.take_peak()
    }

    /// Sends told replies, waits for `wait_max` at most, and takes arrivals. The step does not wait while the caller
    /// has events left to take.
    ///
    /// # Errors
    /// An error of the wait itself: the loop cannot go on.
    pub fn step(&mut self, wait_max: Duration) -> io::Result<()> {
        let now_nanos = self.clock.nanos();
        self.look_at_listed(now_nanos);
        let wait = self.wait_nanos(wait_max, now_nanos);
        let mut ready = std::mem::take(&mut self.ready);
        ready.clear();
        let woken = self.transport.wait(Some(Duration::from_nanos(wait)), &mut ready)?;
        self.stats.waits += 1;
        if woken {
            self.events.push_back(NetEvent::WokenUp);
        }
        let now_nanos = self.clock.nanos();
        for readiness in &ready {
            self.note_ready(readiness);
        }
        self.ready = ready;
        self.run_timers(now_nanos);
        // Another loop may have woken this loop to close a connection.
        self.keep_limit();
        self.accept(now_nanos);
        self.look_at_listed(now_nanos);
        Ok(())
    }

    /// The next event of a step. While another loop is to close a connection (W16), requests wait for a later step.
    pub fn next_event(&mut self) -> Option<NetEvent> {
        self.count_touched();
        let event = if self.memory.exceeds_limit() {
            let is_other = |event: &NetEvent| !matches!(event, NetEvent::Received(_));
            self.events.iter().position(is_other).and_then(|at| self.events.remove(at))?
        } else {
            self.events.pop_front()?
        };
        if let NetEvent::Received(id) = event {
            // The connection may end only after the caller has seen the last bytes.
            self.list(id);
            if let Some(connection) = self.get_mut(id) {
                debug_assert!(connection.is_announced, "W3: arrived bytes are announced once");
                connection.is_announced = false;
            }
        }
        Some(event)
    }

    /// Arrived, unconsumed bytes of a connection, and the reply queue; `None` if the connection has ended.
    pub fn parts(&mut self, id: ConnectionId) -> Option<(&[u8], &mut ReplyQueue)> {
        self.touch(id);
        self.get_mut(id).map(Connection::parts)
    }

    /// Addresses of a connection. `None` if the connection has ended, or the peer has gone.
    pub fn ends(&self, id: ConnectionId) -> Option<ConnectionEnds> {
        self.transport.ends(id.token())
    }

    /// Lends the arrived bytes of a connection to the caller, who may take steps of the loop meanwhile (W19). `None` if
    /// the connection has ended.
    pub fn lend(&mut self, id: ConnectionId) -> Option<LentBytes> {
        self.touch(id);
        self.get_mut(id).map(Connection::lend)
    }

    /// Takes lent bytes back. Bytes of an ended connection are dropped.
    pub fn give_back(&mut self, lent: LentBytes) {
        self.touch(lent.connection());
        if let Some(connection) = self.get_mut(lent.connection()) {
            connection.give_back(lent);
        }
    }

    /// The reply queue of a connection whose bytes are lent; `None` if the connection has ended.
    #[inline]
    pub fn replies_of_lent(&mut self, lent: &LentBytes) -> Option<&mut ReplyQueue> {
        // The return of the bytes gives the connection its turn.
        self.get_mut(lent.connection()).map(|connection| &mut connection.replies)
    }

    /// Consumes the first `bytes` of the arrived bytes.
    pub fn consume(&mut self, id: ConnectionId, bytes: usize) {
        self.touch(id);
        if let Some(connection) = self.get_mut(id) {
            connection.consume(bytes);
        }
    }

    /// Tells the reply of a reserved place. `write` appends the reply to the buffer, and changes nothing else in the
    /// buffer. A reply of an ended connection is dropped. `write` runs on the loop's thread, and no other connection of
    /// the loop goes on meanwhile, so `write` must not wait. If `write` panics, the loop closes this connection
    /// ([`CloseReason::Panicked`]) and serves the other connections (W15).
    pub fn fill(&mut self, slot: ReplySlot, write: impl FnOnce(&mut Vec<u8>)) {
        self.touch(slot.connection);
        if let Some(connection) = self.get_mut(slot.connection) {
            connection.replies.fill(slot.number, write);
        }
    }

    /// Closes a connection now. Unsent bytes are lost.
    pub fn close(&mut self, id: ConnectionId) {
        self.end(id, CloseReason::Asked);
    }

    /// Ends a connection after every reply is sent, parked replies included: the client reads an end behind the last
    /// reply. Present and later bytes of the client are dropped. The connection is closed when the client ends too, or
    /// at [`NetLimits::linger`] or [`NetLimits::linger_bytes_max`]. A client that goes on sending then may lose the
    /// last replies (W13).
    pub fn close_when_sent(&mut self, id: ConnectionId) {
        self.touch(id);
        if let Some(connection) = self.get_mut(id) {
            connection.begin_ending();
        }
    }

    /// Ends every connection as [`close_when_sent`](Self::close_when_sent) does, and closes the listeners. A connection
    /// with all replies sent is also closed after `quiet` without an arrival: many clients read the end with their next
    /// request only, and a silent client loses nothing. The caller goes on with steps until [`NetStats::open`] is zero,
    /// or for a time of its choice. If the loop is dropped while clients still send, clients lose sent but unread
    /// replies (W14).
    pub fn end_all(&mut self, quiet: Duration) {
        for listener in 0..self.listeners.len() as u64 {
            self.transport.close(SocketToken(LISTENERS + listener));
        }
        self.listeners.fill(false);
        self.is_over = true;
        let now_nanos = self.clock.nanos();
        let open: Vec<_> =
            self.places.iter().filter_map(|place| Some(place.connection.as_ref()?.id)).collect();
        debug_assert_eq!(open.len(), self.open_count(), "W1: an open connection has a place");
        for id in open {
            self.close_when_sent(id);
            if let Some(connection) = self.get_mut(id) {
                connection.end_when_quiet(quiet);
            }
            self.check_time_anew(id, now_nanos);
        }
    }

    /// Sets a timer: [`NetEvent::TimerDue`] comes with `number` after this time.
    pub fn set_timer(&mut self, after: Duration, number: u64) -> TimerId {
        let due_nanos = after_nanos(self.clock.nanos(), after);
        self.timers.set(due_nanos, TimerPurpose::Caller(number))
    }

    /// Cancels a timer. False if the timer has gone off: the event may be there already.
    pub fn cancel_timer(&mut self, timer: TimerId) -> bool {
        self.timers.cancel(timer)
    }

    fn get_mut(&mut self, id: ConnectionId) -> Option<&mut Connection> {
        let place = self.places.get_mut(id.index as usize)?;
        place.connection.as_deref_mut().filter(|connection| connection.id == id)
    }

    /// Gives a connection that the caller touches a turn in the next step. The connection before it is counted now.
    fn touch(&mut self, id: ConnectionId) {
        if self.touched != Some(id) {
            self.count_touched();
            self.touched = Some(id);
        }
        self.list(id);
    }

    fn count_touched(&mut self) {
        if let Some(id) = self.touched.take() {
            self.count(id);
        }
    }

    /// Counts the memory of a connection, and keeps the limit of all connections (W16).
    fn count(&mut self, id: ConnectionId) {
        let held_bytes = self.transport.held_bytes(id.token());
        let Some(connection) = self.get_mut(id) else { return };
        let bytes = round_to_unit(connection.memory_bytes() + held_bytes);
        let before = std::mem::replace(&mut connection.counted_bytes, bytes);
        self.memory.change(id, before, bytes);
        if bytes > before {
            if !self.is_room_timed {
                self.is_room_timed = true;
                let due_nanos = after_nanos(self.clock.nanos(), self.limits.room_kept);
                self.timers.set(due_nanos, TimerPurpose::Room);
            }
            self.keep_limit();
        }
    }

    /// Closes the largest connection until all connections are within the limit, or another loop has the largest (W16).
    fn keep_limit(&mut self) {
        while self.memory.exceeds_limit() {
            let Some(id) = self.memory.to_close() else { return };
            self.end(id, CloseReason::Evicted);
        }
    }

    /// Gives a connection a turn in the next step.
    fn list(&mut self, id: ConnectionId) {
        let Some(connection) = self.get_mut(id) else { return };
        if !connection.is_listed {
            connection.is_listed = true;
            self.listed.push(id);
        }
    }

    /// Longest wait of the transport.
    fn wait_nanos(&self, wait_max: Duration, now_nanos: u64) -> u64 {
        if self.memory.exceeds_limit() {
            return after_nanos(0, wait_max.min(OVER_WAIT));
        }
        let may_accept = self.listeners.contains(&true) && self.accepts();
        if !self.events.is_empty() || !self.listed.is_empty() || may_accept {
            return 0;
        }
        let until_timer = self.timers.next_nanos().map_or(u64::MAX, |due| due.saturating_sub(now_nanos));
        until_timer.min(after_nanos(0, wait_max))
    }

    fn note_ready(&mut self, ready: &Readiness) {
        if let Some(listener) = ready.socket.0.checked_sub(LISTENERS) {
            if let Some(may_accept) = self.listeners.get_mut(listener as usize) {
                *may_accept = true;
            }
            return;
        }
        let id = ConnectionId::from_token(ready.socket);
        self.list(id);
        if let Some(connection) = self.get_mut(id) {
            connection.may_read |= ready.reads;
            connection.may_write |= ready.writes;
        }
    }

    fn run_timers(&mut self, now_nanos: u64) {
        while let Some(purpose) = self.timers.take_due(now_nanos) {
            match purpose {
                TimerPurpose::Caller(number) => self.events.push_back(NetEvent::TimerDue(number)),
                TimerPurpose::Room => {
                    debug_assert!(self.is_room_timed, "W17: one timer for all with room");
                    self.release_room(now_nanos);
                }
                TimerPurpose::Accept => {
                    debug_assert!(self.accept_is_paused, "W5: a pause has one end");
                    self.accept_is_paused = false;
                }
                TimerPurpose::Connection(id) => self.check_time(id, now_nanos),
            }
        }
    }

    /// Gives back the room of silent connections (W17), and looks again at the other connections with memory later.
    fn release_room(&mut self, now_nanos: u64) {
        let room_kept = self.limits.room_kept;
        for id in self.memory.connections().collect::<Vec<_>>() {
            let Some(connection) = self.get_mut(id) else { continue };
            let is_silent = connection.release_room(room_kept, now_nanos);
            if is_silent {
                self.count(id);
                self.events.push_back(NetEvent::Silent(id));
            }
        }
        self.is_room_timed = self.memory.bytes() > 0;
        if self.is_room_timed {
            self.timers.set(after_nanos(now_nanos, room_kept), TimerPurpose::Room);
        }
    }

    /// Ends a connection at a limit of time, or sets a timer for the next possible end.
    fn check_time(&mut self, id: ConnectionId, now_nanos: u64) {
        let limits = self.limits;
        let Some(connection) = self.get_mut(id) else { return };
        match connection.expires(&limits) {
            Some((due_nanos, reason)) if due_nanos <= now_nanos => self.end(id, reason),
            expires => {
                // Bytes may begin to wait a moment from now.
                let shortest = limits.idle.unwrap_or(limits.stalled).min(limits.stalled).min(limits.ending);
                let at_least = after_nanos(now_nanos, shortest);
                let due_nanos = expires.map_or(at_least, |(due_nanos, _)| due_nanos.min(at_least));
                let timer = self.timers.set(due_nanos, TimerPurpose::Connection(id));
                if let Some(connection) = self.get_mut(id) {
                    connection.timer = Some(timer);
                }
            }
        }
    }

    /// Checks again a limit of time that is nearer now.
    fn check_time_anew(&mut self, id: ConnectionId, now_nanos: u64) {
        let timer = self.get_mut(id).and_then(|connection| connection.timer.take());
        if let Some(timer) = timer {
            self.timers.cancel(timer);
        }
        self.check_time(id, now_nanos);
    }

    fn accepts(&self) -> bool {
        let count = self.open_count() + self.kept_count;
        !self.is_over && !self.accept_is_paused && count < self.limits.connections_max
    }

    /// Sets the number of ended connections of which the owner still keeps a state. They count as connections: the loop
    /// accepts fewer clients.
    pub fn set_kept_count(&mut self, count: usize) {
        self.kept_count = count;
    }

    /// Accepts from every listener in turn until no client waits, or no more are taken.
    fn accept(&mut self, now_nanos: u64) {
        for listener in 0..self.listeners.len() {
            while self.listeners[listener] && self.accepts() {
                let id = self.next_id();
                let from = SocketToken(LISTENERS + listener as u64);
                match self.transport.accept(from, id.token()) {
                    Ok(()) => self.open(id, listener, now_nanos),
                    Err(error) => match error.kind() {
                        io::ErrorKind::WouldBlock => self.listeners[listener] = false,
                        // This client has gone again; the next one may be there.
                        io::ErrorKind::ConnectionAborted | io::ErrorKind::Interrupted => {}
                        kind => {
                            self.accept_is_paused = true;
                            let due_nanos = after_nanos(now_nanos, self.limits.accept_pause);
                            self.timers.set(due_nanos, TimerPurpose::Accept);
                            self.events.push_back(NetEvent::AcceptPaused(kind));
                        }
                    },
                }
            }
        }
    }

    fn next_id(&self) -> ConnectionId {
        match self.free.last() {
            Some(&index) => ConnectionId { index, generation: self.places[index as usize].generation },
            None => ConnectionId { index: self.places.len() as u32, generation: 0 },
        }
    }

    /// Number of open connections.
    fn open_count(&self) -> usize {
        let unused = self.free.len() + self.given_up;
        debug_assert!(unused <= self.places.len(), "W1: a place is free once");
        self.places.len() - unused
    }

    fn open(&mut self, id: ConnectionId, listener: usize, now_nanos: u64) {
        let session = |config| TlsSession::begin(config, now_nanos).map(Box::new);
        let tls = match self.listener_tls[listener].as_ref().map(session) {
            None => None,
            Some(Some(session)) => Some(session),
            // Without a session there is no connection.
            Some(None) => return self.transport.close(id.token()),
        };
        let connection = Some(Box::new(Connection::new(id, &self.limits, now_nanos, tls)));
        match self.free.pop() {
            Some(index) => self.places[index as usize].connection = connection,
            None => self.places.push(ConnectionPlace { generation: 0, connection }),
        }
        debug_assert!(self.get_mut(id).is_some(), "W1: the name of a connection leads to its place");
        debug_assert!(self.open_count() <= self.limits.connections_max, "W2: no more clients than permitted");
        self.stats.accepted += 1;
        self.events.push_back(NetEvent::Opened(id));
        self.list(id);
        // The session of a handshake counts from now on (W16).
        self.count(id);
        self.check_time(id, now_nanos);
    }

    fn end(&mut self, id: ConnectionId, reason: CloseReason) {
        let Some(connection) = self.get_mut(id) else { return };
        let (timer, unheard) = (connection.timer.take(), connection.unheard());
        let counted_bytes = connection.counted_bytes;
        let panicked = connection.replies.take_panic();
        debug_assert!(
            panicked.is_some() || reason != CloseReason::Panicked,
            "W15: a connection ends for a panic of its own"
        );
        let failure = match reason {
            CloseReason::Tls(TlsFailure::TimedOut) => Some("the handshake was not over in time".into()),
            _ => connection.take_tls_failure(),
        };
        self.last_panic = panicked.or(self.last_panic.take());
        self.last_tls_failure = failure.or(self.last_tls_failure.take());
        if let Some(timer) = timer {
            self.timers.cancel(timer);
        }
        self.memory.change(id, counted_bytes, 0);
        if let CloseReason::Failed(_) = reason {
            self.stats.unheard += unheard;
        }
        self.transport.close(id.token());
        let open = self.open_count();
        let place = &mut self.places[id.index as usize];
        place.connection = None;
        place.generation += 1;
        // The last generation is the listeners': the place is given up.
        if place.generation < u32::MAX {
            self.free.push(id.index);
        } else {
            self.given_up += 1;
        }
        debug_assert_eq!(self.open_count() + 1, open, "W1: a connection that ends is open no more");
        self.events.push_back(NetEvent::Closed(id, reason));
    }

    /// Gives each listed connection its turn.
    fn look_at_listed(&mut self, now_nanos: u64) {
        let mut handshakes_left = HANDSHAKES_MAX;
        for id in std::mem::take(&mut self.listed) {
            if let Some(connection) = self.get_mut(id) {
                connection.is_listed = false;
                if connection.is_in_handshake() {
                    if handshakes_left == 0 {
                        // Others have their turn before (W20).
                        self.list(id);
                        self.count(id);
                        continue;
                    }
                    handshakes_left -= 1;
                    self.stats.handshake_turns += 1;
                }
                match self.look_at(id, now_nanos) {
                    Ok(()) => self.count(id),
                    Err(reason) => self.end(id, reason),
                }
            }
        }
    }

    fn look_at(&mut self, id: ConnectionId, now_nanos: u64) -> Result<(), CloseReason> {
        let limits = self.limits;
        let place = self.places.get_mut(id.index as usize);
        let Some(connection) = place.and_then(|place| place.connection.as_deref_mut()) else { return Ok(()) };
        self.stats.sent_bytes += connection.write(&mut self.transport, now_nanos)?;
        // W16: nothing is kept while another loop is to close a connection. An ending connection keeps nothing.
        let may_read = connection.is_ending() || !self.memory.exceeds_limit();
        let came = if may_read { connection.read(&mut self.transport, &limits, now_nanos)? } else { 0 };
        self.stats.received_bytes += came as u64;
        let takes_again =
            !connection.is_lent() && connection.replies.takes_again() && !connection.unread().is_empty();
        if (came > 0 || takes_again) && !connection.is_announced && !connection.is_ending() {
            connection.is_announced = true;
            self.events.push_back(NetEvent::Received(id));
        }
        if connection.has_records_to_write() {
            self.stats.sent_bytes += connection.write(&mut self.transport, now_nanos)?;
        }
        if let Some(reason) = connection.ends(&limits) {
            return Err(reason);
        }
        connection.note_end(now_nanos);
        // Others have their turn before.
        let wants_read = connection.wants_read(&limits);
        if connection.begins_to_linger(now_nanos) {
            self.transport.end_sending(id.token());
            self.check_time_anew(id, now_nanos);
        }
        if wants_read {
            self.list(id);
        }
        Ok(())
    }
}

#[cfg(feature = "simulation")]
pub(crate) mod check;
#[cfg(all(test, feature = "simulation"))]
mod tests;

fn after_nanos(now_nanos: u64, after: Duration) -> u64 {
    now_nanos.saturating_add(u64::try_from(after.as_nanos()).unwrap_or(u64::MAX))
}
