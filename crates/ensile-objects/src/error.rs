//! Errors of this crate: a value for each case that a program acts on, and text for the rest.
//!
//! Neighbours: every public call of this crate returns these errors. The errors of the durability crate become these
//! errors here.

use std::sync::Arc;

use ensile_base::{Epoch, Tid};
use ensile_disk::DiskError;
use ensile_durability::{DurabilityError, ErrorKind, StorageError};

/// A failure of a call on persistent objects, with its remedy. A program matches the cases that it acts on by itself,
/// and decides by [`ObjectsError::kind`] for the rest; the text is for people.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ObjectsError {
    /// An operation panicked after the log entry, so this object's state is unknown. All other objects go on. Give the
    /// object a whole value, or remove it; or mend the operation and open again.
    #[error(
        "object {object} is poisoned: an operation on it panicked after it was logged; put a whole value, remove it, or mend \
         the operation and open again"
    )]
    Poisoned {
        /// Key of the object.
        object: Box<str>,
    },
    /// A change of this object failed after the change's log entry. Or the replay of the change failed at an open with
    /// [`open_poisoned`](crate::ObjectsBuilder::open_poisoned). All other objects go on, and no checkpoint is made.
    /// This call logged nothing. Open again: the open repeats the failed change.
    #[error(
        "object {object} is poisoned: {why}; the object is refused, and no checkpoint is made, until the next open; \
         the open makes the change again: correct the change if it fails again"
    )]
    PoisonedUntilOpen {
        /// Number of the object.
        object: u64,
        /// Failure of the change.
        why: Box<str>,
    },
    /// A change of this object failed at the level [`NoLog`](crate::ObjectDurability::NoLog), which logs nothing. No
    /// checkpoint is made until the next open, so later changes of all objects would be lost. All changes of all
    /// objects are therefore refused. This call changed nothing. Open again: the objects are as in the last checkpoint.
    #[error(
        "object {object} is poisoned: {why}; nothing is logged and no checkpoint is made any more, so changes of all objects \
         are refused: open again; the open has the state of the last checkpoint, without later changes"
    )]
    PoisonedUnlogged {
        /// Number of the poisoned object.
        object: u64,
        /// Failure of the change.
        why: Box<str>,
    },
    /// The key's encoding is longer than [`KEY_BYTES_MAX`](crate::limits::KEY_BYTES_MAX). Nothing was changed.
    #[error("a key of {bytes} bytes is longer than the limit of {limit}: make it shorter")]
    KeyTooLong {
        /// Length of the key in bytes.
        bytes: usize,
        /// The limit `KEY_BYTES_MAX`.
        limit: usize,
    },
    /// An operation had another outcome on a copy of the object. The operation was logged and applied. Mend the
    /// operation: recovery would make another object than the caller saw.
    #[error("the operation on object {object} is not deterministic: {difference}; mend it")]
    NotDeterministic {
        /// Key of the object.
        object: Box<str>,
        /// First difference.
        difference: Box<str>,
    },
    /// A call-back could not replay a logged operation, or panicked. Nothing was changed: mend the call-back, or let it
    /// skip this operation, and open again.
    #[error(
        "object {object}: its operation {tid} cannot be replayed: {why}; nothing was changed: mend the call-back, or let it \
         pass this operation over, and open again"
    )]
    NotReplayed {
        /// Number of the object.
        object: u64,
        /// TID of the operation.
        tid: Tid,
        /// Error of the call-back.
        why: Box<str>,
    },
    /// Nothing is logged ([`ObjectDurability::NoLog`](crate::ObjectDurability::NoLog)), so no receipt becomes durable.
    /// Request a checkpoint, and wait for the checkpoint.
    #[error("nothing is logged, so nothing becomes durable but by a checkpoint: ask for one and wait for it")]
    NotLogged,
    /// A call-back made this call, or a waker that the call would wait for, or a thread with an object's guard. Such a
    /// call-back is an operation, a codec, a replay, a look at an object, or a checkpoint's call-back. Nothing was
    /// done. Return from the call-back, or release the guard, and then call; or call on a thread of your own.
    #[error("{}", DurabilityError::InCallBack)]
    InCallBack,
    /// The disk is full. The operation was neither logged nor made, and no acknowledged result is in doubt. Free some
    /// space and repeat the operation: the log continues by itself.
    #[error("not committed: the disk is full ({0}); free some space and try again")]
    DiskFull(Arc<str>),
    /// An incorrect call or setting: a setting of applications for a collection, a number that no object has, a receipt
    /// of other objects. Nothing was done.
    #[error("{0}")]
    Misuse(Box<str>),
    /// Failure of the log, the disk, a checkpoint, a folder or a copy. Or an open was refused for a cause that a person
    /// must judge: keys, types or objects of another program. The text has the path, the offset and the remedy.
    /// [`StorageError::kind`] is the next action. After [`ErrorKind::Retry`], [`ErrorKind::FixCall`] and
    /// [`ErrorKind::WrongFolder`] nothing was logged. After any other kind a result may be durable.
    #[error(transparent)]
    Storage(StorageError),
}

