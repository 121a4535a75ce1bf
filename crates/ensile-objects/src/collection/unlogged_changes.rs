//! Changes without a log: only checkpoints keep them.
//!
//! Neighbours: `changes` calls; `change_steps` is the counterpart with a log.

use std::convert::Infallible;

use ensile_base::limits::KEY_BYTES_MAX;
use ensile_durability::UserCode;

use super::cell::CellState;
use super::change_steps::Poison;
use super::lookup::{locked_guess, poisoned_error};
use super::objects::Objects;
use super::persistent::{ObjectKey, Persistent};
use crate::error::{ObjectsError, ObjectsResult as Result};
use crate::receipt::ObjectReceipt;

impl<K: ObjectKey, T: Persistent> Objects<K, T> {
    #[cold]
    fn check_key(&self, key: &K) -> Result<()> {
        let _user_code = self.runtime.user_code();
        let mut encoded = Vec::new();
        key.encode(&mut encoded);
        let bytes = encoded.len();
        if bytes > KEY_BYTES_MAX {
            Err(ObjectsError::KeyTooLong { bytes, limit: KEY_BYTES_MAX })
        } else {
            Ok(())
        }
    }

    /// As [`change`](Self::change), without a log.
    pub(super) fn change_unlogged<O>(
        &self,
        key: &K,
        poison: Poison,
        change: impl FnMut(&mut CellState<K, T>) -> O,
    ) -> Result<(O, ObjectReceipt<'_>)> {
        let allow = |_: Option<&T>| Ok::<(), Infallible>(());
        self.change_unlogged_if(key, poison, allow, change).map(|(Ok(output), receipt)| (output, receipt))
    }

    /// Applies `change` to an object under its lock, if `check` allows the change. Nothing is logged.
    pub(super) fn change_unlogged_if<O, E>(
        &self,
        key: &K,
        poison: Poison,
        check: impl Fn(Option<&T>) -> Result<(), E>,
        mut change: impl FnMut(&mut CellState<K, T>) -> O,
    ) -> Result<(Result<O, E>, ObjectReceipt<'_>)> {
        debug_assert!(!self.runtime.is_logged(), "a change without an entry would be lost");
        UserCode::check_outside()?;
        self.runtime.check_open()?;
        let hash = self.state.shards.hash(key);
        let mut guess = self.state.shards.guess(hash).and_then(|cell| locked_guess(cell, key));
        loop {
            let mut state = match guess.take() {
                Some(state) => state,
                None => {
                    self.check_key(key)?;
                    self.state.shards.find_or_make(key, hash).lock()
                }
            };
            if !state.belongs_to(key) {
                continue;
            }
            if state.is_poisoned && poison == Poison::Refuses {
                return Err(poisoned_error(key));
            }
            if let Err(refusal) = self.check_object(&state, &check) {
                let receipt = ObjectReceipt::new(&self.runtime, self.rests_on(&state, hash));
                return Ok((Err(refusal), receipt));
            }
            state.tid = self.runtime.unlogged_tid(state.tid);
            let receipt = ObjectReceipt::new(&self.runtime, state.tid.epoch());
            return Ok((Ok(change(&mut state)), receipt));
        }
    }
}
