//! Time to apply operations, measured by samples of the calls.
//!
//! One call in [`EVERY`] is timed, and represents the rest. The object's place (its address or its number) and the
//! operation's TID decide whether a call is timed. Threads therefore share nothing for the decision, and objects take
//! turns. A sample counts at most [`OUTLIER`] times the mean of earlier samples: a thread that loses its core in the
//! midst of an operation gives no information about operations.
//!
//! Neighbours: `collection` times applied operations, `application` and `object_guards` the application's changes; the
//! durability crate predicts a recovery's duration from the time.

use ensile_base::clock::Clock;
use ensile_base::sync::{AtomicU64, Ordering};

/// Number of calls per sample; a power of two.
const EVERY: u64 = 64;
const _: () = assert!(EVERY.is_power_of_two());
const OUTLIER: u64 = 8;
/// Mean in nanoseconds below which this value replaces the mean in the test for outliers.
const MEAN_LEAST: u64 = 1_000;
/// Inverse weight of a sample in the mean.
const MEAN_OF: u64 = 16;
const _: () = assert!(OUTLIER <= MEAN_OF, "a single sample does not double the mean");

#[derive(Debug)]
pub(crate) struct AppliedTime {
    clock: Clock,
    /// Largest hash of a timed call: every call is timed if the clock is a test's.
    timed_max: u64,
    mean: AtomicU64,
    total: AtomicU64,
}

impl AppliedTime {
    pub(crate) fn new(clock: &Clock) -> Self {
        let timed_max = if clock.is_manual() { u64::MAX } else { u64::MAX / EVERY };
        Self { clock: clock.clone(), timed_max, mean: AtomicU64::new(0), total: AtomicU64::new(0) }
    }

    /// Applies something, and times the call if `place` and `tid` select the call.
    #[inline]
    pub(crate) fn measure<R>(&self, place: u64, tid: u64, apply: impl FnOnce() -> R) -> R {
        // Under shuttle, places differ from run to run of a schedule.
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
        // Knuth's multiplicative hash: its upper bits depend on the whole number.
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
            // Every call is timed, and nothing disturbs a call. Relaxed: a figure that decides no order.
            self.total.fetch_add(sample, Ordering::Relaxed);
            return;
        }
        // Relaxed: a figure that decides no order. If two threads change the mean at once, one change may be lost.
        let (counted, mean) = weigh_sample(self.mean.load(Ordering::Relaxed), sample);
        // Relaxed: a figure that decides no order.
        self.mean.store(mean, Ordering::Relaxed);
        // Relaxed: a figure that decides no order.
        self.total.fetch_add(counted * EVERY, Ordering::Relaxed);
    }

    /// As [`total`](Self::total); `None` before the first sample.
    pub(crate) fn if_measured(&self) -> Option<u64> {
        Some(self.total()).filter(|total| *total > 0)
    }

    /// Approximate time of all applied operations, in nanoseconds.
    pub(crate) fn total(&self) -> u64 {
        // Relaxed: a figure that decides no order.
        self.total.load(Ordering::Relaxed)
    }
}

/// Value that a sample counts for after this mean, and the new mean.
fn weigh_sample(mean: u64, sample: u64) -> (u64, u64) {
    let counted = sample.min(mean.max(MEAN_LEAST) * OUTLIER);
    let next = (mean * (MEAN_OF - 1) + counted) / MEAN_OF;
    debug_assert!(next <= mean.max(counted) && next + 1 >= mean.min(counted), "a mean is between its parts");
    (counted, next)
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
