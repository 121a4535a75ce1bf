//! The next file of a log, made before it is needed: named, filled with zeros and synced, without a block.
//!
//! A sync of blocks that overwrite zeros has only the blocks to write. Where space was merely allocated, or the file
//! grows, the file system also records at each sync what became of the space. Old files are not used again: their
//! blocks would be believed.
//!
//! Invariants:
//! - L3: name and zeros are synced before the file gets its opening mark, and that mark before anything behind it.
//! - A file without an opening mark is one that is being made: recovery finds nothing in it, and removes it.
//!
//! Neighbours: made by the logger's thread, outside the lock that commits wait for; `segments` goes on in it.

use std::sync::Arc;

use ensile_disk::{Disk, DiskError, DiskFile};

use crate::error::unless_full;
use crate::store::names::{SegmentName, log_folder};

/// Zeros that are written together.
const ZEROS_BYTES: usize = 256 << 10;
/// Zeros that are written, and synced, before the logger sees to what waits for it.
const STEP_BYTES: u64 = 2 << 20;
const _: () = assert!(STEP_BYTES.is_multiple_of(ZEROS_BYTES as u64));

/// A file without blocks.
#[derive(Debug)]
pub(crate) struct NextFile {
    pub(super) file: Box<dyn DiskFile>,
    pub(super) name: SegmentName,
    /// How long it is, and how much of that is zeros that were written.
    pub(super) allocated: u64,
    pub(super) zeroed: u64,
    /// How much of it is to be zeros.
    wanted: u64,
    /// Its name and its bytes survive a crash: it is ready.
    is_settled: bool,
}

/// Fills the file with zeros from `from` to `to`.
pub(super) fn write_zeros(file: &dyn DiskFile, mut from: u64, to: u64) -> Result<(), DiskError> {
    assert!(from <= to, "zeros from {from} to {to}");
    let zeros = vec![0; ZEROS_BYTES.min(to.saturating_sub(from) as usize)];
    while from < to {
        let bytes = (to - from).min(zeros.len() as u64);
        file.write_at(&zeros[..bytes as usize], from)?;
        from += bytes;
    }
    Ok(())
}

impl NextFile {
    /// Makes the file, which is to begin with that number of zeros. `None`, here and below, if there is no space. A
    /// sync that says so is no failure of the log, as no block stands in the file; but what it synced counts no more:
    /// the caller discards it.
    pub(crate) fn create(
        disk: &Arc<dyn Disk>,
        name: SegmentName,
        wanted: u64,
    ) -> Result<Option<Self>, DiskError> {
        let file = unless_full(disk.create(&name.to_string()))?;
        Ok(file.map(|file| Self { file, name, allocated: 0, zeroed: 0, wanted, is_settled: false }))
    }

    /// Its zeros are a part of its length, and no more than what was wanted.
    fn check(&self) {
        assert!(self.zeroed <= self.allocated, "{} zeros in {} bytes", self.zeroed, self.allocated);
        assert!(self.zeroed <= self.wanted, "{} zeros of {}", self.zeroed, self.wanted);
    }

    /// Bytes that it takes.
    pub(super) fn bytes(&self) -> u64 {
        self.allocated
    }

    /// Writes and syncs some of its zeros, or what else is missing; true once it is ready.
    pub(super) fn make_some(&mut self, disk: &dyn Disk) -> Result<Option<bool>, DiskError> {
        if self.zeroed < self.wanted && !self.is_settled {
            return Ok(self.fill_some()?.map(|()| false));
        }
        Ok(self.settle(disk)?.map(|()| true))
    }

    /// Makes it ready now, with `bytes` at the least; for a log that writes so much at a time that zeros cost more than
    /// they save, space is allocated only.
    pub(crate) fn make_ready(
        &mut self,
        disk: &dyn Disk,
        bytes: u64,
        heavy: bool,
    ) -> Result<Option<()>, DiskError> {
        let mut has_space = Some(());
        if self.allocated < bytes && heavy {
            has_space = unless_full(self.file.preallocate(bytes))?;
            self.allocated = bytes;
        } else if self.allocated < bytes {
            has_space = self.fill_some()?;
        }
        if has_space.is_some() { self.settle(disk) } else { Ok(None) }
    }

    fn fill_some(&mut self) -> Result<Option<()>, DiskError> {
        assert!(!self.is_settled, "a file that is ready gets no more zeros");
        let to = self.wanted.min(self.zeroed + STEP_BYTES);
        let filled = write_zeros(&*self.file, self.zeroed, to).and_then(|()| self.file.sync_data());
        let has_space = unless_full(filled)?;
        if has_space.is_some() {
            (self.zeroed, self.allocated) = (to, to);
            self.check();
        }
        Ok(has_space)
    }

    /// Makes its name and its length survive a crash; it gets no more zeros.
    fn settle(&mut self, disk: &dyn Disk) -> Result<Option<()>, DiskError> {
        if self.is_settled {
            return Ok(Some(()));
        }
        let sync_name = || disk.sync_folder(&log_folder(self.name.logger));
        let has_space = unless_full(self.file.sync_all().and_then(|()| sync_name()))?;
        self.is_settled = has_space.is_some();
        self.check();
        Ok(has_space)
    }

    /// Takes the file away again. It is emptied first: an opening mark may stand in it that names a place in the chain
    /// which the current file is about to take. Where emptying it finds no space, its name goes for good instead. Where
    /// that finds none either, the file stays until it is made anew: no block stands behind its mark, and the mark
    /// claims only what is synced.
    pub(super) fn discard(self, disk: &dyn Disk) -> Result<(), DiskError> {
        let is_empty = unless_full(self.file.set_len(0))?.is_some();
        let is_gone = unless_full(disk.remove(&self.name.to_string()))?.is_some();
        if is_gone && !is_empty {
            unless_full(disk.sync_folder(&log_folder(self.name.logger)))?;
        }
        Ok(())
    }
}
