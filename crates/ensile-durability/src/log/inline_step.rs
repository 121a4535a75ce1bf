//! Steps of loggers on a waiter's thread. A lone waiter steps the loggers itself, because two hand-overs between
//! threads cost as much as half a sync. The first waiter of an epoch does the same while a logger's thread works on its
//! files. A waiter registers before it steps, and is unbound (E1).
//!
//! Invariants: a lone waiter never waits for a logger's lock, and wakes the loggers if work remains. A panic inside a
//! step ends there: the log is poisoned, and the waiter gets the poison as an error. A poll of a future never steps.
//!
//! Neighbours: `durable_epoch` calls for a waiting thread; `waiters` recognizes a lone waiter; `logger` takes the step.

use std::panic::{AssertUnwindSafe, catch_unwind};

use ensile_base::Epoch;
use ensile_base::sync::sleep;

use super::logger::RETRY_WAIT;
use super::open_log::Log;

impl Log {
    /// Steps the loggers on the thread of a lone registered waiter, until `epoch` is durable. False if `epoch` is not
    /// durable afterwards: the caller then wakes the loggers.
    pub(super) fn step_as_waiter(&self, epoch: Epoch) -> bool {
        // The entries of a later log may need a mark in an earlier log (L3), so several logs get two rounds.
        debug_assert!(epoch <= self.epochs.now(), "a result of an epoch that has not begun");
        for _ in 0..self.loggers.len().min(2) {
            for logger in &self.loggers {
                self.stopping_on_panic(|| logger.step_of_waiter(self));
                if self.is_answered(epoch) {
                    return true;
                }
            }
        }
        false
    }

    /// Steps for the loggers whose threads work on files, until `epoch` is durable or the threads are back. A waiter
    /// calls after the wake-up of the loggers.
    pub(super) fn step_for_busy_loggers(&self, epoch: Epoch) {
        for logger in &self.loggers {
            while logger.is_busy_with_files() && !self.is_answered(epoch) {
                if !self.stopping_on_panic(|| logger.step_for_epoch(self, epoch)) {
                    break;
                }
                if !self.is_answered(epoch) {
                    // A commit is ending, or the epoch is too short yet.
                    sleep(RETRY_WAIT);
                }
            }
        }
    }

    /// True if a waiter for `epoch` has an answer: `epoch` is durable, or the log has ended.
    fn is_answered(&self, epoch: Epoch) -> bool {
        self.waiters.durable() >= epoch || self.waiters.has_ended()
    }

    /// Runs `step` and returns its result. A panic of the step ends here and stops the log, because the state may be
    /// half changed; the result is then false. If the calling thread already unwinds, no lock is marked as poisoned, so
    /// the step's own guards may have missed the panic.
    /// The steps of waiters run in it, and `logger`'s step for a worker that waits for a buffer.
    pub(super) fn stopping_on_panic(&self, step: impl FnOnce() -> bool) -> bool {
        catch_unwind(AssertUnwindSafe(step)).unwrap_or_else(|_| {
            self.poison("a step panicked on a waiter's thread");
            false
        })
    }
}
