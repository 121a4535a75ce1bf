//! How long the log may grow before a checkpoint begins, by how busy the database is (SLACH §4).
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

/// The log's length at which a checkpoint begins, between two bounds, by the load (SLACH §4).
///
/// The load is the rate of log bytes, as a share of [`AdaptiveThreshold::capacity`]. The defaults are those of the
/// paper's table 3 for its first service, with bytes in place of records.
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
    /// Bytes of log a second at which the database has all that it can do. Not 0.
    pub capacity: u64,
    /// LB, in bytes: the threshold while the load is low.
    pub lower: u64,
    /// UB, in bytes: the threshold while the load is high. Not below `lower`.
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
            capacity,
            lower: 512 << 20,
            upper: 4 << 30,
            low_watermark: 20,
            high_watermark: 85,
            scaling: 3,
            weight: 80,
            window: Duration::from_secs(5),
        }
    }

    /// The threshold in bytes at this load: 1 is the capacity.
    #[must_use]
    pub fn threshold(&self, load: f64) -> u64 {
        debug_assert!(self.problem().is_none() && load >= 0.0, "{self:?}: {load}");
        let (low, high) = (f64::from(self.low_watermark) / 100.0, f64::from(self.high_watermark) / 100.0);
        let share = ((load - low) / (high - low)).clamp(0.0, 1.0).powi(i32::from(self.scaling));
        self.lower + ((self.upper - self.lower) as f64 * share) as u64
    }

    /// Why it cannot work.
    pub(crate) fn problem(&self) -> Option<&'static str> {
        if self.capacity == 0 {
            return Some("its capacity is 0: say how many bytes of log a second the database can write");
        }
        if self.lower > self.upper {
            return Some("its lower bound is above its upper one");
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

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
