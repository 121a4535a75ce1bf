//! Reserved space for the moment of a full disk: for the first files of the next life, the last marks of a close, and
//! the marks and the manifest of a checkpoint that frees more space than it takes.
//!
//! Invariants:
//! - The bytes are written, because a file system may not honour space that is only set aside.
//! - The reserve takes only a part of the free space, so that it never fills a disk.
//! - Only an open, a close and a checkpoint use the reserve: a full disk during logging does not remove it.
//!
//! Neighbours: `recovery`, `checkpoint::manager` and `log` make and remove the reserve; an examination knows the file.

use std::sync::Arc;

use ensile_base::limits::RESERVE_BYTES;
use ensile_base::sync::{AtomicBool, Ordering};
use ensile_disk::{Disk, DiskError, FolderKind};

use crate::error::unless_missing;
use crate::files::names::{RESERVE, log_folder};

/// Smallest reserve in bytes. If less space would be kept, no file is made.
const BYTES_MIN: u64 = 16 << 10;
/// Divisor of the free space: the reserve takes at most this part.
const FREE_SHARE: u64 = 2;
const _: () = assert!(BYTES_MIN < RESERVE_BYTES && FREE_SHARE > 1, "the reserve leaves space");

/// Reserve of a database: a file in its folder, and one in every linked log folder, perhaps on another device.
#[derive(Debug)]
pub(crate) struct Reserve {
    disk: Arc<dyn Disk>,
    folders: Vec<String>,
    is_kept: AtomicBool,
}

impl Reserve {
    /// Creates the reserve of a database with `loggers` loggers. The call makes no file.
    pub(crate) fn new(disk: &Arc<dyn Disk>, loggers: u32) -> Result<Self, DiskError> {
        let mut folders = vec![String::new()];
        for folder in (0..loggers).map(log_folder) {
            if matches!(disk.folder_kind(&folder)?, FolderKind::Link { .. }) {
                folders.push(folder);
            }
        }
        Ok(Self { disk: Arc::clone(disk), folders, is_kept: AtomicBool::new(false) })
    }

    /// True if every file of the reserve exists, as far as this process knows.
    pub(crate) fn is_kept(&self) -> bool {
        // Acquire: the partner is the Release in `give_up`: a thread that finds the reserve gone finds the freed space.
        self.is_kept.load(Ordering::Acquire)
    }

    /// Makes the missing files of the reserve if the disk has space; otherwise a later call tries again.
    pub(crate) fn make(&self) -> Result<(), DiskError> {
        let mut is_kept = true;
        for folder in &self.folders {
            is_kept &= match self.make_in(folder) {
                Err(error) if error.is_full() => {
                    self.remove_from(folder)?;
                    false
                }
                made => made?,
            };
        }
        // Release: the partner is the Acquire in `is_kept`.
        self.is_kept.store(is_kept, Ordering::Release);
        Ok(())
    }

    /// Makes the file of the reserve in this folder if missing. False if the free space is too small.
    fn make_in(&self, folder: &str) -> Result<bool, DiskError> {
        let name = name_in(folder);
        if self.disk.exists(&name)? && self.disk.open_to_read(&name)?.len()? >= BYTES_MIN {
            return Ok(true);
        }
        let free = self.disk.free_bytes(folder).ok().flatten();
        let bytes = free.map_or(RESERVE_BYTES, |free| (free / FREE_SHARE).min(RESERVE_BYTES));
        if bytes < BYTES_MIN {
            return Ok(false);
        }
        debug_assert!(free.is_none_or(|free| bytes <= free / FREE_SHARE), "the reserve fills the disk");
        let file = self.disk.create(&name)?;
        file.write_at(&vec![0; bytes as usize], 0)?;
        file.sync_all()?;
        debug_assert!(file.len().ok().is_none_or(|length| length <= RESERVE_BYTES), "{bytes} for a close");
        self.disk.sync_folder(folder)?;
        Ok(true)
    }

    /// Removes the file of the reserve in this folder, and syncs the removal. False if the file is missing.
    fn remove_from(&self, folder: &str) -> Result<bool, DiskError> {
        let removed = unless_missing(self.disk.remove(&name_in(folder)))?;
        removed.map_or(Ok(false), |()| self.disk.sync_folder(folder).map(|()| true))
    }

    /// Removes the reserve to free its space. True if a file was removed.
    pub(crate) fn give_up(&self) -> Result<bool, DiskError> {
        let mut had_any = false;
        for folder in &self.folders {
            had_any |= self.remove_from(folder)?;
        }
        // Release: the partner is the Acquire in `is_kept`.
        self.is_kept.store(false, Ordering::Release);
        Ok(had_any)
    }
}

fn name_in(folder: &str) -> String {
    if folder.is_empty() { RESERVE.to_owned() } else { format!("{folder}/{RESERVE}") }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
