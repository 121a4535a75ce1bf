//! A waiter that waits alone steps the loggers itself: two hand-overs between threads cost as much as half a sync. So
//! does the first waiter of an epoch while a logger's thread is at its files.
//!
//! Invariants:
//! - A waiter registers before it steps, so that any other step that makes its epoch durable releases it as well.
//! - E1: a thread that waits is unbound; its own commit does not hold back the claim.
//! - A waiter that is alone never waits for a logger's lock, and leaves it to every thread that does. What it cannot
//!   finish it leaves to the loggers, which it wakes then.
//! - A panic inside a step ends there: the log is poisoned, and the waiter gets that as an error.
//!
//! Neighbours: `waiters` says who is alone; `logger` takes the step. Futures never come here: a poll does not sync.

use std::panic::{AssertUnwindSafe, catch_unwind};

use ensile_base::Epoch;
use ensile_base::sync::sleep;

use super::Log;
use super::logger::RETRY_WAIT;

impl Log {
    /// Steps every logger whose mark `epoch` may lack, on the calling thread, which is registered as a waiter. False if
    /// `epoch` is not durable by then: the loggers are to be woken.
    pub(super) fn step_as_waiter(&self, epoch: Epoch) -> bool {
        // A later log's entries may ask for a mark in an earlier one (L3), so several logs get two rounds.
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

    /// After the loggers were woken: steps for those whose threads are at their files, until `epoch` is durable or they
    /// are back.
    pub(super) fn step_for_those_away(&self, epoch: Epoch) {
        for logger in &self.loggers {
            while logger.is_away() && !self.is_answered(epoch) {
                if !self.stopping_on_panic(|| logger.step_of_leader(self, epoch)) {
                    break;
                }
                if !self.is_answered(epoch) {
                    // A commit is ending, or the epoch is too short yet.
                    sleep(RETRY_WAIT);
                }
            }
        }
    }

    fn is_answered(&self, epoch: Epoch) -> bool {
        self.waiters.durable() >= epoch || self.waiters.has_ended()
    }

    /// Takes a step whose panic ends here and stops the log: what it leaves may be half changed. On a thread that
    /// unwinds already no lock is marked, so the step's own guards may have missed it.
    pub(super) fn stopping_on_panic(&self, step: impl FnOnce() -> bool) -> bool {
        catch_unwind(AssertUnwindSafe(step)).unwrap_or_else(|_| {
            self.poison("a step panicked on a waiter's thread");
            false
        })
    }
}
