//! Chores between two checkpoints: the missing reserve, and files that a reader's lease kept.
//!
//! Neighbours: `machine` asks while no checkpoint is under way; `manager` does the chores.

/// Pause between two attempts to make a missing reserve.
pub(super) const RESERVE_PAUSE_NANOS: u64 = 10_000_000_000;

/// Times of the next chores, in nanoseconds.
#[derive(Debug)]
pub(super) struct Upkeep {
    /// Time of the next try to remove covered files; set if a reader's lease kept covered files.
    pub(super) remove_again_nanos: Option<u64>,
    /// Earliest time of the next try to make a missing reserve.
    reserve_not_before: u64,
}

impl Upkeep {
    /// Chores of a database that is opened at `now_nanos`.
    pub(super) fn new(now_nanos: u64) -> Self {
        Self { remove_again_nanos: None, reserve_not_before: now_nanos + RESERVE_PAUSE_NANOS }
    }

    /// True if a missing reserve is to be made now. The next try follows after the pause.
    pub(super) fn begin_reserve(&mut self, now_nanos: u64) -> bool {
        let is_due = now_nanos >= self.reserve_not_before;
        if is_due {
            self.reserve_not_before = now_nanos + RESERVE_PAUSE_NANOS;
        }
        assert!(self.reserve_not_before > now_nanos, "one try in a pause");
        is_due
    }

    /// True if covered files are to be removed again now.
    pub(super) fn is_removal_due(&self, now_nanos: u64) -> bool {
        self.remove_again_nanos.is_some_and(|again| now_nanos >= again)
    }
}
