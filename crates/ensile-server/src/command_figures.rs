//! Calls and conflicts of commands. A loop counts for itself.
//!
//! Invariant: only the loop's thread writes the counts of a loop. Every thread reads.
//!
//! Neighbours: `served_program` counts calls, [`crate::execution`] conflicts; the admin port shows the sums.

use ensile_base::sync::{AtomicU64, Ordering, add_as_only_writer};

/// Counts of a loop, by command number.
#[derive(Debug)]
pub(crate) struct LoopFigures {
    calls: Box<[AtomicU64]>,
    conflicts: Box<[AtomicU64]>,
}

/// Counts of a command since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CommandFigures {
    pub(crate) calls: u64,
    /// Number of lost runs.
    pub(crate) conflicts: u64,
}

impl LoopFigures {
    /// Zeros for a number of commands.
    pub(crate) fn new(commands: usize) -> Self {
        let zeros = || (0..commands).map(|_| AtomicU64::new(0)).collect();
        Self { calls: zeros(), conflicts: zeros() }
    }

    /// Counts a call of a command.
    #[inline]
    pub(crate) fn count_call(&self, command: u16) {
        debug_assert!(usize::from(command) < self.calls.len(), "each command has a count");
        add_as_only_writer(&self.calls[usize::from(command)], 1);
    }

    /// Counts a lost run of a command.
    #[cold]
    pub(crate) fn count_conflict(&self, command: u16) {
        debug_assert!(usize::from(command) < self.conflicts.len(), "each command has a count");
        add_as_only_writer(&self.conflicts[usize::from(command)], 1);
    }

    /// Adds the loop's counts to the sums, in the order of the commands.
    pub(crate) fn add_to(&self, sums: &mut [CommandFigures]) {
        debug_assert_eq!(sums.len(), self.calls.len(), "each command has a sum");
        for ((sum, calls), conflicts) in sums.iter_mut().zip(&self.calls).zip(&self.conflicts) {
            // Relaxed, both: figures for people.
            sum.calls += calls.load(Ordering::Relaxed);
            sum.conflicts += conflicts.load(Ordering::Relaxed);
        }
    }
}
