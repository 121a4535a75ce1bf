//! How busy a database is: a moving average of what it does in a second, as a share of what it can (SLACH §4).
//!
//! ```text
//! load = alpha load + (1 - alpha) sample         after each window
//! ```
//! Invariant: a sample is of a whole window at least. Where nobody looked for several windows, each of them had their
//! mean, so how often somebody looks changes no average of a steady rate.
//!
//! Neighbours: `checkpoint::life` counts and asks; `adaptive` has alpha, the window and the capacity.

use super::adaptive::AdaptiveThreshold;

const NANOS: f64 = 1e9;

/// The estimate, from one look to the next.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LoadAverage {
    /// When the window began that is not over, and what was counted by then.
    since_nanos: u64,
    counted: u64,
    /// `None` before the first window is over.
    load: Option<f64>,
}

impl LoadAverage {
    /// At this time so much was counted.
    pub(crate) fn new(now_nanos: u64, counted: u64) -> Self {
        Self { since_nanos: now_nanos, counted, load: None }
    }

    /// By now so much is counted.
    pub(crate) fn observe(&mut self, now_nanos: u64, counted: u64, terms: &AdaptiveThreshold) {
        debug_assert!(counted >= self.counted, "counts grow");
        let passed = now_nanos.saturating_sub(self.since_nanos) as f64;
        let windows = passed / terms.window.as_nanos() as f64;
        if windows < 1.0 {
            return;
        }
        let rate = counted.saturating_sub(self.counted) as f64 * NANOS / passed;
        let sample = rate / terms.capacity as f64;
        // The first window has no past.
        let past = (f64::from(terms.weight) / 100.0).powf(windows);
        self.load = Some(self.load.map_or(sample, |load| past * load + (1.0 - past) * sample));
        (self.since_nanos, self.counted) = (now_nanos, counted);
        debug_assert!(self.load.is_some_and(|load| load >= 0.0));
    }

    /// The load: 1 is the capacity. 0 before the first window is over.
    pub(crate) fn load(&self) -> f64 {
        self.load.unwrap_or(0.0)
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
