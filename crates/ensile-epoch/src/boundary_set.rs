//! The snapshot boundaries that can still be shown: commits keep versions for these boundaries only (V1).
//!
//! Invariants:
//! - V1: a set that a scan publishes is part of every set published before. So a set of any age is safe to use: an old
//!   set holds too many boundaries, never too few.
//! - The set of a registered reader's boundary holds the boundary for as long as the reader is registered.
//!
//! Neighbours: [`crate::Epochs::scan`] makes and publishes sets; commits read the sets when unlinking old versions.

use ensile_base::Epoch;
use ensile_base::sync::{AtomicU64, Ordering, fence};

/// Number of readers' boundaries that are kept one by one. Few under a model checker with its short runs.
const READERS_MAX: usize = if cfg!(any(loom, shuttle)) { 2 } else { 15 };

/// A set of snapshot boundaries: boundaries of some readers, and every boundary from a bound on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShownBoundaries {
    /// Boundaries of readers, sorted; `from` stands in each place behind the last reader.
    readers: [Epoch; READERS_MAX],
    /// Least boundary from which on every boundary is in the set.
    from: Epoch,
}

impl ShownBoundaries {
    /// The set of every boundary.
    pub(crate) const ALL: Self = Self::from_on(Epoch::ZERO);

    /// Every boundary from `from` on.
    pub(crate) const fn from_on(from: Epoch) -> Self {
        Self { readers: [from; READERS_MAX], from }
    }

    /// Adds a reader's boundary. If there is no place for the boundary, every boundary from the highest reader's on is
    /// in the set.
    pub(crate) fn add(&mut self, boundary: Epoch) {
        if self.has(boundary) {
            return;
        }
        let at = self.readers.partition_point(|reader| *reader < boundary);
        if at == READERS_MAX {
            self.from = boundary;
            return;
        }
        // The value without a place is the highest reader, or the bound, which filled the last place.
        self.from = self.readers[READERS_MAX - 1];
        self.readers[at..].rotate_right(1);
        self.readers[at] = boundary;
        debug_assert!(self.readers.is_sorted() && self.has(boundary));
    }

    /// True if the boundary is in the set.
    pub(crate) fn has(&self, boundary: Epoch) -> bool {
        boundary >= self.from || self.readers.contains(&boundary)
    }

    /// True if every boundary in the set is in `other`.
    pub(crate) fn is_part_of(&self, other: &Self) -> bool {
        self.from >= other.from && self.readers.iter().all(|reader| other.has(*reader))
    }

    /// The lowest boundary in the set.
    #[inline]
    #[must_use]
    pub fn lowest(&self) -> Epoch {
        debug_assert!(self.readers[0] <= self.from, "the set is sorted");
        self.readers[0]
    }

    /// True if a boundary in the set shows a version of epoch `version` that was superseded in epoch `superseded` (S1).
    #[inline]
    #[must_use]
    pub fn show(&self, version: Epoch, superseded: Epoch) -> bool {
        debug_assert!(version <= superseded, "a version is superseded by a newer one");
        superseded >= self.from
            || self.readers.iter().any(|boundary| version < *boundary && *boundary <= superseded)
    }
}

/// The set as commits read it: a sequence lock that no reader waits for.
#[derive(Debug)]
pub(crate) struct PublishedBoundaries {
    /// Odd while a thread writes the other words.
    sequence: AtomicU64,
    from: AtomicU64,
    readers: [AtomicU64; READERS_MAX],
}

impl PublishedBoundaries {
    pub(crate) fn new(set: &ShownBoundaries) -> Self {
        Self {
            sequence: AtomicU64::new(0),
            from: AtomicU64::new(set.from.number()),
            readers: set.readers.map(|boundary| AtomicU64::new(boundary.number())),
        }
    }

    /// Publishes the set. One thread at a time.
    pub(crate) fn publish(&self, set: &ShownBoundaries) {
        // Relaxed: written by one thread at a time; a lock orders the writers.
        let sequence = self.sequence.load(Ordering::Relaxed);
        debug_assert!(sequence.is_multiple_of(2), "one thread at a time publishes");
        // Relaxed: the fence orders the store before the words; partner: the second look in `read`.
        self.sequence.store(sequence + 1, Ordering::Relaxed);
        // Release: the odd sequence comes before the words; partner: the Acquire fence in `read`.
        fence(Ordering::Release);
        // Relaxed: between the fence and the Release below; partner: `read`.
        self.from.store(set.from.number(), Ordering::Relaxed);
        for (word, boundary) in self.readers.iter().zip(set.readers) {
            // Relaxed: between the fence and the Release below; partner: `read`.
            word.store(boundary.number(), Ordering::Relaxed);
        }
        // Release: the words come before; partner: the Acquire in `read`.
        self.sequence.store(sequence + 2, Ordering::Release);
    }

    /// The set; `None` during a publication.
    pub(crate) fn read(&self) -> Option<ShownBoundaries> {
        // Acquire: the words come after; partner: the Release at the end of `publish`.
        let sequence = self.sequence.load(Ordering::Acquire);
        // Relaxed: the fence orders the loads before the second look.
        let from = Epoch::new(self.from.load(Ordering::Relaxed));
        // Relaxed: the fence orders the loads before the second look.
        let readers = self.readers.each_ref().map(|word| Epoch::new(word.load(Ordering::Relaxed)));
        // Acquire: if a word belongs to a later set, the second look sees the later set's odd sequence; partner: the
        // Release fence in `publish`.
        fence(Ordering::Acquire);
        // Relaxed: ordered by the fence.
        let is_whole = sequence.is_multiple_of(2) && self.sequence.load(Ordering::Relaxed) == sequence;
        is_whole.then_some(ShownBoundaries { readers, from })
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
