//! Space that is kept for the moment when a disk is full: for the files with which the next life begins, for the last
//! marks of a close, and for the marks and the manifest of a checkpoint that frees more than it takes.
//!
//! Invariants:
//! - Its bytes are really written, so that they are there also where space that is set aside is not.
//! - It takes a part of what is free only, so that it never fills a disk itself; less of it is kept where there is
//!   less.
//! - Ordinary entries of the log never get it: it is given up by an open, a close and a checkpoint.
//!
//! Neighbours: `recovery` and `checkpoint::manager` give it up; names are the store's.

use std::sync::Arc;

use ensile_base::limits::RESERVE_BYTES;
use ensile_base::sync::{AtomicBool, Ordering};
use ensile_disk::{Disk, DiskError, FolderKind};

use super::names::{RESERVE, log_folder};
use crate::error::unless_missing;

/// Where less than this would be kept, nothing is.
const BYTES_MIN: u64 = 16 << 10;
/// This part of what is free is taken at most.
const FREE_SHARE: u64 = 2;

/// The reserve of a database: a file in its folder, and one in each log folder that is a link, which may lead to
/// another device.
#[derive(Debug)]
pub(crate) struct Reserve {
    disk: Arc<dyn Disk>,
    folders: Vec<String>,
    is_kept: AtomicBool,
}

impl Reserve {
    /// The reserve of a database with `loggers` loggers. Nothing is made yet.
    pub(crate) fn of(disk: &Arc<dyn Disk>, loggers: u32) -> Result<Self, DiskError> {
        let mut folders = vec![String::new()];
        for folder in (0..loggers).map(log_folder) {
            if matches!(disk.folder_kind(&folder)?, FolderKind::Link { .. }) {
                folders.push(folder);
            }
        }
        Ok(Self { disk: Arc::clone(disk), folders, is_kept: AtomicBool::new(false) })
    }

    /// Is it there, as far as this process knows?
    pub(crate) fn is_kept(&self) -> bool {
        // Acquire: the partner is the Release in `give_up`, so that a thread that finds the reserve gone finds its
        // space.
        self.is_kept.load(Ordering::Acquire)
    }

    /// Makes what is missing of it, where there is space. A disk without space for it is no failure: a later call tries
    /// again.
    ///
    /// # Errors
    /// The disk's, for another reason than space.
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
        // Release: partner is the Acquire in `is_kept`.
        self.is_kept.store(is_kept, Ordering::Release);
        Ok(())
    }

    /// Whether there is one now.
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
        let file = self.disk.create(&name)?;
        file.write_at(&vec![0; bytes as usize], 0)?;
        file.sync_all()?;
        self.disk.sync_folder(folder)?;
        Ok(true)
    }

    fn remove_from(&self, folder: &str) -> Result<bool, DiskError> {
        let removed = unless_missing(self.disk.remove(&name_in(folder)))?;
        removed.map_or(Ok(false), |()| self.disk.sync_folder(folder).map(|()| true))
    }

    /// Gives it up: its space is free then. Whether there was any of it.
    ///
    /// # Errors
    /// The disk's.
    pub(crate) fn give_up(&self) -> Result<bool, DiskError> {
        let mut had_any = false;
        for folder in &self.folders {
            had_any |= self.remove_from(folder)?;
        }
        // Release: partner is the Acquire in `is_kept`.
        self.is_kept.store(false, Ordering::Release);
        Ok(had_any)
    }
}

fn name_in(folder: &str) -> String {
    if folder.is_empty() { RESERVE.to_owned() } else { format!("{folder}/{RESERVE}") }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
