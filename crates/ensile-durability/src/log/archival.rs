//! Archiving of closed log files, soon after the close of a file and before its removal. A checkpointer takes the
//! steps. A clean close also archives the last file of each log; after a crash the next open does the same.
//!
//! Invariants: A1. A failed attempt is repeated after a pause, without limit: the log is kept meanwhile.
//!
//! Neighbours: a checkpointer calls the step; `store::archive` copies a file; `removal` archives files before their
//! removal. The shipper asks for the list of closed files.

use std::sync::Arc;

use ensile_base::sync::Ordering;

use super::open_log::Log;
use crate::DurabilityError;
use crate::store::archive::Archive;
use crate::store::closed_files::{ClosedFile, ClosedFiles};

/// Pause after a failed write of the archive.
pub(crate) const ARCHIVE_PAUSE_NANOS: u64 = 1_000_000_000;

impl Log {
    /// Archives one unarchived closed file. A checkpointer calls in each step. False if every file is archived, or
    /// during the pause after a failed write of the archive.
    pub(crate) fn archive_step(&self) -> bool {
        let Some(archive) = self.store.archive() else { return false };
        let now = self.clock.nanos();
        // Relaxed, both: the step's own thread reads it again.
        if now < self.archive_not_before.load(Ordering::Relaxed) || self.waiters.has_ended() {
            return false;
        }
        self.archive_one(archive).unwrap_or_else(|_| {
            // The archive has recorded the reason.
            self.archive_not_before.store(now.saturating_add(ARCHIVE_PAUSE_NANOS), Ordering::Relaxed);
            false
        })
    }

    /// Archives the oldest unarchived file of the first log with such a file. False without such a file.
    fn archive_one(&self, archive: &Archive) -> Result<bool, DurabilityError> {
        if self.unarchived_figures().0 == 0 {
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

    /// The files that may be archived and removed, first the files of closed generations.
    fn closed_files(&self) -> impl Iterator<Item = &ClosedFiles> {
        let own = self.loggers.iter().map(|logger| &logger.closed);
        std::iter::once(self.store.older()).chain(own)
    }

    /// The log files that get no further blocks, first the files of closed generations. The shipper ships these files.
    pub(crate) fn closed_list(&self) -> Vec<ClosedFile> {
        let files: Vec<ClosedFile> = self.closed_files().flat_map(ClosedFiles::all_files).collect();
        assert!(files.iter().all(|file| file.bytes > 0), "a closed file has its opening block");
        files
    }

    /// Number of unarchived closed files, and their bytes; zeros without an archive.
    pub(super) fn unarchived_figures(&self) -> (u64, u64) {
        if self.store.archive().is_none() {
            return (0, 0);
        }
        self.closed_files()
            .map(ClosedFiles::unarchived_figures)
            .fold((0, 0), |all, one| (all.0 + one.0, all.1 + one.1))
    }

    /// Archives all remaining files, the last file of each log included, at the end of a close. All entries are durable
    /// by then. The next open repeats failed work.
    pub(super) fn archive_rest(&self) {
        let Some(archive) = self.store.archive() else { return };
        let last = || -> Result<(), DurabilityError> {
            self.store.note_in_archive()?;
            while self.archive_one(archive)? {}
            for logger in &self.loggers {
                logger.last_file().map_or(Ok(false), |last| archive.archive_file(&last))?;
            }
            Ok(())
        };
        // The archive has recorded the reason.
        let _ = last();
    }

    /// Reason of the archive's failures since its last success; `None` without an archive.
    #[must_use]
    pub fn archive_error(&self) -> Option<Arc<str>> {
        if self.store.is_forked() {
            return None;
        }
        self.store.archive()?.last_error()
    }
}
