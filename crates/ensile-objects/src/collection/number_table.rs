//! Index of the cells of a shard: numbers of cells by parts of hashes, read without a lock.
//!
//! ```text
//! slot   tag 32, of the key's hash | the cell's number and 1, 32           zero: free
//! ```
//! Slots are searched from the tag's place on, up to a free slot. A full table is replaced by a table twice as large.
//! Earlier tables stay, because readers may be in them: together they take less memory than the newest table.
//!
//! Invariant: O2: changes are made under the lock of the shard, and under the lock a search finds every number. Without
//! the lock a search may find the number of a cell that has another key by now, or may miss an existing number.
//!
//! Neighbours: `shards` has the shard's lock, and the cells.

use ensile_base::sync::{AtomicU32, AtomicU64, OnceLock, Ordering};
use ensile_memory::prefetch;

const FIRST_SLOTS: usize = if cfg!(shuttle) { 2 } else { 8 };
/// Number of tables, each twice as large as the table before. The last table has room for every number.
const TABLES: usize = 32;
const _: () =
    assert!((FIRST_SLOTS as u64) << (TABLES - 1) > u32::MAX as u64, "there is a slot for every number");

const _: () = assert!(FIRST_SLOTS.is_power_of_two(), "a place is the lowest bits of a tag");

const FREE: u64 = 0;

#[derive(Debug)]
pub(super) struct NumberTable {
    /// Tables; `newest` is the index of the newest. Inline in the struct: a search has one load less to wait for.
    tables: [OnceLock<Box<[AtomicU64]>>; TABLES],
    newest: AtomicU32,
}

fn slot_of(tag: u32, number: u32) -> u64 {
    debug_assert!(number < u32::MAX, "a number and 1 have 32 bits");
    let slot = u64::from(tag) << 32 | (u64::from(number) + 1);
    debug_assert_eq!(tag_of(slot), tag);
    slot
}

fn tag_of(slot: u64) -> u32 {
    (slot >> 32) as u32
}

impl NumberTable {
    pub(super) fn new() -> Self {
        Self { tables: [const { OnceLock::new() }; TABLES], newest: AtomicU32::new(0) }
    }

    #[inline]
    fn slots(&self) -> &[AtomicU64] {
        // Acquire: the table was made before it became the newest; partner: the Release in `grow`.
        let newest = self.newest.load(Ordering::Acquire) as usize;
        self.tables[newest % TABLES].get().map_or(&[], |slots| slots)
    }

    /// Prefetches the line where a search for this tag begins.
    #[inline]
    pub(super) fn prefetch(&self, tag: u32) {
        let slots = self.slots();
        if let Some(slot) = slots.get(tag as usize & slots.len().wrapping_sub(1)) {
            prefetch::line(slot);
        }
    }

    /// A number of this tag for which `is_wanted` is true. See O2 above for the misses.
    #[inline]
    pub(super) fn find(&self, tag: u32, mut is_wanted: impl FnMut(u32) -> bool) -> Option<u32> {
        let slots = self.slots();
        let mask = slots.len().wrapping_sub(1);
        let mut at = tag as usize & mask;
        // Bounded: while slots move, a reader need not meet a free slot.
        for _ in 0..slots.len() {
            // Acquire: the cell was made before its number stood here; partner: the Release in `put`.
            let slot = slots[at].load(Ordering::Acquire);
            if slot == FREE {
                return None;
            }
            let number = (slot as u32).wrapping_sub(1);
            if tag_of(slot) == tag && is_wanted(number) {
                return Some(number);
            }
            at = (at + 1) & mask;
        }
        None
    }

    /// Adds a number to `numbers` present numbers. Under the shard's lock.
    pub(super) fn insert(&self, tag: u32, number: u32, numbers: usize) {
        // At most five eighths full: searches are short.
        if (numbers + 1) * 8 > self.slots().len() * 5 {
            self.grow(numbers);
        }
        debug_assert!((numbers + 1) * 8 <= self.slots().len() * 5, "a search meets a free slot");
        debug_assert!(self.find(tag, |found| found == number).is_none(), "a number has one slot");
        put(self.slots(), slot_of(tag, number));
        debug_assert_eq!(self.find(tag, |found| found == number), Some(number), "a search finds the number");
    }

    /// Removes a number. Under the shard's lock.
    pub(super) fn remove(&self, tag: u32, number: u32) {
        let (slots, slot) = (self.slots(), slot_of(tag, number));
        let mask = slots.len().wrapping_sub(1);
        // Relaxed, here and below: the shard's lock orders changes; a reader verifies every found number.
        let read = |at: usize| slots[at].load(Ordering::Relaxed);
        let mut hole = tag as usize & mask;
        while read(hole) != slot {
            assert_ne!(read(hole), FREE, "a number that is taken out is there");
            hole = (hole + 1) & mask;
        }
        // The slots behind the hole move up, as far as no search for them begins behind the hole.
        let mut at = hole;
        loop {
            at = (at + 1) & mask;
            let next = read(at);
            if next == FREE {
                break;
            }
            let begin = tag_of(next) as usize & mask;
            if (at.wrapping_sub(begin) & mask) >= (at.wrapping_sub(hole) & mask) {
                // Release: a reader that finds the number here finds its cell; partner: the Acquire in `find`.
                slots[hole].store(next, Ordering::Release);
                hole = at;
            }
        }
        slots[hole].store(FREE, Ordering::Relaxed);
    }

    /// Replaces the table with `numbers` numbers by a larger table.
    fn grow(&self, numbers: usize) {
        let before = self.slots();
        let size = if before.is_empty() { FIRST_SLOTS } else { before.len() * 2 };
        let slots: Box<[AtomicU64]> = (0..size).map(|_| AtomicU64::new(FREE)).collect();
        // Relaxed: the shard's lock orders changes.
        let full = before.iter().map(|slot| slot.load(Ordering::Relaxed)).filter(|slot| *slot != FREE);
        full.for_each(|slot| put(&slots, slot));
        debug_assert_eq!(full_count(&slots), numbers, "each number moves to a slot of its own");
        assert!(size.is_power_of_two() && size > before.len());
        let next = size.trailing_zeros() - FIRST_SLOTS.trailing_zeros();
        assert!(self.tables[next as usize].set(slots).is_ok(), "a table is made once");
        // Release: partner is the Acquire in `slots`.
        self.newest.store(next, Ordering::Release);
    }
}

/// Number of slots with a number, under the shard's lock.
fn full_count(slots: &[AtomicU64]) -> usize {
    // Relaxed: the shard's lock orders changes.
    slots.iter().filter(|slot| slot.load(Ordering::Relaxed) != FREE).count()
}

/// Puts a slot into the first free place, from the place of its tag on.
fn put(slots: &[AtomicU64], slot: u64) {
    debug_assert_ne!(slot, FREE, "a slot has a number");
    let mask = slots.len() - 1;
    let mut at = tag_of(slot) as usize & mask;
    // Relaxed: the shard's lock orders changes.
    while slots[at].load(Ordering::Relaxed) != FREE {
        at = (at + 1) & mask;
    }
    // Release: a reader that finds the number finds its cell; partner: the Acquire in `find`.
    slots[at].store(slot, Ordering::Release);
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
