//! The removal of log files that a checkpoint covers.
//!
//! Invariants:
//! - K1: oldest first, and only files whose entries all have epochs below what is covered.
//! - I3: not while a reader holds a lease, up to a stated limit.
//!
//! Neighbours: asked for by the checkpoints; `store::leases` says when it may be.

use std::collections::BTreeSet;

use ensile_base::Epoch;
use ensile_disk::DiskError;

use super::Log;
use super::logger::Logger;
use super::marks::Frontier;
use super::segments::ClosedFile;
use crate::DurabilityError;
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
    /// the generations before this one. While a reader holds a lease nothing is removed, and a later call tries again
    /// (I3).
    ///
    /// # Errors
    /// The disk's, when a file cannot be removed: it and those behind it stay, and a later call tries again.
    pub fn remove_files_below(&self, covered: Epoch) -> Result<Removed, DurabilityError> {
        self.check_process()?;
        match self.ask_leases()? {
            Some(clearance) => self.remove_cleared_below(covered, &clearance),
            None => Ok(Removed::default()),
        }
    }

    /// May covered files be removed now (I3)? `None`: not before a lease has ended.
    pub(crate) fn ask_leases(&self) -> Result<Option<Clearance>, DiskError> {
        self.leases.ask(&*self.disk, self.clock.nanos())
    }

    /// As [`Log::remove_files_below`], for a caller that has asked already.
    pub(crate) fn remove_cleared_below(
        &self,
        covered: Epoch,
        _clearance: &Clearance,
    ) -> Result<Removed, DurabilityError> {
        self.check_process()?;
        // Guards no data that a panic could leave half changed.
        let _one = self.removing.lock();
        let synced = self.marks.of_all(Frontier::Synced);
        assert!(covered <= synced.next(), "files of epochs below {covered} go, and {synced} is durable (K1)");
        let mut removed = Removed::default();
        let result = self.remove_files(covered, &mut removed);
        assert!(removed.files > 0 || removed.bytes == 0, "bytes of no file");
        if removed.files > 0 {
            // There is space now.
            self.wake_loggers();
        }
        result.map(|()| removed)
    }

    fn remove_files(&self, covered: Epoch, removed: &mut Removed) -> Result<(), DurabilityError> {
        self.remove_older_files(covered, removed)?;
        for (index, logger) in self.loggers.iter().enumerate() {
            let before = removed.files;
            let result = self.remove_files_of(logger, covered, removed);
            if removed.files > before {
                self.disk.sync_folder(&log_folder(index as u32))?;
            }
            result?;
        }
        Ok(())
    }

    /// Files of closed generations have no order to keep: their logs are off the manifest's list.
    fn remove_older_files(&self, covered: Epoch, removed: &mut Removed) -> Result<(), DurabilityError> {
        let mut folders = BTreeSet::new();
        loop {
            let oldest = self.older.lock().front().filter(|file| file.largest < covered).cloned();
            let Some(oldest) = oldest else { break };
            self.remove_file(&oldest)?;
            let popped = self.older.lock().pop_front();
            assert_eq!(popped.as_ref(), Some(&oldest), "one thread at a time removes files");
            folders.insert(oldest.file.name.logger);
            self.note_removed(&oldest, removed);
        }
        folders.into_iter().try_for_each(|logger| Ok(self.disk.sync_folder(&log_folder(logger))?))
    }

    /// Removes a file. One that is gone already was removed by a call that reported a failure.
    fn remove_file(&self, file: &ClosedFile) -> Result<(), DiskError> {
        match self.disk.remove(&file.file.to_string()) {
            Err(error) if error.is_not_found() => Ok(()),
            removed => removed,
        }
    }

    fn note_removed(&self, file: &ClosedFile, removed: &mut Removed) {
        debug_assert!(file.bytes > 0, "a closed file has an opening block");
        removed.files += 1;
        removed.bytes += file.bytes;
        self.counters.files_removed.add(1);
        self.counters.bytes_removed.add(file.bytes);
    }

    fn remove_files_of(
        &self,
        logger: &Logger,
        covered: Epoch,
        removed: &mut Removed,
    ) -> Result<(), DurabilityError> {
        loop {
            // The lock is let go of while the disk works: a logger that begins a new file takes it too.
            let oldest = logger.closed_files().front().filter(|file| file.largest < covered).cloned();
            let Some(oldest) = oldest else { return Ok(()) };
            self.remove_file(&oldest)?;
            let popped = logger.closed_files().pop_front();
            assert_eq!(popped.as_ref(), Some(&oldest), "one thread at a time removes files");
            self.note_removed(&oldest, removed);
        }
    }
}
