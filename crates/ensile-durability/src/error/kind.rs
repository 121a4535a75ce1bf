//! The caller's next action after an error, and the wrapper in which the errors of this crate leave the public crates.
//!
//! Invariant: a caller may repeat the call after `Retry`, or open again after `Reopen`, and no commit happens twice. An
//! error that leaves a result committed has another kind, or its outcome is unknown, and the next open shows the
//! outcome.
//!
//! Neighbours: `error` has the errors. The errors of the engine and of objects wrap a [`StorageError`], and have kinds
//! of their own.

use std::marker::PhantomData;

use ensile_disk::DiskError;

use super::DurabilityError;

/// The caller's next action after an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Repeat the call, once the cause that the text names is gone: the call did nothing that counts. After a conflict
    /// or an expiry, repeat the transaction at once.
    Retry,
    /// Correct the call, its arguments or its settings: the same call fails again. Nothing was done.
    FixCall,
    /// Use another folder, mount the missing device, open by the program or the machine that the text names, or adopt
    /// a copy. Nothing was changed.
    WrongFolder,
    /// Free space on the disk, or memory after `MemoryFull`. A call that returned `DiskFull` or `MemoryFull` did
    /// nothing: repeat the call. After any other error of this kind the result may be committed: do not repeat the
    /// write. Wait again, or open again, as the text says.
    FreeSpace,
    /// Restore the folder, or the file that the text names, from a backup or a copy.
    Restore,
    /// Close, open again, and read the outcome: this handle serves no more. The text says if a result is in doubt.
    Reopen,
    /// Nothing to do: the program closed the handle. Open again to go on.
    Closed,
    /// Correct or report a fault in code outside of this call: in an operation, in a call-back, or in Ensile. Then open
    /// again.
    Internal,
}

impl DurabilityError {
    /// The caller's next action.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Disk(error) if error.is_full() => ErrorKind::FreeSpace,
            Self::Disk(error) if error.is_not_found() => ErrorKind::WrongFolder,
            Self::Disk(error) if matches!(**error, DiskError::Removed { .. }) => ErrorKind::Restore,
            Self::NotOpened { kind, .. } => *kind,
            Self::EpochsEnded(_)
            | Self::CheckpointFailed(_)
            | Self::TargetFailed { .. }
            | Self::SharedStore { .. }
            | Self::NotShipped { .. }
            | Self::Cancelled
            | Self::InUse { .. }
            | Self::Disk(_) => ErrorKind::Retry,
            Self::TooLarge { .. }
            | Self::InCallBack
            | Self::Config(_)
            | Self::NotInArchive { .. }
            | Self::TooSlow { .. }
            | Self::ShipsElsewhere { .. } => ErrorKind::FixCall,
            Self::Replay { .. }
            | Self::Unknown { .. }
            | Self::NotOurs { .. }
            | Self::FolderMissing { .. }
            | Self::NotMounted { .. }
            | Self::Copied { .. }
            | Self::WouldLose { .. }
            | Self::ForeignFolder { .. }
            | Self::NotADatabase { .. }
            | Self::OtherEntries { .. }
            | Self::OtherApplication { .. }
            | Self::OtherType(_)
            | Self::NoDatabase { .. }
            | Self::DatabaseExists { .. }
            | Self::NotItsBackup { .. }
            | Self::Unfinished { .. }
            | Self::NotABackup { .. }
            | Self::TakenOver { .. }
            | Self::Fenced { .. }
            | Self::FencedFolder { .. } => ErrorKind::WrongFolder,
            Self::DiskFull(_) | Self::NotDurableYet(_) | Self::NotProven { .. } | Self::NoRoomToOpen(_) => {
                ErrorKind::FreeSpace
            }
            Self::Removed(_) | Self::Damaged { .. } | Self::SharedDamaged { .. } => ErrorKind::Restore,
            Self::OutcomeUnknown(_) | Self::Stopped(_) | Self::Forked => ErrorKind::Reopen,
            Self::Closed(_) => ErrorKind::Closed,
        }
    }
}

/// A failure of the log, the disk, a checkpoint, a folder or a copy. The text has path, offset and remedy; the
/// [kind](Self::kind) is the caller's next action.
#[derive(Clone, Debug, thiserror::Error)]
#[error(transparent)]
pub struct StorageError(DurabilityError);

impl StorageError {
    /// The caller's next action.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.0.kind()
    }

    /// The inner error, for the C library, the `ensile` command and the tests of this workspace. Not for applications:
    /// the inner errors may change with any version.
    #[doc(hidden)]
    #[must_use]
    pub fn cause(&self) -> &DurabilityError {
        &self.0
    }
}

impl From<DurabilityError> for StorageError {
    fn from(error: DurabilityError) -> Self {
        Self(error)
    }
}

impl From<StorageError> for DurabilityError {
    fn from(error: StorageError) -> Self {
        error.0
    }
}

/// Marker in a value whose calls return errors of type `E`. A public crate has an alias of the value's type, and the
/// alias names the crate's own error as `E`.
pub(crate) type Returns<E> = PhantomData<fn() -> E>;

/// The error as the type that a value's calls return.
pub(crate) fn into_caller_error<E: From<StorageError>>(error: impl Into<DurabilityError>) -> E {
    E::from(StorageError(error.into()))
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
