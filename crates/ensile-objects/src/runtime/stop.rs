//! The word to the heartbeat that the objects are closed.
//!
//! Neighbours: `close` gives it; the heartbeat waits for it instead of sleeping.

use std::time::Duration;

use ensile_base::sync::{Condvar, Mutex};

/// Tells the heartbeat to stop, without waiting for its interval to pass.
#[derive(Debug, Default)]
pub(super) struct HeartbeatStop {
    stopped: Mutex<bool>,
    changed: Condvar,
}

impl HeartbeatStop {
    pub(super) fn stop(&self) {
        *self.stopped.lock() = true;
        self.changed.notify_all();
    }

    /// Waits; true once stopped. It may return early: then a tick comes early.
    pub(super) fn wait(&self, timeout: Duration) -> bool {
        let stopped = self.stopped.lock();
        *stopped || *self.changed.wait_timeout(stopped, timeout)
    }
}
