//! Turn of an attempt: the part of the state that the attempt takes, and its sets of files.
//!
//! Invariant: a turn that takes every range has a set of files for each range. Any other turn has one set.
//!
//! Neighbours: `range_schedule` chooses the part; `attempt` has one turn.

use std::ops::RangeInclusive;

use super::range_schedule::Taken;
use crate::files::block::Salt;
use crate::range::RangeStart;

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

    /// Number of the last set of files.
    pub(super) fn last_number(&self) -> u64 {
        assert!(self.sets > 0, "a turn has a set of files");
        self.number + self.sets - 1
    }

    /// Numbers of all sets of files.
    pub(super) fn numbers(&self) -> RangeInclusive<u64> {
        self.number..=self.last_number()
    }

    /// Sets the first keys of the ranges, and thereby the number of sets.
    pub(super) fn cut(&mut self, starts: Vec<RangeStart>) {
        assert_eq!(self.sets, 1, "a turn is cut once");
        self.sets = if let Taken::All { .. } = self.taken { starts.len() as u64 } else { 1 };
        assert!(self.sets > 0, "K4: a turn has a range");
        self.starts = starts;
    }
}
