//! Threshold of log length or time at which a checkpoint begins, as a function of the load (SLACH §4):
//! `LB + F(load) (UB - LB)`. F is 0 up to LW, `((load - LW) / (HW - LW))^beta` in between, and 1 from HW on. At a low
//! load a checkpoint costs nothing, so the threshold keeps the log short. At a high load the threshold delays
//! checkpoints, but not for ever.
//!
//! Neighbours: `load` estimates the load, `trigger` asks for the threshold; an application registers the settings.

use std::time::Duration;

/// Smallest window: applications report requests about once a second.
const WINDOW_MIN: Duration = Duration::from_secs(1);

/// Unit of an [`AdaptiveThreshold`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum ThresholdMeasure {
    /// Bytes of log; without a log, bytes that commits have changed.
    Bytes,
    /// Entries of the log: logged operations, whole values and removals; for a database, transactions.
    Records,
    /// Milliseconds since the last checkpoint ended. As with a fixed interval, no checkpoint begins while the log has
    /// hardly grown.
    Time,
}

/// Threshold of log length or time between two bounds, by the load (SLACH §4). A checkpoint begins at the threshold.
///
/// The load is a rate, as a share of [`AdaptiveThreshold::capacity`]. The rate counts the requests that the application
/// reports, or the logged amount if the application reports none. The defaults are the values of the paper's table 3
/// for its first service; [`AdaptiveThreshold::of_capacity`] has bytes in place of records, and
/// [`AdaptiveThreshold::of_time`] has time.
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
    /// Unit of `lower` and `upper`.
    pub measure: ThresholdMeasure,
    /// Largest possible rate a second, not 0. The unit is requests if the application reports requests. Otherwise the
    /// unit is [`AdaptiveThreshold::measure`], or entries of the log if the measure is time.
    pub capacity: u64,
    /// True if the capacity follows the lost requests that the application reports. The capacity is then the rate at
    /// which 5 % of the requests are lost (§6.1); `capacity` counts until then. Off by default.
    pub is_probed: bool,
    /// LB: the threshold at a low load, in bytes, entries or milliseconds.
    pub lower: u64,
    /// UB: the threshold at a high load, in the unit of `lower`. Not below `lower`.
    pub upper: u64,
    /// LW, in percent of the capacity: largest low load. 20 by default.
    pub low_watermark: u8,
    /// HW, in percent of the capacity: smallest high load. Above `low_watermark`. 85 by default.
    pub high_watermark: u8,
    /// Beta: a larger value keeps the threshold near `lower` for longer as the load grows. Not 0. 3 by default.
    pub scaling: u8,
    /// Alpha, in percent: the weight of the past load beside the last window's. Below 100. 80 by default.
    pub weight: u8,
    /// w: window of a rate sample. At least a second. 5 s by default.
    pub window: Duration,
}

impl AdaptiveThreshold {
    /// The defaults for a database with this capacity in bytes of log a second: between 512 MiB and 4 GiB.
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

    /// The defaults by time, for a database or service of this many requests a second: between 10 and 80 seconds. The
    /// paper has no bounds of time. These bounds begin at the usual interval, and have the ratio of the bounds of UPS.
    #[must_use]
    pub const fn of_time(capacity: u64) -> Self {
        let (lower, upper) = (10_000, 80_000);
        Self { measure: ThresholdMeasure::Time, lower, upper, ..Self::of_capacity(capacity) }
    }

    /// Table 3's values for UPS, a service of this many requests a second: between 1 and 8 million records.
    #[must_use]
    pub const fn of_ups(capacity: u64) -> Self {
        let (lower, upper) = (1_000_000, 8_000_000);
        Self { measure: ThresholdMeasure::Records, lower, upper, ..Self::of_capacity(capacity) }
    }

    /// Table 3's values for HIS, a service with daily bursts of up to this many requests a second: between 0.3 and 1.8
    /// million records. The threshold stays near the lower bound for longer than in UPS.
    #[must_use]
    pub const fn of_his(capacity: u64) -> Self {
        let (lower, upper) = (300_000, 1_800_000);
        Self { lower, upper, low_watermark: 35, scaling: 6, ..Self::of_ups(capacity) }
    }

    /// Threshold at this load; a load of 1 is the capacity.
    #[must_use]
    pub fn threshold(&self, load: f64) -> u64 {
        debug_assert!(self.problem().is_none() && load >= 0.0, "{self:?}: {load}");
        let (low, high) = (f64::from(self.low_watermark) / 100.0, f64::from(self.high_watermark) / 100.0);
        let share = ((load - low) / (high - low)).clamp(0.0, 1.0).powi(i32::from(self.scaling));
        // The conversion to a float rounds a large span up, so the sum may exceed the upper bound.
        let above = ((self.upper - self.lower) as f64 * share) as u64;
        self.lower.saturating_add(above).min(self.upper)
    }

    /// Reason why the settings cannot work, if any.
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
        (self.window < WINDOW_MIN).then_some(
            "its window is below a second: a load is counted about once a second, so a shorter window sees a burst or nothing",
        )
    }
}

/// State of an adaptive threshold at the last decision about a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct ThresholdReading {
    /// Load; 1 is the capacity.
    pub load: f64,
    /// Capacity a second, as registered or as probed.
    pub capacity: u64,
    /// Unit of `threshold` and `reached`.
    pub measure: ThresholdMeasure,
    /// Threshold at this load, in bytes, entries or milliseconds.
    pub threshold: u64,
    /// Bytes or entries since the last checkpoint began, or milliseconds since the last checkpoint ended. In a cycling
    /// checkpoint, the value of one turn scaled to a round of turns.
    pub reached: u64,
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
