//! A cell: a place for one object, with the object's lock.
//!
//! Invariant: O6: the object of an operation that does not return is poisoned before the object's lock is free.
//!
//! Neighbours: `shards` keeps the cells.

use std::mem;

use ensile_base::Tid;
use ensile_base::sync::{AtomicU64, Mutex, Ordering};

use super::persistent::Persistent;

#[derive(Debug)]
pub(super) struct CellState<K, T> {
    /// `None`: the cell is in no shard's table. A thread that found the cell looks its own key up again.
    pub(super) key: Option<K>,
    /// TID of the last operation; zero before the first operation.
    pub(super) tid: Tid,
    /// `None`: the object does not exist.
    pub(super) object: Option<T>,
    /// True if an operation panicked, so `object` may be anything.
    pub(super) is_poisoned: bool,
}

pub(super) type ObjectCell<K, T> = Mutex<CellState<K, T>>;

pub(super) fn free_cell<K, T>() -> ObjectCell<K, T> {
    Mutex::new(CellState { key: None, tid: Tid::ZERO, object: None, is_poisoned: false })
}

impl<K: Eq, T> CellState<K, T> {
    /// True if the cell is of this key (O2).
    #[inline]
    pub(super) fn belongs_to(&self, key: &K) -> bool {
        self.key.as_ref() == Some(key)
    }
}

impl<K, T> CellState<K, T> {
    /// Gives the object a known state, whatever its state was (O6).
    pub(super) fn become_known(&mut self, object: Option<T>, poisoned: &AtomicU64) {
        self.object = object;
        if mem::take(&mut self.is_poisoned) {
            // Relaxed: a figure for people.
            let before = poisoned.fetch_sub(1, Ordering::Relaxed);
            assert!(before > 0, "O6: each poison is counted once");
        }
    }
}

/// An operation under way. If the operation panics, its object is poisoned (O6).
pub(super) struct Applying<'s, K, T: Persistent> {
    state: &'s mut CellState<K, T>,
    poisoned: &'s AtomicU64,
}

impl<'s, K, T: Persistent> Applying<'s, K, T> {
    #[inline]
    pub(super) fn begin(state: &'s mut CellState<K, T>, poisoned: &'s AtomicU64) -> Self {
        debug_assert!(!state.is_poisoned, "O6: a poisoned object takes no operation");
        debug_assert!(state.key.is_some(), "O2: the cell is in its shard");
        Self { state, poisoned }
    }

    #[inline]
    pub(super) fn apply(self, operation: &T::Operation) -> T::Output {
        let output = T::apply(&mut self.state.object, operation);
        // The operation has returned.
        mem::forget(self);
        output
    }
}

impl<K, T: Persistent> Drop for Applying<'_, K, T> {
    #[cold]
    fn drop(&mut self) {
        self.state.is_poisoned = true;
        // Relaxed: a figure for people.
        self.poisoned.fetch_add(1, Ordering::Relaxed);
    }
}
