//! Epoch numbers and transaction ids (Silo §4.1, §4.2).
//!
//! A [`Tid`] is 61 bits of identity above three status bits that belong to the record module. The upper [`EPOCH_BITS`]
//! are the epoch of the commit, and the [`SEQUENCE_BITS`] below tell transactions of one epoch apart.
//!
//! Invariants:
//! - E5: the sequence never carries into the epoch; a full sequence is an answer (`None`), not a wrap.
//! - The three status bits of a `Tid` are zero, so TIDs compare as plain integers.
//!
//! Neighbours: made by the engine's commit, carried by records, log entries, receipts and recovery.

use std::fmt;

use crate::limits::{EPOCH_BITS, SEQUENCE_BITS, STATUS_BITS};

/// An epoch number: the unit of group commit, of snapshots and of reclamation (Silo §4.1).
///
/// ```
/// use ensile_base::Epoch;
/// let e = Epoch::new(7);
/// assert_eq!(e.next(), Epoch::new(8));
/// assert!(Epoch::ZERO < e);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Epoch(u64);

impl Epoch {
    /// Before every commit: the epoch of a placeholder's TID, never an epoch of a transaction.
    pub const ZERO: Self = Self(0);
    /// The first epoch in which a fresh database commits.
    pub const FIRST: Self = Self(1);
    /// The largest epoch that a TID can carry.
    pub const MAX: Self = Self((1 << EPOCH_BITS) - 1);

    /// The epoch of this number; `number` must fit [`EPOCH_BITS`].
    #[inline]
    #[must_use]
    pub const fn new(number: u64) -> Self {
        assert!(number < 1 << EPOCH_BITS, "epoch number wider than its field");
        Self(number)
    }

    /// Number of the epoch.
    #[inline]
    #[must_use]
    pub const fn number(self) -> u64 {
        self.0
    }

    /// The next epoch.
    #[inline]
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }

    /// The epoch `count` after this epoch.
    #[inline]
    #[must_use]
    pub const fn plus(self, count: u64) -> Self {
        Self(self.0 + count)
    }

    /// The epoch before; epoch zero stays zero.
    #[inline]
    #[must_use]
    pub const fn previous(self) -> Self {
        Self(self.0.saturating_sub(1))
    }
}

impl fmt::Debug for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "e{}", self.0)
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// A transaction id: the epoch of the commit and a sequence within it (Silo §4.2). Status bits are always zero.
///
/// ```
/// use ensile_base::{Epoch, Tid};
/// let t = Tid::first_of(Epoch::new(3));
/// assert_eq!(t.epoch(), Epoch::new(3));
/// assert!(t.successor().unwrap() > t);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Tid(u64);

impl Tid {
    /// The TID of a placeholder that no transaction has committed into.
    pub const ZERO: Self = Self(0);
    /// The bits of a TID word that belong to the TID; the other bits are status.
    pub const MASK: u64 = !((1 << STATUS_BITS) - 1);

    /// The smallest TID of an epoch.
    #[inline]
    #[must_use]
    pub const fn first_of(epoch: Epoch) -> Self {
        Self(epoch.number() << (SEQUENCE_BITS + STATUS_BITS))
    }

    /// The TID inside a TID word, status bits masked off (E5).
    #[inline]
    #[must_use]
    pub fn from_word(word: u64) -> Self {
        Self(word & Self::MASK)
    }

    /// Bits of the TID, status bits zero, as in log entries and TID words.
    #[inline]
    #[must_use]
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// The epoch of the commit.
    #[inline]
    #[must_use]
    pub const fn epoch(self) -> Epoch {
        Epoch(self.0 >> (SEQUENCE_BITS + STATUS_BITS))
    }

    /// The next TID of the same epoch, or `None` when the epoch's sequence is full (E5).
    #[inline]
    #[must_use]
    pub fn successor(self) -> Option<Self> {
        let next = Self(self.0 + (1 << STATUS_BITS));
        (next.epoch() == self.epoch()).then_some(next)
    }
}

impl fmt::Debug for Tid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sequence = (self.0 >> STATUS_BITS) & ((1 << SEQUENCE_BITS) - 1);
        write!(f, "t{}.{sequence}", self.epoch())
    }
}

impl fmt::Display for Tid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::{Epoch, Tid};
    use crate::limits::SEQUENCE_BITS;

    #[test]
    fn tids_order_by_epoch_first() {
        let late = Tid::first_of(Epoch::new(2));
        let mut early = Tid::first_of(Epoch::new(1));
        for _ in 0..100 {
            early = early.successor().expect("far from full");
        }
        assert!(early < late);
    }

    #[test]
    fn a_full_sequence_is_refused_and_never_carries_into_the_epoch() {
        let mut tid = Tid::first_of(Epoch::new(9));
        let mut count = 0u64;
        while let Some(next) = tid.successor() {
            tid = next;
            count += 1;
        }
        assert_eq!(count, (1 << SEQUENCE_BITS) - 1);
        assert_eq!(tid.epoch(), Epoch::new(9));
    }

    #[test]
    fn status_bits_are_masked() {
        let tid = Tid::first_of(Epoch::new(5));
        assert_eq!(Tid::from_word(tid.bits() | 0b111), tid);
    }
}
