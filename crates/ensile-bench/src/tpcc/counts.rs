//! How often each kind of transaction committed, and how often it was run again after a conflict.
//!
//! Neighbours: each [`super::terminal::Terminal`] counts for itself; a [`super::Business`] adds them up.

/// The kinds of transactions, in the order of the mix.
pub(crate) const KINDS: [&str; 5] = ["new-order", "payment", "order-status", "delivery", "stock-level"];

/// One kind's figures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct KindCount {
    /// Transactions that ended as they should.
    pub(crate) done: u64,
    /// Attempts that ended in a conflict and were run again.
    pub(crate) conflicts: u64,
}

/// The figures of all kinds, in the order of [`KINDS`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts(pub(crate) [KindCount; KINDS.len()]);

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

    /// Transactions of all kinds.
    pub(crate) fn done(&self) -> u64 {
        self.0.iter().map(|kind| kind.done).sum()
    }
}
