//! Choice of the ranges that a turn of a cycling checkpoint takes, and of the log of the others (SiloR §8). Pure.
//!
//! Invariants:
//! - K4: a turn takes every range after a new cut, or takes a single range as cut before.
//! - A demand is answered by a turn that takes every range: every range begins after the demand.
//!
//! Neighbours: `machine` asks for the ranges at the beginning of an attempt; `checkpoint::range_partition` cuts ranges.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use crate::checkpoint::request::CheckpointTurn;
use crate::files::block::Salt;
use crate::files::manifest::installed_checkpoint::{
    CyclingCheckpoint, FuzzyCheckpoint, InstalledCheckpoint, InstalledRange, RangesCut,
};
use crate::range::{KeyRange, RangeStart};

/// Growth that leads to a new cut: the largest range has grown to this many times the mean of the remaining ranges.
/// With fewer ranges than wanted, the state has grown to this many times the bytes at the last cut.
const GROWTH: u128 = 2;

/// Part of the state that an attempt takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    Whole,
    /// Every range, after a new cut into at most `wanted` ranges.
    All {
        wanted: u32,
    },
    /// The range at index `at` among `of` ranges.
    One {
        at: usize,
        of: usize,
        keys: KeyRange,
    },
}

impl Taken {
    /// The ranges that the next turn takes: the one with the oldest turn, or all on a demand or for a new cut.
    pub(super) fn next(installed: Option<&InstalledCheckpoint>, wanted: u32, is_demanded: bool) -> Self {
        match installed {
            Some(InstalledCheckpoint::Cycling(cycling)) if !is_demanded && !is_cut_anew(cycling, wanted) => {
                let at = oldest(cycling);
                assert!(at < cycling.ranges.len(), "K4: it is one of them");
                Self::One { at, of: cycling.ranges.len(), keys: cycling.keys(at) }
            }
            _ => Self::All { wanted },
        }
    }

    /// Number of turns in which each range is taken once; 1 for an attempt that takes the whole state.
    pub(super) fn turns(&self) -> u32 {
        match self {
            Self::Whole | Self::All { .. } => 1,
            Self::One { of, .. } => *of as u32,
        }
    }

    /// Estimated bytes that the attempt writes, given the installed checkpoint.
    pub(super) fn bytes(&self, installed: Option<&InstalledCheckpoint>) -> u64 {
        match (self, installed) {
            (Self::One { at, .. }, Some(InstalledCheckpoint::Cycling(cycling))) => {
                cycling.ranges[*at].walked.files.bytes
            }
            (_, installed) => installed.map_or(0, InstalledCheckpoint::bytes),
        }
    }

    /// The turn for a report, of a checkpoint with `ranges` ranges now.
    pub(super) fn report(&self, ranges: usize) -> Option<CheckpointTurn> {
        let ranges = ranges as u64;
        match self {
            Self::Whole => None,
            Self::All { .. } => Some(CheckpointTurn { first: 0, taken: ranges, ranges }),
            Self::One { at, .. } => Some(CheckpointTurn { first: *at as u64, taken: 1, ranges }),
        }
    }
}

/// Index of the range with the oldest turn.
fn oldest(cycling: &CyclingCheckpoint) -> usize {
    let numbers = cycling.range_walks().map(|walked| walked.files.number).enumerate();
    numbers.min_by_key(|(_, number)| *number).map_or(0, |(at, _)| at)
}

fn is_cut_anew(CyclingCheckpoint { cut, ranges }: &CyclingCheckpoint, wanted: u32) -> bool {
    let sizes = || ranges.iter().map(|range| u128::from(range.walked.files.bytes));
    let (bytes, largest, count) = (sizes().sum::<u128>(), sizes().max().unwrap_or(0), ranges.len() as u128);
    let (cut_bytes, cut_largest) = (u128::from(cut.bytes), u128::from(cut.largest));
    assert!(count > 0 && largest <= bytes && cut_largest <= cut_bytes, "the largest is one of them");
    let others = bytes - largest;
    let is_uneven = largest * (count - 1) >= GROWTH * others;
    // Rows may be so large that no cut is even. A new cut is tried once the largest range has become worse.
    let has_become_so = largest * (cut_bytes - cut_largest) >= GROWTH * cut_largest * others;
    let has_too_few = count < u128::from(wanted) && bytes >= GROWTH * cut_bytes;
    wanted != cut.wanted || count > 1 && is_uneven && has_become_so || has_too_few
}

