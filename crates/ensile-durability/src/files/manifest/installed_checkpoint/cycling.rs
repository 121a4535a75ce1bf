//! Cycling checkpoint by ranges of keys, as the manifest names it (`docs/internals/formats/manifest.md`, lines `ranges`
//! and `range`).
//!
//! Invariants: K4 and K5. A range ends where the next begins, so no line can contradict the tiling.
//!
//! Neighbours: [`super`] has the operations of every kind. `checkpoint::state_machine` fills in the fields.

use std::fmt;

use super::fuzzy::FuzzyCheckpoint;
use crate::files::text::{Lines, all_parsed, values};
use crate::number::{RANGES_MAX, parse_count};
use crate::range::{KeyRange, RangeStart};

/// Figures of the ranges at the last time that the keys were divided into ranges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RangesCut {
    /// Configured number of ranges. A small state has fewer ranges.
    pub(crate) wanted: u32,
    /// Bytes of all ranges; `largest`: bytes of the largest range.
    pub(crate) bytes: u64,
    pub(crate) largest: u64,
}

/// A range of keys: its start, and the walk of its last turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct InstalledRange {
    pub(crate) start: RangeStart,
    pub(crate) walked: FuzzyCheckpoint,
}

impl InstalledRange {
    fn parse(line: &str) -> Option<Self> {
        let (section, line) = line.strip_prefix("range ")?.split_once(" key ")?;
        let (key, walked) = line.split_once(' ')?;
        let start = RangeStart { section: section.parse().ok()?, key: parse_key(key)? };
        Some(Self { start, walked: FuzzyCheckpoint::parse(walked)? })
    }
}

impl fmt::Display for InstalledRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { start: RangeStart { section, key }, walked } = self;
        write!(f, "range {section} key ")?;
        if key.is_empty() {
            f.write_str("-")?;
        }
        key.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
        write!(f, " {walked}")
    }
}

/// Reads a key: two hex digits a byte, or `-` for the empty key.
fn parse_key(text: &str) -> Option<Box<[u8]>> {
    if text == "-" {
        return Some(Box::default());
    }
    let digits = text.as_bytes();
    let is_hex = digits.iter().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'));
    if digits.is_empty() || !digits.len().is_multiple_of(2) || !is_hex {
        return None;
    }
    digits.chunks_exact(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect()
}

/// Cycling checkpoint that is installed, or about to be installed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CyclingCheckpoint {
    pub(crate) cut: RangesCut,
    /// Ranges in the order of their keys.
    pub(crate) ranges: Vec<InstalledRange>,
}

impl CyclingCheckpoint {
    /// Walks of the last turns, by range.
    pub(crate) fn range_walks(&self) -> impl Iterator<Item = &FuzzyCheckpoint> {
        self.ranges.iter().map(|range| &range.walked)
    }

    pub(crate) fn keys(&self, at: usize) -> KeyRange {
        let end = self.ranges.get(at + 1).map(|next| next.start.clone());
        KeyRange { start: self.ranges[at].start.clone(), end }
    }

    pub(super) fn is_whole(&self) -> bool {
        let Self { cut, ranges } = self;
        let begins = ranges.first().is_some_and(|first| first.start.is_first());
        let are_sorted = ranges.windows(2).all(|pair| pair[0].start < pair[1].start);
        let mut numbers: Vec<u64> = self.range_walks().map(|walked| walked.files.number).collect();
        numbers.sort_unstable();
        let are_apart = numbers.windows(2).all(|pair| pair[0] < pair[1]);
        let is_cut = ranges.len() as u64 <= u64::from(cut.wanted) && cut.largest <= cut.bytes;
        begins && are_sorted && are_apart && is_cut && self.range_walks().all(FuzzyCheckpoint::is_whole)
    }

    pub(super) fn is_line(line: &str) -> bool {
        line.starts_with("ranges ")
    }

    /// Reads the line of the checkpoint, and the lines of its ranges.
    pub(super) fn parse_next(lines: &mut Lines<'_>) -> Option<Self> {
        let [count, wanted, bytes, largest] = values(lines.next()?, "ranges wanted bytes largest")?;
        let (count, wanted) = (parse_count(count, RANGES_MAX)?, parse_count(wanted, RANGES_MAX)?);
        let cut = RangesCut { wanted, bytes: bytes.parse().ok()?, largest: largest.parse().ok()? };
        let ranges = all_parsed(lines, InstalledRange::parse);
        (ranges.len() == count as usize).then_some(Self { cut, ranges })
    }
}

impl fmt::Display for CyclingCheckpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cut: RangesCut { wanted, bytes, largest }, ranges } = self;
        write!(f, "ranges {} wanted {wanted} bytes {bytes} largest {largest}", ranges.len())?;
        ranges.iter().try_for_each(|range| write!(f, "\n{range}"))
    }
}
