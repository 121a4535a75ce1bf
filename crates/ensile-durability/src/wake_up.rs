//! Wake-up of a logger or checkpointer: by strict waiters, full buffers, demands for a checkpoint, and a close. Several
//! calls before a wait count as one. After a wake-up that follows the return of a wait, the next wait returns at once.
//!
//! Neighbours: each logger, each checkpointer and the shipper have a wake-up; the thread waits, and any thread wakes.

use std::time::Duration;

use ensile_base::sync::{AtomicBool, Condvar, Mutex, Ordering};

#[derive(Debug)]
pub(crate) struct WakeUp {
    asked: AtomicBool,
    /// Guards only the moment between reading `asked` and sleeping.
    sleeping: Mutex<()>,
    condition: Condvar,
}

impl WakeUp {
    pub(crate) fn new() -> Self {
        Self { asked: AtomicBool::new(false), sleeping: Mutex::new(()), condition: Condvar::new() }
    }

    /// Ends the current or the next wait.
    pub(crate) fn wake(&self) {
        // AcqRel: the wait that this call ends sees the caller's earlier work, also if an earlier wake ended the wait
        // (partner: the swap in `wait`).
        if !self.asked.swap(true, Ordering::AcqRel) {
            drop(self.sleeping.lock());
            self.condition.notify_one();
        }
    }

    /// True if a thread has called [`WakeUp::wake`] since the last wait returned.
    pub(crate) fn is_asked(&self) -> bool {
        // Acquire: partner is the swap in `wake`.
        self.asked.load(Ordering::Acquire)
    }

    /// Waits for a wake-up, at most for `timeout`.
    pub(crate) fn wait(&self, timeout: Duration) {
        let guard = self.sleeping.lock();
        // Acquire: partner is the swap in `wake`. Under the lock, so a wake from here on finds this thread asleep.
        if !self.asked.load(Ordering::Acquire) {
            // One sleep: a spurious end only makes the caller look once more.
            drop(self.condition.wait_timeout(guard, timeout));
        }
        // AcqRel: takes part in the order of wake-ups (partner: `wake`).
        self.asked.swap(false, Ordering::AcqRel);
    }
}
