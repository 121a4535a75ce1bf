//! Objects of an application whose logged change failed: the log has an operation that the object lacks, or half has.
//!
//! ```text
//! change   log | make: fails -> the object is poisoned, under the caller's guard
//! log      refused for a poisoned object
//! walk     refused while an object is poisoned: no checkpoint covers the operation, and the log keeps it
//! open     makes the change again, on the object as the checkpoint has it
//! ```
//! Without a log, nothing keeps later changes of any object, as no checkpoint is made. So after a poison every change
//! is refused until the next open, which has the state of the last checkpoint.
//!
//! Invariants:
//! - O6: an object is poisoned before its guard is free, so the next holder of the guard finds the poison.
//! - `log` pays nothing: the first poisoned object sends all later entries on the waiting path, which asks.
//!
//! Neighbours: [`ApplicationLog`] poisons and refuses; `recovery` poisons at an open; `walk` asks.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::mem;

use ensile_base::sync::{AtomicU64, Mutex, Ordering};

use super::{ApplicationLog, NewOperation};
use crate::error::{ObjectsError, ObjectsResult as Result};
use crate::receipt::{ChangeReceipt as _, ObjectReceipt};

/// Reason of a failed change's poison.
pub(super) const NOT_MADE: &str = "a change of it failed after the log entry";

/// Poisoned objects with reasons of their own, at most.
const REASONS_MAX: usize = 1000;

/// Reason of an object beyond [`REASONS_MAX`].
const NOT_KEPT: &str =
    "it is not loaded or not replayed, and the reason is not kept beside those of 1000 other objects";

/// Poisoned objects.
#[derive(Debug)]
pub(super) struct PoisonedObjects {
    /// Reasons by the objects' numbers.
    reasons: Mutex<BTreeMap<u64, Cow<'static, str>>>,
    count: AtomicU64,
    /// True if changes are logged, and the next open makes a failed change again.
    is_logged: bool,
}

impl PoisonedObjects {
    pub(super) fn new(is_logged: bool) -> Self {
        Self { reasons: Mutex::default(), count: AtomicU64::new(0), is_logged }
    }

    /// Poisons an object. A poisoned object keeps its first reason. Texts are kept for [`REASONS_MAX`] objects.
    pub(super) fn add(&self, object: u64, why: impl Into<Cow<'static, str>>) {
        let mut reasons = self.reasons.lock();
        let why = match why.into() {
            Cow::Owned(_) if reasons.len() >= REASONS_MAX => Cow::Borrowed(NOT_KEPT),
            why => why,
        };
        reasons.entry(object).or_insert(why);
        // Relaxed: a figure for people.
        self.count.store(reasons.len() as u64, Ordering::Relaxed);
    }

    pub(super) fn has(&self, object: u64) -> bool {
        self.reasons.lock().contains_key(&object)
    }

    /// Number of poisoned objects.
    pub(super) fn count(&self) -> u64 {
        // Relaxed: a figure for people.
        self.count.load(Ordering::Relaxed)
    }

    /// Fails if a change of the object is refused: the object is poisoned, or nothing is logged and any object is
    /// poisoned.
    fn check(&self, object: u64) -> Result<()> {
        let reasons = self.reasons.lock();
        let refusing =
            if self.is_logged { reasons.get_key_value(&object) } else { reasons.first_key_value() };
        match refusing {
            Some((object, why)) => Err(self.poisoned_error(*object, why)),
            None => Ok(()),
        }
    }

    /// Fails if any object is poisoned. The error is the reason, for the first of the objects.
    pub(super) fn check_all(&self) -> std::result::Result<(), String> {
        match self.reasons.lock().first_key_value() {
            Some((object, why)) => Err(self.poisoned_error(*object, why).to_string()),
            None => Ok(()),
        }
    }

