//! Guard of a disk that cannot lock folders: before every change of a name, `LOCK` must still be the locked file (I3).
//! From the moment that `LOCK` belongs to another process, bytes go only to files that were made before.
//!
//! Neighbours: `open`, a repair, an adoption and a change of name put this disk between the real disk and their calls,
//! only if folder locks are not supported.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ensile_disk::{
    BootId, Disk, DiskError, DiskFile, DiskLock, FileTimes, FolderId, FolderKind, KeptSpace, Process,
};

use super::locks::Locks;
use crate::files::names::LOCK;

/// Wrapper of a disk that checks `LOCK` before every change of a name.
#[derive(Debug)]
struct Watched {
    disk: Arc<dyn Disk>,
    /// Inode of the locked `LOCK`.
    lock: u64,
}

/// The disk, watched unless the main folder itself is locked.
pub(crate) fn guard_disk(disk: &Arc<dyn Disk>, locks: &Locks) -> Result<Arc<dyn Disk>, DiskError> {
    let disk = Arc::clone(disk);
    match locks.file_id()? {
        Some(lock) if !locks.is_folder_locked => Ok(Arc::new(Watched { disk, lock })),
        _ => Ok(disk),
    }
}

impl Watched {
    /// Checks that `LOCK` is still the locked file.
    fn check(&self) -> Result<(), DiskError> {
        match self.disk.file_id(LOCK) {
            Ok(found) if found == self.lock => Ok(()),
            Err(error) if !error.is_not_found() => Err(error),
            _ => Err(DiskError::InUse { path: self.disk.folder_place("")?.join(LOCK) }),
        }
    }
}

/// Calls that change no name: the disk below carries them out.
macro_rules! forwarded {
    ($(fn $call:ident($($argument:ident: $of:ty),*) -> $result:ty;)*) => {$(
        fn $call(&self, $($argument: $of),*) -> $result {
            self.disk.$call($($argument),*)
        }
    )*};
}

impl Disk for Watched {
    fn create(&self, name: &str) -> Result<Box<dyn DiskFile>, DiskError> {
        self.check()?;
        self.disk.create(name)
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

    fn link_folder(&self, name: &str, to: &Path) -> Result<(), DiskError> {
        self.check()?;
        self.disk.link_folder(name, to)
    }

    forwarded! {
        fn open(name: &str) -> Result<Box<dyn DiskFile>, DiskError>;
        fn open_to_read(name: &str) -> Result<Box<dyn DiskFile>, DiskError>;
        fn list(folder: &str) -> Result<Vec<String>, DiskError>;
        fn list_folders(folder: &str) -> Result<Vec<String>, DiskError>;
        fn exists(name: &str) -> Result<bool, DiskError>;
        fn folder_kind(name: &str) -> Result<FolderKind, DiskError>;
        fn folder_place(name: &str) -> Result<PathBuf, DiskError>;
        fn show_root() -> Result<(), DiskError>;
        fn sync_folder(folder: &str) -> Result<(), DiskError>;
        fn lock(name: &str) -> Result<Box<dyn DiskLock>, DiskError>;
        fn lock_to_read(name: &str) -> Result<Option<Box<dyn DiskLock>>, DiskError>;
        fn lock_folder(folder: &str) -> Result<Box<dyn DiskLock>, DiskError>;
        fn lock_folder_to_read(folder: &str) -> Result<Box<dyn DiskLock>, DiskError>;
        fn folder_id(folder: &str) -> Result<FolderId, DiskError>;
        fn is_same_folder(one: &str, other: &str) -> Result<bool, DiskError>;
        fn file_id(name: &str) -> Result<u64, DiskError>;
        fn file_times(name: &str) -> Result<FileTimes, DiskError>;
        fn links(name: &str) -> Result<u64, DiskError>;
        fn free_bytes(folder: &str) -> Result<Option<u64>, DiskError>;
        fn mount(folder: &str) -> Result<Option<u64>, DiskError>;
        fn boot() -> Option<BootId>;
        fn process() -> Process;
    }
}
