//! Five ways to find the changed pages (A to E), over the keys of a table without real rows.
//!
//! ```text
//! shipped    bounds, states, marks and the next map of pages: `ensile::MarkedPages`
//! stand-in   an array for the inner nodes, leaves of ten rows and five cache lines, records of 128 bytes, both scattered
//! ```
//! One thread changes rows and collects marks. So a change has its exchanges, and never waits for another thread.
//!
//! Neighbours: [`super`] times and counts.

use std::hint::black_box;

use clap::ValueEnum;
use ensile::MarkedPages;
use ensile_base::sync::{AtomicU64, Ordering};

use crate::ycsb::permutation::Permutation;

const ROWS_OF_LEAF: u64 = 10;
/// Bit of [`Leaf::kinds`]: a row of the leaf has changed.
const CHANGED: u64 = 1 << 63;
/// Lowest bit of the page's number in [`Record::word`].
const PAGE_SHIFT: u32 = 32;
/// The first bytes of a key in the log, or in a list of keys: length and table.
const KEY_FRONT: u32 = 8 | 1 << 16;
const KEY_BYTES: usize = size_of_val(&KEY_FRONT) + 8;
/// Limit of heaps of neighbouring keys for `SearchUneven`.
const HEAPS_MAX: u64 = 16;

/// Way of a commit to report a changed row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Way {
    /// No report: only the work common to the other ways.
    LookUp,
    /// A.
    Leaf,
    /// B.
    Record,
    /// C.
    Search,
    /// C, by a binary search.
    SearchUneven,
    /// D.
    Keys,
    /// E.
    Memory,
}

impl Way {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::LookUp => "look-up",
            Self::Leaf => "A, bit of the leaf",
            Self::Record => "B, page in the record",
            Self::Search => "C, search",
            Self::SearchUneven => "C, search, uneven keys",
            Self::Keys => "D, list of keys",
            Self::Memory => "E, bit of 128 bytes",
        }
    }
}

/// Stand-in for a border node: the same size, and the fields at the same ends of the node.
#[repr(C, align(64))]
struct Leaf {
    /// The word that a reader of the leaf loads, with bits to spare.
    kinds: AtomicU64,
    next: u32,
    _slices: [u64; 30],
    /// Indexes of the rows' records.
    records: [u32; ROWS_OF_LEAF as usize],
}

#[repr(C, align(128))]
struct Record {
    word: AtomicU64,
    _value: [u8; 100],
}

/// The rows, and the state of every way.
pub(super) struct Rows {
    page_rows: u64,
    /// Index of each leaf, in the order of keys.
    inner: Vec<u32>,
    leaves: Vec<Leaf>,
    records: Vec<Record>,
    pages: MarkedPages,
    uneven: MarkedPages,
    heaps: Heaps,
    /// D: appended keys.
    keys: Vec<u8>,
    /// E: a bit for each record.
    bits: Vec<AtomicU64>,
}

impl Rows {
    /// A table of `rows` rows; `page_rows` neighbours are a page.
    pub(super) fn new(rows: u64, page_rows: u64, seed: u64) -> Self {
        assert!(rows > 0 && u32::try_from(rows).is_ok() && page_rows > 0, "rows are numbered in half a word");
        let leaves = rows.div_ceil(ROWS_OF_LEAF);
        let (leaf_order, record_order) = (Permutation::new(leaves, seed), Permutation::new(rows, !seed));
        let inner: Vec<u32> = (0..leaves).map(|number| leaf_order.at(number) as u32).collect();
        let empty = |_| Leaf { kinds: AtomicU64::new(0), next: 0, _slices: [0; 30], records: [0; 10] };
        let mut scattered: Vec<Leaf> = (0..leaves).map(empty).collect();
        let record = |_| Record { word: AtomicU64::new(0), _value: [0; 100] };
        let mut records: Vec<Record> = (0..rows).map(record).collect();
        for row in 0..rows {
            let (number, at) = ((row / ROWS_OF_LEAF) as usize, (row % ROWS_OF_LEAF) as usize);
            let place = record_order.at(row) as u32;
            let leaf = &mut scattered[inner[number] as usize];
            leaf.next = inner.get(number + 1).copied().unwrap_or(inner[number]);
            leaf.records[at] = place;
            records[place as usize].word = AtomicU64::new((row / page_rows) << PAGE_SHIFT);
        }
        let heaps = Heaps::of(rows);
        let [pages, uneven] = no_marks(rows, page_rows, heaps);
        let bits = (0..rows.div_ceil(64)).map(|_| AtomicU64::new(0)).collect();
        // Writes the whole buffer once, so that no change waits for memory from the system.
        let mut keys = vec![1; rows as usize * KEY_BYTES];
        keys.clear();
        Self { page_rows, inner, leaves: scattered, records, pages, uneven, heaps, keys, bits }
    }

