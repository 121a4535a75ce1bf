//! The word to the heartbeat that its database closes.
//!
//! Neighbours: `close` gives it; the heartbeat waits for it instead of sleeping.

use std::time::Duration;

use ensile_base::sync::{Condvar, Mutex};

/// Tells the heartbeat to stop, without waiting for its interval to pass.
#[derive(Debug, Default)]
pub(crate) struct StopSignal {
    stopped: Mutex<bool>,
    changed: Condvar,
}

impl StopSignal {
    pub(crate) fn stop(&self) {
        *self.stopped.lock() = true;
        self.changed.notify_all();
    }

    /// Whether it is to stop.
    pub(crate) fn is_stopped(&self) -> bool {
        *self.stopped.lock()
    }

    /// Waits; true once stopped.
    pub(crate) fn wait(&self, timeout: Duration) -> bool {
        let mut stopped = self.stopped.lock();
        if !*stopped {
            // One wait: if it ends early for no reason, the epoch's next step comes early.
            stopped = self.changed.wait_timeout(stopped, timeout);
        }
        *stopped
    }
}
