//! Guard of a disk that cannot lock folders: before every change of a name, `LOCK` must still be the locked file (I3).
//!
//! *Scene.* The file system cannot lock folders. `LOCK` is removed while the database runs, and a second process makes
//! and locks a new `LOCK`. The next file that the first process makes finds a different inode in `LOCK`. The first
//! process stops with an error, and the second process has the database.
//!
//! Invariant: No file is made, renamed or removed after `LOCK` belongs to another process. From then on, bytes go only
//! to files that were made before.
//!
//! Neighbours: The store puts this disk between the real disk and its callers, only if folder locks are not supported.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ensile_disk::{
    BootId, Disk, DiskError, DiskFile, DiskLock, FileTimes, FolderId, FolderKind, KeptSpace, Process,
};

use super::locks::Locks;
use crate::files::names::LOCK;

/// Wrapper of a disk that checks `LOCK` before every change of a name.
#[derive(Debug)]
pub(super) struct Watched {
    disk: Arc<dyn Disk>,
    /// Inode of the locked `LOCK`.
    lock: u64,
}

impl Watched {
    /// Wraps `disk`, unless the main folder itself is locked: then returns `disk` unchanged.
    pub(super) fn wrap_unlocked(disk: Arc<dyn Disk>, locks: &Locks) -> Result<Arc<dyn Disk>, DiskError> {
        match locks.file_id()? {
            Some(lock) if !locks.is_folder_locked() => Ok(Arc::new(Self { disk, lock })),
            _ => Ok(disk),
        }
    }

    /// Checks that `LOCK` is still the locked file.
    fn check(&self) -> Result<(), DiskError> {
        match self.disk.file_id(LOCK) {
            Ok(found) if found == self.lock => Ok(()),
            Err(error) if !error.is_not_found() => Err(error),
            _ => Err(DiskError::InUse { path: self.disk.folder_place("")?.join(LOCK) }),
        }
    }
}

impl Disk for Watched {
    fn open(&self, name: &str) -> Result<Box<dyn DiskFile>, DiskError> {
        self.disk.open(name)
    }

    fn open_to_read(&self, name: &str) -> Result<Box<dyn DiskFile>, DiskError> {
        self.disk.open_to_read(name)
    }

    fn create(&self, name: &str) -> Result<Box<dyn DiskFile>, DiskError> {
        self.check()?;
        self.disk.create(name)
    }

    fn list(&self, folder: &str) -> Result<Vec<String>, DiskError> {
        self.disk.list(folder)
    }

    fn list_folders(&self, folder: &str) -> Result<Vec<String>, DiskError> {
        self.disk.list_folders(folder)
    }

    fn exists(&self, name: &str) -> Result<bool, DiskError> {
        self.disk.exists(name)
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), DiskError> {
        self.check()?;
        self.disk.rename(from, to)
    }

    fn add_name(&self, of: &str, name: &str) -> Result<(), DiskError> {
        self.check()?;
        self.disk.add_name(of, name)
    }

    fn remove(&self, name: &str) -> Result<(), DiskError> {
        self.check()?;
        self.disk.remove(name)
    }

    fn remove_slowly(&self, name: &str) -> Result<Option<Box<dyn KeptSpace>>, DiskError> {
        self.check()?;
        self.disk.remove_slowly(name)
    }

    fn create_folder(&self, name: &str) -> Result<(), DiskError> {
        self.check()?;
        self.disk.create_folder(name)
    }

    fn folder_kind(&self, name: &str) -> Result<FolderKind, DiskError> {
        self.disk.folder_kind(name)
    }

    fn folder_place(&self, name: &str) -> Result<PathBuf, DiskError> {
        self.disk.folder_place(name)
    }

    fn show_root(&self) -> Result<(), DiskError> {
        self.disk.show_root()
    }

    fn link_folder(&self, name: &str, to: &Path) -> Result<(), DiskError> {
        self.check()?;
        self.disk.link_folder(name, to)
    }

    fn sync_folder(&self, folder: &str) -> Result<(), DiskError> {
        self.disk.sync_folder(folder)
    }

    fn lock(&self, name: &str) -> Result<Box<dyn DiskLock>, DiskError> {
        self.disk.lock(name)
    }

    fn lock_to_read(&self, name: &str) -> Result<Option<Box<dyn DiskLock>>, DiskError> {
        self.disk.lock_to_read(name)
    }

    fn lock_folder(&self, folder: &str) -> Result<Box<dyn DiskLock>, DiskError> {
        self.disk.lock_folder(folder)
    }

    fn lock_folder_to_read(&self, folder: &str) -> Result<Box<dyn DiskLock>, DiskError> {
        self.disk.lock_folder_to_read(folder)
    }

    fn folder_id(&self, folder: &str) -> Result<FolderId, DiskError> {
        self.disk.folder_id(folder)
    }

    fn is_same_folder(&self, one: &str, other: &str) -> Result<bool, DiskError> {
        self.disk.is_same_folder(one, other)
    }

    fn file_id(&self, name: &str) -> Result<u64, DiskError> {
        self.disk.file_id(name)
    }

    fn file_times(&self, name: &str) -> Result<FileTimes, DiskError> {
        self.disk.file_times(name)
    }

    fn links(&self, name: &str) -> Result<u64, DiskError> {
        self.disk.links(name)
    }

    fn free_bytes(&self, folder: &str) -> Result<Option<u64>, DiskError> {
        self.disk.free_bytes(folder)
    }

    fn mount(&self, folder: &str) -> Result<Option<u64>, DiskError> {
        self.disk.mount(folder)
    }

    fn boot(&self) -> Option<BootId> {
        self.disk.boot()
    }

    fn process(&self) -> Process {
        self.disk.process()
    }
}
