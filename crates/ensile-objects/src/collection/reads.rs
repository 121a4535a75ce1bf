//! Reads of objects, each under its object's lock.
//!
//! Invariant: R1: the result of a read rests on the epoch of the object's last operation.
//!
//! Neighbours: `lookup` finds the cells; applications call.

use std::borrow::Borrow;
use std::hash::Hash;

use ensile_base::Epoch;
use ensile_durability::UserCode;

use super::lookup::{KeyLookup, locked_guess, poisoned_error};
use super::objects::Objects;
use super::persistent::{ObjectKey, Persistent};
use super::shards;
use crate::error::{ObjectsError, ObjectsResult as Result};
use crate::receipt::ObjectReceipt;

impl<K: ObjectKey, T: Persistent> Objects<K, T> {
    /// Shows the object, or `None`, under the object's lock. With strict durability `read` returns once the shown state
    /// is durable.
    ///
    /// # Errors
    /// [`ObjectsError::Poisoned`]; with strict durability also the errors of [`ObjectReceipt::durable`].
    #[inline]
    pub fn read<R>(&self, key: &K, look: impl FnOnce(Option<&T>) -> R) -> Result<R> {
        let (seen, receipt) = self.look(key, look)?;
        self.runtime.wait_if_strict(receipt.epoch())?;
        Ok(seen)
    }

    /// As [`Objects::read`], without waiting: the receipt tells when the shown state is durable.
    ///
    /// # Errors
    /// [`ObjectsError::Poisoned`].
    #[inline]
    pub fn look<R>(&self, key: &K, look: impl FnOnce(Option<&T>) -> R) -> Result<(R, ObjectReceipt<'_>)> {
        self.runtime.check_caller()?;
        let hash = self.state.shards.hash(key);
        let guess = self.state.shards.guess(hash);
        let (seen, epoch) = self.look_at(key, KeyLookup { hash, guess }, look)?;
        Ok((seen, ObjectReceipt::new(&self.runtime, epoch)))
    }

