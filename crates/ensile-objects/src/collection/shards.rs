//! Where objects are: cells, each with its own lock, in shards by the hash of their keys.
//!
//! Invariants:
//! - O2: a cell is in its shard before the first operation of its object is logged, and stays there as long as a walk
//!   may need it. A removed cell says so, and is not used.
//! - A cell's lock may be held when a shard's is taken, never the other way round.
//!
//! Neighbours: `super` changes objects, `walk` looks at all cells, `recover` fills them.

use std::collections::HashMap;
use std::hash::{BuildHasher, DefaultHasher, Hasher};
use std::sync::Arc;

use ensile_base::random::Random;
use ensile_base::sync::Mutex;
use ensile_base::{Epoch, Tid};

/// How many shards: more than threads that meet.
pub(super) const SHARDS: usize = if cfg!(shuttle) { 2 } else { 256 };
const _: () = assert!(SHARDS.is_power_of_two() && SHARDS <= 1 << 16, "a walk's place has a shard's number");

/// What is known of one key.
#[derive(Debug)]
pub(super) struct CellState<T> {
    /// Of the last operation; zero before the first.
    pub(super) tid: Tid,
    /// `None`: there is no such object.
    pub(super) object: Option<T>,
    /// An operation panicked, so `object` may be anything.
    pub(super) is_poisoned: bool,
    /// The cell is not in its shard any more: look the key up again.
    pub(super) is_removed: bool,
}

/// A place for one object.
#[derive(Debug)]
pub(super) struct ObjectCell<K, T> {
    pub(super) key: K,
    pub(super) state: Mutex<CellState<T>>,
}

impl<K, T> ObjectCell<K, T> {
    fn new(key: K) -> Self {
        let state = CellState { tid: Tid::ZERO, object: None, is_poisoned: false, is_removed: false };
        Self { key, state: Mutex::new(state) }
    }
}

/// Cells with numbers that stay, so that a walk can go on where it stopped.
struct Shard<K, T> {
    numbers: HashMap<K, u32, KeyHasher>,
    cells: Vec<Option<Arc<ObjectCell<K, T>>>>,
    free: Vec<u32>,
    /// The largest epoch of an operation whose cell went: what an absence without a cell rests on (R1).
    gone: Epoch,
}

/// Hashes keys. The seed is drawn, so that nobody can choose keys that meet; a simulation has none, so that it can be
/// repeated.
#[derive(Clone, Copy, Debug)]
pub(super) struct KeyHasher(u64);

impl KeyHasher {
    pub(super) fn new(is_simulated: bool) -> Self {
        Self(if is_simulated { 0 } else { Random::unpredictable().next_u64() })
    }
}

impl BuildHasher for KeyHasher {
    type Hasher = DefaultHasher;

    fn build_hasher(&self) -> DefaultHasher {
        let mut hasher = DefaultHasher::new();
        hasher.write_u64(self.0);
        hasher
    }
}

/// All cells of a collection.
pub(super) struct Shards<K, T> {
    hasher: KeyHasher,
    shards: Box<[Mutex<Shard<K, T>>]>,
}

impl<K: crate::ObjectKey, T> Shards<K, T> {
    pub(super) fn new(hasher: KeyHasher) -> Self {
        let shard = || Shard {
            numbers: HashMap::with_hasher(hasher),
            cells: Vec::new(),
            free: Vec::new(),
            gone: Epoch::ZERO,
        };
        Self { hasher, shards: (0..SHARDS).map(|_| Mutex::new(shard())).collect() }
    }

    pub(super) fn hash(&self, key: &K) -> u64 {
        self.hasher.hash_one(key)
    }

    fn shard(&self, key: &K) -> &Mutex<Shard<K, T>> {
        // The upper half: a hash map uses the lower bits.
        &self.shards[(self.hash(key) >> 40) as usize % SHARDS]
    }

    /// The cell of this key; or, if there is none, the epoch that must be durable for that to stay so (R1).
    pub(super) fn find(&self, key: &K) -> Result<Arc<ObjectCell<K, T>>, Epoch> {
        let shard = self.shard(key).lock();
        let cell = shard.numbers.get(key).and_then(|number| shard.cells[*number as usize].clone());
        cell.ok_or(shard.gone)
    }

    /// The cell of this key, which is made if there is none.
    pub(super) fn find_or_make(&self, key: &K) -> Arc<ObjectCell<K, T>> {
        let mut shard = self.shard(key).lock();
        let shard = &mut *shard;
        if let Some(cell) = shard.numbers.get(key).and_then(|number| shard.cells[*number as usize].as_ref()) {
            return Arc::clone(cell);
        }
        let cell = Arc::new(ObjectCell::new(key.clone()));
        let number = shard.free.pop().unwrap_or_else(|| {
            shard.cells.push(None);
            u32::try_from(shard.cells.len() - 1).expect("a shard has fewer objects than memory has bytes")
        });
        let before = shard.cells[number as usize].replace(Arc::clone(&cell));
        assert!(before.is_none(), "a free number has no cell");
        shard.numbers.insert(key.clone(), number);
        cell
    }

    /// Takes a cell, whose last operation has this epoch, out of its shard. The caller holds its lock, and marks it.
    pub(super) fn remove(&self, key: &K, epoch: Epoch) {
        let mut shard = self.shard(key).lock();
        shard.gone = shard.gone.max(epoch);
        let number = shard.numbers.remove(key).expect("a cell that is not marked is in its shard");
        shard.cells[number as usize] = None;
        shard.free.push(number);
    }

    /// Up to `count` cells of a shard from this number on, each with its own.
    pub(super) fn from(&self, shard: usize, number: u32, count: usize) -> Vec<(u32, Arc<ObjectCell<K, T>>)> {
        let shard = self.shards[shard].lock();
        let rest = (number..).zip(shard.cells.iter().skip(number as usize));
        rest.filter_map(|(number, cell)| Some((number, Arc::clone(cell.as_ref()?)))).take(count).collect()
    }

    /// How many cells there are.
    pub(super) fn count(&self) -> u64 {
        self.shards.iter().map(|shard| shard.lock().numbers.len() as u64).sum()
    }
}
