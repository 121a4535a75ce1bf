//! Dead ranges: ranges of keys in which the transaction has found no row.
//!
//! A scan passes dead rows: own deletes, and absent records. A scan that passes some in front of its first row notes
//! the range up to the row. A later scan that would begin within the range begins at the range's end. So the
//! transaction passes a dead row once. The dead row's record is in the read-set once.
//!
//! Invariant: The leaves of a dead range are in the node-set. The range's absent records are in the read-set. The
//! transaction's own writes within the range are deletes. So the commit validates the range as part of the scan that
//! noted the range (C4).
//!
//! Neighbours: `read_path` counts the passed rows; `transaction` notes a range and begins the next scan at its end.

use std::ops::Bound;

use ensile_index::{Direction, Range};

/// Number of passed rows from which a range is noted.
pub(crate) const PASSED_MIN: usize = 8;

/// Most ranges of a transaction. A further range takes the place of the oldest.
const RANGES_MAX: usize = 4;

/// A place between keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Cut<'k> {
    /// In front of all keys.
    Start,
    /// In front of the key if the flag is false, behind the key if the flag is true.
    At(&'k [u8], bool),
    /// Behind all keys.
    End,
}

impl<'k> Cut<'k> {
    /// The place at which a range with this lower bound begins.
    fn lower(bound: Bound<&'k [u8]>) -> Self {
        match bound {
            Bound::Unbounded => Self::Start,
            Bound::Included(key) => Self::At(key, false),
            Bound::Excluded(key) => Self::At(key, true),
        }
    }

    /// The place at which a range with this upper bound ends.
    fn upper(bound: Bound<&'k [u8]>) -> Self {
        match bound {
            Bound::Unbounded => Self::End,
            Bound::Included(key) => Self::At(key, true),
            Bound::Excluded(key) => Self::At(key, false),
        }
    }

    /// The lower bound of a range that begins here; `None` at the end of all keys.
    fn as_lower(self) -> Option<Bound<&'k [u8]>> {
        match self {
            Self::Start => Some(Bound::Unbounded),
            Self::At(key, false) => Some(Bound::Included(key)),
            Self::At(key, true) => Some(Bound::Excluded(key)),
            Self::End => None,
        }
    }

    /// The upper bound of a range that ends here; `None` at the start of all keys.
    fn as_upper(self) -> Option<Bound<&'k [u8]>> {
        match self {
            Self::Start => None,
            Self::At(key, false) => Some(Bound::Excluded(key)),
            Self::At(key, true) => Some(Bound::Included(key)),
            Self::End => Some(Bound::Unbounded),
        }
    }
}

/// A [`Cut`] with a key of its own.
#[derive(Debug, Default)]
struct OwnCut {
    /// True if the place is beside a key. False in front of all keys, and behind all keys.
    has_key: bool,
    /// True if the place is behind the key, or behind all keys.
    is_behind: bool,
    key: Vec<u8>,
}

impl OwnCut {
    fn get(&self) -> Cut<'_> {
        match (self.has_key, self.is_behind) {
            (true, is_behind) => Cut::At(&self.key, is_behind),
            (false, false) => Cut::Start,
            (false, true) => Cut::End,
        }
    }

    fn set(&mut self, cut: Cut<'_>) {
        self.key.clear();
        (self.has_key, self.is_behind) = match cut {
            Cut::Start => (false, false),
            Cut::End => (false, true),
            Cut::At(key, is_behind) => {
                self.key.extend_from_slice(key);
                (true, is_behind)
            }
        };
        debug_assert_eq!(self.get(), cut, "a copy is the same place");
    }
}

/// A range of keys without a row.
#[derive(Debug, Default)]
struct DeadRange {
    table: u32,
    low: OwnCut,
    high: OwnCut,
    /// Length of the read-set, in entries: the range's absent records are below this length.
    reads: usize,
}

impl DeadRange {
    /// True if a scan that begins at this place finds no row before it leaves the range.
    fn covers(&self, begin: Cut<'_>, direction: Direction) -> bool {
        match direction {
            Direction::Forward => self.low.get() <= begin && begin < self.high.get(),
            Direction::Reverse => self.low.get() < begin && begin <= self.high.get(),
        }
    }
}

/// The dead ranges of a transaction.
#[derive(Debug, Default)]
pub(crate) struct DeadRanges {
    /// Ranges in use, and behind them ranges whose space is used again.
    ranges: Vec<DeadRange>,
    used: usize,
    /// Position of the range that a further range replaces.
    oldest: usize,
}

