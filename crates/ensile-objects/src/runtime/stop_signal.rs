//! The word to the heartbeat that the objects are closed.
//!
//! Neighbours: `close` gives the word; the heartbeat waits for the word instead of sleeping.

use std::time::Duration;

use ensile_base::sync::{Condvar, Mutex};

/// Tells the heartbeat to stop, before the heartbeat's interval has passed.
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

    /// Waits for the word or for `timeout`. True if the heartbeat is to stop. If the wait ends early, a tick comes
    /// early.
    pub(super) fn wait(&self, timeout: Duration) -> bool {
        let stopped = self.stopped.lock();
        *stopped || *self.changed.wait_timeout(stopped, timeout)
    }
}
