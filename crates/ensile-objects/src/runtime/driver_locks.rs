//! Locks of the threads that drive a runtime.
//!
//! Neighbours: `driver` takes the locks.

use ensile_base::sync::Mutex;

#[derive(Debug, Default)]
pub(super) struct DriverLocks {
    /// Lock of the thread that drives the log, with the time of the last heartbeat in nanoseconds.
    pub(super) beat_nanos: Mutex<Option<u64>>,
    /// Lock of the thread that drives checkpoints and shipping.
    pub(super) checkpoints: Mutex<()>,
}
