//! Numbers of commits, and of repeated attempts after a conflict, per kind of transaction.
//!
//! Neighbours: a [`super::terminal::Terminal`] has its own counts; a [`super::Business`] adds the counts up.

/// The kinds of transactions, in the order of the mix.
pub const KINDS: [&str; 5] = ["new-order", "payment", "order-status", "delivery", "stock-level"];

/// Counts of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KindCount {
    /// Number of transactions that ended as intended.
    pub done: u64,
    /// Number of attempts that ended in a conflict and ran again.
    pub conflicts: u64,
}

/// Counts of the kinds, in the order of [`KINDS`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts(pub [KindCount; KINDS.len()]);

impl Counts {
    /// Notes one transaction.
    #[inline]
    pub(crate) fn note(&mut self, kind: usize, conflicts: u32) {
        self.0[kind].done += 1;
        self.0[kind].conflicts += u64::from(conflicts);
    }

    pub(crate) fn add(&mut self, other: &Self) {
        for (sum, part) in self.0.iter_mut().zip(other.0) {
            sum.done += part.done;
            sum.conflicts += part.conflicts;
        }
    }

    /// Number of transactions over the kinds.
    pub fn done(&self) -> u64 {
        self.0.iter().map(|kind| kind.done).sum()
    }
}
