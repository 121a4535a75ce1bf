//! Figures of a loop's commands and of its looks at keys. A loop counts for itself.
//!
//! Times are of every call of a command whose time the slow log measures, and of one call of [`CALLS_PER_TIME`] of
//! another command: a look at the clock would be a large part of the command's time.
//!
//! Invariant: only the loop's thread writes the figures of a loop. Every thread reads.
//!
//! Neighbours: `served_program` counts calls, [`crate::execution`] conflicts and looks; `admin` and the admin port show
//! the sums.

use ensile_base::sync::{AtomicU64, Ordering, add_as_only_writer};

use crate::effects::KeyFigures;

/// Number of calls of a command of which one call's time is measured.
const CALLS_PER_TIME: u64 = 64;

const _: () = assert!(CALLS_PER_TIME.is_power_of_two(), "a remainder costs one instruction");

/// Figures of a command in a loop.
#[derive(Debug, Default)]
struct CommandCounts {
    calls: AtomicU64,
    conflicts: AtomicU64,
    failed: AtomicU64,
    refused: AtomicU64,
    timed_calls: AtomicU64,
    timed_nanos: AtomicU64,
}

/// Figures of a loop, by command number.
#[derive(Debug)]
pub(crate) struct LoopFigures {
    commands: Box<[CommandCounts]>,
    hits: AtomicU64,
    misses: AtomicU64,
    expired: AtomicU64,
}

/// Figures of a command since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CommandFigures {
    pub(crate) calls: u64,
    /// Number of lost runs.
    pub(crate) conflicts: u64,
    /// Number of calls whose reply is an error.
    pub(crate) failed: u64,
    /// Number of requests that were refused before the call.
    pub(crate) refused: u64,
    /// Number of calls whose time was measured, and the sum of these times in nanoseconds.
    timed_calls: u64,
    timed_nanos: u64,
}

impl CommandFigures {
    /// Time of a call in microseconds: the mean of the measured times.
    pub(crate) fn micros_per_call(&self) -> f64 {
        if self.timed_calls == 0 { 0.0 } else { self.timed_nanos as f64 / self.timed_calls as f64 / 1e3 }
    }
}

/// A call that has ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EndedCall {
    /// True if the reply is an error.
    pub(crate) is_error: bool,
    /// Time in nanoseconds; `None` if the time was not measured.
    pub(crate) nanos: Option<u64>,
}

impl LoopFigures {
    /// Zeros for a number of commands.
    pub(crate) fn new(commands: usize) -> Self {
        Self {
            commands: (0..commands).map(|_| CommandCounts::default()).collect(),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
            expired: AtomicU64::new(0),
        }
    }

    #[inline]
    fn counts_of(&self, command: u16) -> &CommandCounts {
        debug_assert!(usize::from(command) < self.commands.len(), "each command has a count");
        &self.commands[usize::from(command)]
    }

    /// True if the time of the next call is measured.
    #[inline]
    pub(crate) fn times_next(&self, command: u16) -> bool {
        // Relaxed: the loop's own count.
        self.counts_of(command).calls.load(Ordering::Relaxed).is_multiple_of(CALLS_PER_TIME)
    }

    /// Counts a call of a command.
    #[inline]
    pub(crate) fn count_call(&self, command: u16, call: EndedCall) {
        let counts = self.counts_of(command);
        add_as_only_writer(&counts.calls, 1);
        if call.is_error {
            add_as_only_writer(&counts.failed, 1);
        }
        if let Some(nanos) = call.nanos {
            add_as_only_writer(&counts.timed_calls, 1);
            add_as_only_writer(&counts.timed_nanos, nanos);
        }
    }

    /// Counts a lost run of a command.
    #[cold]
    pub(crate) fn count_conflict(&self, command: u16) {
        add_as_only_writer(&self.counts_of(command).conflicts, 1);
    }

    /// Counts a request that was refused before its call.
    #[cold]
    pub(crate) fn count_refused(&self, command: u16) {
        add_as_only_writer(&self.counts_of(command).refused, 1);
    }

    /// Counts the looks of a transaction that has committed.
    #[inline]
    pub(crate) fn count_keys(&self, KeyFigures { hits, misses, expired }: KeyFigures) {
        for (count, by) in [(&self.hits, hits), (&self.misses, misses), (&self.expired, expired)] {
            if by > 0 {
                add_as_only_writer(count, by);
            }
        }
    }

    /// Looks at keys since the start.
    pub(crate) fn keys(&self) -> KeyFigures {
        // Relaxed: a figure for people.
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        KeyFigures { hits: read(&self.hits), misses: read(&self.misses), expired: read(&self.expired) }
    }

    /// Adds the loop's counts to the sums, in the order of the commands.
    pub(crate) fn add_to(&self, sums: &mut [CommandFigures]) {
        debug_assert_eq!(sums.len(), self.commands.len(), "each command has a sum");
        for (sum, counts) in sums.iter_mut().zip(&self.commands) {
            // Relaxed: a figure for people.
            let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
            sum.calls += read(&counts.calls);
            sum.conflicts += read(&counts.conflicts);
            sum.failed += read(&counts.failed);
            sum.refused += read(&counts.refused);
            sum.timed_calls += read(&counts.timed_calls);
            sum.timed_nanos += read(&counts.timed_nanos);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{CALLS_PER_TIME, CommandFigures, EndedCall, LoopFigures};

    #[test]
    fn one_call_of_many_is_timed() {
        let figures = LoopFigures::new(2);
        let mut timed = 0;
        for _ in 0..2 * CALLS_PER_TIME {
            let nanos = figures.times_next(1).then_some(3000);
            timed += u64::from(nanos.is_some());
            figures.count_call(1, EndedCall { is_error: false, nanos });
        }
        let mut sums = [CommandFigures::default(); 2];
        figures.add_to(&mut sums);
        assert_eq!((timed, sums[1].calls, sums[0].calls), (2, 2 * CALLS_PER_TIME, 0));
        assert!((sums[1].micros_per_call() - 3.0).abs() < 1e-9);
    }
}
