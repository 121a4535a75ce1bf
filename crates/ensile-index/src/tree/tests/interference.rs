//! What an insert or a fold needs is obtained before a node is locked (E1). Meanwhile other writers may change the
//! leaf.
//!
//! The memory of these tests is such a writer. Whenever an insert or a fold asks for a block, it changes the tree at
//! will, by the same thread: under a node's lock that would never end.

use std::alloc::Layout;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::ptr::NonNull;

use ensile_base::random::Random;

use crate::testing::{BookedMemory, assume_pinned, collect, hostile_key};
use crate::version::NodeLock;
use crate::{Direction, Insert, Lookup, Masstree, NodeChanges, NodeMemory, Range};

/// Memory that changes the tree while it is asked for a block.
struct Interfering<'t> {
    tree: &'t Masstree,
    book: BookedMemory,
    random: Random,
    /// What the tree maps to what, but for the insert under way.
    model: BTreeMap<Vec<u8>, u64>,
    /// The last key that was inserted from outside: interference goes where it hurts.
    key: Vec<u8>,
    /// How often it still interferes with the insert under way.
    left: usize,
    interferences: usize,
}

// SAFETY: blocks come from a `BookedMemory`, and go back to it.
unsafe impl NodeMemory for Interfering<'_> {
    fn allocate(&mut self, layout: Layout) -> NonNull<u8> {
        assert_eq!(NodeLock::held_by_this_thread(), 0, "memory is asked for under a node's lock");
        if self.left > 0 {
            self.left -= 1;
            let left = std::mem::take(&mut self.left);
            self.interferences += 1;
            self.interfere();
            self.left = left;
        }
        self.book.allocate(layout)
    }

    unsafe fn retire(&mut self, block: NonNull<u8>, layout: Layout) {
        assert_eq!(NodeLock::held_by_this_thread(), 0, "memory is given back under a node's lock");
        // SAFETY: passed on to the caller.
        unsafe { self.book.retire(block, layout) }
    }

    unsafe fn discard(&mut self, block: NonNull<u8>, layout: Layout) {
        assert_eq!(NodeLock::held_by_this_thread(), 0, "memory is given back under a node's lock");
        // SAFETY: passed on to the caller.
        unsafe { self.book.discard(block, layout) }
    }
}

impl Interfering<'_> {
    /// A key beside the one that is being inserted, or any.
    fn neighbour(&mut self) -> Vec<u8> {
        let mut key = self.key.clone();
        match self.random.next_below(6) {
            0 => key.truncate(self.random.next_below(key.len() as u64 + 1) as usize),
            1 | 2 => key.push(self.random.next_below(4) as u8),
            3 => {
                if let Some(last) = key.last_mut() {
                    *last ^= 1;
                }
            }
            4 => {}
            _ => key = hostile_key(&mut self.random),
        }
        key
    }

    /// One change by another writer.
    fn interfere(&mut self) {
        let key = self.neighbour();
        let value = self.random.next_u64() >> 1;
        let Some(&present) = self.model.get(&key) else {
            let inserted =
                self.tree.insert_if_absent(&key, value, self, &mut NodeChanges::new(), assume_pinned());
            assert_eq!(inserted, Insert::Inserted, "{key:?}");
            self.model.insert(key, value);
            return;
        };
        if self.random.percent(50) {
            assert!(self.tree.replace(&key, present, value, assume_pinned()), "{key:?}");
            self.model.insert(key, value);
        } else {
            assert!(self.tree.remove(&key, present, self, assume_pinned()), "{key:?}");
            self.model.remove(&key);
        }
    }

    /// An insert from outside, which is interfered with up to three times.
    fn insert(&mut self, key: Vec<u8>, value: u64, changes: &mut NodeChanges) {
        self.left = self.random.next_below(4) as usize;
        self.key.clone_from(&key);
        changes.clear();
        match self.tree.insert_if_absent(&key, value, self, changes, assume_pinned()) {
            Insert::Inserted => assert_eq!(self.model.insert(key, value), None, "the key was there"),
            Insert::Exists(present) => assert_eq!(self.model.get(&key), Some(&present)),
        }
        self.left = 0;
    }

    /// As [`Self::insert`], of a removal: the key is gone before its layer is folded.
    fn remove(&mut self, key: Vec<u8>) {
        let Some(value) = self.model.remove(&key) else { return };
        self.left = self.random.next_below(4) as usize;
        self.key.clone_from(&key);
        assert!(self.tree.remove(&key, value, self, assume_pinned()), "{key:?}");
        self.left = 0;
    }
}

