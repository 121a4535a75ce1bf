//! How long the log may grow, or how much time may pass, before a checkpoint begins, by how busy the database is (SLACH
//! §4).
//!
//! ```text
//! threshold = LB + F(load) (UB - LB)
//! F(load)   = 0 up to LW,  ((load - LW) / (HW - LW))^beta in between,  1 from HW on
//! ```
//! While there is little to do a checkpoint costs nobody anything, so the log is kept short, and recovery with it.
//! While there is much to do checkpoints are put off, but not for ever.
//!
//! Neighbours: `load` estimates the load, `trigger` asks for the threshold; an application registers the settings.

use std::time::Duration;

/// What an [`AdaptiveThreshold`] is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ThresholdMeasure {
    /// Bytes of log; without one, bytes that commits have changed.
    Bytes,
    /// Entries of the log: logged operations, whole values and removals; of a database its transactions.
    Records,
    /// Time since the last checkpoint ended, in milliseconds. As with a fixed interval, none begins while the log has
    /// hardly grown.
    Time,
}

/// What the log's length, or the time, comes to when a checkpoint begins: between two bounds, by the load (SLACH §4).
///
/// The load is a rate, as a share of [`AdaptiveThreshold::capacity`]: of the requests that the application reports, or,
/// while it reports none, of what is logged. The defaults are those of the paper's table 3 for its first service;
/// [`AdaptiveThreshold::of_capacity`] has bytes in place of records, and [`AdaptiveThreshold::of_time`] has time.
///
/// ```
/// use ensile_durability::AdaptiveThreshold;
/// let adaptive = AdaptiveThreshold { lower: 1 << 20, upper: 9 << 20, ..AdaptiveThreshold::of_capacity(100 << 20) };
/// assert_eq!(adaptive.threshold(0.20), 1 << 20);
/// assert_eq!(adaptive.threshold(0.85), 9 << 20);
/// // Half way between the watermarks, an eighth of the way between the bounds.
/// assert_eq!(adaptive.threshold(0.525), 2 << 20);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdaptiveThreshold {
    /// What `lower` and `upper` are of.
    pub measure: ThresholdMeasure,
    /// How many a second are all that can be done: requests where the application reports them, or else what
    /// [`AdaptiveThreshold::measure`] says, and of time entries of the log. Not 0.
    pub capacity: u64,
    /// Whether the capacity follows what the application reports of lost requests: it is the rate at which 5 % of them
    /// are lost (§6.1). `capacity` is taken until then. Off by default.
    pub is_probed: bool,
    /// LB: the threshold while the load is low. In bytes, entries or milliseconds.
    pub lower: u64,
    /// UB: the threshold while the load is high. Not below `lower`.
    pub upper: u64,
    /// LW, in percent of the capacity: up to this a load is low. 20 by default.
    pub low_watermark: u8,
    /// HW, in percent of the capacity: from this on a load is high. Above `low_watermark`. 85 by default.
    pub high_watermark: u8,
    /// Beta: the larger it is, the longer the threshold stays near `lower` as the load grows. Not 0. 3 by default.
    pub scaling: u8,
    /// Alpha, in percent: the weight of the load so far beside that of the last window. Below 100. 80 by default.
    pub weight: u8,
    /// w: over this time the rate is taken. At least a millisecond. 5 s by default.
    pub window: Duration,
}

impl AdaptiveThreshold {
    /// The defaults, for a database that can do this many bytes of log a second: between 512 MiB and 4 GiB.
    #[must_use]
    pub const fn of_capacity(capacity: u64) -> Self {
        Self {
            measure: ThresholdMeasure::Bytes,
            capacity,
            is_probed: false,
            lower: 512 << 20,
            upper: 4 << 30,
            low_watermark: 20,
            high_watermark: 85,
            scaling: 3,
            weight: 80,
            window: Duration::from_secs(5),
        }
    }

    /// The defaults, for a database or a service of this many requests a second, by time: between 10 and 80 seconds.
    /// The paper has no bounds of time. These begin at the usual interval, and are as far apart as those of UPS.
    #[must_use]
    pub const fn of_time(capacity: u64) -> Self {
        let (lower, upper) = (10_000, 80_000);
        Self { measure: ThresholdMeasure::Time, lower, upper, ..Self::of_capacity(capacity) }
    }

    /// Table 3's for UPS, a service of this many requests a second: between 1 and 8 million records.
    #[must_use]
    pub const fn of_ups(capacity: u64) -> Self {
        let (lower, upper) = (1_000_000, 8_000_000);
        Self { measure: ThresholdMeasure::Records, lower, upper, ..Self::of_capacity(capacity) }
    }

    /// Table 3's for HIS, a service with daily bursts of up to this many requests a second: between 0.3 and 1.8 million
    /// records, and near the lower bound for longer.
    #[must_use]
    pub const fn of_his(capacity: u64) -> Self {
        let (lower, upper) = (300_000, 1_800_000);
        Self { lower, upper, low_watermark: 35, scaling: 6, ..Self::of_ups(capacity) }
    }

    /// The threshold at this load: 1 is the capacity.
    #[must_use]
    pub fn threshold(&self, load: f64) -> u64 {
        debug_assert!(self.problem().is_none() && load >= 0.0, "{self:?}: {load}");
        let (low, high) = (f64::from(self.low_watermark) / 100.0, f64::from(self.high_watermark) / 100.0);
        let share = ((load - low) / (high - low)).clamp(0.0, 1.0).powi(i32::from(self.scaling));
        // The span is rounded as it becomes a float, above the bound where that is large.
        let above = ((self.upper - self.lower) as f64 * share) as u64;
        self.lower.saturating_add(above).min(self.upper)
    }

    /// Why it cannot work.
    pub(crate) fn problem(&self) -> Option<&'static str> {
        if self.capacity == 0 {
            return Some("its capacity is 0: say how much a second is all that can be done");
        }
        if self.lower > self.upper {
            return Some("its lower bound is above its upper one");
        }
        if self.measure == ThresholdMeasure::Time && self.lower == 0 {
            return Some(
                "its lower bound of time is 0: say how many milliseconds lie between two checkpoints",
            );
        }
        if self.low_watermark >= self.high_watermark {
            return Some("its low watermark is not below its high one");
        }
        if self.scaling == 0 {
            return Some(
                "its scaling is 0: it would be at its upper bound at every load between the watermarks",
            );
        }
        if self.weight >= 100 {
            return Some("its weight of the past is not below 100 percent: no load would ever be seen");
        }
        (self.window < Duration::from_millis(1)).then_some("its window is below a millisecond")
    }
}

/// How a threshold that follows the load stood when it was decided whether a checkpoint begins.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct ThresholdReading {
    /// The load: 1 is the capacity.
    pub load: f64,
    /// What a second is all that can be done: as it was set, or as it was probed.
    pub capacity: u64,
    /// What the two below are of.
    pub measure: ThresholdMeasure,
    /// What it took for a checkpoint to begin at this load: bytes, entries or milliseconds.
    pub threshold: u64,
    /// What it had come to: bytes or entries since the last one began, or milliseconds since it ended. Of a turn of a
    /// cycling checkpoint what a round of such turns would come to.
    pub reached: u64,
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
