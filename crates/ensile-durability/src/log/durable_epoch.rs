//! The durable epoch, and the ways to wait for an epoch: by a thread, or as a future.
//!
//! Neighbours: `marks` computes D; `waiters` keeps slots and wakers; `inline_step` steps for a thread that waits alone.
//! Receipts wait here, checkpoints ask for marks, and the shipper waits before a shipment on demand.

use std::pin::Pin;
use std::sync::Arc as StdArc;
use std::task::{Context, Poll};

use ensile_base::Epoch;

use super::marks::Frontier;
use super::open_log::Log;
use crate::DurabilityError;

impl Log {
    /// The durable epoch D: all commits of epochs up to D survive a crash.
    #[inline]
    #[must_use]
    pub fn durable_epoch(&self) -> Epoch {
        self.waiters.durable()
    }

    /// Asks for synced marks of `epoch` in every log, with or without entries: a recovery will find at least this D
    /// (K1). A checkpoint calls repeatedly before its installation. True once the marks are synced.
    pub(crate) fn request_marks(&self, epoch: Epoch) -> bool {
        // Without a log, a recovery finds only the D of the picture itself.
        if !self.has_loggers() || self.marks.of_all(Frontier::Synced) >= epoch {
            return true;
        }
        assert!(epoch <= self.epochs.now(), "marks of {epoch}, which has not begun, are never written");
        self.marks.ask(epoch);
        self.wake_loggers();
        false
    }

    /// True if a caller has waited for an epoch that is not durable yet. The caller may have gone since.
    pub(crate) fn awaits_log(&self) -> bool {
        self.has_loggers() && self.waiters.wanted_epoch() > self.durable_epoch()
    }

    /// Blocks until `epoch` is durable. A caller that waits alone takes the loggers' steps itself. Without loggers the
    /// caller asks for a picture, and all waiting callers share the picture. Do not call inside a step.
    ///
    /// # Errors
    /// [`DurabilityError::OutcomeUnknown`] if the log was poisoned before `epoch` was durable;
    /// [`DurabilityError::NotDurableYet`] if the disk was full for `LogConfig::full_wait` meanwhile, or, without
    /// loggers, if a picture failed.
    pub fn wait_durable(&self, epoch: Epoch) -> Result<(), DurabilityError> {
        self.store.check_process()?;
        let begin = |alone: bool| {
            if !self.has_loggers() {
                self.picture_wanted.wake();
            } else if !alone || !self.step_as_waiter(epoch) {
                self.wake_loggers();
                self.step_for_busy_loggers(epoch);
            }
        };
        let answer = self.waiters.wait(epoch, || self.clock.nanos(), begin);
        debug_assert!(answer.is_err() || self.durable_epoch() >= epoch, "released before it is durable (R1)");
        answer
    }

    /// Calls the wakers kept by workers that stepped while waiting for space
    /// ([`Appender::step_while_waiting`](super::Appender::step_while_waiting)). The calling thread must hold no lock.
    pub fn wake_kept(&self) {
        if !self.store.is_forked() {
            self.waiters.wake_kept();
        }
    }

    /// Returns a future that does as [`Log::wait_durable`].
    pub fn durable(self: &StdArc<Self>, epoch: Epoch) -> Durable {
        Durable { log: StdArc::clone(self), epoch, slot: None }
    }

    /// Computes D from the marks of all logs, announces D, and wakes its waiters. A logger calls after a step, and a
    /// checkpoint after an installation. The calling thread holds no lock.
    pub(crate) fn announce(&self) {
        let reached = || {
            let reached = self.marks.announceable_epoch(Frontier::Synced);
            assert!(reached < self.epochs.now(), "D of {reached} is an epoch that has not ended");
            reached
        };
        self.waiters.announce(reached);
    }
}

/// Ready once an epoch is durable, or an error is known: see [`Log::wait_durable`]. The future holds one slot among the
/// log's waiters, with the waker of its last poll, and gives the slot back on drop.
#[derive(Debug)]
#[must_use = "a future waits when it is awaited"]
pub struct Durable {
    pub(super) log: StdArc<Log>,
    pub(super) epoch: Epoch,
    pub(super) slot: Option<u64>,
}

impl Future for Durable {
    type Output = Result<(), DurabilityError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { log, epoch, slot } = &mut *self;
        if let Err(forked) = log.store.check_process() {
            return Poll::Ready(Err(forked));
        }
        let (answer, tell) = log.waiters.poll(*epoch, slot, context.waker(), log.clock.nanos());
        if tell && log.has_loggers() {
            log.wake_loggers();
        } else if tell {
            log.picture_wanted.wake();
        }
        debug_assert!(answer.is_some() != slot.is_some(), "a future waits or is answered");
        answer.map_or(Poll::Pending, Poll::Ready)
    }
}

impl Drop for Durable {
    fn drop(&mut self) {
        // I4: in a forked child the list may be locked for ever.
        if let Some(slot) = self.slot
            && !self.log.store.is_forked()
        {
            self.log.waiters.give_back(self.epoch, slot);
        }
    }
}
