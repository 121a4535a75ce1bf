//! The end of a log: everything that was appended is made durable, the last marks are written, unused space is given
//! back.
//!
//! Invariants:
//! - L5: the last marks show the D that the ones before them made; the hint is written behind them.
//! - L6: a close needs one epoch more. Where none is reserved it reserves a few, or says so.
//!
//! Neighbours: `logger` writes the marks; `refusing` refuses workers' entries meanwhile.

use std::time::Duration;

use ensile_base::limits::EPOCH_MICROS_MIN;
use ensile_base::sync::sleep;
use ensile_disk::DiskError;
use ensile_epoch::Advance;

use super::Log;
use super::logger::Logger;
use super::marks::Frontier;
use super::waiters::LogEnd;
use crate::DurabilityError;
use crate::call_backs::{LogAddress, UnderLock, WaitLeave, is_awaited, leave_to_wait};
use crate::store::manifest::Manifest;
use crate::store::mapped;

impl Log {
    /// Refuses further entries, makes everything appended durable, and gives unused space back. The caller has ended
    /// its workers' commits before; logger threads may still run, and find
    /// [`LoggerStep::Stopped`](super::LoggerStep::Stopped) afterwards. A second call does nothing.
    ///
    /// # Errors
    /// [`DurabilityError::OutcomeUnknown`] when the log was, or is now, poisoned.
    pub fn close(&self) -> Result<(), DurabilityError> {
        self.store.check_process()?;
        let closed = self.make_durable_and_stop();
        // A logger that was writing when another one poisoned the log still is.
        self.loggers.iter().for_each(Logger::wait_for_step);
        if closed.is_ok() {
            self.archive_rest();
            self.remove_buffers();
        }
        // A thread that still has an appender keeps this log, but nothing writes any more once a step that reserves
        // epochs has ended: the folder is free.
        self.store.release();
        closed
    }

    /// Everything is durable: no mapped buffer has what the log lacks. They go once the manifest does not ask for them
    /// (B4). What stays goes at the next open.
    fn remove_buffers(&self) {
        assert!(self.waiters.has_ended(), "B3: nothing is appended any more");
        let mut keeper = self.store.manifest();
        if keeper.manifest().mapped.is_none() {
            return;
        }
        let closed = Manifest { mapped: None, ..keeper.manifest().clone() };
        if keeper.replace(closed).is_err() {
            return;
        }
        for logger in 0..self.loggers.len() as u32 {
            let _ = mapped::remove(&**self.store.disk(), logger, keeper.manifest(), |_| true);
        }
    }

    fn make_durable_and_stop(&self) -> Result<(), DurabilityError> {
        self.refuse(|refusal| refusal.stopped = true);
        if !self.has_loggers() {
            return self.end_without_loggers();
        }
        self.use_kept_epochs();
        let target = self.epochs.now();
        assert!(self.refuses(), "no entry comes while the log is closed");
        while self.durable_epoch() < target {
            match self.waiters.how_ended() {
                Some(end) => return end.of_close(),
                None => {
                    let advanced = self.step_towards_close();
                    let is_stuck = advanced == Advance::AtLimit && self.epochs.now() <= target;
                    if let Some(why) = is_stuck.then(|| self.reserve_for_close()).flatten() {
                        let durable = self.durable_epoch();
                        return Err(self.poison(&format!(
                            "closed without epochs to reserve, durable up to epoch {durable} and not beyond: {why}"
                        )));
                    }
                }
            }
            if let Some(reason) = self.full_reason() {
                // What is kept for such a moment may do.
                if self.give_up_reserve() {
                    continue;
                }
                let durable = self.durable_epoch();
                let reason =
                    format!("closed on a full disk, durable up to epoch {durable} and not beyond: {reason}");
                return Err(self.poison(&reason));
            }
        }
        self.loggers.iter().for_each(|logger| logger.end_next(self));
        // Two rounds: the second carries the D that the first one made, so that later damage to it is seen (L5).
        self.loggers.iter().for_each(|logger| {
            logger.write_last_mark(self, false);
        });
        let unsealed = self.loggers.iter().filter(|logger| !logger.write_last_mark(self, true)).count();
        match self.waiters.how_ended() {
            Some(end) => end.of_close(),
            None => {
                // The seal counts blocks, so it is not for logs that lack one.
                if unsealed == 0 {
                    assert!(self.marks.of_all(Frontier::Synced) >= target || self.marks.high() <= target);
                    let blocks: Vec<u64> = self.loggers.iter().map(Logger::blocks).collect();
                    assert!(blocks.iter().all(|blocks| *blocks > 0), "a log has its opening block");
                    let ended = self.epochs.stop();
                    self.store.close_hint(self.marks.of_all(Frontier::Synced), blocks, ended);
                }
                self.end(LogEnd::Closed);
                // The next open may need it; without it that one begins as well as it can.
                let _ = self.store.reserve().make();
                Ok(())
            }
        }
    }

