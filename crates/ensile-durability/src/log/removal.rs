//! The removal of log files that a checkpoint covers, oldest first, and only of files whose entries all have epochs
//! below the covered epoch (K1).
//!
//! Invariants: I3: no removal while a reader holds a lease, up to a limit. A1: a file is archived first, without a
//! limit. H5: a file is shipped first, up to a limit.
//!
//! Neighbours: a checkpoint asks for a removal after its installation; `store::leases` and `store::ship_retention`
//! permit the removal.

use ensile_base::Epoch;

use super::marks::Frontier;
use super::open_log::Log;
use crate::DurabilityError;
use crate::files::names::log_folder;
use crate::store::closed_files::ClosedFile;
use crate::store::leases::Clearance;

/// Result of a removal of log files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Removed {
    /// Number of removed files.
    pub files: u64,
    /// Bytes of the removed files.
    pub bytes: u64,
}

impl Log {
    /// Removes every closed file whose entries all have epochs below `covered`, oldest first, in all logs. The caller
    /// has made a checkpoint durable that holds the result of all entries below `covered`. The caller has also made a
    /// manifest durable that does not list unneeded generations: files of a closed generation are removed once the
    /// generation is not listed. While a reader holds a lease nothing is removed, and a later call tries again (I3).
    ///
    /// # Errors
    /// The disk's, if a file cannot be removed or archived: this file and later files stay, and a later call tries
    /// again.
    pub fn remove_files_below(&self, covered: Epoch) -> Result<Removed, DurabilityError> {
        self.store.check_process()?;
        match self.store.ask_leases()? {
            Some(clearance) => self.remove_cleared_below(covered, &clearance),
            None => Ok(Removed::default()),
        }
    }

    /// As [`Log::remove_files_below`], for a caller that has already asked for the leases.
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
            // The disk has space now.
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
        for (index, logger) in self.loggers.iter().enumerate() {
            let before = removed.files;
            let mut spaces = Vec::new();
            let note = |file: &ClosedFile, space| {
                self.note_removed(file, removed);
                spaces.extend(space);
            };
            let now = self.clock.nanos();
            let is_kept = |file: &ClosedFile| self.store.hold().keeps(file, now);
            let result = logger.closed.remove_below(&**disk, self.store.archive(), covered, is_kept, note);
            if removed.files > before {
                let folder = log_folder(index as u32);
                disk.sync_folder(&folder)?;
                self.store.returned_space().keep(&**disk, &folder, spaces);
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
