//! Figures of a loop: requests, bytes and times. A loop counts for itself.
//!
//! Invariant: only the loop's thread writes the figures of a loop. Every thread reads.
//!
//! Neighbours: [`crate::ServingLoop`] counts; [`crate::ServingState`] adds the loops up.

use ensile_base::sync::{AtomicU64, Ordering, add_as_only_writer};

use crate::latency::LoopLatencies;

/// Amounts of a loop's traffic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServedTraffic {
    /// Number of requests.
    pub requests: u64,
    /// Number of received bytes.
    pub received_bytes: u64,
    /// Number of sent bytes.
    pub sent_bytes: u64,
}

impl ServedTraffic {
    fn parts(self) -> [u64; 3] {
        [self.requests, self.received_bytes, self.sent_bytes]
    }

    fn of_parts([requests, received_bytes, sent_bytes]: [u64; 3]) -> Self {
        Self { requests, received_bytes, sent_bytes }
    }

    /// The sum of two amounts.
    pub(crate) fn plus(self, other: Self) -> Self {
        let (one, other) = (self.parts(), other.parts());
        Self::of_parts(std::array::from_fn(|at| one[at] + other[at]))
    }

    /// Amounts of a second, from two amounts since the start and the time between them in nanoseconds.
    pub(crate) fn rate_since(self, before: Self, nanos: u64) -> Self {
        debug_assert!(nanos > 0, "a rate has a time");
        let (now, before) = (self.parts(), before.parts());
        let rate = |at: usize| {
            let more = u128::from(now[at].saturating_sub(before[at])) * 1_000_000_000;
            u64::try_from(more / u128::from(nanos.max(1))).unwrap_or(u64::MAX)
        };
        Self::of_parts(std::array::from_fn(rate))
    }
}

/// A loop's figures.
#[derive(Debug)]
pub(crate) struct LoopTraffic {
    pub(crate) latencies: LoopLatencies,
    /// Amounts since the start, in the order of [`ServedTraffic`].
    totals: [AtomicU64; 3],
    /// Amounts of the last second.
    rates: [AtomicU64; 3],
}

impl LoopTraffic {
    pub(crate) fn new() -> Self {
        let zeros = || std::array::from_fn(|_| AtomicU64::new(0));
        Self { latencies: LoopLatencies::new(), totals: zeros(), rates: zeros() }
    }

    /// Counts served requests.
    #[inline]
    pub(crate) fn count_requests(&self, requests: u64) {
        add_as_only_writer(&self.totals[0], requests);
    }

    /// Notes the received and the sent bytes since the start.
    #[inline]
    pub(crate) fn note_bytes(&self, received: u64, sent: u64) {
        debug_assert!(self.total().received_bytes <= received, "a loop's sum of received bytes grows");
        debug_assert!(self.total().sent_bytes <= sent, "a loop's sum of sent bytes grows");
        // Relaxed, both: figures for people.
        self.totals[1].store(received, Ordering::Relaxed);
        self.totals[2].store(sent, Ordering::Relaxed);
    }

    /// Notes the amounts of the last second.
    pub(crate) fn note_rate(&self, rate: ServedTraffic) {
        for (place, amount) in self.rates.iter().zip(rate.parts()) {
            // Relaxed: a figure for people.
            place.store(amount, Ordering::Relaxed);
        }
    }

    /// Amounts since the start.
    pub(crate) fn total(&self) -> ServedTraffic {
        read(&self.totals)
    }

    /// Amounts of the last second.
    pub(crate) fn rate(&self) -> ServedTraffic {
        read(&self.rates)
    }
}

fn read(places: &[AtomicU64; 3]) -> ServedTraffic {
    // Relaxed: figures for people.
    ServedTraffic::of_parts(std::array::from_fn(|at| places[at].load(Ordering::Relaxed)))
}

#[cfg(test)]
mod tests {
    use super::{LoopTraffic, ServedTraffic};

    #[test]
    fn a_rate_is_of_a_second() {
        let figures = LoopTraffic::new();
        figures.count_requests(30);
        figures.note_bytes(600, 90);
        let before = ServedTraffic { requests: 10, received_bytes: 200, sent_bytes: 90 };
        figures.note_rate(figures.total().rate_since(before, 2_000_000_000));
        assert_eq!(figures.rate(), ServedTraffic { requests: 10, received_bytes: 200, sent_bytes: 0 });
    }
}
