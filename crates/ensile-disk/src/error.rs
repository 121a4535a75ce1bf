//! Errors of file operations: the operation, the path and the system's own error.
//!
//! Neighbours: the durability crate carries the error up unchanged, and decides its meaning.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Kind of a disk operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Opening an existing file.
    Open,
    /// Making a file.
    Create,
    /// Listing a folder, or looking up a name.
    List,
    /// Renaming.
    Rename,
    /// Adding a name to a file.
    AddName,
    /// Removing.
    Remove,
    /// Making a folder.
    CreateFolder,
    /// Making a link to a folder.
    LinkFolder,
    /// Syncing the names of a folder.
    SyncFolder,
    /// Taking a lock.
    Lock,
    /// Reading bytes.
    Read,
    /// Writing bytes.
    Write,
    /// Setting or reading the length.
    Length,
    /// Setting space aside.
    Preallocate,
    /// Mapping a file.
    Map,
    /// Syncing a file.
    Sync,
    /// Reading the identity of a file or folder, or its number of names.
    Identify,
    /// Reading the free space.
    FreeSpace,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Open => "open",
            Self::Create => "create",
            Self::List => "list",
            Self::Rename => "rename",
            Self::AddName => "give one more name to",
            Self::Remove => "remove",
            Self::CreateFolder => "create the folder",
            Self::LinkFolder => "make a link to the folder",
            Self::SyncFolder => "sync the folder",
            Self::Lock => "lock",
            Self::Read => "read",
            Self::Write => "write",
            Self::Length => "set or get the length of",
            Self::Preallocate => "set space aside for",
            Self::Map => "map",
            Self::Sync => "sync",
            Self::Identify => "tell the identity of",
            Self::FreeSpace => "tell the free space of",
        })
    }
}

/// A failed disk operation.
#[derive(Debug, thiserror::Error)]
pub enum DiskError {
    /// Another holder has the lock: this process, another process, or a forked child that has not executed a program of
    /// its own. Close the database there, or open another folder.
    #[error(
        "{} is in use by another process, a process forked from it, or another handle: close it there first",
        path.display()
    )]
    InUse {
        /// File or folder of the lock.
        path: PathBuf,
    },
    /// This process was forked from the process that opened the disk. Open handles belong to that process: open the
    /// disk anew.
    #[error(
        "cannot {operation} {}: this process was forked from the one that opened the database: open it anew",
        path.display()
    )]
    Forked {
        /// The refused operation.
        operation: Operation,
        /// Path of the file or folder.
        path: PathBuf,
    },
    /// The open file or folder has no name any more. A power failure takes its bytes, even synced bytes.
    #[error("{} was removed while it was open", path.display())]
    Removed {
        /// Path of the file or folder at its opening.
        path: PathBuf,
    },
    /// The system refused the operation. After a failed sync, the state of bytes written since the last good sync is
    /// unknown.
    #[error("cannot {operation} {}: {source}", path.display())]
    Io {
        /// The failed operation.
        operation: Operation,
        /// Path of the file or folder.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
}

impl DiskError {
    /// The system's error `source` of `operation` on `path`.
    #[must_use]
    pub fn io(operation: Operation, path: &Path, source: io::Error) -> Self {
        Self::Io { operation, path: path.to_owned(), source }
    }

    fn has_kind(&self, kind: io::ErrorKind) -> bool {
        matches!(self, Self::Io { source, .. } if source.kind() == kind)
    }

    /// True if the file does not exist.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        self.has_kind(io::ErrorKind::NotFound)
    }

    /// True if something else has the name.
    #[must_use]
    pub fn is_already_exists(&self) -> bool {
        self.has_kind(io::ErrorKind::AlreadyExists)
    }

    /// True if the disk has no space, a quota is used up, or the file reaches the process's limit of length. Bytes
    /// written before stay as they are, and the operation may succeed later. A sync that fails with this error is a
    /// failed sync like any other.
    #[must_use]
    pub fn is_full(&self) -> bool {
        let kinds = [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded, io::ErrorKind::FileTooLarge];
        kinds.into_iter().any(|kind| self.has_kind(kind))
    }

    /// True if the process or the machine has no descriptor left. The operation may succeed later.
    #[must_use]
    pub fn is_out_of_descriptors(&self) -> bool {
        let codes =
            [rustix::io::Errno::MFILE, rustix::io::Errno::NFILE].map(|code| Some(code.raw_os_error()));
        matches!(self, Self::Io { source, .. } if codes.contains(&source.raw_os_error()))
    }

    /// True if the file system cannot do the operation at all, now or later.
    #[must_use]
    pub fn is_unsupported(&self) -> bool {
        self.has_kind(io::ErrorKind::Unsupported)
    }

    /// True if this process was forked from the process that opened the disk.
    #[must_use]
    pub fn is_forked(&self) -> bool {
        matches!(self, Self::Forked { .. })
    }

    /// True if the system forbids the operation.
    #[must_use]
    pub fn is_permission_denied(&self) -> bool {
        self.has_kind(io::ErrorKind::PermissionDenied)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Error, ErrorKind};

    use super::{DiskError, Operation};

    fn of(error: Error) -> DiskError {
        DiskError::io(Operation::Write, "log0/log-1-0".as_ref(), error)
    }

    #[test]
    fn a_refusal_for_want_of_space_is_told_from_any_other() {
        for kind in [ErrorKind::StorageFull, ErrorKind::QuotaExceeded, ErrorKind::FileTooLarge] {
            assert!(of(kind.into()).is_full(), "{kind:?}");
        }
        for kind in [ErrorKind::PermissionDenied, ErrorKind::OutOfMemory, ErrorKind::ReadOnlyFilesystem] {
            assert!(!of(kind.into()).is_full(), "{kind:?}");
        }
        let in_use = DiskError::InUse { path: "LOCK".into() };
        assert!(!in_use.is_full() && !in_use.is_not_found() && !in_use.is_out_of_descriptors());
    }

    #[test]
    fn descriptors_are_used_up_of_the_process_or_of_the_machine() {
        // EMFILE and ENFILE; ENOMEM, ENOSPC and EBADF.
        for (code, is_used_up) in [(24, true), (23, true), (12, false), (28, false), (9, false)] {
            let error = of(Error::from_raw_os_error(code));
            assert_eq!(error.is_out_of_descriptors(), is_used_up, "{error}");
        }
    }
}
