//! The machine's own files: positioned reads and writes, `fdatasync`, `fallocate`, `flock`.
//!
//! Invariants:
//! - A short write or read is carried on until done, an interrupted one is repeated: callers never see either.
//! - What the file system cannot do cheaply is done the plain way (`preallocate` falls back to setting the length);
//!   what it cannot do at all is an error.
//!
//! Neighbours: opened by `Database`; the durability crate sees the traits only.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::error::{DiskError, Operation};
use crate::{Disk, DiskFile, DiskLock, FolderId, FolderKind, Process};

/// A folder of the machine's file system.
#[derive(Debug)]
pub struct RealDisk {
    root: PathBuf,
    process: Process,
}

impl RealDisk {
    /// The disk whose root is `root`, made if it is not there.
    pub fn open(root: impl AsRef<Path>) -> Result<Self, DiskError> {
        let root = root.as_ref();
        let missing =
            root.ancestors().filter(|folder| !folder.as_os_str().is_empty() && !folder.exists()).count();
        fs::create_dir_all(root).map_err(|error| DiskError::io(Operation::CreateFolder, root, error))?;
        let root = root.canonicalize().map_err(|error| DiskError::io(Operation::Open, root, error))?;
        // Every folder that was made has its name in its parent; the innermost one is synced even if it was there, as
        // whoever made it may have been killed before it could.
        for parent in root.ancestors().skip(1).take(missing.max(1)) {
            match sync_names(parent) {
                Err(error) if missing == 0 && error.is_permission_denied() => {}
                synced => synced?,
            }
        }
        Ok(Self { root, process: Process::this() })
    }

    /// The disk whose root is `root`, which must be there: for whoever only looks.
    pub fn existing(root: impl AsRef<Path>) -> Result<Self, DiskError> {
        let root = root.as_ref();
        let failed = |error| DiskError::io(Operation::Open, root, error);
        let found = root.canonicalize().map_err(failed)?;
        fs::read_dir(&found).map_err(failed)?;
        Ok(Self { root: found, process: Process::this() })
    }

    /// The root folder.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    fn path(&self, name: &str) -> PathBuf {
        if name.is_empty() { self.root.clone() } else { self.root.join(name) }
    }
}

/// What a file system answers that cannot lock a folder: NFS asks for a handle that may write, which no folder has.
fn cannot_lock_folders(error: Errno) -> bool {
    [Errno::BADF, Errno::INVAL, Errno::NOLCK, Errno::NOSYS, Errno::OPNOTSUPP, Errno::ISDIR].contains(&error)
}

impl RealDisk {
    fn metadata(&self, name: &str) -> Result<fs::Metadata, DiskError> {
        let path = self.path(name);
        fs::metadata(&path).map_err(|error| DiskError::io(Operation::Identify, &path, error))
    }

    fn take(&self, file: File, path: PathBuf, how: FlockOperation) -> Result<RealLock, DiskError> {
        match flock(&file, how) {
            Ok(()) => Ok(RealLock { file, path, process: self.process.clone() }),
            Err(Errno::WOULDBLOCK) => Err(DiskError::InUse { path }),
            Err(error) => Err(DiskError::io(Operation::Lock, &path, error.into())),
        }
    }

    fn take_folder(&self, folder: &str, how: FlockOperation) -> Result<Box<dyn DiskLock>, DiskError> {
        let path = self.path(folder);
        let file = File::open(&path).map_err(|error| DiskError::io(Operation::Lock, &path, error))?;
        match flock(&file, how) {
            Ok(()) => Ok(Box::new(RealLock { file, path, process: self.process.clone() })),
            Err(Errno::WOULDBLOCK) => Err(DiskError::InUse { path }),
            Err(error) if cannot_lock_folders(error) => {
                let detail = format!("this file system cannot lock folders ({error})");
                let error = io::Error::new(io::ErrorKind::Unsupported, detail);
                Err(DiskError::io(Operation::Lock, &path, error))
            }
            Err(error) => Err(DiskError::io(Operation::Lock, &path, error.into())),
        }
    }
}

