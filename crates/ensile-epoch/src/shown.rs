//! The snapshot boundaries that can still be shown: commits keep versions for these, and for no others (V1).
//!
//! Invariants:
//! - V1: a set that a scan publishes is part of every set that was published before. So a set of any age is safe to
//!   use: it holds too many boundaries, never too few.
//! - The set of a registered reader's boundary holds that boundary for as long as the reader is registered.
//!
//! Neighbours: [`crate::Epochs::scan`] makes and publishes sets; commits read them when they unlink old versions.

use ensile_base::Epoch;
use ensile_base::sync::{AtomicU64, Ordering, fence};

/// Boundaries of readers that are kept one by one. Few under a model checker, whose runs are short.
const READERS_MAX: usize = if cfg!(any(loom, shuttle)) { 2 } else { 15 };

/// A set of snapshot boundaries: those of some readers, and every one from a bound on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShownBoundaries {
    /// Sorted; `from` stands in each place behind the last reader.
    readers: [Epoch; READERS_MAX],
    /// Every boundary from this one on is in the set.
    from: Epoch,
}

impl ShownBoundaries {
    /// Every boundary there is.
    pub(crate) const ALL: Self = Self::from_on(Epoch::ZERO);

    /// Every boundary from `from` on.
    pub(crate) const fn from_on(from: Epoch) -> Self {
        Self { readers: [from; READERS_MAX], from }
    }

    /// Adds a reader's boundary. If there is no place for it, every boundary from the highest one on is in the set.
    pub(crate) fn add(&mut self, boundary: Epoch) {
        if self.has(boundary) {
            return;
        }
        let at = self.readers.partition_point(|reader| *reader < boundary);
        if at == READERS_MAX {
            self.from = boundary;
            return;
        }
        // What has no place any more is the highest reader, or the bound, which filled the last place.
        self.from = self.readers[READERS_MAX - 1];
        self.readers[at..].rotate_right(1);
        self.readers[at] = boundary;
        debug_assert!(self.readers.is_sorted() && self.has(boundary));
    }

    /// Whether the boundary is in the set.
    pub(crate) fn has(&self, boundary: Epoch) -> bool {
        boundary >= self.from || self.readers.contains(&boundary)
    }

    /// Whether every boundary in the set is in `other`.
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

    /// Whether a boundary in the set shows a version of epoch `version` that was superseded in epoch `superseded` (S1).
    #[inline]
    #[must_use]
    pub fn show(&self, version: Epoch, superseded: Epoch) -> bool {
        debug_assert!(version <= superseded, "a version is superseded by a newer one");
        superseded >= self.from
            || self.readers.iter().any(|boundary| version < *boundary && *boundary <= superseded)
    }
}

/// The set as commits read it: a sequence lock, which no reader waits for.
#[derive(Debug)]
pub(crate) struct PublishedBoundaries {
    /// Odd while the words below are written.
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
        // Relaxed: written by one thread at a time, whose turns a lock orders.
        let sequence = self.sequence.load(Ordering::Relaxed);
        debug_assert!(sequence.is_multiple_of(2), "one thread at a time publishes");
        // Relaxed: the fence orders it before the words; partner: the second look in `read`.
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

    /// The set, unless it is being published.
    pub(crate) fn read(&self) -> Option<ShownBoundaries> {
        // Acquire: the words come after; partner: the Release at the end of `publish`.
        let sequence = self.sequence.load(Ordering::Acquire);
        // Relaxed: the fence orders them before the second look.
        let from = Epoch::new(self.from.load(Ordering::Relaxed));
        // Relaxed: the fence orders them before the second look.
        let readers = self.readers.each_ref().map(|word| Epoch::new(word.load(Ordering::Relaxed)));
        // Acquire: if one of the words was a later set's, the second look sees its odd sequence; partner: the Release
        // fence in `publish`.
        fence(Ordering::Acquire);
        // Relaxed: ordered by the fence.
        let is_whole = sequence.is_multiple_of(2) && self.sequence.load(Ordering::Relaxed) == sequence;
        is_whole.then_some(ShownBoundaries { readers, from })
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
