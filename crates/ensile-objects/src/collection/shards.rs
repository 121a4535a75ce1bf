//! Where objects are: cells, each with its own lock, in shards by the hash of their keys.
//!
//! ```text
//! usual        hash | slot -> number -> cell, without a lock | lock the cell, compare its key
//! else         that key has another cell, or none: searched, and made, under the shard's lock
//! ```
//! A cell is found without a lock, so it may have another key by then: the thread that has locked it compares, and none
//! waits for the lock of a cell that is only guessed. Cells
//! stay where they are as long as the collection; that of a removed object is used again, for any key.
//!
//! Invariants:
//! - O2: a cell is in its shard, with its key, before the first operation of its object is logged, and stays there as
//!   long as a walk may need it. A cell that went has no key.
//! - A cell's lock may be held when a shard's is taken. The other way round it is done for free cells only: a thread
//!   that holds the lock of one compares, and lets go of it without waiting.
//!
//! Lines of memory that threads share: a shard's tables, read by all and written where a key comes or goes; its lock,
//! taken then only; the cell, written by each call of its object. Cells stand side by side, so two objects may share a
//! line.
//!
//! Neighbours: `super` changes objects, `walk` looks at all cells, `recover` fills them; `table` and `arena` are the
//! parts.

mod arena;
mod table;

use std::borrow::Borrow;
use std::hash::{BuildHasher, Hash};

use crossbeam_utils::CachePadded;
use ensile_base::random::Random;
use ensile_base::sync::{Mutex, MutexGuard};
use ensile_base::{Epoch, Tid};
use rapidhash::quality::SeedableState;

use arena::CellArena;
use table::NumberTable;

/// How many shards: more than threads that meet.
pub(super) const SHARDS: usize = if cfg!(shuttle) { 2 } else { 256 };
const _: () = assert!(SHARDS.is_power_of_two() && SHARDS <= 1 << 16, "a walk's place has a shard's number");

/// What is known of one key.
#[derive(Debug)]
pub(super) struct CellState<K, T> {
    /// `None`: the cell is in no shard's table. A thread that found it looks its own key up again.
    pub(super) key: Option<K>,
    /// Of the last operation; zero before the first.
    pub(super) tid: Tid,
    /// `None`: there is no such object.
    pub(super) object: Option<T>,
    /// An operation panicked, so `object` may be anything.
    pub(super) is_poisoned: bool,
}

/// A place for one object.
pub(super) type ObjectCell<K, T> = Mutex<CellState<K, T>>;

fn free_cell<K, T>() -> ObjectCell<K, T> {
    Mutex::new(CellState { key: None, tid: Tid::ZERO, object: None, is_poisoned: false })
}

impl<K: Eq, T> CellState<K, T> {
    /// Whether it is this key's (O2).
    #[inline]
    pub(super) fn is_of(&self, key: &K) -> bool {
        self.key.as_ref() == Some(key)
    }
}

/// What of a shard is changed under its lock.
struct ShardState<K> {
    /// By the number of their cells.
    keys: Vec<Option<K>>,
    free: Vec<u32>,
    /// The largest epoch of an operation whose cell went: what an absence without a cell rests on (R1).
    gone: Epoch,
}

impl<K> ShardState<K> {
    fn count(&self) -> usize {
        self.keys.len() - self.free.len()
    }
}

/// Cells with numbers that stay, so that a walk can go on where it stopped.
struct Shard<K, T> {
    numbers: NumberTable,
    cells: CellArena<ObjectCell<K, T>>,
    state: CachePadded<Mutex<ShardState<K>>>,
}

/// Hashes keys. The seed is drawn, so that keys that meet are hard to choose; a simulation has none, so that it can be
/// repeated.
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

/// A key's hash: its shard and its tag there.
#[derive(Clone, Copy, Debug)]
pub(super) struct KeyHash(u64);

impl KeyHash {
    fn shard(self) -> usize {
        (self.0 >> 40) as usize % SHARDS
    }

    fn tag(self) -> u32 {
        self.0 as u32
    }

    /// The lane of its operations that wait (O4).
    pub(super) fn lane(self) -> u64 {
        self.0 >> 32
    }
}

