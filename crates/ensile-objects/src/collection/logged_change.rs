//! A change as the log has it.
//!
//! Neighbours: `recovery` reads logged changes, and applies them.

use std::panic::{AssertUnwindSafe, catch_unwind};

use ensile_base::sync::AtomicU64;

use super::cell::{Applying, CellState};
use super::persistent::{CodecResult, ObjectKey, Persistent};
use crate::format::{BodyForm, OF_CHECKPOINT, ObjectBody, check_version};

pub(super) enum LoggedChange<T: Persistent> {
    Operation(T::Operation),
    Value(T),
    Removal,
}

pub(super) fn object_of<T: Persistent>(version: u16, bytes: &[u8]) -> CodecResult<T> {
    check_version(version, T::VERSION, "an object")?;
    T::decode(version, bytes)
}

/// Key and change of a log entry; `None` for an application's own objects.
pub(super) fn decode_logged_change<K: ObjectKey, T: Persistent>(
    body: &[u8],
) -> CodecResult<Option<(K, LoggedChange<T>)>> {
    let body = ObjectBody::decode(body)?;
    let version = body.version;
    let change = match body.form {
        BodyForm::Operation => {
            check_version(version, T::OPERATION_VERSION, "an operation")?;
            LoggedChange::Operation(T::decode_operation(version, body.bytes)?)
        }
        BodyForm::Value => LoggedChange::Value(object_of(version, body.bytes)?),
        BodyForm::Removal => LoggedChange::Removal,
        BodyForm::Call(_) => return Ok(None),
        _ => return Err(OF_CHECKPOINT.into()),
    };
    Ok(Some((K::decode(body.key)?, change)))
}

pub(super) fn apply_again<K, T: Persistent>(
    state: &mut CellState<K, T>,
    change: LoggedChange<T>,
    poisoned: &AtomicU64,
) {
    match change {
        LoggedChange::Operation(operation) if !state.is_poisoned => {
            let applying = Applying::begin(state, poisoned);
            // A panic has poisoned the object.
            let _ = catch_unwind(AssertUnwindSafe(|| applying.apply(&operation)));
        }
        // The object's state is unknown.
        LoggedChange::Operation(_) => {}
        LoggedChange::Value(object) => state.become_known(Some(object), poisoned),
        LoggedChange::Removal => state.become_known(None, poisoned),
    }
    debug_assert!(state.key.is_some(), "O2: a removed object keeps its cell during a recovery");
}
