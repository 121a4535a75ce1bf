//! The order by key of a transaction's own writes in the table that it scans last.
//!
//! Invariant: positions are sorted by key, and no key comes twice. Entries written since the last scan are sorted into
//! the order by the next one, at a cost that does not grow with the entries on the far side of the new keys: a queue is
//! emptied from either end.
//!
//! Neighbours: [`super::write_set`] owns the order; a scan merges with it (read-own-writes).

use std::cell::Cell;
use std::collections::VecDeque;
use std::collections::vec_deque::Iter;
use std::ops::Bound;

/// Largest number of new entries that are sorted in one by one. More entries are merged.
const INSERTED_MAX: usize = 16;

/// The entries of one table, as positions in key order.
#[derive(Debug, Default)]
pub(super) struct KeyOrder {
    /// The table of the last scan.
    pub(super) table: u32,
    /// Number of entries, of any table, that the order covers.
    pub(super) seen: usize,
    pub(super) positions: VecDeque<u32>,
    /// Room for the positions of new entries.
    new: Vec<u32>,
    /// End of the last range: the next range often begins or ends near it.
    last: Cell<usize>,
}

impl KeyOrder {
    /// Forgets all positions, and continues with another table.
    #[inline]
    pub(super) fn restart(&mut self, table: u32) {
        self.table = table;
        self.seen = 0;
        self.positions.clear();
    }

    /// Sorts new positions into the others.
    pub(super) fn enter<'k>(&mut self, positions: impl Iterator<Item = u32>, key: impl Fn(u32) -> &'k [u8]) {
        let Self { positions: sorted, new, .. } = self;
        new.clear();
        new.extend(positions);
        new.sort_unstable_by(|a, b| key(*a).cmp(key(*b)));
        let (Some(first), Some(last)) = (new.first(), new.last()) else { return };
        let start = sorted.partition_point(|at| key(*at) < key(*first));
        let mut place = start;
        if place == sorted.len() {
            sorted.extend(&*new);
        } else if place == 0 && sorted.front().is_some_and(|front| key(*last) < key(*front)) {
            for at in new.iter().rev() {
                sorted.push_front(*at);
            }
        } else if new.len() <= INSERTED_MAX {
            for at in &*new {
                place = partition_near(sorted, place, |other| key(other) < key(*at));
                // Moves the entries on the shorter side.
                sorted.insert(place, *at);
            }
        } else {
            sorted.extend(&*new);
            // A stable sort takes each part as one run, and merges them.
            sorted.make_contiguous()[place..].sort_by(|a, b| key(*a).cmp(key(*b)));
        }
        let changed = sorted.range(start.saturating_sub(1)..(start + new.len()).min(sorted.len()));
        debug_assert!(changed.is_sorted_by(|a, b| key(**a) < key(**b)), "a key has one entry");
    }

    /// The positions of the keys within a range.
    pub(super) fn range<'k>(
        &self,
        lower: Bound<&[u8]>,
        upper: Bound<&[u8]>,
        key: impl Fn(u32) -> &'k [u8],
    ) -> Iter<'_, u32> {
        let Self { positions, last, .. } = self;
        let start = match lower {
            Bound::Unbounded => 0,
            Bound::Included(lower) => partition_near(positions, last.get(), |at| key(at) < lower),
            Bound::Excluded(lower) => partition_near(positions, last.get(), |at| key(at) <= lower),
        };
        let end = match upper {
            Bound::Unbounded => positions.len(),
            Bound::Included(upper) => partition_near(positions, last.get(), |at| key(at) <= upper),
            Bound::Excluded(upper) => partition_near(positions, last.get(), |at| key(at) < upper),
        };
        debug_assert!(start <= positions.len() && end <= positions.len(), "a range ends within the order");
        last.set(if start > 0 { start } else { end });
        // The range may be empty.
        positions.range(start..end.max(start))
    }
}

/// Number of the first positions for which `is_before` is true. The search begins at `near`, and takes few steps if the
/// result is not far.
fn partition_near(positions: &VecDeque<u32>, near: usize, is_before: impl Fn(u32) -> bool) -> usize {
    let near = near.min(positions.len());
    let (mut low, mut high, mut step) = (0, positions.len(), 1);
    if positions.get(near).is_some_and(|at| is_before(*at)) {
        low = near + 1;
        while let Some(at) = positions.get(low - 1 + step) {
            if !is_before(*at) {
                high = low - 1 + step;
                break;
            }
            (low, step) = (low + step, 2 * step);
        }
    } else {
        high = near;
        while step <= high {
            if is_before(positions[high - step]) {
                low = high - step + 1;
                break;
            }
            (high, step) = (high - step, 2 * step);
        }
    }
    while low < high {
        let middle = low + (high - low) / 2;
        if is_before(positions[middle]) { low = middle + 1 } else { high = middle }
    }
    debug_assert!(low == 0 || is_before(positions[low - 1]), "the positions in front are before the bound");
    low
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
