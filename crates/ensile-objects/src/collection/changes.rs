//! Changes of objects: operations, whole values and removals.
//!
//! Invariant: R2: a refusal rests on the epoch of the object's last operation, because a refusal has seen the object as
//! a read does.
//!
//! Neighbours: `change_steps` and `unlogged_changes` have the steps; applications call.

use super::cell::CellState;
use super::change_steps::Poison;
use super::lookup::{KeyLookup, locked_guess, poisoned_error};
use super::objects::Objects;
use super::persistent::{ObjectKey, Persistent};
use crate::error::ObjectsResult as Result;
use crate::format::BodyForm;
use crate::receipt::ObjectReceipt;

impl<K: ObjectKey, T: Persistent> Objects<K, T> {
    /// Logs an operation on the object of this key and applies the operation. With strict durability the operation is
    /// durable at the return; with relaxed durability soon afterwards.
    ///
    /// # Errors
    /// As for [`Objects::submit`]; with strict durability also the errors of [`ObjectReceipt::durable`]: the operation
    /// was logged and applied then.
    ///
    /// # Panics
    /// If the operation panics. The operation was logged then, and its object is poisoned: see
    /// [`ObjectsError::Poisoned`](crate::ObjectsError::Poisoned).
    #[inline]
    pub fn update(&self, key: K, operation: &T::Operation) -> Result<T::Output> {
        let (output, receipt) = self.submit(key, operation)?;
        self.runtime.wait_if_strict(receipt.epoch())?;
        Ok(output)
    }

    /// As [`Objects::update`], without waiting: the receipt tells when the operation is durable.
    ///
    /// # Errors
    /// [`ObjectsError::Poisoned`](crate::ObjectsError::Poisoned),
    /// [`ObjectsError::KeyTooLong`](crate::ObjectsError::KeyTooLong), or
    /// [`ObjectsError::Storage`](crate::ObjectsError::Storage) while the log takes no entries: nothing was changed.
    /// [`ObjectsError::NotDeterministic`](crate::ObjectsError::NotDeterministic): the operation was logged and applied.
    ///
    /// # Panics
    /// As for [`Objects::update`].
    #[inline]
    pub fn submit(&self, key: K, operation: &T::Operation) -> Result<(T::Output, ObjectReceipt<'_>)> {
        if !self.is_usual {
            return self.submit_unusual(&key, operation);
        }
        debug_assert!(self.runtime.is_logged() && !self.is_checked);
        let lookup = self.find_ahead(&key);
        let worker = self.operation(&key, operation)?;
        self.change(&key, lookup, worker, Poison::Refuses, |state| self.apply_unchecked(state, operation))
    }

    /// As [`submit`](Self::submit), without a log or with checked operations.
    #[inline(never)]
    fn submit_unusual(&self, key: &K, operation: &T::Operation) -> Result<(T::Output, ObjectReceipt<'_>)> {
        let apply = |state: &mut CellState<K, T>| self.apply(key, state, operation);
        let (output, receipt) = if self.runtime.is_logged() {
            let worker = self.operation(key, operation)?;
            self.change(key, self.find_ahead(key), worker, Poison::Refuses, apply)?
        } else {
            self.change_unlogged(key, Poison::Refuses, apply)?
        };
        Ok((output?, receipt))
    }

    /// As [`Objects::update`], if `check` allows the operation: `check` sees the object under the object's lock, before
    /// anything is logged. An error of `check` is returned unchanged, and nothing was changed. The error is an answer
    /// too: with strict durability it is returned once the state that `check` saw is durable.
    ///
    /// # Errors
    /// As for [`Objects::update`].
    ///
    /// # Panics
    /// As for [`Objects::update`]; also if `check` panics: nothing was logged then.
    pub fn update_if<E>(
        &self,
        key: K,
        operation: &T::Operation,
        check: impl Fn(Option<&T>) -> Result<(), E>,
    ) -> Result<Result<T::Output, E>> {
        let (outcome, receipt) = self.submit_if(key, operation, check)?;
        self.runtime.wait_if_strict(receipt.epoch())?;
        Ok(outcome)
    }

