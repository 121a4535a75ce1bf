//! The TID word: a TID above three status bits (Silo §4.2).
//!
//! | bit | name | while set |
//! |---|---|---|
//! | 0 | lock | only the locking commit (or cleanup) writes the record |
//! | 1 | latest | the index maps the key to this record; cleared for good when it is superseded or unhooked |
//! | 2 | absent | the record stands for a missing key: a placeholder (TID 0) or a delete |
//!
//! Every transition of a word is a method here. Only the holder of the lock computes the successor of a locked word.
//!
//! Neighbours: `record` stores the word; `commit`, `garbage` and replay decide on the word.

use ensile_base::{Epoch, Tid};

const LOCK: u64 = 1;
const LATEST: u64 = 2;
const ABSENT: u64 = 4;

const _: () = assert!(LOCK & LATEST == 0 && (LOCK | LATEST) & ABSENT == 0, "each flag has a bit of its own");
const _: () = assert!(Tid::MASK & (LOCK | LATEST | ABSENT) == 0, "no flag is part of the TID");

/// A TID word as read from a record.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Word(u64);

impl Word {
    /// Word of a key that no transaction has committed: TID 0, absent, latest.
    pub(crate) const PLACEHOLDER: Self = Self(LATEST | ABSENT);

    #[inline]
    pub(crate) const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    #[inline]
    pub(crate) const fn bits(self) -> u64 {
        self.0
    }

    /// The word of a record after a write by `tid`.
    #[inline]
    pub(crate) const fn for_write(tid: Tid) -> Self {
        debug_assert!(tid.bits() & !Tid::MASK == 0, "a TID has no status bits");
        Self(tid.bits() | LATEST)
    }

    /// The word of a record after a delete by `tid`.
    #[inline]
    pub(crate) const fn for_delete(tid: Tid) -> Self {
        debug_assert!(tid.bits() & !Tid::MASK == 0, "a TID has no status bits");
        Self(tid.bits() | LATEST | ABSENT)
    }

    #[inline]
    pub(crate) const fn with_lock_bit(self) -> Self {
        debug_assert!(!self.is_locked(), "a lock is taken while it is free");
        Self(self.0 | LOCK)
    }

    #[inline]
    pub(crate) const fn without_lock_bit(self) -> Self {
        Self(self.0 & !LOCK)
    }

    /// The word of the same version after the record is no longer the key's latest.
    #[inline]
    pub(crate) const fn to_superseded(self) -> Self {
        debug_assert!(self.is_latest(), "a record is superseded once");
        Self(self.0 & !(LATEST | LOCK))
    }

    #[inline]
    pub(crate) const fn is_locked(self) -> bool {
        self.0 & LOCK != 0
    }

    #[inline]
    pub(crate) const fn is_latest(self) -> bool {
        self.0 & LATEST != 0
    }

    #[inline]
    pub(crate) const fn is_absent(self) -> bool {
        self.0 & ABSENT != 0
    }

    /// True if no transaction has ever committed into this record.
    #[inline]
    pub(crate) fn is_placeholder(self) -> bool {
        self.is_absent() && self.tid().bits() == 0
    }

    /// The word's TID without the status bits (E5).
    #[inline]
    pub(crate) fn tid(self) -> Tid {
        Tid::from_word(self.0)
    }

    #[inline]
    pub(crate) fn epoch(self) -> Epoch {
        self.tid().epoch()
    }
}

impl std::fmt::Debug for Word {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let flag = |on: bool, name| if on { name } else { "" };
        write!(
            f,
            "{}{}{}{}",
            self.tid(),
            flag(self.is_latest(), " latest"),
            flag(self.is_absent(), " absent"),
            flag(self.is_locked(), " locked")
        )
    }
}

#[cfg(test)]
mod tests {
    use ensile_base::{Epoch, Tid};

    use super::Word;

    #[test]
    fn status_never_reaches_the_tid() {
        let tid = Tid::first_of(Epoch::new(77)).successor().expect("not full");
        for word in [
            Word::for_write(tid),
            Word::for_delete(tid),
            Word::for_write(tid).with_lock_bit(),
            Word::for_delete(tid).to_superseded(),
        ] {
            assert_eq!(word.tid(), tid, "{word:?}");
        }
    }

    #[test]
    fn a_superseded_word_is_neither_latest_nor_locked_and_keeps_absence() {
        let word = Word::for_delete(Tid::first_of(Epoch::new(3))).with_lock_bit().to_superseded();
        assert!(!word.is_latest() && !word.is_locked() && word.is_absent());
        assert!(Word::PLACEHOLDER.is_placeholder() && !word.is_placeholder());
    }
}
