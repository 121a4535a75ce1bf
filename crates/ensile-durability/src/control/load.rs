//! Load of a database: a moving average of its rate as a share of its capacity, which is registered, or is probed
//! (SLACH §4, §6.1): `load = alpha load + (1 - alpha) sample` after each window.
//!
//! Invariants: a sample covers at least a whole window, and each of several windows counts, so the frequency of calls
//! does not change the average. A window counts one measure: requests, once any were reported; otherwise the logged
//! amount. The capacity falls below the registered or a well-served rate only after several such windows in a row.
//!
//! Neighbours: `checkpoint::state_machine` counts and asks; `adaptive` has alpha, the window and the capacity.

use super::adaptive::{AdaptiveThreshold, ThresholdMeasure};

const NANOS: f64 = 1e9;
/// Share of lost requests at which the rate of a service is its capacity (SLACH §6.1).
const LOST_SHARE: f64 = 0.05;
/// Number of overloaded windows in a row before the capacity falls: a single window may be a stall.
const WINDOWS_TO_FALL: u32 = 3;

/// Counts since the open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LoadCounts {
    pub(crate) log_bytes: u64,
    pub(crate) log_records: u64,
    /// Requests that the application reports: succeeded and lost requests.
    pub(crate) served: u64,
    pub(crate) lost: u64,
}

impl LoadCounts {
    fn has_requests(&self) -> bool {
        self.served > 0 || self.lost > 0
    }

    /// Count whose growth is the rate of the load: requests, or the logged amount in the unit of `measure`.
    fn load_count(&self, is_of_requests: bool, measure: ThresholdMeasure) -> u64 {
        match measure {
            _ if is_of_requests => self.served.wrapping_add(self.lost),
            ThresholdMeasure::Bytes => self.log_bytes,
            ThresholdMeasure::Records | ThresholdMeasure::Time => self.log_records,
        }
    }
}

/// Moving average of the load, updated after each window.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LoadAverage {
    /// Start of the current window, in nanoseconds, and the counts at its start.
    since_nanos: u64,
    counted: LoadCounts,
    /// True if the rate counts requests; false if the rate counts the logged amount.
    is_of_requests: bool,
    /// Average load; `None` before the end of the first window.
    load: Option<f64>,
    probed: ProbedCapacity,
}

/// Capacity as shown by windows of requests.
#[derive(Clone, Copy, Debug, Default)]
struct ProbedCapacity {
    /// Largest shown capacity; `None` while the registered capacity counts.
    proven: Option<f64>,
    /// Lower capacity that several windows in a row have shown, until a window shows more.
    fallen: Option<f64>,
    /// Number of lower windows in a row, and the largest capacity that these windows have shown.
    below: u32,
    below_most: f64,
}

impl ProbedCapacity {
    /// Present capacity, in requests a second.
    fn capacity(&self, registered: f64) -> f64 {
        self.fallen.or(self.proven).unwrap_or(registered)
    }

    /// Updates the capacity by the last window's rates of requests and of lost requests, each a second. If the loss
    /// exceeds the limit, the served rate is 95 % of the capacity; otherwise the rate is at most the capacity.
    fn observe(&mut self, rate: f64, lost: f64, registered: f64) {
        let is_beyond = rate > 0.0 && lost >= LOST_SHARE * rate;
        let shown = if is_beyond { ((rate - lost) / (1.0 - LOST_SHARE)).max(1.0) } else { rate };
        if is_beyond && shown < self.capacity(registered) {
            self.below_most = if self.below == 0 { shown } else { self.below_most.max(shown) };
            self.below += 1;
            if self.below >= WINDOWS_TO_FALL {
                self.fallen = Some(self.below_most);
                self.below = 0;
            }
            return;
        }
        self.below = 0;
        if shown > self.capacity(registered) {
            // A window with little loss shows that the fall is over; a window with much loss shows the risen capacity.
            let risen = self.fallen.filter(|_| is_beyond).map(|_| shown);
            self.fallen = risen.filter(|shown| *shown < self.proven.unwrap_or(registered));
            if shown > self.capacity(registered) {
                self.proven = Some(shown);
            }
        }
        debug_assert!(self.capacity(registered) >= shown, "what was shown is known");
    }
}

impl LoadAverage {
    /// Estimate that starts at this time with these counts: at the open, with no counts, and again at every change of
    /// the rules.
    pub(crate) fn new(now_nanos: u64, counted: LoadCounts) -> Self {
        let is_of_requests = counted.has_requests();
        let probed = ProbedCapacity::default();
        Self { since_nanos: now_nanos, counted, is_of_requests, load: None, probed }
    }

    /// Updates the average by the counts at this time, once a window has passed. Called before each decision.
    pub(crate) fn observe(&mut self, now_nanos: u64, counted: LoadCounts, terms: &AdaptiveThreshold) {
        let passed = now_nanos.saturating_sub(self.since_nanos) as f64;
        let windows = passed / terms.window.as_nanos() as f64;
        if windows < 1.0 {
            return;
        }
        if counted.has_requests() && !self.is_of_requests {
            // The measure has changed: earlier counts say nothing about requests.
            *self = Self::new(now_nanos, counted);
            return;
        }
        let counts = |of: &LoadCounts| of.load_count(self.is_of_requests, terms.measure);
        let (before, now) = (counts(&self.counted), counts(&counted));
        // An application's counter may wrap around; the difference over a window does not.
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

    /// The capacity in units a second, of which the load is a share.
    pub(crate) fn capacity(&self, terms: &AdaptiveThreshold) -> f64 {
        let registered = terms.capacity as f64;
        if terms.is_probed { self.probed.capacity(registered) } else { registered }
    }

    /// The load; 1 is the capacity. 0 before the end of the first window.
    pub(crate) fn load(&self) -> f64 {
        self.load.unwrap_or(0.0)
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
