//! The next file of a log, made ahead of time: named, filled with zeros and synced, without a block. A sync of blocks
//! over zeros writes only the blocks. If the space is only allocated, or the file grows, the file system also records
//! the state of the space at each sync. Old files are not reused, because a recovery would believe their blocks.
//!
//! Invariants: L3. Recovery removes a file without an opening mark.
//!
//! Neighbours: `logger::file_rotation` makes the file outside the lock for which waiters wait; `segments` continues in
//! the file.

use std::sync::Arc;

use ensile_disk::{Disk, DiskError, DiskFile};

use crate::error::unless_full;
use crate::files::names::{SegmentName, log_folder};

/// Zeros of one write, in bytes.
const ZEROS_BYTES: usize = 256 << 10;
/// Zeros written and synced in one call, in bytes. Between two calls the logger's thread may step.
const STEP_BYTES: u64 = 2 << 20;
const _: () = assert!(STEP_BYTES.is_multiple_of(ZEROS_BYTES as u64));

/// A log file without blocks, being made or ready.
#[derive(Debug)]
pub(crate) struct NextFile {
    pub(crate) file: Box<dyn DiskFile>,
    pub(crate) name: SegmentName,
    /// Length of the file in bytes; `zeroed`: length of its written zeros.
    pub(crate) allocated: u64,
    pub(crate) zeroed: u64,
    /// Planned length of the zeros, in bytes.
    wanted: u64,
    /// True once the name and bytes of the file survive a crash: the file is ready.
    is_settled: bool,
}

pub(crate) fn write_zeros(file: &dyn DiskFile, mut from: u64, to: u64) -> Result<(), DiskError> {
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
    /// Creates the file, for `wanted` bytes of zeros to come. `None`, here and below, means that the disk has no space.
    /// A sync without space is no failure of the log, because the file has no block. But the result of such a sync does
    /// not count: the caller discards the file.
    pub(crate) fn create(
        disk: &Arc<dyn Disk>,
        name: SegmentName,
        wanted: u64,
    ) -> Result<Option<Self>, DiskError> {
        let file = unless_full(disk.create(&name.to_string()))?;
        Ok(file.map(|file| Self { file, name, allocated: 0, zeroed: 0, wanted, is_settled: false }))
    }

    /// Checks that the zeros are a part of the length, and at most the planned zeros.
    fn check(&self) {
        assert!(self.zeroed <= self.allocated, "{} zeros in {} bytes", self.zeroed, self.allocated);
        assert!(self.zeroed <= self.wanted, "{} zeros of {}", self.zeroed, self.wanted);
    }

    /// Length of the file in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.allocated
    }

    /// Writes and syncs one part of the zeros; after the last part, syncs length and name. True once the file is ready.
    pub(crate) fn make_some(&mut self, disk: &dyn Disk) -> Result<Option<bool>, DiskError> {
        if self.zeroed < self.wanted && !self.is_settled {
            return Ok(self.fill_some()?.map(|()| false));
        }
        Ok(self.settle(disk)?.map(|()| true))
    }

    /// Makes the file ready now, with at least `bytes` bytes. If `heavy`, the log has many writes: the call only
    /// allocates space, because zeros would cost more than they save.
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

    /// Writes and syncs the next [`STEP_BYTES`] of zeros.
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

    /// Makes the name and length of the file survive a crash; the file gets no more zeros.
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

    /// Removes the file. The call empties the file first, because its opening mark may name a place in the chain that
    /// the current file is about to use. If the disk has no space for emptying, the removal of the name is synced
    /// instead. If the disk has no space for the sync either, the file stays until the log makes the file anew: no
    /// block stands behind its mark, and the mark claims only synced entries.
    pub(crate) fn discard(self, disk: &dyn Disk) -> Result<(), DiskError> {
        let is_empty = unless_full(self.file.set_len(0))?.is_some();
        let is_gone = unless_full(disk.remove(&self.name.to_string()))?.is_some();
        if is_gone && !is_empty {
            unless_full(disk.sync_folder(&log_folder(self.name.logger)))?;
        }
        Ok(())
    }
}
