//! The last marks of a log at its close.
//!
//! Invariant: L5: the last mark carries the D that the marks before it made durable.
//!
//! Neighbours: `shutdown` calls this module once nothing more is appended; `segments` writes the marks.

use ensile_disk::DiskError;

use super::{Logger, Writer, stop};
use crate::log::marks::Frontier;
use crate::log::open_log::Log;

impl Logger {
    /// Number of blocks of this log, for the hint of a close. Must be called between steps; 0 after a panic of a step.
    pub(in crate::log) fn blocks(&self) -> u64 {
        self.writer.lock_unless_panicked().map_or(0, |writer| writer.segments.blocks())
    }

    /// Writes and syncs a mark of the whole claim, at close. The `last` mark also gives back the unused space. False if
    /// the mark was not written. Everything is durable without the mark, so a full disk is no failure.
    pub(in crate::log) fn write_last_mark(&self, log: &Log, last: bool) -> bool {
        let Some(mut writer) = self.lock_writer(log) else { return false };
        if writer.steps.is_closed() || log.waiters.has_ended() {
            return false;
        }
        match self.end_with_mark(log, &mut writer, last) {
            Ok(stands) => stands,
            Err(error) => stop(log, writer, &error),
        }
    }

    fn end_with_mark(&self, log: &Log, writer: &mut Writer, last: bool) -> Result<bool, DiskError> {
        let claim = log.marks.frontier_epoch(self.index, Frontier::Appended);
        writer.segments.mark(claim, log.marks.of_all(Frontier::Synced));
        assert!(!writer.steps.is_closed(), "the last mark is written once");
        if last {
            writer.steps.close();
        }
        match writer.segments.flush(|_| {}) {
            // A mark of the first round is held, and is written in the second round.
            Err(error) if error.is_full() => return Ok(false),
            flushed => flushed?,
        }
        log.marks.advance(self.index, Frontier::Written, claim);
        writer.segments.sync()?;
        log.store.check_named(log.loggers.len())?;
        log.marks.advance(self.index, Frontier::Synced, claim);
        if last {
            writer.segments.trim()?;
        }
        Ok(true)
    }
}
