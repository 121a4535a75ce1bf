//! Lookup of keys before their objects are locked: the memory of cells is prefetched.
//!
//! Neighbours: `shards` finds cells; `reads` and `change_steps` lock them.

use std::borrow::Borrow;
use std::hash::Hash;

use ensile_base::sync::MutexGuard;
use ensile_base::{Epoch, Tid};
use ensile_memory::prefetch;

use super::cell::{CellState, ObjectCell};
use super::objects::Objects;
use super::persistent::{ObjectKey, Persistent};
use super::shards::KeyHash;
use crate::error::ObjectsError;

/// Number of keys that are looked up side by side. More keys do not shorten the wait for memory.
const TOGETHER: usize = 16;
/// Largest number of bytes of a cell that are prefetched; the processor predicts the further bytes.
const PREFETCHED_BYTES_MAX: usize = 512;

pub(super) struct KeyLookup<'c, K, T> {
    pub(super) hash: KeyHash,
    /// Guessed cell of the key: a cell without a lock, perhaps of another key.
    pub(super) guess: Option<&'c ObjectCell<K, T>>,
}

/// Prefetches a cell's first and last line: the lock is in the first line, and the last line would be missed only after
/// the lock.
#[inline]
fn ask_for_ends<K, T>(cell: &ObjectCell<K, T>) {
    let first = std::ptr::from_ref(cell).cast::<u8>();
    prefetch::line(first);
    prefetch::line(first.wrapping_add(size_of_val(cell) - 1));
}

/// Locks a guessed cell if the cell is of this key. The lock of a guess is never waited for: the cell may be of another
/// object with a long operation.
#[inline]
pub(super) fn locked_guess<'c, K: ObjectKey, T>(
    cell: &'c ObjectCell<K, T>,
    key: &K,
) -> Option<MutexGuard<'c, CellState<K, T>>> {
    cell.try_lock().filter(|state| state.belongs_to(key))
}

pub(super) fn poisoned_error<K: ObjectKey>(key: &K) -> ObjectsError {
    ObjectsError::Poisoned { object: format!("{key:?}").into() }
}

impl<K: ObjectKey, T: Persistent> Objects<K, T> {
    /// Lookup of a key. The guessed cell's memory is prefetched: the entry is encoded meanwhile.
    #[inline]
    pub(super) fn find_ahead(&self, key: &K) -> KeyLookup<'_, K, T> {
        let hash = self.state.shards.hash(key);
        let guess = self.state.shards.guess(hash);
        guess.iter().for_each(|cell| ask_for_ends(cell));
        KeyLookup { hash, guess }
    }

    /// As [`find_ahead`](Self::find_ahead), for the next keys, up to sixteen.
    #[inline]
    pub(super) fn find_ahead_of<'k, Q>(
        &self,
        keys: &mut impl Iterator<Item = &'k Q>,
    ) -> [Option<(&'k Q, KeyLookup<'_, K, T>)>; TOGETHER]
    where
        K: Borrow<Q>,
        Q: Hash + ?Sized + 'k,
    {
        let shards = &self.state.shards;
        let mut found = [const { None }; TOGETHER];
        for (place, key) in found.iter_mut().zip(keys) {
            let hash = shards.hash(key);
            shards.prefetch_slot(hash);
            *place = Some((key, KeyLookup { hash, guess: None }));
        }
        for (_, lookup) in found.iter_mut().flatten() {
            lookup.guess = shards.guess(lookup.hash);
            if let Some(cell) = lookup.guess {
                prefetch::lines(cell, size_of_val(cell).min(PREFETCHED_BYTES_MAX));
            }
        }
        found
    }

    /// Epoch that must be durable before the contents of a key's locked cell are shown (R1). A cell without an
    /// operation shows an absence, as do the cells that left its shard.
    pub(super) fn rests_on(&self, state: &CellState<K, T>, hash: KeyHash) -> Epoch {
        let epoch = if state.tid == Tid::ZERO { self.state.shards.gone_of(hash) } else { state.tid.epoch() };
        debug_assert!(epoch <= self.runtime.epochs.now(), "R1: E has come to the epoch of each operation");
        epoch
    }

    /// True if a key's cell is found and locked on the usual path.
    #[cfg(all(test, not(any(loom, shuttle))))]
    pub(crate) fn is_found_at_once(&self, key: &K) -> bool {
        let shards = &self.state.shards;
        shards.guess(shards.hash(key)).is_some_and(|cell| locked_guess(cell, key).is_some())
    }
}
