//! State shared by the loops of a server: the service, and figures of connections, requests and memory.
//!
//! Neighbours: [`crate::ServingLoop`] updates the figures; a program shows the figures in `INFO`; `log_notices` has
//! the notices about the log.

use std::collections::BTreeSet;
use std::sync::Arc;

use ensile_base::clock::Clock;
use ensile_base::sync::{AtomicBool, AtomicU64, AtomicUsize, Mutex, Ordering, SignalFlag};
use ensile_net::{ConnectionMemory, NetLimits};

use crate::figures::ServerFigures;
use crate::latency::Latency;
use crate::limits::{CLIENT_MEMORY_BYTES, LIMITS};
use crate::log_notices::LogNotices;
use crate::loop_traffic::{LoopTraffic, ServedTraffic};

/// State shared by the loops of a server.
pub struct ServingState<S> {
    pub(crate) service: Arc<S>,
    pub(crate) clock: Clock,
    /// Limits of each loop's connections.
    pub(crate) limits: Mutex<NetLimits>,
    /// Number of loops.
    pub(crate) loops: AtomicUsize,
    /// Memory of the loops' clients together.
    pub(crate) memory: ensile_base::sync::Arc<ConnectionMemory>,
    /// Number of clients disconnected because the memory of all clients exceeded the limit.
    pub(crate) evicted: AtomicU64,
    /// Descriptions of the transports of the loops' sockets.
    pub(crate) transports: Mutex<BTreeSet<String>>,
    /// True if the server is to end.
    pub(crate) stopped: AtomicBool,
    /// Flag that ends the server from outside.
    pub(crate) ended: Option<&'static SignalFlag>,
    /// True once a loop has begun to end.
    is_ending: AtomicBool,
    pub(crate) connections: AtomicU64,
    /// Number of connections since the start.
    pub(crate) opened: AtomicU64,
    /// Requests, bytes and times, by loop.
    pub(crate) loop_figures: Mutex<Vec<Arc<LoopTraffic>>>,
    /// Number of requests whose command panicked.
    pub(crate) panicked: AtomicU64,
    /// Number of requests that the log refused.
    pub(crate) turned_away: AtomicU64,
    /// Number of clients disconnected because they took pushed bytes too slowly.
    pub(crate) slow_listeners: AtomicU64,
    /// Number of replies that no client had waited for.
    pub(crate) unheard: AtomicU64,
    /// Number of bytes by which the memory of connections has fallen below earlier peaks.
    pub(crate) fallen_bytes: AtomicUsize,
    /// Number of requests refused by the log that are already reported as part of the load.
    pub(crate) turned_away_told: Mutex<u64>,
    /// Failures of clients' TLS.
    pub(crate) tls_failures: Mutex<TlsFailures>,
    pub(crate) notices: LogNotices,
}

/// Failures of clients' TLS since the start.
#[derive(Debug, Default)]
pub(crate) struct TlsFailures {
    count: u64,
    /// Text of the last failure.
    last: String,
}

/// Longest text of a failure in a notice, in bytes.
const FAILURE_BYTES_MAX: usize = 200;

impl<S> std::fmt::Debug for ServingState<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServingState").field("stopped", &self.stopped).finish_non_exhaustive()
    }
}

