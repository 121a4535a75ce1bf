//! Locks of the machine: `flock` on an open file or folder.
//!
//! - Each lock has an open file of its own: two locks of the same process exclude each other too.
//! - I4: a forked child shares the open file, and thereby the lock; the child never gives the lock back.
//!
//! Neighbours: [`super::RealDisk`] takes locks.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::error::{DiskError, Operation};
use crate::{DiskLock, Process};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LockedEntry {
    File,
    Folder,
}

#[derive(Debug)]
pub(super) struct RealLock {
    file: File,
    path: PathBuf,
    process: Process,
}

/// Errors of a file system without locks of folders: NFS asks for a writable handle, and a folder has no writable
/// handle.
const NO_FOLDER_LOCKS: [Errno; 6] =
    [Errno::BADF, Errno::INVAL, Errno::ISDIR, Errno::NOLCK, Errno::NOSYS, Errno::OPNOTSUPP];

/// Errors of a file system that cannot lock a file.
const NO_LOCKS: [Errno; 3] = [Errno::NOLCK, Errno::NOSYS, Errno::OPNOTSUPP];

impl RealLock {
    /// Locks an open file or folder without waiting.
    pub(super) fn take(
        file: File,
        entry: LockedEntry,
        path: PathBuf,
        how: FlockOperation,
        process: Process,
    ) -> Result<Self, DiskError> {
        let error = match flock(&file, how) {
            Ok(()) => return Ok(Self { file, path, process }),
            Err(Errno::WOULDBLOCK) => return Err(DiskError::InUse { path }),
            Err(error) => error,
        };
        let detail = match entry {
            LockedEntry::Folder if NO_FOLDER_LOCKS.contains(&error) => {
                format!("this file system cannot lock folders ({error})")
            }
            LockedEntry::File if NO_LOCKS.contains(&error) => format!(
                "this file system cannot lock files ({error}), so nothing would keep a second process out: use another one"
            ),
            _ => return Err(DiskError::io(Operation::Lock, &path, error.into())),
        };
        let error = io::Error::new(io::ErrorKind::Unsupported, detail);
        Err(DiskError::io(Operation::Lock, &path, error))
    }

    fn metadata(&self) -> Result<Metadata, DiskError> {
        self.file.metadata().map_err(|error| DiskError::io(Operation::Identify, &self.path, error))
    }
}

impl Drop for RealLock {
    fn drop(&mut self) {
        // Closing alone would leave the lock to a forked child process before the child executes its program. I4: a
        // child that unlocked would give back the parent's lock.
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

    fn check_named(&self) -> Result<(), DiskError> {
        // A removed folder has no link either, on each file system of Linux.
        if self.links()? > 0 { Ok(()) } else { Err(DiskError::Removed { path: self.path.clone() }) }
    }
}
