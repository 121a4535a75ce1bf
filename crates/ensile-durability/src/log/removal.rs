//! The removal of log files that a checkpoint covers.
//!
//! Invariants:
//! - K1: oldest first, and only files whose entries all have epochs below what is covered.
//! - I3: not while a reader holds a lease, up to a stated limit.
//! - A1: a file goes once it is in the archive, if there is one. There is no limit: a log is kept for an archive that
//!   cannot be written.
//! - H5: nor before it is shipped, up to a stated limit, where files are.
//!
//! Neighbours: asked for by the checkpoints; the store says when it may be, and has the files of closed generations.

use ensile_base::Epoch;

use super::Log;
use super::marks::Frontier;
use crate::DurabilityError;
use crate::store::closed_files::ClosedFile;
use crate::store::leases::Clearance;
use crate::store::names::log_folder;

/// What a removal of log files did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Removed {
    /// Files.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl Log {
    /// Removes every closed file whose entries all have epochs below `covered`, oldest first, in all logs. The caller
    /// has made a checkpoint durable that holds what entries below `covered` left, and a manifest that does not list
    /// the generations of which nothing is needed any more: files of a closed one go once it is not listed. While a
    /// reader holds a lease nothing is removed, and a later call tries again (I3).
    ///
    /// # Errors
    /// The disk's, when a file cannot be removed, or archived: it and those behind it stay, and a later call tries
    /// again.
    pub fn remove_files_below(&self, covered: Epoch) -> Result<Removed, DurabilityError> {
        self.store.check_process()?;
        match self.store.ask_leases()? {
            Some(clearance) => self.remove_cleared_below(covered, &clearance),
            None => Ok(Removed::default()),
        }
    }

    /// As [`Log::remove_files_below`], for a caller that has asked already.
    pub(crate) fn remove_cleared_below(
        &self,
        covered: Epoch,
        clearance: &Clearance,
    ) -> Result<Removed, DurabilityError> {
        self.store.check_process()?;
        let synced = self.marks.of_all(Frontier::Synced);
        assert!(covered <= synced.next(), "files of epochs below {covered} go, and {synced} is durable (K1)");
        let mut removed = Removed::default();
        let result = self.remove_files(covered, clearance, &mut removed);
        assert!(removed.files > 0 || removed.bytes == 0, "bytes of no file");
        if removed.files > 0 {
            // There is space now.
            self.wake_loggers();
        }
        result.map(|()| removed)
    }

    fn remove_files(
        &self,
        covered: Epoch,
        clearance: &Clearance,
        removed: &mut Removed,
    ) -> Result<(), DurabilityError> {
        if self.store.archive().is_some() {
            self.store.note_in_archive()?;
        }
        self.store.remove_older_below(covered, clearance, |file| self.note_removed(file, removed))?;
        let disk = self.store.disk();
        let from = (&**disk, self.store.archive());
        for (index, logger) in self.loggers.iter().enumerate() {
            let before = removed.files;
            let note = |file: &ClosedFile| self.note_removed(file, removed);
            let now = self.clock.nanos();
            let is_kept = |file: &ClosedFile| self.store.hold().keeps(file, now);
            let result = logger.closed.remove_below(from, covered, is_kept, note);
            if removed.files > before {
                disk.sync_folder(&log_folder(index as u32))?;
            }
            result?;
        }
        Ok(())
    }

    fn note_removed(&self, file: &ClosedFile, removed: &mut Removed) {
        debug_assert!(file.bytes > 0, "a closed file has an opening block");
        removed.files += 1;
        removed.bytes += file.bytes;
        self.counters.files_removed.add(1);
        self.counters.bytes_removed.add(file.bytes);
    }
}