    fn count(&self) -> u64 {
        self.records.len() as u64
    }

    /// Looks each row up as a commit has done: row, leaf, place of the record, and its word. So leaf and record are in
    /// the cache, and the leaf's address comes from memory, as from a write-set.
    #[inline(always)]
    fn each(&self, rows: &[u32], mut change: impl FnMut(u64, &Leaf, usize, u64)) {
        for row in rows.iter().map(|row| u64::from(*row)) {
            let leaf = black_box(&self.leaves[self.inner[(row / ROWS_OF_LEAF) as usize] as usize]);
            // Relaxed: one thread.
            black_box(leaf.kinds.load(Ordering::Relaxed));
            let place = leaf.records[(row % ROWS_OF_LEAF) as usize] as usize;
            // Relaxed: one thread.
            let word = black_box(self.records[place].word.load(Ordering::Relaxed));
            change(row, leaf, place, word);
        }
    }

    /// Changes these rows.
    #[inline(never)]
    pub(super) fn change(&mut self, way: Way, rows: &[u32]) {
        let mut keys = std::mem::take(&mut self.keys);
        let this = &*self;
        match way {
            Way::LookUp => this.each(rows, |_, _, _, _| {}),
            Way::Leaf => this.each(rows, |_, leaf, _, _| mark(&leaf.kinds, CHANGED)),
            Way::Record => {
                this.each(rows, |_, _, _, word| this.pages.change_page((word >> PAGE_SHIFT) as usize));
            }
            Way::Search => this.each(rows, |row, _, _, _| this.pages.change(&row.to_be_bytes())),
            Way::SearchUneven => this.each(rows, |row, _, _, _| this.uneven.change(&this.heaps.key(row))),
            Way::Keys => this.each(rows, |row, _, _, _| {
                keys.extend_from_slice(&KEY_FRONT.to_le_bytes());
                keys.extend_from_slice(&row.to_be_bytes());
            }),
            Way::Memory => this.each(rows, |_, _, place, _| mark(&this.bits[place / 64], 1 << (place % 64))),
        }
        self.keys = keys;
    }

    /// Does the work of a picture's freeze. Returns the numbers of the pages to write.
    #[inline(never)]
    pub(super) fn freeze(&mut self, way: Way) -> Vec<usize> {
        match way {
            Way::LookUp => return Vec::new(),
            Way::SearchUneven => return self.uneven.settle(),
            Way::Search => {}
            Way::Record => {
                let marked = self.pages.settle();
                self.renumber(&marked);
                return marked;
            }
            Way::Keys => {
                for key in self.keys.as_chunks::<KEY_BYTES>().0 {
                    self.pages.change(&key[size_of_val(&KEY_FRONT)..]);
                }
            }
            Way::Leaf => self.walk(|rows, leaf| {
                // Relaxed: one thread.
                if leaf.kinds.load(Ordering::Relaxed) & CHANGED != 0 {
                    // Relaxed: one thread.
                    leaf.kinds.fetch_and(!CHANGED, Ordering::Relaxed);
                    self.pages.change_page((rows.start / self.page_rows) as usize);
                    self.pages.change_page(((rows.end - 1) / self.page_rows) as usize);
                }
            }),
            Way::Memory => {
                self.walk(|rows, leaf| {
                    for (row, &place) in rows.zip(&leaf.records) {
                        // Relaxed: one thread.
                        let bits = self.bits[place as usize / 64].load(Ordering::Relaxed);
                        if bits & 1 << (place % 64) != 0 {
                            self.pages.change_page((row / self.page_rows) as usize);
                        }
                    }
                });
                // Relaxed: one thread.
                self.bits.iter().for_each(|bits| bits.store(0, Ordering::Relaxed));
            }
        }
        self.pages.settle()
    }

