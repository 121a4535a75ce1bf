//! How long applying operations takes, measured by samples while they are made.
//!
//! One call in [`EVERY`] is timed, and stands for the others. Which one is decided by the object's place, which is its
//! address or its number, and by the operation's TID. So no thread shares anything for that, and objects take turns.
//!
//! Invariant: a sample counts at most [`OUTLIER`] times the mean of those before it. A thread that loses its core in
//! the midst of an operation says nothing of operations; when they become ten times as dear, a few hundred show it.
//!
//! Neighbours: `collection` times what it applies, `application` and `guarded` what an application makes, at first and
//! at recovery; the durability crate predicts by it what a recovery would take.

use ensile_base::clock::Clock;
use ensile_base::sync::{AtomicU64, Ordering};

/// A power of two.
const EVERY: u64 = 64;
const OUTLIER: u64 = 8;
/// Below this mean, in nanoseconds, a sample is an outlier by this one.
const MEAN_LEAST: u64 = 1_000;
/// A sample's weight in the mean is one in this many.
const MEAN_OF: u64 = 16;

/// The samples of one collection, or of one application.
#[derive(Debug)]
pub(crate) struct AppliedTime {
    clock: Clock,
    /// What hashes up to this is timed: every call where the clock is a test's.
    timed_max: u64,
    mean: AtomicU64,
    total: AtomicU64,
}

impl AppliedTime {
    pub(crate) fn new(clock: &Clock) -> Self {
        let timed_max = if clock.is_manual() { u64::MAX } else { u64::MAX / EVERY };
        Self { clock: clock.clone(), timed_max, mean: AtomicU64::new(0), total: AtomicU64::new(0) }
    }

    /// Applies something, and times it if it is its turn. `place` and `tid` decide that.
    #[inline]
    pub(crate) fn measure<R>(&self, place: u64, tid: u64, apply: impl FnOnce() -> R) -> R {
        // Under shuttle places differ from one run of a schedule to the next.
        let is_timed = !cfg!(shuttle) && self.is_sampled(place ^ tid);
        let begun = is_timed.then(|| self.now());
        let output = apply();
        if let Some(begun) = begun {
            self.end(begun);
        }
        output
    }

    #[inline]
    fn is_sampled(&self, spot: u64) -> bool {
        // Knuth's multiplicative hash: its upper bits depend on all of the number.
        spot.wrapping_mul(0x9e37_79b9_7f4a_7c15) <= self.timed_max
    }

    #[cold]
    fn now(&self) -> u64 {
        self.clock.nanos()
    }

    #[cold]
    fn end(&self, begun: u64) {
        self.add(self.clock.nanos().saturating_sub(begun));
    }

    fn add(&self, sample: u64) {
        if self.clock.is_manual() {
            // Every call is timed, and nothing disturbs one. Relaxed: a figure that decides no order.
            self.total.fetch_add(sample, Ordering::Relaxed);
            return;
        }
        // Relaxed: a figure that decides no order. Of two threads that change the mean at once one may be overwritten.
        let (counted, mean) = weighed(self.mean.load(Ordering::Relaxed), sample);
        // Relaxed: as the load says.
        self.mean.store(mean, Ordering::Relaxed);
        // Relaxed: a figure that decides no order.
        self.total.fetch_add(counted * EVERY, Ordering::Relaxed);
    }

    /// As [`total`](Self::total); `None` before anything was timed.
    pub(crate) fn if_measured(&self) -> Option<u64> {
        Some(self.total()).filter(|total| *total > 0)
    }

    /// About how many nanoseconds all that was applied took.
    pub(crate) fn total(&self) -> u64 {
        // Relaxed: a figure that decides no order.
        self.total.load(Ordering::Relaxed)
    }
}

/// What a sample counts for behind this mean, and the mean behind it.
fn weighed(mean: u64, sample: u64) -> (u64, u64) {
    let counted = sample.min(mean.max(MEAN_LEAST) * OUTLIER);
    (counted, (mean * (MEAN_OF - 1) + counted) / MEAN_OF)
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