fn sync_names(folder: &Path) -> Result<(), DiskError> {
    File::open(folder)
        .and_then(|folder| folder.sync_all())
        .map_err(|error| DiskError::io(Operation::SyncFolder, folder, error))
}

impl Disk for RealDisk {
    fn open(&self, name: &str) -> Result<Box<dyn DiskFile>, DiskError> {
        let path = self.path(name);
        match OpenOptions::new().read(true).write(true).open(&path) {
            Ok(file) => Ok(Box::new(RealFile { file, path })),
            Err(error) => Err(DiskError::io(Operation::Open, &path, error)),
        }
    }

    fn open_to_read(&self, name: &str) -> Result<Box<dyn DiskFile>, DiskError> {
        let path = self.path(name);
        match File::open(&path) {
            Ok(file) => Ok(Box::new(RealFile { file, path })),
            Err(error) => Err(DiskError::io(Operation::Open, &path, error)),
        }
    }

    fn create(&self, name: &str) -> Result<Box<dyn DiskFile>, DiskError> {
        let path = self.path(name);
        match OpenOptions::new().read(true).write(true).create(true).truncate(true).open(&path) {
            Ok(file) => Ok(Box::new(RealFile { file, path })),
            Err(error) => Err(DiskError::io(Operation::Create, &path, error)),
        }
    }

