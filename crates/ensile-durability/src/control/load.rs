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
//!
//! Neighbours: `checkpoint::life` counts and asks; `adaptive` has alpha, the window and the capacity.

use super::adaptive::{AdaptiveThreshold, LogCount};

const NANOS: f64 = 1e9;
/// A service has its capacity at the rate at which so much of its requests is lost (SLACH §6.1).
const LOST_SHARE: f64 = 0.05;

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
        self.served + self.lost > 0
    }

    /// What the load is a rate of.
    fn counted(&self, is_of_requests: bool, counts: LogCount) -> u64 {
        match counts {
            _ if is_of_requests => self.served + self.lost,
            LogCount::Bytes => self.log_bytes,
            LogCount::Records => self.log_records,
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
    /// The capacity that was probed.
    probed: Option<f64>,
}

impl LoadAverage {
    /// At this time so much was counted.
    pub(crate) fn new(now_nanos: u64, counted: LoadCounts) -> Self {
        let is_of_requests = counted.has_requests();
        Self { since_nanos: now_nanos, counted, is_of_requests, load: None, probed: None }
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
        let counts = |of: &LoadCounts| of.counted(self.is_of_requests, terms.counts);
        let (before, now) = (counts(&self.counted), counts(&counted));
        debug_assert!(now >= before, "counts grow");
        let rate = now.saturating_sub(before) as f64 * NANOS / passed;
        if terms.is_probed && self.is_of_requests {
            let lost = counted.lost.saturating_sub(self.counted.lost) as f64 * NANOS / passed;
            self.probe(rate, lost, terms.capacity as f64);
        }
        let sample = rate / self.capacity(terms);
        // The first window has no past.
        let past = (f64::from(terms.weight) / 100.0).powf(windows);
        self.load = Some(self.load.map_or(sample, |load| past * load + (1.0 - past) * sample));
        (self.since_nanos, self.counted) = (now_nanos, counted);
        debug_assert!(self.load.is_some_and(|load| load >= 0.0));
    }

    /// In the last window so many requests came a second, and so many were lost. What is served while more are lost
    /// than a capacity allows would be 95 % of the capacity; what loses fewer is no more than the capacity.
    fn probe(&mut self, rate: f64, lost: f64, registered: f64) {
        let known = self.probed.unwrap_or(registered);
        if rate > 0.0 && lost >= LOST_SHARE * rate {
            self.probed = Some(((rate - lost) / (1.0 - LOST_SHARE)).max(1.0));
        } else if rate > known {
            self.probed = Some(rate);
        }
    }

    /// What the load is a share of.
    pub(crate) fn capacity(&self, terms: &AdaptiveThreshold) -> f64 {
        self.probed.filter(|_| terms.is_probed).unwrap_or(terms.capacity as f64)
    }

    /// The load: 1 is the capacity. 0 before the first window is over.
    pub(crate) fn load(&self) -> f64 {
        self.load.unwrap_or(0.0)
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
