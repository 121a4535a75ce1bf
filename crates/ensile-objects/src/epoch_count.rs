//! A count of changing things, and the epoch that the count rests on.
//!
//! Neighbours: applications that keep their own objects count the objects here; [`crate::ApplicationLog::receipt`]
//! tells when a count is durable.

use ensile_base::Epoch;
use ensile_base::sync::{AtomicU64, Ordering};

/// A count of an application's objects, or of their contents, and the latest epoch of the counted changes (R1): the
/// count survives a crash once [the epoch is durable](crate::ApplicationLog::receipt).
///
/// ```
/// use ensile_base::Epoch;
/// let items = ensile_objects::EpochCount::default();
/// items.add(3, Epoch::new(7));
/// items.add(-1, Epoch::new(5));
/// assert_eq!(items.read(), (2, Epoch::new(7)));
/// ```
#[derive(Debug)]
pub struct EpochCount {
    count: AtomicU64,
    /// Largest epoch of the counted changes, or a later epoch.
    latest: AtomicU64,
}

impl Default for EpochCount {
    /// A count of zero.
    fn default() -> Self {
        Self { count: AtomicU64::new(0), latest: AtomicU64::new(Epoch::ZERO.number()) }
    }
}

impl EpochCount {
    /// Adds `more`, which may be negative, by a change of this epoch.
    #[inline]
    pub fn add(&self, more: i64, epoch: Epoch) {
        if more == 0 {
            return;
        }
        // Relaxed: the add below releases the value that is read here.
        if self.latest.load(Ordering::Relaxed) < epoch.number() {
            // Relaxed: the add below releases the epoch.
            self.latest.fetch_max(epoch.number(), Ordering::Relaxed);
        }
        // Relaxed: this thread has seen the epoch, or has added it.
        debug_assert!(self.latest.load(Ordering::Relaxed) >= epoch.number(), "R1: the epoch comes first");
        // A negative number wraps around to the difference.
        // Release: a reader that counts this change knows its epoch; partner: the load in `read`.
        self.count.fetch_add(more as u64, Ordering::Release);
    }

    /// Count, and the epoch that the count rests on.
    #[must_use]
    pub fn read(&self) -> (u64, Epoch) {
        // Acquire: no counted change has a later epoch than the epoch that is read next; partner: the add in `add`.
        let count = self.count.load(Ordering::Acquire);
        // Relaxed: the load above orders this load.
        (count, Epoch::new(self.latest.load(Ordering::Relaxed)))
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::{Epoch, EpochCount};

    #[test]
    fn a_count_rests_on_the_latest_change_that_it_counts() {
        let count = EpochCount::default();
        assert_eq!(count.read(), (0, Epoch::ZERO));
        for (more, epoch, counted, rests_on) in [(1, 7, 1, 7), (1, 5, 2, 7), (0, 9, 2, 7), (-1, 8, 1, 8)] {
            count.add(more, Epoch::new(epoch));
            assert_eq!(count.read(), (counted, Epoch::new(rests_on)));
        }
    }
}
