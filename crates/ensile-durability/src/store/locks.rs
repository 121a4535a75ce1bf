//! The locks of a database: on the main folder, on `LOCK`, and on every folder of a log or checkpointer (I3).
//!
//! - The lock on a folder survives the removal of `LOCK`, and a new name of the folder.
//! - The lock on `LOCK` is on its inode, so a hard-linked copy of the folder meets the lock.
//! - The lock on a linked folder keeps out a database with another main folder.
//! - If folders cannot be locked, a linked folder gets a `LOCK` of its own, and `unlocked_disk_guard` watches the main.
//!
//! Neighbours: `open` takes the locks before it reads the folder. `open_store` holds the locks until the log's close.

use ensile_disk::{Disk, DiskError, DiskLock};

use crate::Result;
use crate::files::names::{LOCK, logger_of};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LockMode {
    /// Changes of the folders: no other process may even read.
    Exclusive,
    /// Reads of the folders, beside other readers. A reader makes no file.
    Shared,
}

/// Locks of a database. A drop releases the locks.
#[derive(Debug)]
pub struct Locks {
    pub(super) mode: LockMode,
    /// Locks on folders, with the folder's name. The name of the main folder is empty.
    folders: Vec<(String, Box<dyn DiskLock>)>,
    /// Locks on `LOCK` files in folders that cannot be locked.
    files: Vec<Box<dyn DiskLock>>,
    /// Lock on the main `LOCK`; `None` if a reader found no file.
    file: Option<Box<dyn DiskLock>>,
    /// True if the main folder itself is locked.
    pub(super) is_folder_locked: bool,
}

impl Locks {
    /// Locks the main folder only: first of all locks, or for the removal of a failed restore. The call makes no file.
    pub(crate) fn of_folder(disk: &dyn Disk, mode: LockMode) -> Result<Self> {
        let folder = lock_folder(disk, "", mode)?;
        let is_folder_locked = folder.is_some();
        Ok(Self {
            mode,
            folders: folder.into_iter().map(|lock| (String::new(), lock)).collect(),
            files: Vec::new(),
            file: None,
            is_folder_locked,
        })
    }

    /// Locks the file `LOCK` of the main folder. A reader without the file takes no lock.
    pub(crate) fn add_file(&mut self, disk: &dyn Disk) -> Result<()> {
        debug_assert!(self.file.is_none(), "I3: `LOCK` is locked once");
        self.file = match self.mode {
            LockMode::Exclusive => Some(disk.lock(LOCK)?),
            LockMode::Shared => disk.lock_to_read(LOCK)?,
        };
        Ok(())
    }

    /// Locks the folder of a log or checkpointer, or its `LOCK` if the file system cannot lock folders.
    pub(crate) fn add_folder(&mut self, disk: &dyn Disk, name: &str) -> Result<()> {
        match lock_folder(disk, name, self.mode)? {
            Some(lock) => {
                debug_assert!(self.folders.iter().all(|(other, _)| other != name), "I3: {name} locked once");
                self.folders.push((name.to_owned(), lock));
            }
            None if self.mode == LockMode::Exclusive => {
                self.files.push(disk.lock(&format!("{name}/{LOCK}"))?)
            }
            None => self.files.extend(disk.lock_to_read(&format!("{name}/{LOCK}"))?),
        }
        Ok(())
    }

    pub(crate) fn extend(&mut self, others: Self) {
        debug_assert!(others.folders.iter().all(|(name, _)| !name.is_empty()), "I3: one main folder");
        let count = |all: &Self| all.folders.len() + all.files.len() + usize::from(all.file.is_some());
        let held = count(self) + count(&others);
        self.folders.extend(others.folders);
        self.files.extend(others.files);
        self.files.extend(others.file);
        debug_assert_eq!(count(self), held, "I3: each lock is held on");
    }

    /// Set without locks, for folders in addition to folders that are locked already.
    pub(crate) fn empty() -> Self {
        let (folders, files) = (Vec::new(), Vec::new());
        Self { mode: LockMode::Exclusive, folders, files, file: None, is_folder_locked: true }
    }

    /// True if the main `LOCK` is locked.
    pub(crate) fn has_file(&self) -> bool {
        self.file.is_some()
    }

    /// Inode of the locked `LOCK`, even if its name has changed.
    pub(crate) fn file_id(&self) -> Result<Option<u64>, DiskError> {
        self.file.as_deref().map(DiskLock::file_id).transpose()
    }

    /// Checks that the main folder and the folders of `logs` logs still have names. A `LOCK` may go without its folder.
    pub(crate) fn check_named(&self, logs: usize) -> Result<(), DiskError> {
        let counts = |name: &str| name.is_empty() || logger_of(name).is_some_and(|log| (log as usize) < logs);
        let mut needed = self.folders.iter().filter(|(name, _)| counts(name));
        needed.try_for_each(|(_, lock)| lock.check_named())
    }

    /// True if `LOCK` has more than a single name, as in a hard-linked copy.
    pub(crate) fn is_hard_linked(&self) -> Result<bool, DiskError> {
        Ok(self.file.as_deref().map(DiskLock::links).transpose()?.is_some_and(|links| links > 1))
    }
}

/// Locks a folder itself. `None` if the file system cannot lock folders.
fn lock_folder(disk: &dyn Disk, name: &str, mode: LockMode) -> Result<Option<Box<dyn DiskLock>>, DiskError> {
    let locked = match mode {
        LockMode::Exclusive => disk.lock_folder(name),
        LockMode::Shared => disk.lock_folder_to_read(name),
    };
    match locked {
        Ok(lock) => Ok(Some(lock)),
        Err(error) if error.is_unsupported() => Ok(None),
        Err(error) => Err(error),
    }
}
