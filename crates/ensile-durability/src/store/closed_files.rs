//! Closed log files, which get no more blocks, and their removal after a checkpoint covers them, in lists of a log.
//!
//! Invariants:
//! - K1: the oldest file is removed first, and only if all its entries have epochs below the covered epoch.
//! - A1: files are archived in the same order, and each file before its removal.
//! - One thread at a time removes files from a list, without its lock during disk calls: a logger appends to the list.
//!
//! Neighbours: recovery and loggers hand files over; `log::archival` and `log::removal` archive and remove the files;
//! the shipper takes the list from `log::archival`.

use std::collections::VecDeque;

use ensile_base::Epoch;
use ensile_base::sync::{AtomicU64, AtomicUsize, Mutex, Ordering};
use ensile_disk::{Disk, KeptSpace};

use super::archive::Archive;
use crate::Result;
use crate::error::unless_missing;
use crate::files::names::SegmentFile;

/// A log file that gets no more blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClosedFile {
    pub(crate) file: SegmentFile,
    /// Largest epoch of the entries in this file and in all earlier files of its log.
    pub(crate) largest: Epoch,
    pub(crate) bytes: u64,
}

/// Closed files in the order of their removal.
#[derive(Debug, Default)]
pub(crate) struct ClosedFiles {
    /// Files, oldest first. Only whole elements are added and removed under this lock.
    files: Mutex<VecDeque<ClosedFile>>,
    /// Number of archived files, counted from the front of the list.
    archived: AtomicUsize,
    /// Largest epoch of the entries in the last archived file and in all earlier files of its log; 0 without one.
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
    /// Appends a file that its log has just closed. Earlier elements are older files.
    pub(crate) fn push(&self, closed: ClosedFile) {
        let mut files = self.files.lock();
        if let Some(before) = files.back() {
            assert!(before.largest <= closed.largest, "closed files are in the order of their epochs (K1)");
            assert!(before.file.name.number < closed.file.name.number, "and of their numbers");
        }
        files.push_back(closed);
    }

    /// All files, oldest first.
    pub(crate) fn all_files(&self) -> Vec<ClosedFile> {
        self.files.lock().iter().cloned().collect()
    }

    /// Number of files, and the sum of their bytes.
    pub(crate) fn figures(&self) -> (u64, u64) {
        let files = self.files.lock();
        (files.len() as u64, files.iter().map(|file| file.bytes).sum())
    }

    /// Archives the oldest file that is not archived, and returns its length in bytes; `None` if there is none.
    pub(crate) fn archive_next(&self, archive: &Archive) -> Result<Option<u64>> {
        let _one = self.removing.lock();
        // Relaxed: `archived` changes under the `removing` lock only. Elsewhere the number is only reported.
        let archived = self.archived.load(Ordering::Relaxed);
        let next = self.files.lock().get(archived).cloned();
        let Some(next) = next else { return Ok(None) };
        archive.archive_file(&next)?;
        self.note_archived(&next);
        debug_assert!(archived < self.files.lock().len(), "A1: a file is archived before its removal");
        // Relaxed: `archived` changes under the `removing` lock only.
        self.archived.store(archived + 1, Ordering::Relaxed);
        Ok(Some(next.bytes))
    }

    fn note_archived(&self, file: &ClosedFile) {
        // Relaxed: only reported.
        self.archived_largest.store(file.largest.number(), Ordering::Relaxed);
    }

    /// Largest epoch of the entries in the files archived since the open; 0 without an archived file.
    pub(crate) fn archived_largest(&self) -> Epoch {
        // Relaxed: only reported.
        Epoch::new(self.archived_largest.load(Ordering::Relaxed))
    }

    /// Number of files that are not archived, and the sum of their bytes.
    pub(crate) fn unarchived_figures(&self) -> (u64, u64) {
        // Relaxed: only reported.
        let archived = self.archived.load(Ordering::Relaxed);
        let files = self.files.lock();
        let waiting = || files.iter().skip(archived);
        (waiting().count() as u64, waiting().map(|file| file.bytes).sum())
    }

    /// Removes files from the front of the list, up to the first file that has an entry of epoch `covered` or later, or
    /// that is kept. A file is archived before its removal. `note` is called with each removed file, and with its space
    /// if that is kept. The caller syncs the names, after a failure too. A missing file was removed by an earlier call
    /// that failed. After an error, the file and all later files stay.
    pub(crate) fn remove_below(
        &self,
        disk: &dyn Disk,
        archive: Option<&Archive>,
        covered: Epoch,
        is_kept: impl Fn(&ClosedFile) -> bool,
        mut note: impl FnMut(&ClosedFile, Option<Box<dyn KeptSpace>>),
    ) -> Result<()> {
        let _one = self.removing.lock();
        loop {
            let may_go = |closed: &&ClosedFile| closed.largest < covered && !is_kept(closed);
            let oldest = self.files.lock().front().filter(may_go).cloned();
            let Some(oldest) = oldest else { return Ok(()) };
            // Relaxed: `archived` changes under the `removing` lock only.
            let archived = self.archived.load(Ordering::Relaxed);
            if let Some(archive) = archive.filter(|_| archived == 0) {
                archive.archive_file(&oldest)?;
                self.note_archived(&oldest);
                // Relaxed: `archived` changes under the `removing` lock only. The change comes before the removal,
                // because a removal that returns an error may still have removed the file.
                self.archived.store(1, Ordering::Relaxed);
            }
            debug_assert!(
                archive.is_none() || self.archived.load(Ordering::Relaxed) > 0,
                "A1: {} is archived before its removal",
                oldest.file
            );
            let space = unless_missing(disk.remove_slowly(&oldest.file.to_string()))?.flatten();
            let popped = self.files.lock().pop_front();
            assert_eq!(popped.as_ref(), Some(&oldest), "one thread at a time removes files");
            // Relaxed: `archived` changes under the `removing` lock only.
            self.archived.store(archived.saturating_sub(1), Ordering::Relaxed);
            debug_assert!(
                self.archived.load(Ordering::Relaxed) <= self.files.lock().len(),
                "A1: only listed files count as archived"
            );
            note(&oldest, space);
        }
    }
}
