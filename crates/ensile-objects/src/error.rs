//! Errors of this crate, by the caller's next step.
//!
//! Neighbours: every public call of this crate; errors of the durability crate pass unchanged.

use std::sync::Arc;

use ensile_base::{Epoch, Tid};
use ensile_durability::{DurabilityError, OtherType};

/// A failure of a call on persistent objects.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ObjectsError {
    /// The log, a checkpoint or a recovery failed; the message names the remedy.
    #[error(transparent)]
    Durability(DurabilityError),
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
    /// A change of this object failed after the log entry, or its replay failed at an open with
    /// [`open_poisoned`](crate::ObjectsBuilder::open_poisoned). All other objects go on, and no checkpoint is made.
    /// Nothing was logged by this call. Open again: the open makes the change again.
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
    /// A change of this object failed, and nothing is logged ([`NoLog`](crate::ObjectDurability::NoLog)). No checkpoint
    /// is made until the next open, so a later change of any object would be lost: every change is refused. Nothing was
    /// changed by this call. Open again: the objects are as in the last checkpoint.
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
    /// Recovery would pass over changes of this object, and lose the changes: no checkpoint has the object, and the log
    /// has neither a marked creation before the changes nor a marked removal after them
    /// ([`ObjectsBuilder::mark_lives`](crate::ObjectsBuilder::mark_lives)). Nothing was changed. Open without
    /// `mark_lives`: then every operation is replayed, so [`replay_one`](crate::Application::replay_one) must accept an
    /// operation on an unknown object. Take a checkpoint there. From then on log each creation with its mark, and write
    /// every existing object.
    #[error(
        "object {object}: changes of it would be lost, as no checkpoint has it and no logged operation is marked as its \
         creation; nothing was changed: open without `mark_lives` (every operation is then replayed), take a \
         checkpoint, and from then on log each creation with its mark"
    )]
    NoCreation {
        /// Number of the object.
        object: u64,
    },
    /// The folder has an object whose key is not of this program
    /// ([`ObjectsBuilder::accept_keys`](crate::ObjectsBuilder::accept_keys)). Nothing was changed: give the folder of
    /// this program, or of this part of the program.
    #[error(
        "the folder has object {object}, which is none of this program's: {why}; nothing was changed: give another folder, or \
         start the program, or the part of it, whose folder it is"
    )]
    OtherKeys {
        /// Key of the object.
        object: Box<str>,
        /// Reason of the program's refusal.
        why: Box<str>,
    },
    /// The folder has keys, objects or operations of another type than the program states
    /// ([`TypeShape`](crate::TypeShape)), for a version that both have. Nothing was changed. Open the folder with the
    /// program of its type, or give another folder. For a changed type, raise its version and give an up-cast. For a
    /// renamed type, give the former name in `former_names`.
    #[error("{0}")]
    OtherType(Box<OtherType>),
    /// The folder has an application's own objects and was opened as a collection, or the other way. Nothing was
    /// changed: open the folder by the call that `by` names, or give another folder.
    #[error("the folder has {found}: open it by `{by}`, or give another folder; nothing was changed")]
    OtherObjects {
        /// Kind of the folder's objects.
        found: &'static str,
        /// Call that opens the folder.
        by: &'static str,
    },
    /// `u64::MAX` is the number of no object. Nothing was logged.
    #[error("u64::MAX is the number of no object: use a smaller one")]
    NoObject,
    /// Nothing is logged ([`ObjectDurability::NoLog`](crate::ObjectDurability::NoLog)), so no receipt becomes durable.
    /// Request a checkpoint, and wait for the checkpoint.
    #[error("nothing is logged, so nothing becomes durable but by a checkpoint: ask for one and wait for it")]
    NotLogged,
    /// A receipt's epoch is above E, so the receipt is of other objects, and the wait might never end. Wait by the
    /// objects that gave the receipt.
    #[error(
        "a receipt of epoch {epoch} is of other objects, as {newest} is the newest epoch here: wait by those that gave it"
    )]
    OtherReceipt {
        /// Epoch of the receipt.
        epoch: Epoch,
        /// E.
        newest: Epoch,
    },
    /// The system refused a thread. Nothing was opened.
    #[error("the system refuses a thread: {0}")]
    NoThread(Arc<std::io::Error>),
}

impl From<DurabilityError> for ObjectsError {
    fn from(error: DurabilityError) -> Self {
        match error {
            DurabilityError::OtherType(other) => Self::OtherType(other),
            error => Self::Durability(error),
        }
    }
}

/// Result of this crate's calls.
pub type ObjectsResult<T, E = ObjectsError> = std::result::Result<T, E>;