    /// As [`Objects::look`], for several keys in order: `look` gets a key's number and the key's object, under the
    /// object's lock. The memory of sixteen keys is requested at once, so a thread waits for memory once per sixteen
    /// keys. Memory behind pointers of objects and keys is not requested. The receipt covers all shown objects.
    ///
    /// # Errors
    /// [`ObjectsError::Poisoned`] at the first key with a poisoned object; later keys are not shown.
    pub fn look_many<'k>(
        &self,
        keys: impl IntoIterator<Item = &'k K>,
        mut look: impl FnMut(usize, Option<&T>),
    ) -> Result<ObjectReceipt<'_>>
    where
        K: 'k,
    {
        self.runtime.check_caller()?;
        let (mut keys, mut number, mut rests_on) = (keys.into_iter(), 0, Epoch::ZERO);
        loop {
            let found = self.find_ahead_of(&mut keys);
            if found[0].is_none() {
                return Ok(ObjectReceipt::new(&self.runtime, rests_on));
            }
            for (key, lookup) in found.into_iter().flatten() {
                let ((), epoch) = self.look_at(key, lookup, |object| look(number, object))?;
                rests_on = rests_on.max(epoch);
                number += 1;
            }
        }
    }

    /// Requests the memory of these keys' objects for later calls of this thread: a hint, for a thread with several
    /// calls ahead. The call waits for the memory of sixteen keys at once, and for no lock. Memory behind pointers of
    /// the objects is not requested; memory behind pointers of the keys is.
    pub fn prefetch<'k, Q>(&self, keys: impl IntoIterator<Item = &'k Q>)
    where
        K: Borrow<Q>,
        Q: Hash + ?Sized + 'k,
    {
        let mut keys = keys.into_iter();
        loop {
            let found = self.find_ahead_of(&mut keys);
            if found[0].is_none() {
                return;
            }
            for (_, lookup) in found.into_iter().flatten() {
                let _user_code = UserCode::begin();
                let state = lookup.guess.and_then(|cell| cell.try_lock());
                state.iter().filter_map(|state| state.key.as_ref()).for_each(ObjectKey::prefetch);
            }
        }
    }

    /// As [`Objects::look_many`]. With strict durability `read_many` returns once all shown states are durable.
    ///
    /// # Errors
    /// As for [`Objects::look_many`]; with strict durability also the errors of [`ObjectReceipt::durable`].
    pub fn read_many<'k>(
        &self,
        keys: impl IntoIterator<Item = &'k K>,
        look: impl FnMut(usize, Option<&T>),
    ) -> Result<()>
    where
        K: 'k,
    {
        let receipt = self.look_many(keys, look)?;
        self.runtime.wait_if_strict(receipt.epoch())
    }

    /// Shows a key's object, perhaps from the guessed cell. Returns the epoch that the result rests on.
    #[inline]
    fn look_at<R>(
        &self,
        key: &K,
        mut lookup: KeyLookup<'_, K, T>,
        look: impl FnOnce(Option<&T>) -> R,
    ) -> Result<(R, Epoch)> {
        loop {
            let state = match lookup.guess.take().and_then(|cell| locked_guess(cell, key)) {
                Some(state) => state,
                None => match self.state.shards.find(key, lookup.hash) {
                    Ok(cell) => cell.lock(),
                    Err(epoch) => {
                        let _user_code = self.runtime.user_code();
                        return Ok((look(None), epoch));
                    }
                },
            };
            if !state.belongs_to(key) {
                continue;
            }
            if state.is_poisoned {
                return Err(poisoned_error(key));
            }
            let _user_code = self.runtime.user_code();
            return Ok((look(state.object.as_ref()), self.rests_on(&state, lookup.hash)));
        }
    }

    /// Shows every object, each under its own lock. Objects made or removed meanwhile may be shown or not. With strict
    /// durability `for_each` returns once all shown states are durable.
    ///
    /// # Errors
    /// [`ObjectsError::Poisoned`] with the first poisoned object: all other objects were shown.
    /// [`ObjectsError::Storage`] in a forked process; with strict durability also the errors of
    /// [`ObjectReceipt::durable`].
    pub fn for_each(&self, show: impl FnMut(&K, &T)) -> Result<()> {
        let (rests_on, first_poisoned) = self.show_each(show)?;
        self.runtime.wait_if_strict(rests_on)?;
        first_poisoned.map_or(Ok(()), Err)
    }

    /// As [`Objects::for_each`], without waiting: the receipt tells when the shown objects, and the absence of further
    /// objects, are durable.
    ///
    /// # Errors
    /// [`ObjectsError::Poisoned`] with the first poisoned object: all other objects were shown, and have no receipt.
    /// [`ObjectsError::Storage`] in a forked process.
    pub fn look_each(&self, show: impl FnMut(&K, &T)) -> Result<ObjectReceipt<'_>> {
        let (rests_on, first_poisoned) = self.show_each(show)?;
        first_poisoned.map_or(Ok(ObjectReceipt::new(&self.runtime, rests_on)), Err)
    }

    /// Shows every object that is not poisoned. Returns the epoch that the shown states rest on, and the error of the
    /// first poisoned object.
    fn show_each(&self, mut show: impl FnMut(&K, &T)) -> Result<(Epoch, Option<ObjectsError>)> {
        self.runtime.check_caller()?;
        let (mut rests_on, mut first_poisoned) = (Epoch::ZERO, None);
        for shard in 0..shards::SHARDS {
            for (_, cell) in self.state.shards.from(shard, 0, u32::MAX) {
                let state = cell.lock();
                // A removed object counts too: its last operation is the reason why nothing is shown.
                rests_on = rests_on.max(state.tid.epoch());
                match (&state.key, &state.object) {
                    (Some(key), _) if state.is_poisoned => {
                        first_poisoned.get_or_insert_with(|| poisoned_error(key));
                    }
                    (Some(key), Some(object)) => {
                        let _user_code = self.runtime.user_code();
                        show(key, object);
                    }
                    _ => {}
                }
            }
            // After the cells: a cell that left before the visit has left its epoch here.
            rests_on = rests_on.max(self.state.shards.removal_epoch(shard));
        }
        Ok((rests_on, first_poisoned))
    }
}
