//! Steps of a logged change: the entry is encoded, and logged under the object's lock; then the change is applied.
//!
//! Invariants:
//! - O2: the cell is in its shard before the operation is logged.
//! - O1, O3, E1: as `crate::runtime` logs.
//!
//! Neighbours: `changes` takes the steps; `crate::runtime` logs.

use ensile_base::limits::KEY_BYTES_MAX;

use super::cell::{Applying, CellState};
use super::lookup::{KeyLookup, locked_guess, poisoned_error};
use super::objects::Objects;
use super::persistent::{ObjectKey, Persistent};
use super::shadow_copy::Checked;
use super::shards::KeyHash;
use crate::error::{ObjectsError, ObjectsResult as Result};
use crate::format::{BodyForm, encode_body};
use crate::receipt::ObjectReceipt;
use crate::runtime::{LockedObject, LogAttempt, LogWorker};

/// Effect of a change on a poisoned object: the object refuses the change, or the change ends the poison.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Poison {
    Refuses,
    Ends,
}

/// Outcome of a change and its receipt; or the worker, to try again.
type ChangeAttempt<'o, O> = Result<(O, ObjectReceipt<'o>), Box<LogWorker>>;

impl<K: ObjectKey, T: Persistent> Objects<K, T> {
    #[inline]
    pub(super) fn operation(&self, key: &K, operation: &T::Operation) -> Result<Box<LogWorker>> {
        self.entry(key, BodyForm::Operation, T::OPERATION_VERSION, |bytes| {
            T::encode_operation(operation, bytes);
        })
    }

    #[inline(always)]
    pub(super) fn entry(
        &self,
        key: &K,
        form: BodyForm,
        version: u16,
        encode: impl FnOnce(&mut Vec<u8>),
    ) -> Result<Box<LogWorker>> {
        self.runtime.check_caller()?;
        let mut worker = self.runtime.worker()?;
        let encoded = {
            let _user_code = self.runtime.user_code();
            encode_body(&mut worker.body, form, version, |out| key.encode(out), encode)
        };
        if let Err(bytes) = encoded {
            self.runtime.give_back(worker);
            return Err(ObjectsError::KeyTooLong { bytes, limit: KEY_BYTES_MAX });
        }
        Ok(worker)
    }

    /// Logs the worker's entry under the object's lock, and applies `change` to the object.
    #[inline]
    pub(super) fn change<O>(
        &self,
        key: &K,
        lookup: KeyLookup<'_, K, T>,
        mut worker: Box<LogWorker>,
        poison: Poison,
        mut change: impl FnMut(&mut CellState<K, T>) -> O,
    ) -> Result<(O, ObjectReceipt<'_>)> {
        // The usual case: the guessed cell is the key's, its lock is free, and the log has space.
        if let Some(mut state) = lookup.guess.and_then(|cell| locked_guess(cell, key))
            && !(state.is_poisoned && poison == Poison::Refuses)
            && let Some(tid) = self.runtime.log_at_once(&mut worker, &mut state.tid)
        {
            debug_assert_eq!(state.tid, tid, "O1: the object has the TID of its last operation");
            self.runtime.give_back(worker);
            return Ok((change(&mut state), ObjectReceipt::new(&self.runtime, tid.epoch())));
        }
        self.change_waiting(key, lookup.hash, worker, poison, change)
    }

    /// As [`change`](Self::change), with every wait, creation and refusal.
    #[cold]
    #[inline(never)]
    fn change_waiting<O>(
        &self,
        key: &K,
        hash: KeyHash,
        mut worker: Box<LogWorker>,
        poison: Poison,
        mut change: impl FnMut(&mut CellState<K, T>) -> O,
    ) -> Result<(O, ObjectReceipt<'_>)> {
        loop {
            // A refused change leaves no cell for a new key.
            worker = self.runtime.unless_refused(worker)?;
            // The cell is the key's own, unless the cell is removed meanwhile. Space comes first: no thread waits for
            // the disk under a lock.
            let cell = self.state.shards.find_or_make(key, hash);
            let locked = self.runtime.lock(cell, worker)?;
            if !locked.state.belongs_to(key) {
                worker = self.runtime.unlock(locked);
                continue;
            }
            if locked.state.is_poisoned && poison == Poison::Refuses {
                worker = self.runtime.unlock(locked);
                self.runtime.give_back(worker);
                return Err(poisoned_error(key));
            }
            match self.log_and(locked, &mut change)? {
                Ok(done) => return Ok(done),
                Err(again) => worker = again,
            }
        }
    }

    /// Gives an object a known state, whatever its state was. The worker, if present, logs the change.
    #[inline]
    pub(super) fn become_known(
        &self,
        key: &K,
        worker: Option<Box<LogWorker>>,
        mut become_it: impl FnMut(&mut CellState<K, T>),
    ) -> Result<ObjectReceipt<'_>> {
        let change = |state: &mut CellState<K, T>| {
            // The old object is dropped here.
            let _user_code = self.runtime.user_code();
            become_it(state);
        };
        let ((), receipt) = match worker {
            Some(worker) => self.change(key, self.find_ahead(key), worker, Poison::Ends, change)?,
            None => self.change_unlogged(key, Poison::Ends, change)?,
        };
        Ok(receipt)
    }

    pub(super) fn check_object<E>(
        &self,
        state: &CellState<K, T>,
        check: impl Fn(Option<&T>) -> Result<(), E>,
    ) -> Result<(), E> {
        let _user_code = self.runtime.user_code();
        check(state.object.as_ref())
    }

    #[inline]
    pub(super) fn log_and<O>(
        &self,
        locked: LockedObject<'_, CellState<K, T>>,
        change: impl FnOnce(&mut CellState<K, T>) -> O,
    ) -> Result<ChangeAttempt<'_, O>> {
        Ok(match self.runtime.log(locked, |state| &mut state.tid)? {
            LogAttempt::Logged(mut state, tid) => {
                debug_assert_eq!(state.tid, tid, "O1: the object has the TID of its last operation");
                let output = change(&mut state);
                Ok((output, ObjectReceipt::new(&self.runtime, tid.epoch())))
            }
            LogAttempt::Again(worker) => Err(worker),
        })
    }

    /// Applies a logged operation. If the operation panics, the object stays poisoned (O6).
    #[inline]
    pub(super) fn apply(
        &self,
        key: &K,
        state: &mut CellState<K, T>,
        operation: &T::Operation,
    ) -> Result<T::Output> {
        if self.is_checked {
            return self.apply_checked(key, state, operation);
        }
        Ok(self.apply_unchecked(state, operation))
    }

    /// As [`apply`](Self::apply), to the object alone.
    #[inline]
    pub(super) fn apply_unchecked(&self, state: &mut CellState<K, T>, operation: &T::Operation) -> T::Output {
        let _user_code = self.runtime.user_code();
        let (place, tid) = (std::ptr::from_ref(state).addr() as u64, state.tid.bits());
        let applying = Applying::begin(state, &self.state.poisoned);
        self.state.applied.measure(place, tid, || applying.apply(operation))
    }

    #[cold]
    fn apply_checked(
        &self,
        key: &K,
        state: &mut CellState<K, T>,
        operation: &T::Operation,
    ) -> Result<T::Output> {
        let _user_code = self.runtime.user_code();
        let copy = Checked::new(state.object.as_ref(), operation);
        let output = Applying::begin(state, &self.state.poisoned).apply(operation);
        match copy.difference(state.object.as_ref()) {
            None => Ok(output),
            Some(difference) => {
                let object = format!("{key:?}").into();
                Err(ObjectsError::NotDeterministic { object, difference })
            }
        }
    }
}
