//! What can go wrong with a file: the operation, the path and the system's own error.
//!
//! Neighbours: carried up unchanged by the durability crate, which decides what it means.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// What was being done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Opening an existing file.
    Open,
    /// Making a file.
    Create,
    /// Listing a folder or asking whether a name exists.
    List,
    /// Renaming.
    Rename,
    /// Giving a file one more name.
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
    /// Setting or asking the length.
    Length,
    /// Setting space aside.
    Preallocate,
    /// Mapping a file.
    Map,
    /// Syncing a file.
    Sync,
    /// Asking which file or folder it is, or how many names it has.
    Identify,
    /// Asking how much space is left.
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
    /// Another holder has the lock: this process, another one, or a child that was forked from one and lives on without
    /// executing a program of its own. Close it there, or open another folder.
    #[error(
        "{} is in use by another process, a process forked from it, or another handle: close it there first",
        path.display()
    )]
    InUse {
        /// The lock's file or folder.
        path: PathBuf,
    },
    /// This process was forked from the one that opened the disk. What is open belongs to that one: open it anew.
    #[error(
        "cannot {operation} {}: this process was forked from the one that opened the database: open it anew",
        path.display()
    )]
    Forked {
        /// What was being done.
        operation: Operation,
        /// To which file or folder.
        path: PathBuf,
    },
    /// The open file or folder has no name any more. A power failure takes its bytes, synced ones too.
    #[error("{} was removed while it was open", path.display())]
    Removed {
        /// Path of the file or folder at its opening.
        path: PathBuf,
    },
    /// The system refused. Nothing is known about bytes written since the last good sync if this was a sync.
    #[error("cannot {operation} {}: {source}", path.display())]
    Io {
        /// What was being done.
        operation: Operation,
        /// To which file or folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

impl DiskError {
    /// The system's error `source` from doing `operation` to `path`.
    #[must_use]
    pub fn io(operation: Operation, path: &Path, source: io::Error) -> Self {
        Self::Io { operation, path: path.to_owned(), source }
    }

    fn is_of(&self, kind: io::ErrorKind) -> bool {
        matches!(self, Self::Io { source, .. } if source.kind() == kind)
    }

    /// Does this say that there is no such file?
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        self.is_of(io::ErrorKind::NotFound)
    }

    /// Does this say that something else has the name?
    #[must_use]
    pub fn is_already_exists(&self) -> bool {
        self.is_of(io::ErrorKind::AlreadyExists)
    }

    /// Does this say that there is no space, no more than a quota allows, or no file as long as the process's limit
    /// allows? What was written before stays as it is, and the operation may succeed later; but from a sync it is a
    /// failed sync like any other.
    #[must_use]
    pub fn is_full(&self) -> bool {
        let kinds = [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded, io::ErrorKind::FileTooLarge];
        kinds.into_iter().any(|kind| self.is_of(kind))
    }

    /// Does this say that the process, or the machine, has no descriptor left? It may succeed later.
    #[must_use]
    pub fn is_out_of_descriptors(&self) -> bool {
        let codes =
            [rustix::io::Errno::MFILE, rustix::io::Errno::NFILE].map(|code| Some(code.raw_os_error()));
        matches!(self, Self::Io { source, .. } if codes.contains(&source.raw_os_error()))
    }

    /// Does this say that the file system cannot do such a thing at all, as opposed to not now?
    #[must_use]
    pub fn is_unsupported(&self) -> bool {
        self.is_of(io::ErrorKind::Unsupported)
    }

    /// Does this say that this process was forked from the one that opened the disk?
    #[must_use]
    pub fn is_forked(&self) -> bool {
        matches!(self, Self::Forked { .. })
    }

    /// Does this say that the system forbids it?
    #[must_use]
    pub fn is_permission_denied(&self) -> bool {
        self.is_of(io::ErrorKind::PermissionDenied)
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