impl<S> ServingState<S> {
    /// Creates the state of a server for a service.
    #[must_use]
    pub fn new(service: Arc<S>, clock: Clock) -> Self {
        Self {
            service,
            clock,
            limits: Mutex::new(LIMITS),
            loops: AtomicUsize::new(0),
            memory: ConnectionMemory::new(CLIENT_MEMORY_BYTES),
            evicted: AtomicU64::new(0),
            transports: Mutex::new(BTreeSet::new()),
            stopped: AtomicBool::new(false),
            ended: None,
            is_ending: AtomicBool::new(false),
            connections: AtomicU64::new(0),
            opened: AtomicU64::new(0),
            loop_figures: Mutex::new(Vec::new()),
            panicked: AtomicU64::new(0),
            turned_away: AtomicU64::new(0),
            slow_listeners: AtomicU64::new(0),
            unheard: AtomicU64::new(0),
            fallen_bytes: AtomicUsize::new(0),
            turned_away_told: Mutex::new(0),
            tls_failures: Mutex::new(TlsFailures::default()),
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
    /// nowhere. `tell` is called on a loop's thread. All clients of the loop wait meanwhile, so `tell` must not wait:
    /// [`crate::threads::serve`] hands notices to a thread of its own. A panic of `tell` has no further effect (W15).
    #[must_use]
    pub fn with_notice_handler(self, tell: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self { notices: LogNotices::new(Box::new(tell)), ..self }
    }

    /// Sets a flag that ends the server as a client's request for the end does.
    #[must_use]
    pub(crate) fn with_end_flag(self, ended: Option<&'static SignalFlag>) -> Self {
        Self { ended, ..self }
    }

    /// True if a request under way is to end soon: the server ends, or is asked to end from outside.
    pub(crate) fn is_to_end(&self) -> bool {
        // Relaxed: the flag guards no data.
        self.has_stopped() || self.ended.is_some_and(|ended| ended.load(Ordering::Relaxed))
    }

    /// Memory limit of clients together, in bytes; `None` without a limit.
    pub(crate) fn client_memory_max(&self) -> Option<usize> {
        Some(self.memory.bytes_max()).filter(|bytes| *bytes < usize::MAX)
    }

    /// Reports clients that were disconnected for their memory, if there are new ones.
    pub(crate) fn look_at_evicted(&self) {
        // Relaxed: a figure for people.
        let evicted = self.evicted.load(Ordering::Relaxed);
        self.notices.look_at_evicted(evicted, self.memory.bytes_max(), self.clock.nanos());
    }

    /// Notes a connection that ended because its TLS failed.
    pub(crate) fn note_tls_failure(&self, text: &str) {
        let mut failures = self.tls_failures.lock();
        failures.count += 1;
        failures.last.clear();
        failures.last.extend(text.chars().filter(|c| !c.is_control()).take(FAILURE_BYTES_MAX));
        debug_assert!(failures.last.len() <= 4 * FAILURE_BYTES_MAX, "W2: a text is bounded");
    }

    /// Reports failures of clients' TLS, if there are new ones.
    pub(crate) fn look_at_tls_failures(&self) {
        let failures = self.tls_failures.lock();
        if failures.count > 0 {
            self.notices.look_at_tls(failures.count, &failures.last, self.clock.nanos());
        }
    }

    /// The service.
    pub fn service(&self) -> &Arc<S> {
        &self.service
    }

    /// Time of the loops' clock in nanoseconds.
    #[must_use]
    pub fn nanos(&self) -> u64 {
        self.clock.nanos()
    }

    /// Counts a request that the service's log refused.
    pub fn count_turned_away(&self) {
        // Relaxed: a figure.
        self.turned_away.fetch_add(1, Ordering::Relaxed);
    }

    /// Figures of this moment.
    #[must_use]
    pub fn figures(&self) -> ServerFigures {
        // Relaxed: a figure for people.
        let figure = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let loop_figures = self.loop_figures.lock();
        let sum = |amounts: fn(&LoopTraffic) -> ServedTraffic| {
            loop_figures.iter().fold(ServedTraffic::default(), |sum, one| sum.plus(amounts(one)))
        };
        ServerFigures {
            transports: self.transports(),
            connections: figure(&self.connections),
            opened: figure(&self.opened),
            client_memory_bytes: self.memory.bytes(),
            client_memory_bytes_max: self.client_memory_max(),
            evicted: figure(&self.evicted),
            // Relaxed: a figure for people.
            connections_max: self.limits.lock().connections_max * self.loops.load(Ordering::Relaxed),
            total: sum(LoopTraffic::total),
            rate: sum(LoopTraffic::rate),
            latency: Latency::sum(loop_figures.iter().map(|one| &one.latencies)),
            panicked: figure(&self.panicked),
            turned_away: figure(&self.turned_away),
            slow_listeners: figure(&self.slow_listeners),
            unheard: figure(&self.unheard),
        }
    }

    /// Notes the transport of a loop's sockets (W11).
    pub(crate) fn add_transport(&self, in_use: &str) {
        self.transports.lock().insert(in_use.to_owned());
    }

    /// Transports of the loops' sockets; for a second choice also the reason. Mostly all loops have the same transport.
    pub(crate) fn transports(&self) -> String {
        let transports: Vec<String> = self.transports.lock().iter().cloned().collect();
        transports.join("; ")
    }

    /// Number of requests refused by the log, out of `requests` that a loop has not reported yet.
    pub(crate) fn turned_away_of(&self, requests: u64) -> u64 {
        let mut told = self.turned_away_told.lock();
        // Relaxed: a figure; a refusal that is not seen now is reported the next time, as is a refusal of another loop.
        let turned_away = (self.turned_away.load(Ordering::Relaxed) - *told).min(requests);
        *told += turned_away;
        debug_assert!(turned_away <= requests, "a request that the log refuses is a request");
        turned_away
    }

    /// Number of bytes by which the memory of connections has fallen below earlier peaks, once it is at least `least`.
    /// The count then begins anew.
    pub(crate) fn take_fallen_bytes(&self, least: usize) -> Option<usize> {
        let enough = |bytes: usize| (bytes >= least).then_some(0);
        // Relaxed, twice: the number guards no data.
        self.fallen_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, enough).ok()
    }

    /// Ends the loops. The caller must also wake every loop.
    pub fn stop(&self) {
        // Relaxed: the flag guards no data; the loops are joined.
        self.stopped.store(true, Ordering::Relaxed);
    }

    /// True for the first loop that ends.
    pub(crate) fn begins_to_end(&self) -> bool {
        // Relaxed: the flag guards no data; one swap finds `false`.
        !self.is_ending.swap(true, Ordering::Relaxed)
    }

    pub(crate) fn has_stopped(&self) -> bool {
        // Relaxed: the flag guards no data; the loops are joined.
        self.stopped.load(Ordering::Relaxed)
    }
}
