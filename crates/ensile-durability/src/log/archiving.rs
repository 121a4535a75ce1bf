//! Closed log files on their way into the archive, soon after they are closed and before they are removed.
//!
//! A checkpointer takes the steps: neither a commit nor a logger waits for the archive. A clean close archives the last
//! file of each log too, so that nothing is missing; behind a crash the next open does.
//!
//! Invariants:
//! - A1: a log's files are archived in their order.
//! - What fails is tried again after a pause, for ever: the log is kept meanwhile.
//!
//! Neighbours: the checkpoints call the step; the store has the archive; `removal` archives what has to go.

use std::sync::Arc;

use ensile_base::sync::Ordering;

use super::Log;
use crate::DurabilityError;
use crate::store::archive::Archive;
use crate::store::closed_files::{ClosedFile, ClosedFiles};

/// Between two attempts to write an archive that could not be written.
pub(crate) const ARCHIVE_PAUSE_NANOS: u64 = 1_000_000_000;

impl Log {
    /// Archives one closed file that is not archived yet. False if there is none, or the archive could not be written a
    /// moment ago.
    pub(crate) fn archive_step(&self) -> bool {
        let Some(archive) = self.store.archive() else { return false };
        let now = self.clock.nanos();
        // Relaxed, both: the step's own thread reads it again.
        if now < self.archive_not_before.load(Ordering::Relaxed) || self.waiters.has_ended() {
            return false;
        }
        self.archive_one(archive).unwrap_or_else(|_| {
            // The archive has kept why.
            self.archive_not_before.store(now.saturating_add(ARCHIVE_PAUSE_NANOS), Ordering::Relaxed);
            false
        })
    }

    /// Archives the oldest file of the first log that has one left.
    fn archive_one(&self, archive: &Archive) -> Result<bool, DurabilityError> {
        if self.unarchived().0 == 0 {
            return Ok(false);
        }
        self.store.note_in_archive()?;
        for files in self.closed_files() {
            if files.archive_next(archive)?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The files that may be archived and removed, those of closed generations first.
    fn closed_files(&self) -> impl Iterator<Item = &ClosedFiles> {
        let own = self.loggers.iter().map(|logger| &logger.closed);
        std::iter::once(self.store.older()).chain(own)
    }

    /// The log files that get no more blocks, those of closed generations first.
    pub(crate) fn closed_list(&self) -> Vec<ClosedFile> {
        let files: Vec<ClosedFile> = self.closed_files().flat_map(ClosedFiles::all).collect();
        assert!(files.iter().all(|file| file.bytes > 0), "a closed file has its opening block");
        files
    }

    /// How many closed files are not archived, and their bytes; none without an archive.
    pub(super) fn unarchived(&self) -> (u64, u64) {
        if self.store.archive().is_none() {
            return (0, 0);
        }
        self.closed_files()
            .map(ClosedFiles::unarchived_figures)
            .fold((0, 0), |all, one| (all.0 + one.0, all.1 + one.1))
    }

    /// Archives all that is left: the log is closed, and everything in it is durable. What fails is left to the next
    /// open.
    pub(super) fn archive_rest(&self) {
        let Some(archive) = self.store.archive() else { return };
        let last = || -> Result<(), DurabilityError> {
            self.store.note_in_archive()?;
            while self.archive_one(archive)? {}
            for logger in &self.loggers {
                logger.last_file().map_or(Ok(false), |last| archive.keep(&last))?;
            }
            Ok(())
        };
        // The archive has kept why.
        let _ = last();
    }

    /// Why the archive could not be written, since it last could; `None` without one.
    #[must_use]
    pub fn archive_error(&self) -> Option<Arc<str>> {
        if self.store.is_forked() {
            return None;
        }
        self.store.archive()?.last_error()
    }
}