/// All cells of a collection.
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

    /// The hash of a key, or of what a key can be borrowed as.
    #[inline]
    pub(super) fn hash<Q: Hash + ?Sized>(&self, key: &Q) -> KeyHash
    where
        K: Borrow<Q>,
    {
        KeyHash(self.hasher.0.hash_one(key))
    }

    /// A cell that may be this key's, without a lock. The caller locks and compares; [`find`](Self::find) and
    /// [`find_or_make`](Self::find_or_make) know.
    #[inline]
    pub(super) fn guess(&self, hash: KeyHash) -> Option<&ObjectCell<K, T>> {
        let shard = &self.shards[hash.shard()];
        shard.cells.get(shard.numbers.find(hash.tag(), |_| true)?)
    }

    /// Asks for the line where the search for a key's cell begins.
    #[inline]
    pub(super) fn prefetch_slot(&self, hash: KeyHash) {
        self.shards[hash.shard()].numbers.prefetch(hash.tag());
    }

    /// The cell of this key; or, if there is none, the epoch that must be durable for that to stay so (R1).
    pub(super) fn find(&self, key: &K, hash: KeyHash) -> Result<&ObjectCell<K, T>, Epoch> {
        let shard = &self.shards[hash.shard()];
        let state = shard.state.lock();
        shard.cell_of(&state, key, hash).ok_or(state.gone)
    }

    /// The epoch that an absence without a cell rests on, in this shard (R1).
    pub(super) fn gone(&self, shard: usize) -> Epoch {
        self.shards[shard].state.lock().gone
    }

    /// As [`gone`](Self::gone), in the shard of this key.
    pub(super) fn gone_of(&self, hash: KeyHash) -> Epoch {
        self.gone(hash.shard())
    }

    /// The cell of this key, which is made if there is none.
    pub(super) fn find_or_make(&self, key: &K, hash: KeyHash) -> &ObjectCell<K, T> {
        let shard = &self.shards[hash.shard()];
        let mut state = shard.state.lock();
        if let Some(cell) = shard.cell_of(&state, key, hash) {
            return cell;
        }
        // Copied first: a copy that panics leaves everything as it was.
        let (in_cell, in_shard) = (key.clone(), key.clone());
        let numbers = state.count();
        let number = state.free.pop().unwrap_or_else(|| {
            state.keys.push(None);
            u32::try_from(state.keys.len() - 1).expect("a shard has fewer objects than memory has bytes")
        });
        let cell = shard.cells.make(number, free_cell);
        // Of a free cell: a thread that holds this lock found the cell for a key before, and lets go of it.
        let before = cell.lock().key.replace(in_cell);
        assert!(before.is_none() && state.keys[number as usize].is_none(), "a free number has no key");
        state.keys[number as usize] = Some(in_shard);
        shard.numbers.insert(hash.tag(), number, numbers);
        cell
    }

    /// Takes a cell, of this shard and number, out of it. The caller holds its lock.
    pub(super) fn remove(&self, (shard, number): (usize, u32), cell: &mut MutexGuard<'_, CellState<K, T>>) {
        let epoch = cell.tid.epoch();
        assert!(cell.object.is_none() && !cell.is_poisoned, "what goes is known not to be there");
        // Hashed first: a hash that panics leaves everything as it was.
        let tag = self.hash(cell.key.as_ref().expect("a cell that is taken out is in its shard")).tag();
        (cell.key, cell.tid) = (None, Tid::ZERO);
        let shard = &self.shards[shard];
        let mut state = shard.state.lock();
        state.gone = state.gone.max(epoch);
        shard.numbers.remove(tag, number);
        state.keys[number as usize] = None;
        state.free.push(number);
    }

    /// Up to `count` cells of a shard from this number on, each with its own. Some of them may be in no table.
    pub(super) fn from(
        &self,
        shard: usize,
        number: u32,
        count: u32,
    ) -> impl Iterator<Item = (u32, &ObjectCell<K, T>)> {
        let shard = &self.shards[shard];
        // Fewer than `u32::MAX`: they were numbered.
        let end = (shard.state.lock().keys.len() as u32).min(number.saturating_add(count));
        (number..end).filter_map(|number| Some((number, shard.cells.get(number)?)))
    }

    /// Holds a lock that another thread of a parent may have at a fork.
    #[cfg(all(test, not(any(loom, shuttle))))]
    pub(super) fn while_locked<R>(&self, f: impl FnOnce() -> R) -> R {
        let _last = self.shards[SHARDS - 1].state.lock();
        f()
    }

    /// How many cells there are that have a key.
    pub(super) fn count(&self) -> u64 {
        self.shards.iter().map(|shard| shard.state.lock().count() as u64).sum()
    }
}

impl<K: Eq, T> Shard<K, T> {
    /// The cell of this key, by the shard's state, whose lock is held.
    fn cell_of(&self, state: &ShardState<K>, key: &K, hash: KeyHash) -> Option<&ObjectCell<K, T>> {
        let is_its = |number: u32| state.keys[number as usize].as_ref() == Some(key);
        self.cells.get(self.numbers.find(hash.tag(), is_its)?)
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
