//! Calls and conflicts of each command, counted by each loop.
//!
//! Invariant: a loop writes its own counts only; other threads read.
//!
//! Neighbours: `served_program` counts calls, [`crate::execution`] conflicts; the admin port shows the sums.

use ensile_base::sync::{AtomicU64, Ordering};

/// Counts of a loop, by the number of the command.
#[derive(Debug)]
pub(crate) struct LoopFigures {
    calls: Box<[AtomicU64]>,
    conflicts: Box<[AtomicU64]>,
}

/// Counts of a command since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CommandFigures {
    pub(crate) calls: u64,
    /// Number of runs that lost to another transaction.
    pub(crate) conflicts: u64,
}

impl LoopFigures {
    /// Counts of this number of commands.
    pub(crate) fn new(commands: usize) -> Self {
        let zeros = || (0..commands).map(|_| AtomicU64::new(0)).collect();
        Self { calls: zeros(), conflicts: zeros() }
    }

    /// Counts a call of a command.
    #[inline]
    pub(crate) fn count_call(&self, command: u16) {
        debug_assert!(usize::from(command) < self.calls.len(), "each command has a count");
        add_one(&self.calls[usize::from(command)]);
    }

    /// Counts a run of a command that lost to another transaction.
    #[cold]
    pub(crate) fn count_conflict(&self, command: u16) {
        debug_assert!(usize::from(command) < self.conflicts.len(), "each command has a count");
        add_one(&self.conflicts[usize::from(command)]);
    }

    /// Adds the loop's counts to the sums, which stand in the order of the commands.
    pub(crate) fn add_to(&self, sums: &mut [CommandFigures]) {
        debug_assert_eq!(sums.len(), self.calls.len(), "each command has a sum");
        for ((sum, calls), conflicts) in sums.iter_mut().zip(&self.calls).zip(&self.conflicts) {
            // Relaxed, both: figures for people.
            sum.calls += calls.load(Ordering::Relaxed);
            sum.conflicts += conflicts.load(Ordering::Relaxed);
        }
    }
}

/// Adds one to a figure that this thread alone writes.
#[inline]
fn add_one(figure: &AtomicU64) {
    // Relaxed, both: a figure for people, with a single writer.
    figure.store(figure.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
}
