//! How a logger or checkpointer is woken: rung by strict waiters, full buffers, whoever asks for a checkpoint, and close,
//! many rings being one.
//!
//! Invariant: a ring after a wait has returned is not lost: the next wait returns at once.
//!
//! Neighbours: one per logger, one per checkpointer.

use std::time::Duration;

use ensile_base::sync::{AtomicBool, Condvar, Mutex, MutexGuard, Ordering};

#[derive(Debug)]
pub(crate) struct Bell {
    rung: AtomicBool,
    /// Guards nothing but the moment between looking at `rung` and sleeping.
    sleeping: Mutex<()>,
    wake: Condvar,
}

impl Bell {
    pub(crate) fn new() -> Self {
        Self { rung: AtomicBool::new(false), sleeping: Mutex::new(()), wake: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, ()> {
        // It guards no data that a panic could leave half changed.
        self.sleeping.lock()
    }

    /// Ends the current or the next wait.
    pub(crate) fn ring(&self) {
        // AcqRel: what the ringer did before is seen by the wait that this ends, also if an earlier ring ended it
        // (partner: the swap in `wait`).
        if !self.rung.swap(true, Ordering::AcqRel) {
            drop(self.lock());
            self.wake.notify_one();
        }
    }

    /// Has it been rung since the last wait returned?
    pub(crate) fn is_rung(&self) -> bool {
        // Acquire: partner is the swap in `ring`.
        self.rung.load(Ordering::Acquire)
    }

    /// Waits for a ring, or `timeout`.
    pub(crate) fn wait(&self, timeout: Duration) {
        let guard = self.lock();
        // Acquire: partner is the swap in `ring`. Under the lock, so a ring from here on finds us asleep.
        if !self.rung.load(Ordering::Acquire) {
            // One sleep: a spurious end only makes the caller look once more.
            drop(self.wake.wait_timeout(guard, timeout));
        }
        // AcqRel: takes part in the order of rings (partner: `ring`).
        self.rung.swap(false, Ordering::AcqRel);
    }
}