    fn poisoned_error(&self, object: u64, why: &str) -> ObjectsError {
        let why = why.into();
        if self.is_logged {
            ObjectsError::PoisonedUntilOpen { object, why }
        } else {
            ObjectsError::PoisonedUnlogged { object, why }
        }
    }
}

impl ApplicationLog {
    /// Poisons an object whose change failed after [`log`](Self::log): the log has an operation that the object lacks.
    /// The caller still holds the object's guard. Until the next open, [`log`](Self::log) and [`change`](Self::change)
    /// refuse the object, and no checkpoint is made, so the log keeps the operation. The open makes the change again.
    /// The application refuses the object to its own readers ([`is_poisoned`](Self::is_poisoned)).
    ///
    /// A [`change`](Self::change) whose `make` panics poisons its object without this call.
    ///
    /// ```
    /// # use ensile_objects::{ApplicationLog, ObjectsResult};
    /// # const OP_ADD: u32 = 0;
    /// /// The sum, or `None` if the sum is too large.
    /// fn add(balance: &mut i64, log: &ApplicationLog, id: u64, by: i64) -> ObjectsResult<Option<i64>> {
    ///     log.log(id, OP_ADD, &[&by.to_le_bytes()])?;
    ///     let Some(sum) = balance.checked_add(by) else {
    ///         log.poison(id)?; // better: check before the log call
    ///         return Ok(None);
    ///     };
    ///     *balance = sum;
    ///     Ok(Some(sum))
    /// }
    /// ```
    ///
    /// Without a log ([`NoLog`](crate::ObjectDurability::NoLog)) no open makes the change again, and later changes of
    /// any object would be lost. [`log`](Self::log) and [`change`](Self::change) then refuse every object, with
    /// [`ObjectsError::PoisonedUnlogged`].
    ///
    /// # Errors
    /// [`ObjectsError::Misuse`] for `u64::MAX`; [`ObjectsError::Storage`] in a forked process;
    /// [`ObjectsError::InCallBack`] in user code (O8).
    pub fn poison(&self, object: u64) -> Result<()> {
        self.runtime.check_caller()?;
        if object == u64::MAX {
            return Err(ObjectsError::no_object());
        }
        self.runtime.change_failed(object);
        Ok(())
    }

    /// True if an object is poisoned: a change failed after its log entry, or its replay failed at an open with
    /// [`open_poisoned`](crate::ObjectsBuilder::open_poisoned). The caller holds the object's guard.
    ///
    /// # Errors
    /// [`ObjectsError::Storage`] in a forked process.
    pub fn is_poisoned(&self, object: u64) -> Result<bool> {
        self.runtime.check_process()?;
        Ok(self.runtime.is_detour_taken() && self.slots.poisoned_objects().has(object))
    }

    /// Fails if a change of the object is refused for a poison. Without a log, a change beside the failed change may be
    /// taken, as an earlier change was.
    pub(super) fn check_whole(&self, object: u64) -> Result<()> {
        if self.runtime.is_detour_taken() { self.slots.poisoned_objects().check(object) } else { Ok(()) }
    }

    /// Logs an operation, and makes its change. If `make` panics, the object is poisoned.
    #[inline]
    pub(super) fn change_new<R>(
        &self,
        operation: NewOperation<'_>,
        make: impl FnOnce() -> R,
    ) -> Result<(R, ObjectReceipt<'_>)> {
        let receipt = self.log_new(operation)?;
        let unmade = UnmadeChange { log: self, object: operation.object };
        let made = receipt.make(operation.object, make);
        // The change is made.
        mem::forget(unmade);
        Ok((made, receipt))
    }
}

/// A logged change under way. If the change does not return, its object is poisoned.
struct UnmadeChange<'l> {
    log: &'l ApplicationLog,
    object: u64,
}

impl Drop for UnmadeChange<'_> {
    #[cold]
    fn drop(&mut self) {
        // In a forked process nothing is written, so nothing can be lost.
        let _ = self.log.poison(self.object);
    }
}
