//! The store of objects: cells, each with its own lock, in shards by the hash of the keys.
//!
//! ```text
//! usual        hash | slot -> number -> cell, without a lock | lock the cell, compare its key
//! else         that key has another cell, or none: searched, and made, under the shard's lock
//! ```
//! A cell is found without a lock, so the cell may have another key by then: the thread that has locked the cell
//! compares, and no thread waits for the lock of a guessed cell. Cells stay in place as long as the collection; the
//! cell of a removed object is used again, for an arbitrary key.
//!
//! Invariant: O2: a cell is in its shard, with its key, before the first operation of its object is logged, and stays
//! there as long as a walk may need the cell. A removed cell has no key.
//!
//! Order of locks: a cell's lock may be held when a shard's lock is taken. The reverse order is used for free cells
//! only: a thread that holds the lock of a free cell compares, and releases the lock without waiting.
//!
//! Threads share a shard's tables and its lock, written only where a key comes or goes, and the cells. Cells stand side
//! by side, so two objects may share a line.
//!
//! Neighbours: `lookup` finds cells, `walk` looks at every cell, `recovery` fills cells; `number_table` and
//! `cell_arena` are the parts.

use std::borrow::Borrow;
use std::hash::{BuildHasher, Hash};

use crossbeam_utils::CachePadded;
use ensile_base::random::Random;
use ensile_base::sync::{Mutex, MutexGuard};
use ensile_base::{Epoch, Tid};
use ensile_memory::prefetch;
use rapidhash::quality::SeedableState;

use super::cell::{CellState, ObjectCell, free_cell};
use super::cell_arena::CellArena;
use super::number_table::NumberTable;

/// Number of shards: more than threads that meet.
pub(super) const SHARDS: usize = if cfg!(shuttle) { 2 } else { 256 };
const _: () = assert!(SHARDS.is_power_of_two() && SHARDS <= 1 << 16, "a walk's place has a shard's number");

/// Part of a shard that changes under the shard's lock.
struct ShardState<K> {
    keys: Vec<Option<K>>,
    free: Vec<u32>,
    /// Largest epoch of an operation whose cell was removed: an absence without a cell rests on this epoch (R1).
    gone: Epoch,
}

impl<K> ShardState<K> {
    fn count(&self) -> usize {
        assert!(self.free.len() <= self.keys.len(), "a number is free once");
        self.keys.len() - self.free.len()
    }
}

/// Cells with stable numbers, so that a walk can go on where the walk stopped.
struct Shard<K, T> {
    numbers: NumberTable,
    cells: CellArena<ObjectCell<K, T>>,
    state: CachePadded<Mutex<ShardState<K>>>,
}

