//! What can go wrong, by what the caller does next.
//!
//! Neighbours: every public call of this crate; the durability crate's errors are handed on as they are.

use std::sync::Arc;

use ensile_base::{Epoch, Tid};
use ensile_durability::DurabilityError;

/// A failure of a call on persistent objects.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ObjectsError {
    /// The log, a checkpoint or a recovery failed; the message says what to do.
    #[error(transparent)]
    Durability(#[from] DurabilityError),
    /// An operation panicked after it was logged, so nobody knows what this object is. All other objects go on. Give it
    /// a whole value, or remove it; or mend the operation and open again.
    #[error(
        "object {object} is poisoned: an operation on it panicked after it was logged; put a whole value, remove it, or mend \
         the operation and open again"
    )]
    Poisoned {
        /// Its key.
        object: Box<str>,
    },
    /// The key's encoding is longer than [`KEY_BYTES_MAX`](crate::limits::KEY_BYTES_MAX). Nothing was changed.
    #[error("a key of {bytes} bytes is longer than the limit of {limit}: make it shorter")]
    KeyTooLong {
        /// Its length.
        bytes: usize,
        /// `KEY_BYTES_MAX`.
        limit: usize,
    },
    /// An operation came to something else when it was applied again to a copy of the object. It was logged and
    /// applied. Mend the operation: what recovery makes of it is not what was seen.
    #[error("the operation on object {object} is not deterministic: {difference}; mend it")]
    NotDeterministic {
        /// The object's key.
        object: Box<str>,
        /// The first difference.
        difference: Box<str>,
    },
    /// A call-back could not replay a logged operation, or panicked. Nothing was changed: mend it, or let it pass this
    /// operation over, and open again.
    #[error(
        "object {object}: its operation {tid} cannot be replayed: {why}; nothing was changed: mend the call-back, or let it \
         pass this operation over, and open again"
    )]
    NotReplayed {
        /// The object's number.
        object: u64,
        /// The operation's TID.
        tid: Tid,
        /// What the call-back said.
        why: Box<str>,
    },
    /// The folder has an object whose key is none of this program's ([`ObjectsBuilder::accept_keys`
    /// ](crate::ObjectsBuilder::accept_keys)). Nothing was changed: give the folder of this program, or of this part of
    /// it.
    #[error(
        "the folder has object {object}, which is none of this program's: {why}; nothing was changed: give another folder, or \
         start the program, or the part of it, whose folder it is"
    )]
    OtherKeys {
        /// The object's key.
        object: Box<str>,
        /// What the program says of it.
        why: Box<str>,
    },
    /// The folder has an application's own objects and was opened as a collection, or the other way. Nothing was
    /// changed: open it as the program does whose folder it is, or give another folder.
    #[error("the folder has {found}: open it by `{by}`, or give another folder; nothing was changed")]
    OtherObjects {
        /// Its objects.
        found: &'static str,
        /// Call that opens it.
        by: &'static str,
    },
    /// `u64::MAX` is the number of no object. Nothing was logged.
    #[error("u64::MAX is the number of no object: use a smaller one")]
    NoObject,
    /// Nothing is logged ([`ObjectDurability::NoLog`](crate::ObjectDurability::NoLog)), so no receipt becomes durable.
    /// Ask for a checkpoint, and wait for that.
    #[error("nothing is logged, so nothing becomes durable but by a checkpoint: ask for one and wait for it")]
    NotLogged,
    /// A receipt's epoch is above E, so it is of other objects, and might be waited for without end. Wait by the
    /// objects that gave it.
    #[error(
        "a receipt of epoch {epoch} is of other objects, as {newest} is the newest epoch here: wait by those that gave it"
    )]
    OtherReceipt {
        /// The receipt's.
        epoch: Epoch,
        /// E.
        newest: Epoch,
    },
    /// The system refused a thread. Nothing was opened.
    #[error("the system refuses a thread: {0}")]
    NoThread(Arc<std::io::Error>),
}

/// What calls of this crate return.
pub type ObjectsResult<T, E = ObjectsError> = std::result::Result<T, E>;
