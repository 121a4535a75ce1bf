//! A server of one service over RESP: a loop of sockets per thread, and replies that wait until they are durable.
//!
//! ```text
//! bytes -> requests -> command -> service -> reply  relaxed: sent at once
//!                                                   strict:  parked until the epoch that it rests on is durable
//! ```
//! Invariants:
//! - R1: a strict server sends a reply only when the epoch that the reply rests on is durable; the rule holds for
//!   replies to reads as well.
//! - W1 to W4 of the loop: replies keep the order of requests, memory is bounded, nobody waits unheard.
//! - Every request gets one reply, an error if the request was not carried out. O6: a command that panics is such a
//!   request.
//!
//! Neighbours: `ensile-net` has the loop, `ensile-resp` the codec; [`crate::service`] is the served side; `dispatch`
//! takes requests, `queue` has the requests after `MULTI`, `execution` calls commands, `common_commands` and
//! `handshake` have the commands of every server, `figures` the text of `INFO`, `log_notices` the notices about the
//! log, `deferred_replies` the waiting replies, [`threads`] starts loops.

mod common_commands;
mod deferred_replies;
mod dispatch;
mod execution;
mod figures;
mod handshake;
mod log_notices;
mod queue;
pub mod threads;

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use ensile_base::clock::Clock;
use ensile_base::sync::{AtomicBool, AtomicU64, AtomicUsize, Mutex, Ordering};
use ensile_net::{
    CloseReason, ConnectionId, ConnectionMemory, ListenAddress, LoopWakeUp, NetEvent, NetLimits, NetLoop,
    Transport,
};
use ensile_objects::ObjectDurability;
use ensile_resp::{ProtocolError, ReplyEncoder, RequestDecoder, RequestLimits};

use crate::service::{REPLY_BYTES, Service};
use common_commands::{ANSWERED, Flow};
use deferred_replies::{PARKED_BYTES, ParkedReplies};
use execution::{ClientState, TOGETHER, look_ahead};
use log_notices::LogNotices;

/// Seconds of silence after which a client is probed; redis' number.
pub const KEEPALIVE_SECONDS: u64 = 300;

/// Limits of a server's connections. A request with the longest key and value fits.
pub const LIMITS: NetLimits = NetLimits {
    connections_max: 10_000,
    unread_bytes_max: REQUEST_LIMITS.request_bytes_max + (64 << 10),
    unsent_bytes_max: 2 * REPLY_BYTES + (1 << 20),
    parked_max: 16 << 10,
    idle: None,
    stalled: Duration::from_secs(60),
    ending: Duration::from_secs(300),
    keepalive: Some(Duration::from_secs(KEEPALIVE_SECONDS)),
    linger: Duration::from_secs(30),
    linger_bytes_max: 1 << 30,
    room_kept: Duration::from_secs(1),
    step_bytes: 64 << 10,
    accept_pause: Duration::from_millis(100),
};

/// Default memory of all clients of a server together, in bytes: the buffers of requests and replies.
pub const CLIENT_MEMORY_BYTES: usize = 1 << 30;
/// Longest wait of an ending server for clients to take their replies.
pub const END_WAIT: Duration = Duration::from_secs(10);
/// Silence after which an ending server no longer waits for a client that has all its replies.
const END_QUIET: Duration = Duration::from_secs(1);

const REQUEST_LIMITS: RequestLimits = RequestLimits {
    arguments_max: 1 << 20,
    bulk_bytes_max: 16 << 20,
    inline_bytes_max: 64 << 10,
    request_bytes_max: 40 << 20,
};

/// State shared by the loops of a server.
#[derive(Debug)]
pub struct ServerState<S> {
    service: Arc<S>,
    durability: ObjectDurability,
    clock: Clock,
    /// Limits of the loops.
    limits: Mutex<NetLimits>,
    /// Memory of the loops' clients together.
    memory: ensile_base::sync::Arc<ConnectionMemory>,
    /// Number of clients disconnected because the memory of all clients exceeded the limit.
    evicted: AtomicU64,
    /// Descriptions of the transports of the loops' sockets.
    transports: Mutex<BTreeSet<String>>,
    /// True if the server is to end.
    stopped: AtomicBool,
    connections: AtomicU64,
    /// Number of connections since the start.
    opened: AtomicU64,
    requests: AtomicU64,
    /// Number of requests whose command panicked.
    panicked: AtomicU64,
    /// Number of requests that the log refused.
    turned_away: AtomicU64,
    /// Number of replies that no client had waited for.
    unheard: AtomicU64,
    /// Number of bytes by which the memory of connections has fallen below earlier peaks.
    fallen_bytes: AtomicUsize,
    /// Number of requests refused by the log that are already reported as part of the load.
    turned_away_told: Mutex<u64>,
    notices: LogNotices,
}