/// Hasher of keys. The seed is drawn, so that colliding keys are hard to choose; a simulation has a fixed seed and can
/// be repeated.
#[derive(Clone, Copy, Debug)]
pub(super) struct KeyHasher(SeedableState<'static>);

impl KeyHasher {
    pub(super) fn new(is_simulated: bool) -> Self {
        Self(if is_simulated {
            SeedableState::fixed()
        } else {
            SeedableState::new(Random::unpredictable().next_u64())
        })
    }
}

/// Hash of a key: its shard and its tag in the shard.
#[derive(Clone, Copy, Debug)]
pub(super) struct KeyHash(u64);

impl KeyHash {
    fn shard(self) -> usize {
        (self.0 >> 40) as usize % SHARDS
    }

    fn tag(self) -> u32 {
        self.0 as u32
    }

    /// Lane of the key's waiting operations (O4).
    pub(super) fn lane(self) -> u64 {
        self.0 >> 32
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct CellPlace {
    pub(super) shard: usize,
    pub(super) number: u32,
}

pub(super) struct Shards<K, T> {
    hasher: KeyHasher,
    shards: Box<[Shard<K, T>; SHARDS]>,
}

impl<K: crate::ObjectKey, T> Shards<K, T> {
    pub(super) fn new(hasher: KeyHasher) -> Self {
        let shard = || Shard {
            numbers: NumberTable::new(),
            cells: CellArena::new(),
            state: CachePadded::new(Mutex::new(ShardState {
                keys: Vec::new(),
                free: Vec::new(),
                gone: Epoch::ZERO,
            })),
        };
        let shards: Box<[_]> = (0..SHARDS).map(|_| shard()).collect();
        Self { hasher, shards: shards.try_into().ok().expect("as many as were made") }
    }

    /// Hash of a key, or of a borrowed form of a key.
    #[inline]
    pub(super) fn hash<Q: Hash + ?Sized>(&self, key: &Q) -> KeyHash
    where
        K: Borrow<Q>,
    {
        KeyHash(self.hasher.0.hash_one(key))
    }

    /// A cell that may be this key's, without a lock. The caller locks and compares; [`find`](Self::find) and
    /// [`find_or_make`](Self::find_or_make) are exact.
    #[inline]
    pub(super) fn guess(&self, hash: KeyHash) -> Option<&ObjectCell<K, T>> {
        let shard = &self.shards[hash.shard()];
        shard.cells.get(shard.numbers.find(hash.tag(), |_| true)?)
    }

    /// Prefetches the line where the search for a key's cell begins.
    #[inline]
    pub(super) fn prefetch_slot(&self, hash: KeyHash) {
        self.shards[hash.shard()].numbers.prefetch(hash.tag());
    }

    /// Prefetches the cell that [`guess`](Self::guess) returns.
    #[inline]
    pub(super) fn prefetch_cell(&self, hash: KeyHash) {
        if let Some(cell) = self.guess(hash) {
            prefetch::lines(std::ptr::from_ref(cell), size_of_val(cell));
        }
    }

    /// Cell of this key; without a cell, the epoch that must be durable for the absence to last (R1).
    pub(super) fn find(&self, key: &K, hash: KeyHash) -> Result<&ObjectCell<K, T>, Epoch> {
        let shard = &self.shards[hash.shard()];
        let state = shard.state.lock();
        shard.cell_of(&state, key, hash).ok_or(state.gone)
    }

    /// Epoch that an absence without a cell rests on, in this shard (R1).
    pub(super) fn removal_epoch(&self, shard: usize) -> Epoch {
        self.shards[shard].state.lock().gone
    }

    /// As [`removal_epoch`](Self::removal_epoch), in the shard of this key.
    pub(super) fn gone_of(&self, hash: KeyHash) -> Epoch {
        self.removal_epoch(hash.shard())
    }

    /// Cell of this key. A missing cell is made.
    pub(super) fn find_or_make(&self, key: &K, hash: KeyHash) -> &ObjectCell<K, T> {
        let shard = &self.shards[hash.shard()];
        let mut state = shard.state.lock();
        if let Some(cell) = shard.cell_of(&state, key, hash) {
            return cell;
        }
        // Copied first: a copy that panics leaves everything unchanged.
        let (in_cell, in_shard) = (key.clone(), key.clone());
        let numbers = state.count();
        let number = state.free.pop().unwrap_or_else(|| {
            state.keys.push(None);
            u32::try_from(state.keys.len() - 1).expect("a shard has fewer objects than memory has bytes")
        });
        let cell = shard.cells.make(number, free_cell);
        // The lock of a free cell: a holder found the cell for an earlier key, and releases the lock.
        let before = cell.lock().key.replace(in_cell);
        assert!(before.is_none() && state.keys[number as usize].is_none(), "a free number has no key");
        state.keys[number as usize] = Some(in_shard);
        shard.numbers.insert(hash.tag(), number, numbers);
        debug_assert_eq!(state.count(), numbers + 1);
        debug_assert!(shard.has_number(hash.tag(), number), "O2: the cell is found from here on");
        cell
    }

    /// Removes the cell at a place from its shard. The caller holds the cell's lock.
    pub(super) fn remove(&self, place: CellPlace, cell: &mut MutexGuard<'_, CellState<K, T>>) {
        let epoch = cell.tid.epoch();
        assert!(cell.object.is_none() && !cell.is_poisoned, "what goes is known not to be there");
        // Hashed first: a hash that panics leaves everything unchanged.
        let tag = self.hash(cell.key.as_ref().expect("a cell that is taken out is in its shard")).tag();
        (cell.key, cell.tid) = (None, Tid::ZERO);
        let shard = &self.shards[place.shard];
        let mut state = shard.state.lock();
        let numbers = state.count();
        state.gone = state.gone.max(epoch);
        shard.numbers.remove(tag, place.number);
        debug_assert!(!shard.has_number(tag, place.number), "O2: the number is free for an arbitrary key");
        debug_assert!(state.keys[place.number as usize].is_some() && cell.key.is_none());
        state.keys[place.number as usize] = None;
        state.free.push(place.number);
        debug_assert_eq!(state.count() + 1, numbers, "the number of a removed cell is free");
    }

    /// Up to `count` cells of a shard from this number on, with their numbers. A cell may be in no table.
    pub(super) fn from(
        &self,
        shard: usize,
        number: u32,
        count: u32,
    ) -> impl Iterator<Item = (u32, &ObjectCell<K, T>)> {
        let shard = &self.shards[shard];
        debug_assert!(count > 0, "a walk goes on");
        // Fewer than `u32::MAX`: the cells were numbered.
        let end = (shard.state.lock().keys.len() as u32).min(number.saturating_add(count));
        (number..end).filter_map(|number| Some((number, shard.cells.get(number)?)))
    }

    /// Holds a lock that another thread of a parent may hold at a fork.
    #[cfg(all(test, not(any(loom, shuttle))))]
    pub(super) fn while_locked<R>(&self, f: impl FnOnce() -> R) -> R {
        let _last = self.shards[SHARDS - 1].state.lock();
        f()
    }

    pub(super) fn count(&self) -> u64 {
        self.shards.iter().map(|shard| shard.state.lock().count() as u64).sum()
    }
}

impl<K: Eq, T> Shard<K, T> {
    /// Cell of this key, by the shard's state, with the shard's lock held.
    fn cell_of(&self, state: &ShardState<K>, key: &K, hash: KeyHash) -> Option<&ObjectCell<K, T>> {
        let is_its = |number: u32| state.keys[number as usize].as_ref() == Some(key);
        self.cells.get(self.numbers.find(hash.tag(), is_its)?)
    }

    /// True if the table has this number, with the shard's lock held.
    fn has_number(&self, tag: u32, number: u32) -> bool {
        self.numbers.find(tag, |found| found == number).is_some()
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
