//! Log files that get no more blocks, and their removal once a checkpoint covers them.
//!
//! A logger keeps those that it has closed, the open store those of closed generations.
//!
//! Invariants:
//! - K1: the first file goes first, and only if all its entries have epochs below what is covered.
//! - A1: where there is an archive, files are archived in the same order, and none goes that is not.
//! - Files are removed from one list by one thread at a time. The list itself is not locked while the disk works: a
//!   logger that begins a new file adds to it.
//!
//! Neighbours: recovery and loggers hand files over; `log::archiving` archives them, `log::removal` removes them.

use std::collections::VecDeque;

use ensile_base::Epoch;
use ensile_base::sync::{AtomicU64, AtomicUsize, Mutex, Ordering};
use ensile_disk::Disk;

use super::archive::Archive;
use super::names::SegmentFile;
use crate::DurabilityError;
use crate::error::unless_missing;

/// A file that gets no more blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClosedFile {
    pub(crate) file: SegmentFile,
    /// The largest epoch of entries in it and in all files of its log before it.
    pub(crate) largest: Epoch,
    pub(crate) bytes: u64,
}

/// Closed files in the order in which they go.
#[derive(Debug, Default)]
pub(crate) struct ClosedFiles {
    /// Only whole elements are added and removed under this lock.
    files: Mutex<VecDeque<ClosedFile>>,
    /// How many of them, from the front on, are archived.
    archived: AtomicUsize,
    /// Largest epoch of entries in the last archived file, and in all files of its log before it; 0 without one.
    archived_largest: AtomicU64,
    /// Held by the thread that archives or removes files. Guards no data that a panic could leave half changed.
    removing: Mutex<()>,
}

impl From<Vec<ClosedFile>> for ClosedFiles {
    fn from(files: Vec<ClosedFile>) -> Self {
        Self { files: Mutex::new(files.into()), ..Self::default() }
    }
}

impl ClosedFiles {
    /// A log has closed one more; the ones before it are older.
    pub(crate) fn push(&self, closed: ClosedFile) {
        let mut files = self.files.lock();
        if let Some(before) = files.back() {
            assert!(before.largest <= closed.largest, "closed files are in the order of their epochs (K1)");
            assert!(before.file.name.number < closed.file.name.number, "and of their numbers");
        }
        files.push_back(closed);
    }

    /// All of them, oldest first.
    pub(crate) fn all(&self) -> Vec<ClosedFile> {
        self.files.lock().iter().cloned().collect()
    }

    /// How many there are, and their bytes.
    pub(crate) fn figures(&self) -> (u64, u64) {
        let files = self.files.lock();
        (files.len() as u64, files.iter().map(|file| file.bytes).sum())
    }

    /// Archives the oldest file that is not archived, and says how long it is; `None` if there is none.
    ///
    /// # Errors
    /// Why it is not archived.
    pub(crate) fn archive_next(&self, archive: &Archive) -> Result<Option<u64>, DurabilityError> {
        let _one = self.removing.lock();
        // Relaxed: it changes under the lock of the removing thread alone, and is a figure elsewhere.
        let archived = self.archived.load(Ordering::Relaxed);
        let next = self.files.lock().get(archived).cloned();
        let Some(next) = next else { return Ok(None) };
        archive.keep(&next)?;
        self.note_archived(&next);
        // Relaxed: it changes under the lock of the removing thread alone.
        self.archived.store(archived + 1, Ordering::Relaxed);
        Ok(Some(next.bytes))
    }

    fn note_archived(&self, file: &ClosedFile) {
        // Relaxed: a figure.
        self.archived_largest.store(file.largest.number(), Ordering::Relaxed);
    }

    /// Largest epoch of entries in the files that were archived since the open; 0 without one.
    pub(crate) fn archived_largest(&self) -> Epoch {
        // Relaxed: a figure.
        Epoch::new(self.archived_largest.load(Ordering::Relaxed))
    }

    /// How many files are not archived, and their bytes.
    pub(crate) fn unarchived_figures(&self) -> (u64, u64) {
        // Relaxed: a figure.
        let archived = self.archived.load(Ordering::Relaxed);
        let files = self.files.lock();
        let waiting = || files.iter().skip(archived);
        (waiting().count() as u64, waiting().map(|file| file.bytes).sum())
    }

    /// Removes every file whose entries all have epochs below `covered`, up to the first that has others, or that is
    /// kept, once it is in the archive, if there is one. `note` is called with each that was removed; their names are
    /// the caller's to sync, after a failure too. A file that is gone already was removed by a call that reported a
    /// failure.
    ///
    /// # Errors
    /// The disk's, and why a file is not archived: that file and those behind it stay.
    pub(crate) fn remove_below(
        &self,
        (disk, archive): (&dyn Disk, Option<&Archive>),
        covered: Epoch,
        is_kept: impl Fn(&ClosedFile) -> bool,
        mut note: impl FnMut(&ClosedFile),
    ) -> Result<(), DurabilityError> {
        let _one = self.removing.lock();
        loop {
            let may_go = |closed: &&ClosedFile| closed.largest < covered && !is_kept(closed);
            let oldest = self.files.lock().front().filter(may_go).cloned();
            let Some(oldest) = oldest else { return Ok(()) };
            // Relaxed: it changes under the lock of the removing thread alone.
            let archived = self.archived.load(Ordering::Relaxed);
            if let Some(archive) = archive.filter(|_| archived == 0) {
                archive.keep(&oldest)?;
                self.note_archived(&oldest);
                // Relaxed: it changes under the lock of the removing thread alone. Before the removal, which may say
                // that it failed and be done.
                self.archived.store(1, Ordering::Relaxed);
            }
            unless_missing(disk.remove(&oldest.file.to_string()))?;
            let popped = self.files.lock().pop_front();
            assert_eq!(popped.as_ref(), Some(&oldest), "one thread at a time removes files");
            // Relaxed: it changes under the lock of the removing thread alone.
            self.archived.store(archived.saturating_sub(1), Ordering::Relaxed);
            note(&oldest);
        }
    }
}
