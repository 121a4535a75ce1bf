//! Times from the arrival of requests to their replies, counted in buckets.
//!
//! A request arrives when the loop has received its bytes, and is replied when the reply is handed to the socket. The
//! clock is read once a turn of the loop, so requests of one turn have one time.
//!
//! Invariant: a loop writes its own buckets only; other threads read.
//!
//! Neighbours: [`crate::ServingLoop`] counts; [`crate::ServingState`] adds the loops up.

use ensile_base::sync::{AtomicU64, Ordering};

/// Number of buckets with a bound.
const BOUNDS: usize = 44;
/// Bound of the first bucket in nanoseconds. Two bounds further on, the bound is twice as large.
const FIRST_NANOS: u64 = 8_000;

/// Counts of requests by their times, for one loop.
#[derive(Debug)]
pub(crate) struct LoopLatencies {
    counts: [AtomicU64; BOUNDS + 1],
    sum_nanos: AtomicU64,
}

impl LoopLatencies {
    pub(crate) fn new() -> Self {
        Self { counts: std::array::from_fn(|_| AtomicU64::new(0)), sum_nanos: AtomicU64::new(0) }
    }

    /// Counts requests that took the same time.
    pub(crate) fn count(&self, nanos: u64, requests: u64) {
        debug_assert!(requests > 0, "a turn without a reply has no time");
        let bucket = (0..BOUNDS).find(|bucket| nanos <= bound_nanos(*bucket)).unwrap_or(BOUNDS);
        add(&self.counts[bucket], requests);
        add(&self.sum_nanos, nanos.saturating_mul(requests));
    }
}

/// Adds to a figure that this thread alone writes.
fn add(figure: &AtomicU64, by: u64) {
    // Relaxed, both: a figure for people, with a single writer.
    figure.store(figure.load(Ordering::Relaxed).wrapping_add(by), Ordering::Relaxed);
}

/// Bound of a bucket in nanoseconds, itself included: bounds alternate between 1 and 1.5 times a power of two.
fn bound_nanos(bucket: usize) -> u64 {
    debug_assert!(bucket < BOUNDS, "the last bucket has no bound");
    let octave = FIRST_NANOS << (bucket / 2);
    if bucket.is_multiple_of(2) { octave } else { octave + octave / 2 }
}

/// Times from the arrival of requests to their replies, since the start.
#[derive(Clone, Debug, PartialEq)]
pub struct Latency {
    /// Buckets in the order of their bounds. The last bucket has no bound.
    pub buckets: Vec<LatencyBucket>,
    /// Sum of all times in seconds.
    pub sum_seconds: f64,
}

/// Requests whose times lie between the bound of the bucket before and this bound.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LatencyBucket {
    /// Longest time in seconds; `None` for the last bucket.
    pub up_to_seconds: Option<f64>,
    /// Number of requests.
    pub count: u64,
}

impl Latency {
    /// Sums over loops.
    pub(crate) fn sum<'l>(loops: impl Iterator<Item = &'l LoopLatencies> + Clone) -> Self {
        let seconds = |nanos: u64| nanos as f64 / 1e9;
        // Relaxed, both: figures for people.
        let total = |bucket: usize| loops.clone().map(|one| one.counts[bucket].load(Ordering::Relaxed)).sum();
        let buckets = (0..=BOUNDS).map(|bucket| LatencyBucket {
            up_to_seconds: (bucket < BOUNDS).then(|| seconds(bound_nanos(bucket))),
            count: total(bucket),
        });
        let sum_nanos: u64 = loops.clone().map(|one| one.sum_nanos.load(Ordering::Relaxed)).sum();
        Self { buckets: buckets.collect(), sum_seconds: seconds(sum_nanos) }
    }
}

#[cfg(test)]
mod tests {
    use super::{BOUNDS, Latency, LoopLatencies, bound_nanos};

    #[test]
    fn a_time_counts_in_the_first_bucket_that_has_it() {
        let loops = [LoopLatencies::new(), LoopLatencies::new()];
        loops[0].count(0, 1);
        loops[0].count(8_000, 2);
        loops[1].count(8_001, 3);
        loops[1].count(u64::MAX / 8, 4);
        let counted: Vec<u64> =
            Latency::sum(loops.iter()).buckets.iter().map(|bucket| bucket.count).collect();
        assert_eq!((counted[0], counted[1], counted[BOUNDS]), (3, 3, 4));
        assert_eq!(counted.iter().sum::<u64>(), 10);
    }

    #[test]
    fn bounds_grow_up_to_more_than_ten_seconds() {
        assert!((1..BOUNDS).all(|bucket| bound_nanos(bucket - 1) < bound_nanos(bucket)));
        assert!(bound_nanos(BOUNDS - 1) > 10_000_000_000);
    }
}
