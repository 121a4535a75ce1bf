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
//! Neighbours: `ensile-net` has the loop, `ensile-resp` the codec; [`crate::service`] is the served side; `common` has
//! the commands of every server, `figures` the text of `INFO`, `log_notices` the notices about the log, `parked` the
//! waiting replies, [`threads`] starts loops.

mod common;
mod figures;
mod log_notices;
mod parked;
pub mod threads;

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use ensile_base::clock::Clock;
use ensile_base::sync::{AtomicBool, AtomicU64, Mutex, Ordering};
use ensile_base::{Epoch, panic_text};
use ensile_net::{
    ConnectionId, ConnectionMemory, ListenAddress, LoopWakeUp, MemoryFit, NetEvent, NetLimits, NetLoop,
    ReplyQueue, Transport,
};
use ensile_objects::ObjectDurability;
use ensile_resp::{
    ProtocolError, ReplyEncoder, Request, RequestDecoder, RequestLimits, Requests, RespVersion,
};

use crate::service::{CommandRequest, REPLY_BYTES, Service, ServiceCommand, check_length};
use common::Flow;
use log_notices::LogNotices;
use parked::ParkedReplies;

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
    free_bytes: 64 << 10,
    memory_wait: Duration::from_secs(10),
    step_bytes: 64 << 10,
    accept_pause: Duration::from_millis(100),
};

/// Default memory of all clients of a server together, in bytes: requests that are incomplete or wait, and unsent
/// replies, beyond the first 64 KiB of every client.
pub const CLIENT_MEMORY_BYTES: usize = 1 << 30;
/// Length in bytes up to which a reply is kept without regard to memory.
const SHORT_REPLY_BYTES: usize = 4 << 10;

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