impl DeadRanges {
    #[inline(always)]
    pub(crate) fn clear(&mut self) {
        self.used = 0;
    }

    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// Memory of the ranges in bytes.
    pub(crate) fn kept_bytes(&self) -> usize {
        let keys = self.ranges.iter().map(|dead| dead.low.key.capacity() + dead.high.key.capacity());
        self.ranges.capacity() * size_of::<DeadRange>() + keys.sum::<usize>()
    }

    /// The part of a range that a scan has to visit: the range, shortened by the dead range in which the scan begins.
    /// `None` if no part is left.
    pub(crate) fn range_to_visit<'k>(
        &'k self,
        table: u32,
        range: Range<'k>,
        direction: Direction,
    ) -> Option<Range<'k>> {
        let (lower, upper) = (Cut::lower(range.lower), Cut::upper(range.upper));
        let begin = if direction == Direction::Forward { lower } else { upper };
        let mut ranges = self.ranges[..self.used].iter();
        let Some(dead) = ranges.find(|dead| dead.table == table && dead.covers(begin, direction)) else {
            return Some(range);
        };
        match direction {
            Direction::Forward if dead.high.get() < upper => {
                Some(Range { lower: dead.high.get().as_lower()?, upper: range.upper })
            }
            Direction::Reverse if dead.low.get() > lower => {
                Some(Range { lower: range.lower, upper: dead.low.get().as_upper()? })
            }
            _ => None,
        }
    }

    /// Notes that a scan of a range has found only dead rows in front of the row at `first`, or in all of the range if
    /// `first` is `None`. `reads` is the length of the read-set behind the dead rows.
    pub(crate) fn note(
        &mut self,
        table: u32,
        range: Range<'_>,
        direction: Direction,
        first: Option<&[u8]>,
        reads: usize,
    ) {
        let (mut low, mut high) = (Cut::lower(range.lower), Cut::upper(range.upper));
        match (first, direction) {
            (None, _) => {}
            (Some(key), Direction::Forward) => high = Cut::At(key, false),
            (Some(key), Direction::Reverse) => low = Cut::At(key, true),
        }
        debug_assert!(low <= high, "a row lies in its range");
        let touches =
            |dead: &DeadRange| dead.table == table && dead.low.get() <= high && low <= dead.high.get();
        if let Some(dead) = self.ranges[..self.used].iter_mut().find(|dead| touches(dead)) {
            if low < dead.low.get() {
                dead.low.set(low);
            }
            if high > dead.high.get() {
                dead.high.set(high);
            }
            dead.reads = dead.reads.max(reads);
            return;
        }
        let dead = self.place();
        (dead.table, dead.reads) = (table, reads);
        dead.low.set(low);
        dead.high.set(high);
    }

    /// The place for a further dead range: unused space, or the place of the oldest range.
    fn place(&mut self) -> &mut DeadRange {
        let mut at = self.used;
        if at == RANGES_MAX {
            at = self.oldest;
            self.oldest = (at + 1) % RANGES_MAX;
        } else {
            self.used += 1;
            if self.ranges.len() < self.used {
                self.ranges.push(DeadRange::default());
            }
        }
        &mut self.ranges[at]
    }

    /// Forgets the ranges with this key: the transaction puts a row.
    #[inline]
    pub(crate) fn forget_ranges_with(&mut self, table: u32, key: &[u8]) {
        if !self.is_empty() {
            self.forget(|dead| {
                dead.table == table
                    && dead.low.get() <= Cut::At(key, false)
                    && Cut::At(key, true) <= dead.high.get()
            });
        }
    }

    /// Forgets the ranges with an absent record behind the first `kept` entries of the read-set.
    #[inline]
    pub(crate) fn forget_reads(&mut self, kept: usize) {
        if !self.is_empty() {
            self.forget(|dead| dead.reads > kept);
        }
    }

    /// Removes the ranges for which `is_gone` is true.
    #[cold]
    fn forget(&mut self, is_gone: impl Fn(&DeadRange) -> bool) {
        let mut at = 0;
        while at < self.used {
            if is_gone(&self.ranges[at]) {
                self.used -= 1;
                self.ranges.swap(at, self.used);
            } else {
                at += 1;
            }
        }
        self.oldest = 0;
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
