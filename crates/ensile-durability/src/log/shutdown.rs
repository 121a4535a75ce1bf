//! End of a log. A close makes every appended entry durable, writes the last marks, then the hint (L5), and gives back
//! unused space. A close needs one more epoch: without one it reserves a few, or fails and says so (L6). A failure ends
//! the log at once.
//!
//! Neighbours: the engine and objects close their log; `logger` writes the last marks; `admission` refuses the workers'
//! entries.

use std::time::Duration;

use ensile_base::limits::EPOCH_MICROS_MIN;
use ensile_base::sync::sleep;
use ensile_disk::DiskError;
use ensile_epoch::Advance;

use super::logger::Logger;
use super::marks::Frontier;
use super::open_log::Log;
use super::waiters::LogEnd;
use crate::DurabilityError;
use crate::files::manifest::Manifest;
use crate::reentrancy::{LogAddress, OutermostUserCode, WaitPermit, is_awaited, permit_wait};
use crate::store::mapped_buffers;

impl Log {
    /// Refuses further entries, makes every appended entry durable, and gives back unused space. The caller ends the
    /// commits of its workers first. Logger threads may still run, and get
    /// [`LoggerStep::Stopped`](super::LoggerStep::Stopped) afterwards. A second call does nothing.
    ///
    /// # Errors
    /// [`DurabilityError::OutcomeUnknown`] if the log was poisoned before or during the call;
    /// [`DurabilityError::Removed`] if the folder was removed; [`DurabilityError::Forked`].
    pub fn close(&self) -> Result<(), DurabilityError> {
        self.store.check_process()?;
        let closed = self.make_durable_and_stop();
        // A logger may still be writing after another logger has poisoned the log.
        self.loggers.iter().for_each(Logger::wait_for_step);
        if closed.is_ok() {
            self.archive_rest();
            self.remove_buffers();
        }
        // A thread with an appender may keep this log alive, but no thread writes any more once a running reservation
        // of epochs has ended. So the folder is free.
        self.store.release();
        closed
    }

