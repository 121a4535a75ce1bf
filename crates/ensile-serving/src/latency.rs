//! Times from the arrival of requests to their replies, counted in buckets.
//!
//! A request arrives when the loop has received the bytes. The time ends when the socket has the reply. A turn of the
//! loop reads the clock once, so the requests of a turn have one time.
//!
//! Invariant: only the loop's thread writes the buckets of a loop. Every thread reads.
//!
//! Neighbours: [`crate::ServingLoop`] counts; [`crate::ServingState`] adds the loops up.

use ensile_base::sync::{AtomicU64, Ordering, add_as_only_writer};

/// Number of buckets with a bound.
const BOUNDS: usize = 44;
/// Bound of the first bucket in nanoseconds. Two bounds further on, the bound is twice as large.
const FIRST_NANOS: u64 = 8_000;

/// Counts of a loop's requests, by time.
#[derive(Debug)]
pub(crate) struct LoopLatencies {
    counts: [AtomicU64; BOUNDS + 1],
    sum_nanos: AtomicU64,
}

impl LoopLatencies {
    pub(crate) fn new() -> Self {
        Self { counts: std::array::from_fn(|_| AtomicU64::new(0)), sum_nanos: AtomicU64::new(0) }
    }

    /// Counts requests of the same time.
    pub(crate) fn count(&self, nanos: u64, requests: u64) {
        debug_assert!(requests > 0, "a turn without a reply has no time");
        let bucket = (0..BOUNDS).find(|bucket| nanos <= bound_nanos(*bucket)).unwrap_or(BOUNDS);
        add_as_only_writer(&self.counts[bucket], requests);
        add_as_only_writer(&self.sum_nanos, nanos.saturating_mul(requests));
    }
}

/// Inclusive bound of a bucket in nanoseconds: bounds alternate between 1 and 1.5 times a power of two.
fn bound_nanos(bucket: usize) -> u64 {
    debug_assert!(bucket < BOUNDS, "the last bucket has no bound");
    let octave = FIRST_NANOS << (bucket / 2);
    if bucket.is_multiple_of(2) { octave } else { octave + octave / 2 }
}

/// Times from the arrival of requests to their replies, since the start.
#[derive(Clone, Debug, PartialEq)]
pub struct Latency {
    /// Buckets in the order of the bounds. The last bucket has no bound.
    pub buckets: Vec<LatencyBucket>,
    /// Sum of the times in seconds.
    pub sum_seconds: f64,
}

/// Requests with a time above the bound of the bucket before, and up to this bound.
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