/// Inserts keys, each interfered with, and compares the tree with what was done to it.
fn survives(seed: u64, inserts: usize, mut key_of: impl FnMut(&mut Random) -> Vec<u8>) {
    let mut book = BookedMemory::default();
    let tree = Masstree::new(&mut book);
    let (model, random) = (BTreeMap::new(), Random::from_seed(seed));
    let mut memory =
        Interfering { tree: &tree, book, random, model, key: Vec::new(), left: 0, interferences: 0 };
    let (mut changes, mut random) = (NodeChanges::new(), Random::from_seed(seed + 1));
    for value in 0..inserts {
        let key = key_of(&mut random);
        memory.insert(key, value as u64, &mut changes);
        if random.percent(10) {
            memory.interfere();
        }
        if random.percent(40) {
            let key = key_of(&mut random);
            let next = memory.model.range(key..).next().map(|(key, _)| key.clone());
            next.into_iter().for_each(|key| memory.remove(key));
        }
    }
    assert!(memory.interferences > inserts / 100, "few inserts asked for memory: {}", memory.interferences);
    let shape = tree.check(assume_pinned()).expect("a whole tree");
    assert_eq!(memory.book.live_bytes(), shape.bytes, "memory that is neither linked nor given back");
    let Interfering { model, mut book, .. } = memory;
    for (key, &value) in &model {
        assert_eq!(tree.get(key, assume_pinned()), Lookup::Found(value), "{key:?}");
    }
    let whole = Range { lower: Bound::Unbounded, upper: Bound::Unbounded };
    let entries = collect(&tree, whole, Direction::Forward).entries;
    assert!(entries.into_iter().eq(model), "a scan shows what is there");
    // SAFETY: the test is over, nobody else has the tree.
    unsafe { tree.dismantle(&mut book) };
    assert_eq!(book.live_bytes(), 0);
}

#[test]
fn a_fold_whose_leaves_change_while_it_obtains_memory_begins_again() {
    for seed in 0..20 {
        survives(seed, 3_000, |random| {
            let mut key = random.next_below(4).to_be_bytes().to_vec();
            (0..random.next_below(6)).for_each(|_| key.extend([b'j'; 8]));
            (0..random.next_below(30)).for_each(|_| key.push([0, b'j', 255][random.next_below(3) as usize]));
            key
        });
    }
}

#[test]
fn an_insert_whose_leaf_changes_while_it_obtains_memory_begins_again() {
    for seed in 0..20 {
        survives(seed, 2_000, hostile_key);
    }
}

#[test]
fn a_split_whose_path_changes_while_it_obtains_memory_begins_again() {
    for seed in 0..3 {
        survives(seed, 20_000, |random| random.next_below(1 << 16).to_be_bytes().to_vec());
        survives(seed, 20_000, |random| {
            [
                &(random.next_below(40) << 3).to_be_bytes()[..],
                b"a long ending",
                &random.next_below(99).to_be_bytes(),
            ]
            .concat()
        });
    }
}

/// Memory that lets another writer do one thing while it is asked for a block the first time.
struct Meanwhile<F> {
    book: BookedMemory,
    other: Option<F>,
}

// SAFETY: blocks come from a `BookedMemory`, and go back to it.
unsafe impl<F: FnOnce(&mut BookedMemory)> NodeMemory for Meanwhile<F> {
    fn allocate(&mut self, layout: Layout) -> NonNull<u8> {
        if let Some(other) = self.other.take() {
            other(&mut self.book);
        }
        self.book.allocate(layout)
    }

    unsafe fn retire(&mut self, block: NonNull<u8>, layout: Layout) {
        // SAFETY: passed on to the caller.
        unsafe { self.book.retire(block, layout) }
    }

    unsafe fn discard(&mut self, block: NonNull<u8>, layout: Layout) {
        // SAFETY: passed on to the caller.
        unsafe { self.book.discard(block, layout) }
    }
}

