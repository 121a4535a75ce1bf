//! A tree with its memory for tests of one thread, and hostile keys.
//!
//! Neighbours: up, the tests of `tree` and `witness`, and tests of other crates by the feature `testing`; down,
//! `testing`.

use std::ops::Bound;

use ensile_base::random::Random;

use crate::testing::{BookedMemory, Collected, assume_pinned, collect};
use crate::{Direction, Insert, Lookup, Masstree, NodeChanges, Range, Witness};

/// A tree with its memory, for one thread.
#[derive(Debug)]
pub struct Bench {
    pub(crate) tree: Masstree,
    pub(crate) memory: BookedMemory,
    pub(crate) changes: NodeChanges,
}

impl Bench {
    /// An empty tree.
    #[must_use]
    pub fn new() -> Self {
        let mut memory = BookedMemory::default();
        Self { tree: Masstree::new(&mut memory), memory, changes: NodeChanges::new() }
    }

    /// Inserts a key that is missing.
    pub fn insert(&mut self, key: &[u8], value: u64) -> Insert {
        self.changes.clear();
        self.tree.insert_if_absent(key, value, &mut self.memory, &mut self.changes, assume_pinned())
    }

    /// Removes a key if its value is `expected`. True if the key was removed.
    pub fn remove(&mut self, key: &[u8], expected: u64) -> bool {
        self.tree.remove(key, expected, &mut self.memory, assume_pinned())
    }

    /// Replaces the value of a key if the value is `expected`. True after a replacement.
    pub fn replace(&self, key: &[u8], expected: u64, new: u64) -> bool {
        self.tree.replace(key, expected, new, assume_pinned())
    }

    /// The value of a key; checks the witness of a miss.
    #[must_use]
    pub fn get(&self, key: &[u8]) -> Option<u64> {
        match self.tree.get(key, assume_pinned()) {
            Lookup::Found(value) => Some(value),
            Lookup::Missing(witness) => {
                assert!(witness.holds(assume_pinned()), "a witness holds when nothing happens");
                None
            }
        }
    }

    /// The witness of a miss.
    ///
    /// # Panics
    /// If the key exists.
    #[must_use]
    pub fn miss(&self, key: &[u8]) -> Witness {
        match self.tree.get(key, assume_pinned()) {
            Lookup::Missing(witness) => witness,
            Lookup::Found(value) => panic!("{key:?} is there: {value}"),
        }
    }

    /// The first `entries_max` entries of a scan; checks the scan's witnesses.
    #[must_use]
    pub fn scan_some(
        &self,
        lower: Bound<&[u8]>,
        upper: Bound<&[u8]>,
        direction: Direction,
        entries_max: usize,
    ) -> Vec<(Vec<u8>, u64)> {
        let mut collected = Collected { entries_max: Some(entries_max), ..Collected::default() };
        self.tree.scan(Range { lower, upper }, direction, &mut collected, assume_pinned());
        assert!(
            collected.witnesses.iter().all(|witness| witness.holds(assume_pinned())),
            "nothing happened since"
        );
        collected.entries
    }

    /// A whole scan, with its witnesses.
    #[must_use]
    pub fn scan(&self, lower: Bound<&[u8]>, upper: Bound<&[u8]>, direction: Direction) -> Collected {
        collect(&self.tree, Range { lower, upper }, direction)
    }

    /// Checks the tree, and compares the memory's book with the tree.
    ///
    /// # Panics
    /// If the tree or the book is wrong.
    pub fn check(&self) -> crate::Shape {
        let shape = self.tree.check(assume_pinned()).expect("a whole tree");
        assert_eq!(self.memory.live_bytes(), shape.bytes, "memory that is neither linked nor retired");
        shape
    }
}

impl Default for Bench {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            // SAFETY: the test is over, and no other thread has the tree.
            unsafe { self.tree.dismantle(&mut self.memory) };
            assert_eq!(self.memory.live_bytes(), 0, "dismantle leaves nothing behind");
        }
    }
}

/// Unequal keys with equal parts: two keys agree in every byte but one, in the first bytes, in the last bytes, or in
/// every byte of the shorter key. The keys are up to about four slices long, in no order.
#[must_use]
pub fn partly_equal_keys(random: &mut Random) -> Vec<Vec<u8>> {
    let length = random.next_below(34) as usize;
    let base: Vec<u8> = (0..length).map(|_| [0, 1, b'k', 255][random.next_below(4) as usize]).collect();
    let other = |bytes: &[u8]| bytes.iter().map(|byte| !byte).collect::<Vec<u8>>();
    let mut keys = vec![base.clone(), [&base[..], &base].concat()];
    for at in 0..length {
        let (before, behind) = base.split_at(at);
        let mut one = base.clone();
        one[at] ^= [1, 0x80, 0xff][random.next_below(3) as usize];
        keys.push(one);
        keys.extend([before.to_vec(), behind[1..].to_vec()]);
        keys.extend([[before, &other(behind)].concat(), [&other(before), behind].concat()]);
    }
    for end in [0, 1, 255] {
        keys.extend([[&base[..], &[end]].concat(), [&[end], &base[..]].concat()]);
    }
    keys.sort_unstable();
    keys.dedup();
    keys.sort_by_cached_key(|_| random.next_u64());
    keys
}

/// A key that is likely to share many slices with other keys, to part from other keys at any byte, to end at a slice's
/// end, or to hold NULs.
#[must_use]
pub fn hostile_key(random: &mut Random) -> Vec<u8> {
    let mut key = match random.next_below(8) {
        0 => vec![b'p'; 8 * random.next_below(5) as usize],
        1 => vec![0; random.next_below(20) as usize],
        2 => vec![b'q'; random.next_below(40) as usize],
        3 => vec![255; random.next_below(18) as usize],
        4 => vec![b'z'; [0, 7, 8, 9, 900, 1000][random.next_below(6) as usize]],
        5 => {
            let mut key = vec![b'p'; 8 * random.next_below(13) as usize];
            if let Some(byte) = key.get_mut(random.next_below(200) as usize) {
                *byte = [0, b'o', b'q'][random.next_below(3) as usize];
            }
            key
        }
        _ => Vec::new(),
    };
    for _ in 0..random.next_below(11) {
        key.push([0, 0, 1, b'a', b'b', b'p', 254, 255][random.next_below(8) as usize]);
    }
    key
}
