//! The cut of a state into ranges of about equal bytes, and of a range into slices (SiloR §8).
//!
//! Invariants:
//! - K4: the first range begins before every key, and every later range begins behind the range before.
//! - K4: the slices of a range have each key of the range once, and no other key.
//!
//! Neighbours: the state measures its rows ([`super::Walk::measure`]); `manager` cuts when a turn begins.

use super::walk::Slice;
use crate::range::{KeyRange, RangeStart};

/// Number of pieces for each range: the largest range exceeds the mean by about one part in this number.
const PIECES_PER_RANGE: usize = 16;
/// Most bytes of a key at which a range begins: the manifest lists the keys, and must stay short enough to be read.
const START_KEY_BYTES_MAX: usize = 4096;

#[derive(Debug)]
struct MeasuredRows {
    start: RangeStart,
    bytes: u64,
}

/// Measured rows of a state, from which the ranges are cut. [`super::Walk::measure`] adds the rows. The rows are kept
/// as pieces of about equal bytes, so the memory does not grow with the rows.
#[derive(Debug)]
pub struct RangeCut {
    most: usize,
    pieces: Vec<MeasuredRows>,
    piece_bytes: u64,
}

impl RangeCut {
    /// Cuts into at most `most` ranges.
    #[must_use]
    pub fn new(most: usize) -> Self {
        assert!(most > 0, "there is a range");
        Self { most, pieces: Vec::new(), piece_bytes: 0 }
    }

    /// Most ranges of the cut.
    #[must_use]
    pub fn most(&self) -> usize {
        self.most
    }

    /// Adds the next row, or the next rows from this key on, with their bytes, in the order of sections and keys.
    pub fn add(&mut self, section: u32, key: &[u8], bytes: u64) {
        match self.pieces.last_mut() {
            Some(last) if last.bytes < self.piece_bytes => last.bytes += bytes,
            last => {
                let start = RangeStart { section, key: key.into() };
                debug_assert!(last.is_none_or(|last| last.start < start), "rows come in order (K4)");
                self.pieces.push(MeasuredRows { start, bytes });
                if self.pieces.len() > 2 * PIECES_PER_RANGE * self.most {
                    self.join();
                }
            }
        }
    }

    /// Joins neighbouring pieces in pairs.
    fn join(&mut self) {
        let mut pieces = std::mem::take(&mut self.pieces).into_iter();
        while let Some(mut piece) = pieces.next() {
            piece.bytes += pieces.next().map_or(0, |next| next.bytes);
            self.pieces.push(piece);
        }
        let total: u64 = self.pieces.iter().map(|piece| piece.bytes).sum();
        self.piece_bytes = total / self.pieces.len() as u64;
        assert!(self.pieces.len() > PIECES_PER_RANGE, "enough of them are left for an even cut");
    }

    pub(super) fn starts(self) -> Vec<RangeStart> {
        let total: u64 = self.pieces.iter().map(|piece| piece.bytes).sum();
        let mut starts = vec![RangeStart::default()];
        let mut before = 0;
        for MeasuredRows { start, bytes } in self.pieces {
            // Number of ranges that have ended at the piece's beginning, rounded by half a piece.
            let ended =
                (u128::from(before) + u128::from(bytes) / 2) * self.most as u128 / u128::from(total.max(1));
            if before > 0 && ended >= starts.len() as u128 && starts.len() < self.most {
                let start = truncate_key(start);
                // Long keys may begin alike: no range lies between equal shortened keys.
                if starts.last().is_some_and(|last| *last < start) {
                    starts.push(start);
                }
            }
            before += bytes;
        }
        assert!(starts.len() <= self.most && starts[0].is_first(), "K4: the first begins before all keys");
        assert!(starts.windows(2).all(|pair| pair[0] < pair[1]), "K4: each begins behind the one before it");
        starts
    }
}

/// Shortens the key of a start to [`START_KEY_BYTES_MAX`] bytes: at or before it, behind smaller other keys.
fn truncate_key(RangeStart { section, key }: RangeStart) -> RangeStart {
    RangeStart { section, key: key[..key.len().min(START_KEY_BYTES_MAX)].into() }
}

/// Returns the parts of `slices` that lie in `range`. `slices` cover the whole state.
fn clip(slices: &[Slice], range: &KeyRange) -> Vec<Slice> {
    let clipped = |slice: &Slice| {
        let Slice { section, from, to } = slice.clone();
        let KeyRange { start, end } = range;
        let from = if start.section == section { from.max(start.key.clone()) } else { from };
        let to = match end {
            Some(end) if end.section == section => {
                Some(to.map_or_else(|| end.key.clone(), |to| to.min(end.key.clone())))
            }
            _ => to,
        };
        let is_empty = to.as_ref().is_some_and(|to| *to <= from);
        (range.has_section(section) && !is_empty).then_some(Slice { section, from, to })
    };
    slices.iter().filter_map(clipped).collect()
}

/// The slices of these ranges, dealt out to `parts` parts: `result[p][r]` has the slices of range r that part p walks.
pub(super) fn deal(mut slices: Vec<Slice>, ranges: &[KeyRange], parts: usize) -> Vec<Vec<Vec<Slice>>> {
    assert!(parts > 0 && !ranges.is_empty(), "there is something to deal out");
    slices.sort_unstable_by(|a, b| (a.section, &a.from).cmp(&(b.section, &b.from)));
    let mut result = vec![Vec::with_capacity(ranges.len()); parts];
    for range in ranges {
        let clipped = clip(&slices, range);
        let mut dealt = vec![Vec::new(); parts];
        let count = clipped.len();
        for (at, slice) in clipped.into_iter().enumerate() {
            dealt[at * parts / count].push(slice);
        }
        result.iter_mut().zip(dealt).for_each(|(part, of_range)| part.push(of_range));
    }
    assert!(result.iter().all(|part| part.len() == ranges.len()), "a part has its share of each range");
    result
}

pub(super) fn ranges_of(starts: &[RangeStart]) -> Vec<KeyRange> {
    assert!(starts.first().is_some_and(RangeStart::is_first), "K4: no key is before the first range");
    let end = |at: usize| starts.get(at + 1).cloned();
    starts.iter().enumerate().map(|(at, start)| KeyRange { start: start.clone(), end: end(at) }).collect()
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