impl<S: Service> ServerState<S> {
    /// Creates the state for a service whose objects were opened with `durability`. With strict durability, replies
    /// wait until they are durable.
    #[must_use]
    pub fn new(service: Arc<S>, durability: ObjectDurability, clock: Clock) -> Self {
        Self {
            service,
            durability,
            clock,
            limits: Mutex::new(LIMITS),
            memory: ConnectionMemory::new(CLIENT_MEMORY_BYTES),
            evicted: AtomicU64::new(0),
            transports: Mutex::new(BTreeSet::new()),
            stopped: AtomicBool::new(false),
            connections: AtomicU64::new(0),
            opened: AtomicU64::new(0),
            requests: AtomicU64::new(0),
            panicked: AtomicU64::new(0),
            turned_away: AtomicU64::new(0),
            unheard: AtomicU64::new(0),
            fallen_bytes: AtomicUsize::new(0),
            turned_away_told: Mutex::new(0),
            notices: LogNotices::new(Box::new(|_| ())),
        }
    }

    /// Sets the memory of all clients of the loops together, in bytes; `None` is no limit (W16). The default is
    /// [`CLIENT_MEMORY_BYTES`].
    #[must_use]
    pub fn with_client_memory(self, bytes_max: Option<usize>) -> Self {
        Self { memory: ConnectionMemory::new(bytes_max.unwrap_or(usize::MAX)), ..self }
    }

    /// Sets the receiver of notices for people, such as the stop of the log and the remedy. By default notices go
    /// nowhere. `tell` is called on a loop's thread, whose clients all wait meanwhile, so `tell` must not wait:
    /// [`threads::serve`] hands notices to a thread of its own. A panic of `tell` has no further effect (W15).
    #[must_use]
    pub fn with_notice_handler(self, tell: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self { notices: LogNotices::new(Box::new(tell)), ..self }
    }

    /// Memory limit of clients together, in bytes; `None` without a limit.
    fn client_memory_max(&self) -> Option<usize> {
        Some(self.memory.bytes_max()).filter(|bytes| *bytes < usize::MAX)
    }

    /// Reports the state of the log, if the state is new.
    fn look_at_log(&self) {
        let stats = self.service.persistent_objects().stats();
        self.notices.look(&stats.log_health, self.clock.nanos());
        self.notices.look_at_call_back(stats.waiting_call_back);
    }

    /// Reports clients that were disconnected for their memory, if there are new ones.
    fn look_at_evicted(&self) {
        // Relaxed: a figure for people.
        let evicted = self.evicted.load(Ordering::Relaxed);
        self.notices.look_at_evicted(evicted, self.memory.bytes_max(), self.clock.nanos());
    }

    fn is_strict(&self) -> bool {
        self.durability == ObjectDurability::Strict
    }

    /// Notes the transport of a loop's sockets (W11).
    fn add_transport(&self, in_use: &str) {
        self.transports.lock().insert(in_use.to_owned());
    }

    /// Transports of the loops' sockets; for a second choice also the reason. Mostly all loops have the same transport.
    fn transports(&self) -> String {
        let transports: Vec<String> = self.transports.lock().iter().cloned().collect();
        transports.join("; ")
    }

    /// Number of requests refused by the log, out of `requests` that a loop has not reported yet.
    fn turned_away_of(&self, requests: u64) -> u64 {
        let mut told = self.turned_away_told.lock();
        // Relaxed: a figure; a refusal that is not seen now is reported the next time, as is a refusal of another loop.
        let turned_away = (self.turned_away.load(Ordering::Relaxed) - *told).min(requests);
        *told += turned_away;
        turned_away
    }

