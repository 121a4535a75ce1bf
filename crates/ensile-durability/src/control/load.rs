//! How busy a database is: a moving average of what it does in a second, as a share of what it can (SLACH §4), and what
//! that is where nobody has said it (§6.1).
//!
//! ```text
//! load = alpha load + (1 - alpha) sample         after each window
//! ```
//! Invariants:
//! - A sample is of a whole window at least. Where nobody looked for several windows, each of them had their mean, so
//!   how often somebody looks changes no average of a steady rate.
//! - What is counted is of one kind within a window: requests, once any were reported, or else what was logged.
//! - No single window lowers the capacity: below what is registered, or was served well, it falls by several in a row.
//!
//! Neighbours: `checkpoint::life` counts and asks; `adaptive` has alpha, the window and the capacity.

use super::adaptive::{AdaptiveThreshold, ThresholdMeasure};

const NANOS: f64 = 1e9;
/// A service has its capacity at the rate at which so much of its requests is lost (SLACH §6.1).
const LOST_SHARE: f64 = 0.05;
/// So many windows in a row lose as much before the capacity falls: one alone may be a stall.
const WINDOWS_TO_FALL: u32 = 3;

/// What was counted since the open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LoadCounts {
    pub(crate) log_bytes: u64,
    pub(crate) log_records: u64,
    /// Requests that the application reports: those that succeeded, and those that were lost.
    pub(crate) served: u64,
    pub(crate) lost: u64,
}

impl LoadCounts {
    fn has_requests(&self) -> bool {
        self.served > 0 || self.lost > 0
    }

    /// What the load is a rate of.
    fn counted(&self, is_of_requests: bool, measure: ThresholdMeasure) -> u64 {
        match measure {
            _ if is_of_requests => self.served.wrapping_add(self.lost),
            ThresholdMeasure::Bytes => self.log_bytes,
            ThresholdMeasure::Records | ThresholdMeasure::Time => self.log_records,
        }
    }
}

/// The estimate, from one look to the next.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LoadAverage {
    /// When the window began that is not over, and what was counted by then.
    since_nanos: u64,
    counted: LoadCounts,
    /// What it is a rate of: requests, or what is logged.
    is_of_requests: bool,
    /// `None` before the first window is over.
    load: Option<f64>,
    probed: ProbedCapacity,
}

/// A capacity as windows of requests have shown it.
#[derive(Clone, Copy, Debug, Default)]
struct ProbedCapacity {
    /// The most that was shown; `None` while what is registered stands.
    proven: Option<f64>,
    /// What several windows in a row have shown, below that, until one shows more.
    fallen: Option<f64>,
    /// Windows in a row that were below, and the most that one of them has shown.
    below: u32,
    below_most: f64,
}

impl ProbedCapacity {
    /// What is known.
    fn known(&self, registered: f64) -> f64 {
        self.fallen.or(self.proven).unwrap_or(registered)
    }

    /// In the last window so many requests came a second, and so many were lost. What is served while more are lost
    /// than a capacity allows would be 95 % of the capacity; what loses fewer is no more than the capacity.
    fn observe(&mut self, rate: f64, lost: f64, registered: f64) {
        let is_beyond = rate > 0.0 && lost >= LOST_SHARE * rate;
        let shown = if is_beyond { ((rate - lost) / (1.0 - LOST_SHARE)).max(1.0) } else { rate };
        if is_beyond && shown < self.known(registered) {
            self.below_most = if self.below == 0 { shown } else { self.below_most.max(shown) };
            self.below += 1;
            if self.below >= WINDOWS_TO_FALL {
                self.fallen = Some(self.below_most);
                self.below = 0;
            }
            return;
        }
        self.below = 0;
        if shown > self.known(registered) {
            // A window that loses little shows that it is over, one that loses much by how much.
            let risen = self.fallen.filter(|_| is_beyond).map(|_| shown);
            self.fallen = risen.filter(|shown| *shown < self.proven.unwrap_or(registered));
            if shown > self.known(registered) {
                self.proven = Some(shown);
            }
        }
        debug_assert!(self.known(registered) >= shown, "what was shown is known");
    }
}

impl LoadAverage {
    /// At this time so much was counted.
    pub(crate) fn new(now_nanos: u64, counted: LoadCounts) -> Self {
        let is_of_requests = counted.has_requests();
        let probed = ProbedCapacity::default();
        Self { since_nanos: now_nanos, counted, is_of_requests, load: None, probed }
    }

    /// By now so much is counted.
    pub(crate) fn observe(&mut self, now_nanos: u64, counted: LoadCounts, terms: &AdaptiveThreshold) {
        let passed = now_nanos.saturating_sub(self.since_nanos) as f64;
        let windows = passed / terms.window.as_nanos() as f64;
        if windows < 1.0 {
            return;
        }
        if counted.has_requests() && !self.is_of_requests {
            // Another measure: what went before says nothing of it.
            *self = Self::new(now_nanos, counted);
            return;
        }
        let counts = |of: &LoadCounts| of.counted(self.is_of_requests, terms.measure);
        let (before, now) = (counts(&self.counted), counts(&counted));
        // What an application reports may come round: a window of it does not.
        let rate = now.wrapping_sub(before) as f64 * NANOS / passed;
        if terms.is_probed && self.is_of_requests {
            let lost = counted.lost.wrapping_sub(self.counted.lost) as f64 * NANOS / passed;
            self.probed.observe(rate, lost, terms.capacity as f64);
        }
        let sample = rate / self.capacity(terms);
        // The first window has no past.
        let past = (f64::from(terms.weight) / 100.0).powf(windows);
        self.load = Some(self.load.map_or(sample, |load| past * load + (1.0 - past) * sample));
        (self.since_nanos, self.counted) = (now_nanos, counted);
        debug_assert!(self.load.is_some_and(|load| load >= 0.0));
    }

    /// What the load is a share of.
    pub(crate) fn capacity(&self, terms: &AdaptiveThreshold) -> f64 {
        let registered = terms.capacity as f64;
        if terms.is_probed { self.probed.known(registered) } else { registered }
    }

    /// The load: 1 is the capacity. 0 before the first window is over.
    pub(crate) fn load(&self) -> f64 {
        self.load.unwrap_or(0.0)
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
