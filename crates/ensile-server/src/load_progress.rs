//! Progress of the load of the served database, for `INFO`.
//!
//! Neighbours: the loader notes the engine's progress; [`crate::admin`] shows the figures.

use std::time::Duration;

use ensile::recovery::Progress;
use ensile_base::clock::unix_seconds;
use ensile_base::sync::Mutex;

/// Progress of a load.
#[derive(Debug)]
pub struct LoadProgress {
    /// Time of the begin in seconds since 1970.
    begun_seconds: u64,
    /// Amounts of the last report.
    amounts: Mutex<LoadAmounts>,
}

/// Amounts of a load.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LoadAmounts {
    /// Number of loaded bytes in the present phase.
    pub(crate) bytes_done: u64,
    /// Number of bytes of the present phase.
    pub(crate) bytes_total: u64,
    /// Estimated time up to the end of the phase.
    pub(crate) left: Option<Duration>,
}

impl LoadProgress {
    pub(crate) fn new() -> Self {
        Self { begun_seconds: unix_seconds(), amounts: Mutex::default() }
    }

    /// Notes a report of the engine.
    pub fn note(&self, progress: &Progress) {
        let Progress { bytes_done, bytes_total, .. } = *progress;
        debug_assert!(
            bytes_total == 0 || bytes_done <= bytes_total,
            "a phase has no more bytes than its sum"
        );
        *self.amounts.lock() = LoadAmounts { bytes_done, bytes_total, left: progress.time_left() };
    }

    pub(crate) fn begun_seconds(&self) -> u64 {
        self.begun_seconds
    }

    pub(crate) fn amounts(&self) -> LoadAmounts {
        *self.amounts.lock()
    }
}