impl ObjectsError {
    /// The caller's next action.
    ///
    /// ```
    /// use ensile_objects::{ErrorKind, folder::judge_folder};
    ///
    /// let refused = judge_folder("no/such/folder").map(drop);
    /// assert_eq!(refused.expect_err("no folder is there").kind(), ErrorKind::WrongFolder);
    /// ```
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Poisoned { .. } | Self::NotDeterministic { .. } | Self::NotReplayed { .. } => {
                ErrorKind::Internal
            }
            Self::PoisonedUntilOpen { .. } | Self::PoisonedUnlogged { .. } => ErrorKind::Reopen,
            Self::KeyTooLong { .. } | Self::NotLogged | Self::InCallBack | Self::Misuse(_) => {
                ErrorKind::FixCall
            }
            Self::DiskFull(_) => ErrorKind::FreeSpace,
            Self::Storage(error) => error.kind(),
        }
    }
}

impl ObjectsError {
    /// Cause in the log, on the disk or in the folder, if there is one.
    pub(crate) fn cause(&self) -> Option<&DurabilityError> {
        match self {
            Self::Storage(error) => Some(error.cause()),
            _ => None,
        }
    }

    /// Refusal of an open.
    fn not_opened(kind: ErrorKind, text: String) -> Self {
        DurabilityError::NotOpened { kind, text: text.into() }.into()
    }

    /// Recovery would pass over changes of this object, and so lose the changes. No checkpoint has the object. The log
    /// has neither a marked creation before the changes nor a marked removal after the changes
    /// ([`ObjectsBuilder::mark_lives`](crate::ObjectsBuilder::mark_lives)). Nothing was changed.
    pub(crate) fn no_creation(object: u64) -> Self {
        Self::not_opened(
            ErrorKind::FixCall,
            format!(
                "object {object}: changes of it would be lost, as no checkpoint has it and no logged operation is marked as \
                 its creation; nothing was changed: open without `mark_lives` (every operation is then replayed), take a \
                 checkpoint, and from then on log each creation with its mark"
            ),
        )
    }

    /// The folder has an object whose key is not of this program
    /// ([`ObjectsBuilder::accept_keys`](crate::ObjectsBuilder::accept_keys)). Nothing was changed.
    pub(crate) fn other_keys(object: &str, why: &str) -> Self {
        Self::not_opened(
            ErrorKind::WrongFolder,
            format!(
                "the folder has object {object}, which is none of this program's: {why}; nothing was changed: give another \
                 folder, or start the program, or the part of it, whose folder it is"
            ),
        )
    }

    /// The folder has an application's own objects and was opened as a collection. Or the folder has a collection and
    /// was opened as an application. `found` names the folder's objects, and `by` names the call that opens the folder.
    /// Nothing was changed.
    pub(crate) fn other_objects(found: &str, by: &str) -> Self {
        Self::not_opened(
            ErrorKind::WrongFolder,
            format!("the folder has {found}: open it by `{by}`, or give another folder; nothing was changed"),
        )
    }

    /// The system refused a thread. Nothing was opened.
    pub(crate) fn no_thread(reason: &std::io::Error) -> Self {
        Self::not_opened(ErrorKind::Retry, format!("the system refuses a thread: {reason}"))
    }

    /// `u64::MAX` is the number of no object. Nothing was logged.
    pub(crate) fn no_object() -> Self {
        Self::Misuse("u64::MAX is the number of no object: use a smaller one".into())
    }

    /// A receipt's epoch is above E, so the receipt is of other objects, and the wait might never end.
    pub(crate) fn other_receipt(epoch: Epoch, newest: Epoch) -> Self {
        let text = format!(
            "a receipt of epoch {epoch} is of other objects, as {newest} is the newest epoch here: wait by those that gave it"
        );
        Self::Misuse(text.into())
    }
}

impl From<DurabilityError> for ObjectsError {
    fn from(error: DurabilityError) -> Self {
        match error {
            DurabilityError::DiskFull(reason) => Self::DiskFull(reason),
            DurabilityError::Config(what) => Self::Misuse(what.into()),
            DurabilityError::InCallBack => Self::InCallBack,
            error => Self::Storage(error.into()),
        }
    }
}

impl From<DiskError> for ObjectsError {
    fn from(error: DiskError) -> Self {
        DurabilityError::from(error).into()
    }
}

impl From<StorageError> for ObjectsError {
    fn from(error: StorageError) -> Self {
        DurabilityError::from(error).into()
    }
}

/// Result of this crate's calls.
pub type ObjectsResult<T, E = ObjectsError> = std::result::Result<T, E>;

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