    /// Number of bytes by which the memory of connections has fallen below earlier peaks, once it is at least `least`.
    /// The count then begins anew.
    fn take_fallen_bytes(&self, least: usize) -> Option<usize> {
        let enough = |bytes: usize| (bytes >= least).then_some(0);
        // Relaxed, twice: the number guards no data.
        self.fallen_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, enough).ok()
    }

    /// Results that the life before returned and that nothing proves here (B4).
    fn not_proven(&self) -> Option<String> {
        self.service.persistent_objects().recovery().not_proven.as_ref().map(ToString::to_string)
    }

    /// Notice that the folder had no name, with its new name (I5).
    fn name_given(&self) -> Option<String> {
        self.service.persistent_objects().recovery().name_given.as_ref().map(ToString::to_string)
    }

    /// Reason why no checkpoint keeps the requested recovery time.
    fn unreachable(&self) -> Option<String> {
        self.service.persistent_objects().stats().checkpoints.unreachable
    }

    /// Ends the loops. The caller must also wake every loop.
    pub fn stop(&self) {
        // Relaxed: the flag guards no data; the loops are joined.
        self.stopped.store(true, Ordering::Relaxed);
    }

    fn has_stopped(&self) -> bool {
        // Relaxed: the flag guards no data; the loops are joined.
        self.stopped.load(Ordering::Relaxed)
    }
}

/// State of a connection.
struct ClientSession {
    decoder: RequestDecoder,
    client: ClientState,
}

impl ClientSession {
    /// Memory that counts beside the connection's buffers, in bytes (W16).
    fn memory_bytes(&self) -> usize {
        self.decoder.memory_bytes() + self.client.queue_bytes()
    }
}

/// Outcome of a group of requests.
struct ServedGroup {
    /// Number of taken requests.
    taken: u64,
    /// True if the next group may be taken.
    goes_on: bool,
}

/// One loop of a server.
pub struct ServiceLoop<T, S: Service> {
    net: NetLoop<T>,
    state: Arc<ServerState<S>>,
    sessions: HashMap<ConnectionId, ClientSession>,
    parked: ParkedReplies,
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

/// Interval at which a loop reports the number of served requests, and looks at the log.
const REPORT_NANOS: u64 = 1_000_000_000;

impl<T, S: Service> std::fmt::Debug for ServiceLoop<T, S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServiceLoop").field("sessions", &self.sessions.len()).finish_non_exhaustive()
    }
}