    /// Visits all leaves in order, with their rows.
    fn walk(&self, mut each: impl FnMut(std::ops::Range<u64>, &Leaf)) {
        let mut leaf = &self.leaves[self.inner[0] as usize];
        for first in (0..self.count()).step_by(ROWS_OF_LEAF as usize) {
            each(first..self.count().min(first + ROWS_OF_LEAF), leaf);
            leaf = &self.leaves[leaf.next as usize];
        }
    }

    /// Writes the page's number to every record of these pages, as a new cut of the pages does.
    fn renumber(&self, pages: &[usize]) {
        let rows_of = |page: &usize| {
            let first = *page as u64 * self.page_rows;
            first..self.count().min(first + self.page_rows)
        };
        for row in pages.iter().flat_map(rows_of) {
            let leaf = &self.leaves[self.inner[(row / ROWS_OF_LEAF) as usize] as usize];
            let word = &self.records[leaf.records[(row % ROWS_OF_LEAF) as usize] as usize].word;
            // Relaxed, all: one thread. The exchange stands for the record's lock.
            let before = word.load(Ordering::Relaxed);
            let _ = word.compare_exchange(before, before, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// Removes all marks. The caller calls this after each freeze.
    pub(super) fn forget(&mut self) {
        self.keys.clear();
        [self.pages, self.uneven] = no_marks(self.count(), self.page_rows, self.heaps);
    }

    /// Bytes of memory per row: the way's state, or the way's waiting keys.
    pub(super) fn bytes_per_row(&self, way: Way) -> f64 {
        let bytes = match way {
            Way::LookUp | Way::Leaf | Way::Record => 0,
            Way::Search => self.pages.bytes(),
            Way::SearchUneven => self.uneven.bytes(),
            Way::Keys => self.keys.len(),
            Way::Memory => size_of_val(&*self.bits),
        };
        bytes as f64 / self.count() as f64
    }
}

/// Pages without marks: for evenly spaced keys such as YCSB's, and for keys in heaps.
fn no_marks(rows: u64, page_rows: u64, heaps: Heaps) -> [MarkedPages; 2] {
    let pages = |key: &dyn Fn(u64) -> [u8; 8]| {
        let bounds: Vec<_> = (page_rows..rows).step_by(page_rows as usize).map(key).collect();
        let first_keys: Vec<&[u8]> =
            std::iter::once(&[][..]).chain(bounds.iter().map(|key| &key[..])).collect();
        MarkedPages::new(&first_keys)
    };
    [pages(&u64::to_be_bytes), pages(&|row| heaps.key(row))]
}

/// Sets an absent bit, and writes nothing if the bit is present.
#[inline]
fn mark(word: &AtomicU64, bit: u64) {
    // Relaxed, both: one thread.
    if word.load(Ordering::Relaxed) & bit == 0 {
        word.fetch_or(bit, Ordering::Relaxed);
    }
}

/// Keys with the number of their heap in front of the row number. At most sixteen heaps exist.
#[derive(Clone, Copy)]
struct Heaps {
    row_bits: u32,
}

impl Heaps {
    fn of(rows: u64) -> Self {
        Self { row_bits: rows.div_ceil(HEAPS_MAX).next_power_of_two().trailing_zeros() }
    }

    #[inline]
    fn key(self, row: u64) -> [u8; 8] {
        (row >> self.row_bits << 48 | row & ((1 << self.row_bits) - 1)).to_be_bytes()
    }
}

#[cfg(test)]
mod tests;