    fn list(&self, folder: &str) -> Result<Vec<String>, DiskError> {
        let path = self.path(folder);
        let fail = |error| DiskError::io(Operation::List, &path, error);
        let mut names = Vec::new();
        for entry in fs::read_dir(&path).map_err(fail)? {
            let entry = entry.map_err(fail)?;
            if entry.file_type().map_err(fail)?.is_dir() {
                continue;
            }
            // A name that is not UTF-8 is not one of ours.
            if let Ok(name) = entry.file_name().into_string() {
                names.push(name);
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    fn list_folders(&self, folder: &str) -> Result<Vec<String>, DiskError> {
        let path = self.path(folder);
        let fail = |error| DiskError::io(Operation::List, &path, error);
        let mut names = Vec::new();
        for entry in fs::read_dir(&path).map_err(fail)? {
            let entry = entry.map_err(fail)?;
            let kind = entry.file_type().map_err(fail)?;
            // A link that leads nowhere may lead to a folder once its device is there.
            let is_folder = kind.is_dir() || kind.is_symlink() && !entry.path().is_file();
            if let (true, Ok(name)) = (is_folder, entry.file_name().into_string()) {
                names.push(name);
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    fn exists(&self, name: &str) -> Result<bool, DiskError> {
        let path = self.path(name);
        path.try_exists().map_err(|error| DiskError::io(Operation::List, &path, error))
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), DiskError> {
        let path = self.path(from);
        fs::rename(&path, self.path(to)).map_err(|error| DiskError::io(Operation::Rename, &path, error))
    }

    fn remove(&self, name: &str) -> Result<(), DiskError> {
        let path = self.path(name);
        fs::remove_file(&path).map_err(|error| DiskError::io(Operation::Remove, &path, error))
    }

    fn create_folder(&self, name: &str) -> Result<(), DiskError> {
        let path = self.path(name);
        fs::create_dir_all(&path).map_err(|error| DiskError::io(Operation::CreateFolder, &path, error))
    }

    fn folder_kind(&self, name: &str) -> Result<FolderKind, DiskError> {
        let path = self.path(name);
        let fail = |error| DiskError::io(Operation::List, &path, error);
        let kind = match fs::symlink_metadata(&path) {
            Ok(metadata) => metadata.file_type(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(FolderKind::Missing),
            Err(error) => return Err(fail(error)),
        };
        if kind.is_symlink() {
            let to = fs::read_link(&path).map_err(fail)?;
            return Ok(FolderKind::Link { to, is_there: path.is_dir() });
        }
        if kind.is_dir() { Ok(FolderKind::Plain) } else { Err(fail(io::ErrorKind::NotADirectory.into())) }
    }

    fn folder_place(&self, name: &str) -> Result<PathBuf, DiskError> {
        let path = self.path(name);
        path.canonicalize().map_err(|error| DiskError::io(Operation::List, &path, error))
    }

    fn link_folder(&self, name: &str, to: &Path) -> Result<(), DiskError> {
        let path = self.path(name);
        let fail = |error| DiskError::io(Operation::LinkFolder, to, error);
        match fs::create_dir(to) {
            Ok(()) => {
                // Above it there is a folder, or it could not have been made.
                let parent = to.parent().filter(|parent| !parent.as_os_str().is_empty());
                sync_names(parent.unwrap_or_else(|| Path::new(".")))?;
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(fail(error)),
        }
        let target = to.canonicalize().map_err(fail)?;
        if fs::symlink_metadata(&path).is_ok() {
            let is_same =
                fs::read_link(&path).is_ok() && path.canonicalize().is_ok_and(|found| found == target);
            return if is_same { Ok(()) } else { Err(fail(io::ErrorKind::AlreadyExists.into())) };
        }
        for entry in fs::read_dir(&target).map_err(fail)? {
            if !entry.and_then(|entry| entry.file_type()).map_err(fail)?.is_dir() {
                let detail = "it holds files, and may be another database's: choose an empty one";
                return Err(fail(io::Error::new(io::ErrorKind::DirectoryNotEmpty, detail)));
            }
        }
        std::os::unix::fs::symlink(&target, &path).map_err(fail)
    }

    fn sync_folder(&self, folder: &str) -> Result<(), DiskError> {
        sync_names(&self.path(folder))
    }

    fn lock(&self, name: &str) -> Result<Box<dyn DiskLock>, DiskError> {
        let path = self.path(name);
        let fail = |error| DiskError::io(Operation::Lock, &path, error);
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(fail)?;
        Ok(Box::new(self.take(file, path, FlockOperation::NonBlockingLockExclusive)?))
    }

    fn lock_to_read(&self, name: &str) -> Result<Option<Box<dyn DiskLock>>, DiskError> {
        let path = self.path(name);
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(DiskError::io(Operation::Lock, &path, error)),
        };
        Ok(Some(Box::new(self.take(file, path, FlockOperation::NonBlockingLockShared)?)))
    }

    fn lock_folder(&self, folder: &str) -> Result<Box<dyn DiskLock>, DiskError> {
        self.take_folder(folder, FlockOperation::NonBlockingLockExclusive)
    }

    fn lock_folder_to_read(&self, folder: &str) -> Result<Box<dyn DiskLock>, DiskError> {
        self.take_folder(folder, FlockOperation::NonBlockingLockShared)
    }

    fn folder_id(&self, folder: &str) -> Result<FolderId, DiskError> {
        let found = self.metadata(folder)?;
        if !found.is_dir() {
            let error = io::ErrorKind::NotADirectory.into();
            return Err(DiskError::io(Operation::Identify, &self.path(folder), error));
        }
        let born = found.created().ok().map(|at| match at.duration_since(UNIX_EPOCH) {
            Ok(after) => after.as_nanos() as i128,
            Err(before) => -(before.duration().as_nanos() as i128),
        });
        Ok(FolderId { inode: found.ino(), born_nanos: born })
    }

    fn file_id(&self, name: &str) -> Result<u64, DiskError> {
        Ok(self.metadata(name)?.ino())
    }

    fn links(&self, name: &str) -> Result<u64, DiskError> {
        Ok(self.metadata(name)?.nlink())
    }

    fn free_bytes(&self, folder: &str) -> Result<Option<u64>, DiskError> {
        let path = self.path(folder);
        match rustix::fs::statvfs(&path) {
            Ok(found) => Ok(Some(found.f_bavail.saturating_mul(found.f_frsize))),
            Err(Errno::NOSYS | Errno::OPNOTSUPP) => Ok(None),
            Err(error) => Err(DiskError::io(Operation::FreeSpace, &path, error.into())),
        }
    }

    fn process(&self) -> Process {
        self.process.clone()
    }
}

#[derive(Debug)]
struct RealLock {
    file: File,
    path: PathBuf,
    process: Process,
}

impl RealLock {
    fn metadata(&self) -> Result<fs::Metadata, DiskError> {
        self.file.metadata().map_err(|error| DiskError::io(Operation::Identify, &self.path, error))
    }
}

impl Drop for RealLock {
    fn drop(&mut self) {
        // Closing alone would leave it to a child process that was forked meanwhile and has not executed its program yet.
        // I4: a child that unlocked would give back the lock of its parent, which shares the open file.
        if self.process.is_this() {
            let _ = flock(&self.file, FlockOperation::Unlock);
        }
    }
}

impl DiskLock for RealLock {
    fn file_id(&self) -> Result<u64, DiskError> {
        Ok(self.metadata()?.ino())
    }

    fn links(&self) -> Result<u64, DiskError> {
        Ok(self.metadata()?.nlink())
    }
}

#[derive(Debug)]
struct RealFile {
    file: File,
    path: PathBuf,
}

impl RealFile {
    /// Advice that is not taken changes nothing.
    #[cfg(target_os = "linux")]
    fn advise(&self, offset: u64, bytes: u64, advice: rustix::fs::Advice) {
        let _ = rustix::fs::fadvise(&self.file, offset, std::num::NonZero::new(bytes), advice);
    }

    fn fail(&self, operation: Operation) -> impl Fn(io::Error) -> DiskError + '_ {
        move |error| DiskError::io(operation, &self.path, error)
    }
}

impl DiskFile for RealFile {
    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<(), DiskError> {
        self.file.write_all_at(bytes, offset).map_err(self.fail(Operation::Write))
    }

    fn read_at(&self, bytes: &mut [u8], offset: u64) -> Result<usize, DiskError> {
        let mut done = 0;
        while done < bytes.len() {
            match self.file.read_at(&mut bytes[done..], offset + done as u64) {
                Ok(0) => break,
                Ok(read) => done += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.fail(Operation::Read)(error)),
            }
        }
        Ok(done)
    }

    fn will_need(&self, offset: u64, bytes: u64) {
        #[cfg(target_os = "linux")]
        self.advise(offset, bytes, rustix::fs::Advice::WillNeed);
        #[cfg(not(target_os = "linux"))]
        let _ = (offset, bytes);
    }

    fn write_behind(&self, offset: u64, bytes: u64) {
        // Linux begins to write pages that are not needed, and drops those that are written.
        #[cfg(target_os = "linux")]
        self.advise(offset, bytes, rustix::fs::Advice::DontNeed);
        #[cfg(not(target_os = "linux"))]
        let _ = (offset, bytes);
    }

    fn len(&self) -> Result<u64, DiskError> {
        Ok(self.file.metadata().map_err(self.fail(Operation::Length))?.len())
    }

    fn set_len(&self, bytes: u64) -> Result<(), DiskError> {
        self.file.set_len(bytes).map_err(self.fail(Operation::Length))
    }

    fn preallocate(&self, bytes: u64) -> Result<(), DiskError> {
        let have = self.len()?;
        if have >= bytes {
            return Ok(());
        }
        #[cfg(target_os = "linux")]
        {
            use rustix::fs::{FallocateFlags, fallocate};
            use rustix::io::Errno;
            loop {
                match fallocate(&self.file, FallocateFlags::empty(), have, bytes - have) {
                    Ok(()) => return Ok(()),
                    Err(Errno::INTR) => {}
                    // This file system or kernel cannot: growing the file is all that is promised.
                    Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => break,
                    Err(error) => return Err(self.fail(Operation::Preallocate)(error.into())),
                }
            }
        }
        self.file.set_len(bytes).map_err(self.fail(Operation::Preallocate))
    }

    fn sync_data(&self) -> Result<(), DiskError> {
        self.file.sync_data().map_err(self.fail(Operation::Sync))
    }

    fn sync_all(&self) -> Result<(), DiskError> {
        self.file.sync_all().map_err(self.fail(Operation::Sync))
    }
}

#[cfg(test)]
mod tests;