    /// Removes the mapped buffers. Everything is durable, so no mapped buffer has an entry that the log lacks. The
    /// manifest stops asking for the buffers first (B4). The next open removes any buffer left here.
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
            let _ = mapped_buffers::remove(&**self.store.disk(), logger, keeper.manifest(), |_| true);
        }
    }

    /// Closes the log except for its files and folders: refuses entries, waits for D, and writes the last marks and the
    /// hint.
    fn make_durable_and_stop(&self) -> Result<(), DurabilityError> {
        self.refuse(|refusal| refusal.stopped = true);
        // The close may need the space, and nobody frees pieces after the close.
        self.store.returned_space().free_all();
        if !self.has_loggers() {
            return self.end_without_loggers();
        }
        self.use_kept_epochs();
        let target = self.epochs.now();
        assert!(self.refuses(), "no entry comes while the log is closed");
        while self.durable_epoch() < target {
            if let Some(end) = self.waiters.how_ended() {
                return end.of_close();
            }
            let advanced = self.step_towards_close();
            let is_stuck = advanced == Advance::AtLimit && self.epochs.now() <= target;
            if let Some(why) = is_stuck.then(|| self.reserve_for_close()).flatten() {
                let durable = self.durable_epoch();
                return Err(self.poison(&format!(
                    "closed without epochs to reserve, durable up to epoch {durable} and not beyond: {why}"
                )));
            }
            if let Some(reason) = self.full_reason() {
                // The space of the reserve file may suffice.
                if self.give_up_reserve() {
                    continue;
                }
                let durable = self.durable_epoch();
                return Err(self.poison(&format!(
                    "closed on a full disk, durable up to epoch {durable} and not beyond: {reason}"
                )));
            }
        }
        self.loggers.iter().for_each(|logger| logger.end_next(self));
        // L5: two rounds. The marks of the second round carry the D of the first round, so a later damage to the first
        // marks is detected.
        self.loggers.iter().for_each(|logger| {
            logger.write_last_mark(self, false);
        });
        let unsealed = self.loggers.iter().filter(|logger| !logger.write_last_mark(self, true)).count();
        if let Some(end) = self.waiters.how_ended() {
            return end.of_close();
        }
        // The hint counts the blocks of each log, so the hint is omitted if a log lacks its last mark.
        if unsealed == 0 {
            assert!(self.marks.of_all(Frontier::Synced) >= target || self.marks.high() <= target);
            let blocks: Vec<u64> = self.loggers.iter().map(Logger::blocks).collect();
            assert!(blocks.iter().all(|blocks| *blocks > 0), "a log has its opening block");
            self.close_hint(blocks);
        }
        self.end_closed();
        Ok(())
    }

    /// Stops E, and writes the last hint, with the number of blocks of each log.
    pub(super) fn close_hint(&self, blocks: Vec<u64>) {
        let ended = self.epochs.stop();
        self.store.close_hint(self.marks.of_all(Frontier::Synced), blocks, ended);
    }

    /// Ends a log whose entries are durable. The next open may need the reserve file, and begins without it otherwise.
    pub(super) fn end_closed(&self) {
        self.end(LogEnd::Closed);
        let _ = self.store.reserve().make();
    }

    /// Reason of the log's end after a failed call of the disk. In a removed folder, a call may fail before a sync
    /// detects the removal (L9).
    pub(super) fn end_of(&self, error: &DiskError) -> LogEnd {
        LogEnd::from_disk_error(self.removal_error().as_ref().unwrap_or(error))
    }

    /// Error of a removed folder; `None` if no removal is found.
    fn removal_error(&self) -> Option<DiskError> {
        debug_assert!(self.marks.high() <= self.epochs.now(), "no entry is of a later epoch");
        let named = self.store.check_named(self.loggers.len());
        named.err().filter(|error| matches!(error, DiskError::Removed { .. }))
    }

    /// Stops the log for good after a failed write or sync, because the contents of the disk are not known any more.
    /// Returns the error of a result that was not durable before.
    pub(crate) fn poison(&self, reason: &str) -> DurabilityError {
        debug_assert!(!reason.is_empty(), "a log is stopped for a reason");
        let removal = self.removal_error().map(|removed| LogEnd::from_disk_error(&removed));
        self.end(removal.unwrap_or_else(|| LogEnd::Poisoned(reason.into())));
        let ended = self.waiters.how_ended().map(|end| end.of_result());
        ended.unwrap_or_else(|| DurabilityError::OutcomeUnknown(reason.into()))
    }

    /// True if this thread is in a waker that this log calls. A running close may wait for this thread, so a second
    /// close on this thread must not wait for the running close.
    #[must_use]
    pub fn is_in_waker(&self) -> bool {
        self.waiters.is_waking()
    }

    /// True if this thread runs code for which a checkpoint of this log waits, and therefore a close: a step of a
    /// checkpoint, or [user code](Self::user_code).
    #[must_use]
    pub fn is_awaited(&self) -> bool {
        is_awaited(self.address())
    }

    /// Marks this thread as running user code of this log's objects, perhaps under the lock of an object, until the
    /// mark is dropped. The thread is [outside user code](crate::UserCode::check_outside).
    #[inline]
    pub fn user_code(&self) -> OutermostUserCode {
        let user_code = OutermostUserCode::begin(self.address());
        debug_assert!(self.is_awaited(), "O8: a close in it sees that");
        user_code
    }

    /// Permission to close this log on this thread, until the permission is dropped. Code of another log may wait for
    /// the close.
    ///
    /// # Errors
    /// [`DurabilityError::InCallBack`]: the close would wait for code that waits for the close, by way of other logs
    /// (O8).
    pub fn permit_close(&self) -> Result<WaitPermit, DurabilityError> {
        assert!(!self.store.is_forked(), "I4: a forked child closes nothing");
        permit_wait(self.address())
    }

    /// Address of this log, as the source of call-backs.
    #[inline]
    pub(crate) fn address(&self) -> LogAddress {
        self.waiters.address()
    }

    /// Stops the log for good, as a failed write does. Used after a panic of a thread that durability needs, after a
    /// drop of the last handle in a call-back, and after a fence.
    pub fn stop(&self, reason: &str) {
        if self.store.is_forked() {
            return;
        }
        self.poison(reason);
    }

    /// Stops the log of a fenced database for good, before the log has an entry (H6).
    pub(crate) fn fence(&self, detail: &std::sync::Arc<str>) {
        assert!(self.store.is_forked() || !self.waiters.has_ended(), "it has just begun");
        self.end(LogEnd::Fenced(std::sync::Arc::clone(detail)));
    }

    /// Stops the log for good: D stands still, workers are refused, and waiters get their answer. A close calls `end`
    /// once everything is durable.
    pub(super) fn end(&self, end: LogEnd) {
        let woken = self.waiters.end(end);
        debug_assert!(self.waiters.has_ended());
        self.refuse(|refusal| refusal.stopped = true);
        self.loggers.iter().for_each(Logger::wake_all);
        self.waiters.wake_all(woken);
        self.wake_for_space();
    }

    /// Closes the current epoch and steps every logger once, on the closing thread. Returns the outcome of the attempt
    /// to close the epoch.
    fn step_towards_close(&self) -> Advance {
        // A manual clock that stands still would never let the epoch close. The machine's clock ignores the call.
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