/// Requests of a connection whose memory is requested at once. More requests do not shorten the wait for memory.
const TOGETHER: usize = 16;

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
    /// Number of clients disconnected for lack of client memory, and of replies without room.
    out_of_memory: AtomicU64,
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
            out_of_memory: AtomicU64::new(0),
            transports: Mutex::new(BTreeSet::new()),
            stopped: AtomicBool::new(false),
            connections: AtomicU64::new(0),
            opened: AtomicU64::new(0),
            requests: AtomicU64::new(0),
            panicked: AtomicU64::new(0),
            turned_away: AtomicU64::new(0),
            unheard: AtomicU64::new(0),
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
    pub fn telling(self, tell: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self { notices: LogNotices::new(Box::new(tell)), ..self }
    }

    /// Memory limit of clients together, in bytes; `None` without a limit.
    fn client_memory_max(&self) -> Option<usize> {
        Some(self.memory.bytes_max()).filter(|bytes| *bytes < usize::MAX)
    }

    /// Reports the state of the log, if the state is new.
    fn look_at_log(&self) {
        let stats = self.service.kept().stats();
        self.notices.look(&stats.log_health, self.clock.nanos());
        self.notices.look_at_call_back(stats.waiting_call_back);
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

    /// Results that the life before returned and that nothing proves here (B4).
    fn not_proven(&self) -> Option<String> {
        self.service.kept().recovery().not_proven.as_ref().map(ToString::to_string)
    }

    /// Notice that the folder had no name, with its new name (I5).
    fn name_given(&self) -> Option<String> {
        self.service.kept().recovery().name_given.as_ref().map(ToString::to_string)
    }

    /// Reason why no checkpoint keeps the requested recovery time.
    fn unreachable(&self) -> Option<String> {
        self.service.kept().stats().checkpoints.unreachable
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
    version: RespVersion,
    number: u64,
    /// Newest epoch that a parked reply of the client rests on.
    parked: Epoch,
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
    pub fn parked(&self) -> usize {
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
        let are_durable = self.parked.fill_durable(&mut self.net, self.state.service.kept());
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
                NetEvent::OutOfMemory(id) => self.end_for_memory(id),
                NetEvent::Closed(id, _) => {
                    let session = self.sessions.remove(&id);
                    keeps_for_ended |= session.is_some_and(|session| self.parked.waits_for(session.parked));
                    // Relaxed: a figure for people.
                    self.state.connections.fetch_sub(1, Ordering::Relaxed);
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
            self.state.service.kept().report_requests(requests - turned_away, turned_away + unheard);
            self.state.look_at_log();
        }
    }

    /// Takes the last steps, after the close of the objects: sends the replies that are durable now, and lets clients
    /// take their waiting replies, and an end behind the replies (W14). The steps take at most [`END_WAIT`], whatever
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
            self.parked.fill_durable(&mut self.net, self.state.service.kept());
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
        self.sessions.insert(
            id,
            ClientSession { decoder, version: RespVersion::default(), number, parked: Epoch::ZERO },
        );
    }

    /// Ends a client whose request, or its reply, does not fit into the memory of all clients. The client gets an error
    /// behind its earlier replies, and is disconnected (W16). No part of the request was carried out.
    fn end_for_memory(&mut self, id: ConnectionId) {
        let Some(session) = self.sessions.get(&id) else { return };
        let Some((_, replies)) = self.net.parts(id) else { return };
        let told = no_memory_for("the request", "send less at once, or try again later", &self.state.memory);
        replies.reply(|buffer| ReplyEncoder::new(buffer, session.version).error("OOM", &told));
        // Relaxed: a figure for people.
        self.state.out_of_memory.fetch_add(1, Ordering::Relaxed);
        self.net.close_when_sent(id);
    }

    /// Carries out the requests that a connection has sent, as far as replies have room. Looks ahead: the memory that a
    /// group of requests is about to use is requested at once.
    fn serve(&mut self, id: ConnectionId) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        let ClientSession { decoder, version, number, parked } = session;
        let mut served = 0;
        while let Some((received, replies)) = self.net.parts(id) {
            // Requests behind the end are not carried out: the client that asked for the end gets no reply.
            if self.state.has_stopped() || !replies.has_room() {
                replies.set_owner_bytes(decoder.memory_bytes());
                break;
            }
            let requests = decoder.decode(received, TOGETHER);
            if requests.is_empty() {
                if let Some(error) = requests.error() {
                    let told = explained(error);
                    replies.reply(|buffer| ReplyEncoder::new(buffer, *version).error("ERR", &told));
                    self.net.close_when_sent(id);
                } else {
                    let consumed = requests.consumed();
                    // The places of a million arguments take more memory than the arguments' bytes.
                    replies.set_owner_bytes(decoder.memory_bytes());
                    self.net.consume(id, consumed);
                }
                break;
            }
            let commands = look_ahead(&*self.state.service, requests);
            let (mut taken, mut is_closing) = (0, false);
            for (request, command) in requests.iter().zip(commands) {
                if is_closing || !replies.has_room() {
                    break;
                }
                taken += 1;
                self.reply.clear();
                let flow = carry_out(&self.state, command, (version, *number), request, &mut self.reply);
                if may_repeat(command) && !may_keep(&self.state, replies, *version, &mut self.reply) {
                    // The request is carried out again when there is memory.
                    taken -= 1;
                    break;
                }
                match flow {
                    Flow::Reply(epoch)
                        if self.state.is_strict() && !self.parked.knows(epoch, &*self.state.service) =>
                    {
                        self.parked.park(epoch, replies.reserve(self.reply.len()), &self.reply);
                        *parked = epoch.max(*parked);
                    }
                    Flow::Reply(_) | Flow::ReplyAndClose => {
                        replies.reply(|buffer| buffer.extend_from_slice(&self.reply));
                    }
                    Flow::Stop => self.state.stop(),
                }
                is_closing = flow == Flow::ReplyAndClose;
                if flow == Flow::Stop {
                    break;
                }
            }
            served += taken as u64;
            let behind = requests.begin(taken);
            let consumed = behind.unwrap_or(requests.consumed());
            if behind.is_some() {
                decoder.go_back();
            }
            self.net.consume(id, consumed);
            if is_closing {
                self.net.close_when_sent(id);
                break;
            }
        }
        self.count_served(served);
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

/// True if a request of this command may be carried out twice: the command changes nothing. Commands that change
/// something have short replies.
fn may_repeat<S>(command: Option<&ServiceCommand<S>>) -> bool {
    command.is_none_or(|command| command.info.flags.contains(&"readonly"))
}

/// True if a reply has memory (W16). An error replaces a reply longer than the memory of all clients. The error depends
/// on the state that the command saw, so the error waits as the reply would have (R2).
fn may_keep<S>(
    state: &ServerState<S>,
    replies: &mut ReplyQueue,
    version: RespVersion,
    reply: &mut Vec<u8>,
) -> bool {
    if reply.len() <= SHORT_REPLY_BYTES {
        return true;
    }
    match replies.fits(reply.len()) {
        MemoryFit::Fits => true,
        MemoryFit::Later => false,
        MemoryFit::Never => {
            let told = no_memory_for(
                &format!("a reply of {} bytes", reply.len()),
                "ask for less at once",
                &state.memory,
            );
            reply.clear();
            ReplyEncoder::new(reply, version).error("OOM", &told);
            // Relaxed: a figure for people.
            state.out_of_memory.fetch_add(1, Ordering::Relaxed);
            true
        }
    }
}

/// Error text for a client that does not fit.
fn no_memory_for(what: &str, way_out: &str, memory: &ConnectionMemory) -> String {
    format!(
        "{what} does not fit into the memory of all clients, which is {} bytes (--client-memory): {way_out}",
        memory.bytes_max()
    )
}

/// Text of an error of the protocol; for a limit with its value.
fn explained(error: ProtocolError) -> String {
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

/// Finds the commands of a group of requests, and requests the memory of their first keys.
fn look_ahead<S: Service>(
    service: &S,
    requests: Requests<'_>,
) -> [Option<&'static ServiceCommand<S>>; TOGETHER] {
    let mut commands = [None; TOGETHER];
    let (mut keys, mut count) = ([[].as_slice(); TOGETHER], 0);
    for (place, request) in commands.iter_mut().zip(requests.iter()) {
        let name = request.get(0).unwrap_or_default();
        *place = S::COMMANDS.iter().find(|command| is_called(name, command.info.name));
        let key = place.and_then(|command| request.get(command.info.first_key()?));
        if let Some(key) = key {
            keys[count] = key;
            count += 1;
        }
    }
    // A single request also waits for its memory when it is carried out.
    if count > 1 {
        // A hint: a broken object panics again at its use, and is reported there.
        let _ = catch_unwind(AssertUnwindSafe(|| service.prefetch(&keys[..count])));
    }
    commands
}

/// Carries a request out and writes the reply. The reply to a panicking request is an error: half-changed objects are
/// poisoned (O6), and the server goes on with the rest.
fn carry_out<S: Service>(
    state: &ServerState<S>,
    command: Option<&ServiceCommand<S>>,
    (version, number): (&mut RespVersion, u64),
    request: Request<'_>,
    reply: &mut Vec<u8>,
) -> Flow {
    let attempt = || carry_out_or_panic(state, command, (&mut *version, number), request, &mut *reply);
    let panic = match catch_unwind(AssertUnwindSafe(attempt)) {
        Ok(flow) => return flow,
        Err(panic) => panic,
    };
    // Relaxed: a figure for people.
    state.panicked.fetch_add(1, Ordering::Relaxed);
    reply.clear();
    let told = format!(
        "the command panicked ({}): whether it was carried out is unknown; what it may have left half changed is \
         refused as POISONED until the server is started again, and all else is served",
        panic_text(&*panic).unwrap_or("without a text")
    );
    ReplyEncoder::new(reply, *version).error("PANICKED", &told);
    // The text may depend on anything logged by now.
    Flow::Reply(state.service.kept().newest_epoch())
}

/// As [`carry_out`], without the handling of panics.
fn carry_out_or_panic<S: Service>(
    state: &ServerState<S>,
    command: Option<&ServiceCommand<S>>,
    (version, number): (&mut RespVersion, u64),
    request: Request<'_>,
    reply: &mut Vec<u8>,
) -> Flow {
    let Some(command) = command else {
        let (told, flow) = {
            let mut encoder = ReplyEncoder::new(reply, *version).at_most(REPLY_BYTES);
            let flow = common::carry_out(state, (version, number), request, &mut encoder);
            (check_length(&encoder), flow)
        };
        if let Err(error) = told {
            reply.clear();
            ReplyEncoder::new(reply, *version).error(error.code(), &error.to_string());
        }
        return flow;
    };
    if !command.info.takes(request.len()) {
        common::wrong_number(command.info.name, &mut ReplyEncoder::new(reply, *version));
        return Flow::Reply(Epoch::ZERO);
    }
    let request = CommandRequest::new(request);
    let mut encoder = ReplyEncoder::new(reply, *version).at_most(REPLY_BYTES);
    let called = (command.call)(&state.service, &request, &mut encoder);
    match called.and_then(|()| check_length(&encoder)) {
        Ok(()) => Flow::Reply(request.rests.epoch()),
        Err(error) => {
            if error.is_turned_away() {
                // Relaxed: a figure.
                state.turned_away.fetch_add(1, Ordering::Relaxed);
            }
            reply.clear();
            ReplyEncoder::new(reply, *version).error(error.code(), &error.to_string());
            Flow::Reply(error.rests_on(&request.rests, || state.service.kept().newest_epoch()))
        }
    }
}

/// True if a command has this name, in any case.
#[inline]
fn is_called(name: &[u8], command: &str) -> bool {
    name.eq_ignore_ascii_case(command.as_bytes())
}
