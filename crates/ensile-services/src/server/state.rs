//! State shared by the loops of a server: the service, and figures of connections, requests and memory.
//!
//! Neighbours: [`super::ServiceLoop`] updates the figures; `figures` shows the figures; `log_notices` has the notices
//! about the log.

use std::collections::BTreeSet;
use std::sync::Arc;

use ensile_base::clock::Clock;
use ensile_base::sync::{AtomicBool, AtomicU64, AtomicUsize, Mutex, Ordering};
use ensile_net::{ConnectionMemory, NetLimits};
use ensile_objects::ObjectDurability;

use super::limits::{CLIENT_MEMORY_BYTES, LIMITS};
use super::log_notices::LogNotices;
use crate::service::Service;

/// State shared by the loops of a server.
#[derive(Debug)]
pub struct ServerState<S> {
    pub(super) service: Arc<S>,
    pub(super) durability: ObjectDurability,
    pub(super) clock: Clock,
    pub(super) limits: Mutex<NetLimits>,
    /// Memory of the loops' clients together.
    pub(super) memory: ensile_base::sync::Arc<ConnectionMemory>,
    /// Number of clients disconnected because the memory of all clients exceeded the limit.
    pub(super) evicted: AtomicU64,
    /// Descriptions of the transports of the loops' sockets.
    pub(super) transports: Mutex<BTreeSet<String>>,
    /// True if the server is to end.
    pub(super) stopped: AtomicBool,
    pub(super) connections: AtomicU64,
    /// Number of connections since the start.
    pub(super) opened: AtomicU64,
    pub(super) requests: AtomicU64,
    /// Number of requests whose command panicked.
    pub(super) panicked: AtomicU64,
    /// Number of requests that the log refused.
    pub(super) turned_away: AtomicU64,
    /// Number of replies that no client had waited for.
    pub(super) unheard: AtomicU64,
    /// Number of bytes by which the memory of connections has fallen below earlier peaks.
    pub(super) fallen_bytes: AtomicUsize,
    /// Number of requests refused by the log that are already reported as part of the load.
    pub(super) turned_away_told: Mutex<u64>,
    pub(super) notices: LogNotices,
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
    /// [`super::threads::serve`] hands notices to a thread of its own. A panic of `tell` has no further effect (W15).
    #[must_use]
    pub fn with_notice_handler(self, tell: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self { notices: LogNotices::new(Box::new(tell)), ..self }
    }

    /// Memory limit of clients together, in bytes; `None` without a limit.
    pub(super) fn client_memory_max(&self) -> Option<usize> {
        Some(self.memory.bytes_max()).filter(|bytes| *bytes < usize::MAX)
    }

    /// Reports the state of the log, if the state is new.
    pub(super) fn look_at_log(&self) {
        let stats = self.service.persistent_objects().stats();
        self.notices.look(&stats.log_health, self.clock.nanos());
        self.notices.look_at_call_back(stats.waiting_call_back);
    }

    /// Reports clients that were disconnected for their memory, if there are new ones.
    pub(super) fn look_at_evicted(&self) {
        // Relaxed: a figure for people.
        let evicted = self.evicted.load(Ordering::Relaxed);
        self.notices.look_at_evicted(evicted, self.memory.bytes_max(), self.clock.nanos());
    }

    pub(super) fn is_strict(&self) -> bool {
        self.durability == ObjectDurability::Strict
    }

    /// Notes the transport of a loop's sockets (W11).
    pub(super) fn add_transport(&self, in_use: &str) {
        self.transports.lock().insert(in_use.to_owned());
    }

    /// Transports of the loops' sockets; for a second choice also the reason. Mostly all loops have the same transport.
    pub(super) fn transports(&self) -> String {
        let transports: Vec<String> = self.transports.lock().iter().cloned().collect();
        transports.join("; ")
    }

    /// Number of requests refused by the log, out of `requests` that a loop has not reported yet.
    pub(super) fn turned_away_of(&self, requests: u64) -> u64 {
        let mut told = self.turned_away_told.lock();
        // Relaxed: a figure; a refusal that is not seen now is reported the next time, as is a refusal of another loop.
        let turned_away = (self.turned_away.load(Ordering::Relaxed) - *told).min(requests);
        *told += turned_away;
        turned_away
    }

    /// Number of bytes by which the memory of connections has fallen below earlier peaks, once it is at least `least`.
    /// The count then begins anew.
    pub(super) fn take_fallen_bytes(&self, least: usize) -> Option<usize> {
        let enough = |bytes: usize| (bytes >= least).then_some(0);
        // Relaxed, twice: the number guards no data.
        self.fallen_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, enough).ok()
    }

    /// Results that the life before returned and that nothing proves here (B4).
    pub(super) fn not_proven(&self) -> Option<String> {
        self.service.persistent_objects().recovery().not_proven.as_ref().map(ToString::to_string)
    }

    /// Notice that the folder had no name, with its new name (I5).
    pub(super) fn name_given(&self) -> Option<String> {
        self.service.persistent_objects().recovery().name_given.as_ref().map(ToString::to_string)
    }

    /// Reason why no checkpoint keeps the requested recovery time.
    pub(super) fn unreachable(&self) -> Option<String> {
        self.service.persistent_objects().stats().checkpoints.unreachable
    }

    /// Ends the loops. The caller must also wake every loop.
    pub fn stop(&self) {
        // Relaxed: the flag guards no data; the loops are joined.
        self.stopped.store(true, Ordering::Relaxed);
    }

    pub(super) fn has_stopped(&self) -> bool {
        // Relaxed: the flag guards no data; the loops are joined.
        self.stopped.load(Ordering::Relaxed)
    }
}
