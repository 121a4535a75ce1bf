//! Changes that the log makes itself, and objects whose change failed.
//!
//! Invariant: O6: an object whose change fails is poisoned before its guard is free.
//!
//! Neighbours: `log` logs the operation before its change; `poison` keeps the poisoned objects.

use std::mem;

use super::log::ApplicationLog;
use super::slots::NewOperation;
use crate::error::{ObjectsError, ObjectsResult as Result};
use crate::format::ObjectLife;
use crate::receipt::{ChangeReceipt as _, ObjectReceipt};

impl ApplicationLog {
    /// Logs an operation on an object, and then changes the object by `make`, which calls no handle. The caller holds
    /// the object's guard over the call. The duration of one change in 64 is measured, so that
    /// [`recovery_time`](crate::CheckpointPolicy::recovery_time) follows changes that become dearer. An application
    /// makes either all its changes this way, or by [`ObjectGuard::change`](crate::ObjectGuard::change) with the
    /// receipt, or none: after a first measurement, the durations of changes made after [`log`](Self::log) alone are
    /// unknown.
    ///
    /// ```
    /// # use std::sync::Mutex;
    /// # use ensile_objects::{ApplicationLog, ObjectsResult};
    /// # struct Item { price: f64 }
    /// # struct Items(Vec<Mutex<Item>>);
    /// # const OP_PRICE: u32 = 0;
    /// fn update_price(items: &Items, log: &ApplicationLog, id: u64, price: f64) -> ObjectsResult<()> {
    ///     let mut item = items.0[id as usize].lock().unwrap();
    ///     let ((), receipt) = log.change(id, OP_PRICE, &[&price.to_le_bytes()], || item.price = price)?;
    ///     drop(item);
    ///     receipt.durable()
    /// }
    /// ```
    ///
    /// # Errors
    /// As for [`log`](Self::log): nothing was logged, and nothing is made.
    ///
    /// # Panics
    /// If `make` panics. The object is poisoned before the panic goes on, under the caller's guard: see
    /// [`poison`](Self::poison).
    #[inline]
    pub fn change<R>(
        &self,
        object: u64,
        operation: u32,
        parameters: &[&[u8]],
        make: impl FnOnce() -> R,
    ) -> Result<(R, ObjectReceipt<'_>)> {
        let life = self.marks_lives.then_some(ObjectLife::Change);
        self.change_new(NewOperation { object, life, number: operation, parameters }, make)
    }

    /// As [`change`](Self::change), with a mark of the object's life: see [`log_life`](Self::log_life).
    ///
    /// # Errors
    /// As for [`log_life`](Self::log_life): nothing was logged, and nothing is made.
    ///
    /// # Panics
    /// As for [`change`](Self::change).
    #[inline]
    pub fn change_life<R>(
        &self,
        object: u64,
        life: ObjectLife,
        operation: u32,
        parameters: &[&[u8]],
        make: impl FnOnce() -> R,
    ) -> Result<(R, ObjectReceipt<'_>)> {
        self.check_marks()?;
        self.change_new(NewOperation { object, life: Some(life), number: operation, parameters }, make)
    }

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
        // The drop of a change that panics calls, too.
        let panics = std::thread::panicking();
        debug_assert!(panics || self.runtime.is_detour_taken(), "O6: later entries ask for the poison");
        debug_assert!(panics || self.slots.poisoned_objects().has(object), "O6: readers ask for the poison");
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

    /// Logs an operation, and makes its change. If `make` panics, the object is poisoned.
    #[inline]
    fn change_new<R>(
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
