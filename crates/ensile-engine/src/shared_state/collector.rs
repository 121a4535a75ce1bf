//! Collector of the heartbeat: its worker, the limits of the last ticks, and the workers still to visit.
//!
//! Neighbours: `heartbeat_state` has the collector; `garbage_collector` uses the collector.

use ensile_base::sync::Arc;

use super::garbage_limit::GarbageLimit;
use crate::garbage::EpochLimits;
use crate::worker::{Worker, WorkerShared};

/// Collector for idle workers, which also ends readers if too much garbage waits.
pub(crate) struct Collector {
    pub(super) worker: Option<Box<Worker>>,
    /// Limits of freeable garbage at the last tick.
    pub(super) last: EpochLimits,
    /// Limits at the tick before. A worker neglects its garbage below these limits.
    pub(super) before_last: EpochLimits,
    /// Workers still to visit.
    pub(super) due: Vec<Arc<WorkerShared>>,
    pub(super) limit: GarbageLimit,
}

impl Collector {
    pub(crate) fn new(garbage_bytes_max: u64) -> Self {
        let (limit, none) = (GarbageLimit::new(garbage_bytes_max), EpochLimits::default());
        Self { worker: None, last: none, before_last: none, due: Vec::new(), limit }
    }
}

#[cfg(feature = "audit")]
impl Collector {
    /// Ends the heartbeat's own worker, for the audit at the end of a database.
    pub(super) fn drop_worker(&mut self) {
        self.worker = None;
    }
}