    /// End of the log by a failed call. In a removed folder a call may fail before a sync finds the removal (L9).
    pub(super) fn end_of(&self, error: &DiskError) -> LogEnd {
        LogEnd::of(self.removed().as_ref().unwrap_or(error))
    }

    /// Error of a removed folder.
    fn removed(&self) -> Option<DiskError> {
        debug_assert!(self.marks.high() <= self.epochs.now(), "no entry is of a later epoch");
        let named = self.store.check_named(self.loggers.len());
        named.err().filter(|error| matches!(error, DiskError::Removed { .. }))
    }

    /// Stops the log for good after a failed write or sync, because the contents of the disk are not known any more.
    pub(crate) fn poison(&self, reason: &str) -> DurabilityError {
        debug_assert!(!reason.is_empty(), "a log is stopped for a reason");
        self.end(
            self.removed().map_or_else(|| LogEnd::Poisoned(reason.into()), |removed| LogEnd::of(&removed)),
        );
        self.waiters
            .how_ended()
            .map_or_else(|| DurabilityError::OutcomeUnknown(reason.into()), |end| end.of_result())
    }

    /// Whether this thread is in a waker that this log calls. A close that is under way may wait for this thread then,
    /// so that no second one may wait for the first.
    #[must_use]
    pub fn is_in_waker(&self) -> bool {
        self.waiters.is_waking()
    }

    /// Whether this thread is in code that a checkpoint of this log waits for, and so a close: in a checkpoint's step,
    /// or [under a lock](Self::under_lock).
    #[must_use]
    pub fn is_awaited(&self) -> bool {
        is_awaited(self.address())
    }

    /// Until it is dropped this thread runs the application's code under the lock of an object that a checkpoint takes.
    #[inline]
    #[must_use = "it lasts as long as the lock"]
    pub fn under_lock(&self) -> UnderLock {
        let under_lock = UnderLock::begin(self.address());
        debug_assert!(self.is_awaited(), "O8: a close in it sees that");
        under_lock
    }

    /// Leave to close this log on this thread, until it is dropped: code of another log may wait for the close.
    ///
    /// # Errors
    /// [`DurabilityError::InCallBack`]: the close would wait for code that waits for it, by way of other logs (O8).
    pub fn leave_to_close(&self) -> Result<WaitLeave, DurabilityError> {
        assert!(!self.store.is_forked(), "I4: a forked child closes nothing");
        leave_to_wait(self.address())
    }

    /// Who calls back.
    #[inline]
    pub(crate) fn address(&self) -> LogAddress {
        self.waiters.address()
    }

    /// Stops the log for good as a failed write does, for a thread without which nothing becomes durable.
    pub fn stop(&self, reason: &str) {
        if self.store.is_forked() {
            return;
        }
        self.poison(reason);
    }

    /// Stops the log of a fenced database for good, before it has an entry (H6).
    pub(crate) fn fence(&self, detail: &std::sync::Arc<str>) {
        assert!(self.store.is_forked() || !self.waiters.has_ended(), "it has just begun");
        self.end(LogEnd::Fenced(std::sync::Arc::clone(detail)));
    }

    /// Stops the log for good; a close does it once everything is durable.
    pub(super) fn end(&self, end: LogEnd) {
        let woken = self.waiters.end(end);
        debug_assert!(self.waiters.has_ended());
        self.refuse(|refusal| refusal.stopped = true);
        self.loggers.iter().for_each(Logger::wake_all);
        self.waiters.wake_all(woken);
    }

    fn step_towards_close(&self) -> Advance {
        // A clock that stands still would never let the epoch close; the machine's ignores this.
        self.clock.advance(Duration::from_micros(EPOCH_MICROS_MIN));
        let advanced = self.epochs.try_advance_early(self.clock.nanos());
        self.loggers.iter().for_each(|logger| {
            logger.step(self);
        });
        if !matches!(advanced, Advance::Advanced(_)) {
            sleep(Duration::from_micros(EPOCH_MICROS_MIN / 2));
        }
        advanced
    }
}
