//! Signal to the heartbeat that the database closes.
//!
//! Neighbours: a close gives the signal; the heartbeat waits for the signal instead of sleeping.

use std::time::Duration;

use ensile_base::sync::{Condvar, Mutex};

/// Tells the heartbeat to stop, before the heartbeat's interval has passed.
#[derive(Debug, Default)]
pub(crate) struct StopSignal {
    stopped: Mutex<bool>,
    changed: Condvar,
}

impl StopSignal {
    /// Gives the signal, and wakes a waiting heartbeat.
    pub(crate) fn stop(&self) {
        *self.stopped.lock() = true;
        self.changed.notify_all();
    }

    /// True if the heartbeat is to stop.
    pub(crate) fn is_stopped(&self) -> bool {
        *self.stopped.lock()
    }

    /// Waits for the signal, at most for `timeout`. True if the heartbeat is to stop.
    pub(crate) fn wait(&self, timeout: Duration) -> bool {
        let mut stopped = self.stopped.lock();
        if !*stopped {
            // One wait: if the wait ends early for no reason, the epoch's next step comes early.
            stopped = self.changed.wait_timeout(stopped, timeout);
        }
        *stopped
    }
}