/// The ranges after a turn that took `taken` and wrote `walked`, in the order of keys. `starts` are those of a new cut.
pub(super) fn after_turn(
    installed: Option<&InstalledCheckpoint>,
    taken: &Taken,
    starts: &[RangeStart],
    walked: Vec<FuzzyCheckpoint>,
) -> CyclingCheckpoint {
    match (taken, installed) {
        (Taken::One { at, .. }, Some(InstalledCheckpoint::Cycling(before))) => {
            let [walked] = <[_; 1]>::try_from(walked).expect("K4: one range was walked");
            let mut next = before.clone();
            let last = &before.ranges[*at].walked;
            assert!(last.low <= walked.low && last.high < walked.high, "K1: its turns follow each other");
            next.ranges[*at].walked = walked;
            next
        }
        (Taken::All { wanted }, _) => {
            assert_eq!(starts.len(), walked.len(), "K4: every range was walked");
            let sizes = || walked.iter().map(|walked| walked.files.bytes);
            let cut =
                RangesCut { wanted: *wanted, bytes: sizes().sum(), largest: sizes().max().unwrap_or(0) };
            let ranges = starts.iter().cloned().zip(walked);
            let ranges = ranges.map(|(start, walked)| InstalledRange { start, walked }).collect();
            CyclingCheckpoint { cut, ranges }
        }
        (taken, _) => unreachable!("{taken:?} is no turn, or its ranges are not installed"),
    }
}

/// Part of the state that an attempt takes, and the numbers of its files.
#[derive(Debug)]
pub(super) struct AttemptTurn {
    /// Number of the first set of files. Further sets have the next numbers.
    pub(super) number: u64,
    pub(super) sets: u64,
    pub(super) salt: Salt,
    pub(super) taken: Taken,
    /// First keys of all ranges, set by the cut.
    pub(super) starts: Vec<RangeStart>,
}

impl AttemptTurn {
    pub(super) fn new(number: u64, salt: Salt, taken: Taken) -> Self {
        assert!(number > 0, "numbers of checkpoints begin at 1");
        Self { number, sets: 1, salt, taken, starts: Vec::new() }
    }

    pub(super) fn last_number(&self) -> u64 {
        assert!(self.sets > 0, "a turn has a set of files");
        self.number + self.sets - 1
    }

    /// Sets the first keys of the ranges, and thereby the number of sets.
    pub(super) fn cut(&mut self, starts: Vec<RangeStart>) {
        assert_eq!(self.sets, 1, "a turn is cut once");
        self.sets = if let Taken::All { .. } = self.taken { starts.len() as u64 } else { 1 };
        assert!(self.sets > 0, "K4: a turn has a range");
        self.starts = starts;
    }
}

/// Bytes of log at the beginning of each turn of this process whose ranges are installed, by the ranges' numbers.
#[derive(Debug, Default)]
pub(super) struct TurnBytes(BTreeMap<u64, u64>);

impl TurnBytes {
    /// Adds a turn with the file numbers `numbers` that began at `bytes` of log. `now` is the installed checkpoint.
    pub(super) fn add_turn(&mut self, numbers: RangeInclusive<u64>, bytes: u64, now: &InstalledCheckpoint) {
        self.0.extend(numbers.map(|number| (number, bytes)));
        let is_there =
            |number: &u64| now.completed_walks().iter().any(|(walked, _)| walked.files.number == *number);
        self.0.retain(|number, _| is_there(number));
    }

    /// Bytes of log at the beginning of the turn with the least e_l, if the turn began in this process.
    pub(super) fn least(&self, installed: &InstalledCheckpoint) -> Option<u64> {
        let oldest = installed.completed_walks().iter().map(|(walked, _)| walked.files.number).min()?;
        self.0.get(&oldest).copied()
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