    /// As [`Objects::update_if`], without waiting: the receipt tells when the operation is durable, or when the state
    /// behind a refusal is durable.
    ///
    /// # Errors
    /// As for [`Objects::submit`].
    ///
    /// # Panics
    /// As for [`Objects::update_if`].
    pub fn submit_if<E>(
        &self,
        key: K,
        operation: &T::Operation,
        check: impl Fn(Option<&T>) -> Result<(), E>,
    ) -> Result<(Result<T::Output, E>, ObjectReceipt<'_>)> {
        if !self.runtime.is_logged() {
            let change = |state: &mut CellState<K, T>| self.apply(&key, state, operation);
            let (outcome, receipt) = self.change_unlogged_if(&key, Poison::Refuses, check, change)?;
            return Ok(match outcome {
                Ok(output) => (Ok(output?), receipt),
                Err(refusal) => (Err(refusal), receipt),
            });
        }
        let worker = self.operation(&key, operation)?;
        let mut worker = self.runtime.unless_refused(worker)?;
        let KeyLookup { hash, mut guess } = self.find_ahead(&key);
        loop {
            // Without log space: `check` is user code (O3).
            let guessed = guess.take().and_then(|cell| locked_guess(cell, &key));
            let mut state = guessed.unwrap_or_else(|| self.state.shards.find_or_make(&key, hash).lock());
            if !state.belongs_to(&key) {
                continue;
            }
            if state.is_poisoned {
                drop(state);
                self.runtime.give_back(worker);
                return Err(poisoned_error(&key));
            }
            if let Err(refusal) = self.check_object(&state, &check) {
                let epoch = self.rests_on(&state, hash);
                drop(state);
                self.runtime.give_back(worker);
                return Ok((Err(refusal), ObjectReceipt::new(&self.runtime, epoch)));
            }
            if let Some(tid) = self.runtime.log_at_once(&mut worker, &mut state.tid) {
                debug_assert_eq!(state.tid, tid, "O1: the object has the TID of its last operation");
                self.runtime.give_back(worker);
                let output = self.apply(&key, &mut state, operation)?;
                return Ok((Ok(output), ObjectReceipt::new(&self.runtime, tid.epoch())));
            }
            let locked = self.runtime.with_space(state, worker)?;
            match self.log_and(locked, |state| self.apply(&key, state, operation))? {
                Ok((output, receipt)) => return Ok((Ok(output?), receipt)),
                Err(again) => worker = again,
            }
        }
    }

    /// Replaces the object, even a poisoned object, by this whole value (SLACH's value log).
    ///
    /// # Errors
    /// As for [`Objects::submit`].
    pub fn put(&self, key: K, object: T) -> Result<ObjectReceipt<'_>> {
        let worker = match self.runtime.is_logged() {
            true => Some(self.entry(&key, BodyForm::Value, T::VERSION, |bytes| object.encode(bytes))?),
            false => None,
        };
        let mut object = Some(object);
        let become_it = |state: &mut CellState<K, T>| state.become_known(object.take(), &self.state.poisoned);
        self.become_known(&key, worker, become_it)
    }

    /// Removes the object, even a poisoned object. The removal of a missing object is logged as well.
    ///
    /// # Errors
    /// As for [`Objects::submit`].
    pub fn remove(&self, key: K) -> Result<ObjectReceipt<'_>> {
        let worker = match self.runtime.is_logged() {
            true => Some(self.entry(&key, BodyForm::Removal, 0, |_| {})?),
            false => None,
        };
        let remove = |state: &mut CellState<K, T>| state.become_known(None, &self.state.poisoned);
        self.become_known(&key, worker, remove)
    }
}
