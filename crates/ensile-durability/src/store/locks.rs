//! The locks of a database: on the main folder, on `LOCK`, and on every folder of a log or checkpointer (I3).
//!
//! Each guards against what the others cannot see:
//! - A folder's own lock stays when `LOCK` is removed, and when the folder is renamed.
//! - `LOCK`'s lock is on its inode, so a hard-linked copy of the folder meets it.
//! - A linked folder's own lock keeps out a database whose main folder is another one.
//!
//! Where the file system cannot lock folders, a linked folder gets a `LOCK` of its own, and `watched` compares the main
//! `LOCK`'s inode before each file is made.
//!
//! Neighbours: taken by the store before its first look; held by the open store until the log's close.

use ensile_disk::{Disk, DiskError, DiskLock};

use super::names::{LOCK, logger_of};
use crate::DurabilityError;

/// For what the folders are locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hold {
    /// To change them: no other process may even read.
    Exclusive,
    /// To read, beside other readers. Makes no file.
    Shared,
}

/// Locks that are given back when this is dropped.
#[derive(Debug)]
pub struct Locks {
    hold: Hold,
    /// Of folders themselves, with their names; the main folder's is empty.
    folders: Vec<(String, Box<dyn DiskLock>)>,
    /// Of files in folders that cannot be locked.
    files: Vec<Box<dyn DiskLock>>,
    /// The one on `LOCK`, unless a reader found none.
    file: Option<Box<dyn DiskLock>>,
    /// Whether the main folder itself is locked.
    is_folder_locked: bool,
}

impl Locks {
    /// Locks the main folder, and nothing in it yet: no file is made.
    pub(crate) fn of_folder(disk: &dyn Disk, hold: Hold) -> Result<Self, DurabilityError> {
        let folder = lock_folder(disk, "", hold)?;
        let is_folder_locked = folder.is_some();
        Ok(Self {
            hold,
            folders: folder.into_iter().map(|lock| (String::new(), lock)).collect(),
            files: Vec::new(),
            file: None,
            is_folder_locked,
        })
    }

    /// Locks `LOCK`.
    pub(crate) fn add_file(&mut self, disk: &dyn Disk) -> Result<(), DurabilityError> {
        self.file = match self.hold {
            Hold::Exclusive => Some(disk.lock(LOCK)?),
            Hold::Shared => disk.lock_to_read(LOCK)?,
        };
        Ok(())
    }

    /// Locks a folder of a log or checkpointer.
    pub(crate) fn add_folder(&mut self, disk: &dyn Disk, name: &str) -> Result<(), DurabilityError> {
        match lock_folder(disk, name, self.hold)? {
            Some(lock) => self.folders.push((name.to_owned(), lock)),
            None if self.hold == Hold::Exclusive => self.files.push(disk.lock(&format!("{name}/{LOCK}"))?),
            None => self.files.extend(disk.lock_to_read(&format!("{name}/{LOCK}"))?),
        }
        Ok(())
    }

    /// Keeps these too.
    pub(crate) fn extend(&mut self, others: Self) {
        self.folders.extend(others.folders);
        self.files.extend(others.files);
        self.files.extend(others.file);
    }

    /// None yet, beside those of folders that are locked already.
    pub(crate) fn none() -> Self {
        let (folders, files) = (Vec::new(), Vec::new());
        Self { hold: Hold::Exclusive, folders, files, file: None, is_folder_locked: true }
    }

    /// Is the main folder itself locked?
    pub(crate) fn is_folder_locked(&self) -> bool {
        self.is_folder_locked
    }

    /// For what they are held.
    pub(crate) fn hold(&self) -> Hold {
        self.hold
    }

    /// Was there a `LOCK`?
    pub(crate) fn has_file(&self) -> bool {
        self.file.is_some()
    }

    /// `LOCK`'s inode, whatever its name is by now.
    pub(crate) fn file_id(&self) -> Result<Option<u64>, DiskError> {
        self.file.as_deref().map(DiskLock::file_id).transpose()
    }

    /// Asks whether the main folder and those of this number of logs still have names. A file that is locked in a
    /// folder's place may be removed alone.
    ///
    /// # Errors
    /// [`DiskError::Removed`]; the disk's.
    pub(crate) fn check_named(&self, logs: usize) -> Result<(), DiskError> {
        let is_needed =
            |name: &str| name.is_empty() || logger_of(name).is_some_and(|log| (log as usize) < logs);
        let mut needed = self.folders.iter().filter(|(name, _)| is_needed(name));
        needed.try_for_each(|(_, lock)| lock.check_named())
    }

    /// Has `LOCK` more than one name, as in a hard-linked copy?
    pub(crate) fn is_hard_linked(&self) -> Result<bool, DiskError> {
        Ok(self.file.as_deref().map(DiskLock::links).transpose()?.is_some_and(|links| links > 1))
    }
}

/// Locks a folder itself; `None` where the file system cannot.
fn lock_folder(disk: &dyn Disk, name: &str, hold: Hold) -> Result<Option<Box<dyn DiskLock>>, DiskError> {
    let locked = match hold {
        Hold::Exclusive => disk.lock_folder(name),
        Hold::Shared => disk.lock_folder_to_read(name),
    };
    match locked {
        Ok(lock) => Ok(Some(lock)),
        Err(error) if error.is_unsupported() => Ok(None),
        Err(error) => Err(error),
    }
}