/// A layer's root changes without a version of the leaf above: so it is read under that leaf's lock.
#[test]
fn a_skip_parts_while_the_root_behind_it_changes() {
    let key = |n: u64| [&[b'k'; 40][..], &n.to_be_bytes()].concat();
    for parting in [8, 9, 15, 16, 30, 32, 39] {
        let mut book = BookedMemory::default();
        let tree = Masstree::new(&mut book);
        for n in 0..15 {
            let _ = tree.insert_if_absent(&key(n), n, &mut book, &mut NodeChanges::new(), assume_pinned());
        }
        let split = |book: &mut BookedMemory| {
            let _ = tree.insert_if_absent(&key(99), 99, book, &mut NodeChanges::new(), assume_pinned());
        };
        let mut memory = Meanwhile { book, other: Some(split) };
        let parts = [&key(0)[..parting], b"x"].concat();
        let inserted =
            tree.insert_if_absent(&parts, 7, &mut memory, &mut NodeChanges::new(), assume_pinned());
        let Meanwhile { mut book, other } = memory;
        assert!(inserted == Insert::Inserted && other.is_none());
        let shape = tree.check(assume_pinned()).expect("a whole tree");
        assert_eq!((shape.keys, shape.height), (17, 2), "the layer has another root");
        assert_eq!(book.live_bytes(), shape.bytes);
        assert_eq!(tree.get(&key(99), assume_pinned()), Lookup::Found(99));
        // SAFETY: the test is over, nobody else has the tree.
        unsafe { tree.dismantle(&mut book) };
        assert_eq!(book.live_bytes(), 0);
    }
}

/// Keys of three layers: below the first slot one of two entries, below one of these another of fifteen.
fn three_layers(book: &mut BookedMemory) -> Masstree {
    let tree = Masstree::new(book);
    for key in (0..15).map(deep).chain([beside()]) {
        let _ = tree.insert_if_absent(&key, 1, book, &mut NodeChanges::new(), assume_pinned());
    }
    assert_eq!(tree.check(assume_pinned()).expect("a whole tree").layers, 3);
    tree
}

/// A key of the deepest layer.
fn deep(n: u64) -> Vec<u8> {
    [&[b'k'; 40][..], &n.to_be_bytes()].concat()
}

/// The key that stands beside the way to it.
fn beside() -> Vec<u8> {
    [&[b'k'; 20][..], b"x"].concat()
}

/// After `first`, during which `meanwhile` happens as soon as memory is asked for, all keys are found.
fn holds_after(
    first: fn(&Masstree, &mut dyn NodeMemory),
    meanwhile: fn(&Masstree, &mut dyn NodeMemory),
    layers: usize,
    keys: &[Vec<u8>],
) {
    let mut book = BookedMemory::default();
    let tree = three_layers(&mut book);
    let other = |book: &mut BookedMemory| meanwhile(&tree, book);
    let mut memory = Meanwhile { book, other: Some(other) };
    first(&tree, &mut memory);
    let Meanwhile { mut book, other } = memory;
    assert!(other.is_none(), "memory was asked for");
    let shape = tree.check(assume_pinned()).expect("a whole tree");
    assert_eq!((shape.keys, shape.layers), (keys.len(), layers));
    assert_eq!(book.live_bytes(), shape.bytes);
    keys.iter().for_each(|key| assert_eq!(tree.get(key, assume_pinned()), Lookup::Found(1), "{key:?}"));
    // SAFETY: the test is over, nobody else has the tree.
    unsafe { tree.dismantle(&mut book) };
    assert_eq!(book.live_bytes(), 0);
}

fn split_below(tree: &Masstree, memory: &mut dyn NodeMemory) {
    let inserted = tree.insert_if_absent(&deep(99), 1, memory, &mut NodeChanges::new(), assume_pinned());
    assert_eq!(inserted, Insert::Inserted);
}

fn fold_above(tree: &Masstree, memory: &mut dyn NodeMemory) {
    assert!(tree.remove(&beside(), 1, memory, assume_pinned()));
}

/// A new root below moves no version of the leaf that is folded: so the root is read under that leaf's lock.
#[test]
fn a_layer_is_folded_while_the_root_below_it_changes() {
    let keys: Vec<Vec<u8>> = (0..15).map(deep).chain([deep(99)]).collect();
    holds_after(fold_above, split_below, 2, &keys);
}

/// The split knows the folded leaf as the one with the slot of the root that it replaces.
#[test]
fn a_root_is_split_while_the_layer_above_it_is_folded() {
    let keys: Vec<Vec<u8>> = (0..15).map(deep).chain([deep(99)]).collect();
    holds_after(split_below, fold_above, 2, &keys);
}