impl<T: Transport, S: Service> ServiceLoop<T, S> {
    /// Creates a loop over this transport, without listeners.
    pub fn new(transport: T, state: Arc<ServerState<S>>, limits: NetLimits) -> Self {
        let net = NetLoop::new(transport, state.clock.clone(), limits).with_memory(state.memory.clone());
        *state.limits.lock() = limits;
        let parked = ParkedReplies::new(net.wake_up());
        let reported_nanos = state.clock.nanos();
        Self {
            net,
            state,
            sessions: HashMap::new(),
            parked,
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
        let are_durable = self.parked.fill_durable(&mut self.net, self.state.service.persistent_objects());
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
        let mut keeps_for_ended = false;
        while let Some(event) = self.net.next_event() {
            match event {
                NetEvent::Opened(id) => self.open(id),
                NetEvent::Received(id) => self.serve(id),
                NetEvent::Silent(id) => self.release_room(id),
                NetEvent::Closed(id, reason) => {
                    let session = self.sessions.remove(&id);
                    keeps_for_ended |=
                        session.is_some_and(|session| self.parked.waits_for(session.client.parked));
                    // Relaxed: a figure for people.
                    self.state.connections.fetch_sub(1, Ordering::Relaxed);
                    let is_evicted = reason == CloseReason::Evicted;
                    // Relaxed: a figure for people.
                    self.state.evicted.fetch_add(u64::from(is_evicted), Ordering::Relaxed);
                }
                NetEvent::TimerDue(_) | NetEvent::WokenUp | NetEvent::AcceptPaused(_) => {}
            }
        }
        if keeps_for_ended {
            // Once for all connections that ended in this step: the call looks at every waiting reply.
            self.parked.forget_ended(|id| self.sessions.contains_key(id));
        }
        Ok(())
    }

    /// Reports the load, which a policy of checkpoints may follow.
    fn report(&mut self) {
        let now_nanos = self.state.clock.nanos();
        if now_nanos - self.reported_nanos >= REPORT_NANOS {
            self.reported_nanos = now_nanos;
            let requests = std::mem::take(&mut self.unreported);
            let turned_away = self.state.turned_away_of(requests);
            let unheard = self.net.stats().unheard - self.unheard_told;
            self.unheard_told += unheard;
            // Relaxed: a figure for people.
            self.state.unheard.fetch_add(unheard, Ordering::Relaxed);
            self.report_fallen_peak();
            self.state
                .service
                .persistent_objects()
                .report_requests(requests - turned_away, turned_away + unheard);
            self.state.look_at_log();
            self.state.look_at_evicted();
        }
    }

    /// Reports a peak of the connections' memory of which less than half is in use now. The use under a steady load
    /// falls less, and its freed memory is used again (W17).
    fn report_fallen_peak(&mut self) {
        let peak = self.net.take_room_peak();
        self.room_peak_bytes = self.room_peak_bytes.max(peak);
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
        self.net.end_all(END_QUIET);
        let nanos = || self.state.clock.nanos();
        let until_nanos = nanos().saturating_add(END_WAIT.as_nanos() as u64);
        while self.net.stats().open > 0 && self.state.clock.nanos() < until_nanos {
            self.parked.fill_durable(&mut self.net, self.state.service.persistent_objects());
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
        let decoder = RequestDecoder::new(REQUEST_LIMITS);
        self.sessions.insert(id, ClientSession { decoder, client: ClientState::new(number) });
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
        let ClientSession { decoder, client } = session;
        let requests = decoder.decode(received, TOGETHER);
        if requests.is_empty() {
            let (consumed, error) = (requests.consumed_bytes(), requests.error());
            self.note_no_request(id, consumed, error);
            return NONE;
        }
        let commands = look_ahead(&*self.state.service, requests);
        let (mut taken, mut flow) = (0, ANSWERED);
        for (request, command) in requests.iter().zip(commands) {
            if !replies.has_room() {
                break;
            }
            let reply = &mut self.reply;
            (taken, flow) = (taken + 1, dispatch::take(&self.state, client, request, command, reply));
            match flow {
                Flow::Reply(epoch)
                    if self.state.is_strict() && !self.parked.knows(epoch, &*self.state.service) =>
                {
                    let slot = replies.reserve(reply.len() + PARKED_BYTES);
                    self.parked.park(epoch, slot, reply);
                    client.parked = epoch.max(client.parked);
                }
                Flow::Reply(_) | Flow::ReplyAndClose => replies.reply_written(reply),
                Flow::Stop => self.state.stop(),
            }
            if !matches!(flow, Flow::Reply(_)) {
                break;
            }
        }
        let behind = requests.begin(taken);
        let consumed = behind.unwrap_or(requests.consumed_bytes());
        if behind.is_some() {
            decoder.go_back();
        }
        self.net.consume(id, consumed);
        if flow == Flow::ReplyAndClose {
            self.close_when_sent(id);
        }
        ServedGroup { taken: taken as u64, goes_on: flow != Flow::ReplyAndClose }
    }

    /// No whole request is left: more bytes must arrive, or the bytes are no request.
    fn note_no_request(&mut self, id: ConnectionId, consumed: usize, error: Option<ProtocolError>) {
        let (Some(session), Some((_, replies))) = (self.sessions.get_mut(&id), self.net.parts(id)) else {
            return;
        };
        if let Some(error) = error {
            let told = protocol_error_text(error);
            replies.reply(|buffer| ReplyEncoder::new(buffer, session.client.version).error("ERR", &told));
            self.close_when_sent(id);
        } else {
            self.net.consume(id, consumed);
        }
    }

    /// Ends a connection after its replies. The requests and the queue of the client give their memory back.
    fn close_when_sent(&mut self, id: ConnectionId) {
        if let Some(session) = self.sessions.get_mut(&id) {
            session.decoder = RequestDecoder::new(REQUEST_LIMITS);
            session.client.queue = None;
        }
        self.net.close_when_sent(id);
    }

    /// Gives back the memory that earlier requests of a silent client took (W17).
    fn release_room(&mut self, id: ConnectionId) {
        if let (Some(session), Some((_, replies))) = (self.sessions.get_mut(&id), self.net.parts(id)) {
            session.decoder.release_room();
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

/// Text of an error of the protocol; for a limit with its value.
fn protocol_error_text(error: ProtocolError) -> String {
    let RequestLimits { arguments_max, bulk_bytes_max, inline_bytes_max, request_bytes_max } = REQUEST_LIMITS;
    let limit = match error {
        ProtocolError::Count => format!(": a request has {arguments_max} arguments at most"),
        ProtocolError::BulkLength => format!(": an argument has {bulk_bytes_max} bytes at most"),
        ProtocolError::InlineBytes => format!(": a line has {inline_bytes_max} bytes at most"),
        ProtocolError::RequestBytes => format!(": a request has {request_bytes_max} bytes at most"),
        _ => String::new(),
    };
    format!("{error}{limit}")
}

/// True if a command has this name, in any case.
#[inline]
fn is_called(name: &[u8], command: &str) -> bool {
    name.eq_ignore_ascii_case(command.as_bytes())
}
