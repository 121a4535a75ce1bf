//! State of the heartbeat: the signal to stop, the collector of garbage, and the note of a panic.
//!
//! Neighbours: `open::threads` runs the heartbeat; a close gives the signal; `garbage_collector` uses the collector.

use ensile_base::sync::{AtomicBool, Mutex, Ordering};

use super::collector::Collector;
use super::stop_signal::StopSignal;

pub(crate) struct HeartbeatState {
    pub(crate) stop: StopSignal,
    /// Garbage collector of the heartbeat.
    pub(crate) collector: Mutex<Collector>,
    has_panicked: AtomicBool,
}

impl HeartbeatState {
    pub(super) fn new(garbage_bytes_max: u64) -> Self {
        let collector = Mutex::new(Collector::new(garbage_bytes_max));
        Self { stop: StopSignal::default(), collector, has_panicked: AtomicBool::new(false) }
    }

    pub(super) fn note_panic(&self) {
        // Release: partner is the Acquire in `has_panicked`.
        self.has_panicked.store(true, Ordering::Release);
    }

    /// True if the heartbeat has panicked: no epoch is closed by time any more.
    pub(crate) fn has_panicked(&self) -> bool {
        // Acquire: partner is the Release in `note_panic`.
        self.has_panicked.load(Ordering::Acquire)
    }
}
