//! Start condition of a checkpoint. SiloR §4.3 has a fixed pause, and names conditions like these as future work. A
//! turn of a cycling checkpoint takes one of n ranges, and begins after an n-th of the time or bytes. Without a log,
//! the bytes that commits have changed take the place of bytes of log.
//!
//! Neighbours: `checkpoint::state_machine::schedule` asks while no checkpoint runs.

use std::fmt;
use std::time::Duration;

use super::adaptive::{AdaptiveThreshold, ThresholdMeasure, ThresholdReading};
use super::recovery_time::RecoveryForecast;

/// Divisor of the installed checkpoint's size. A log below the quotient has hardly grown: a new checkpoint would cost
/// more than the replay of so little.
const HARDLY_GREW_SHARE: u64 = 8;
/// Log size below which a small database is not worth a checkpoint, in bytes.
const HARDLY_GREW_BYTES: u64 = 1 << 20;
/// Pause after a failed attempt, unless a caller asks. With a log, each further failure in a row doubles the pause.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_secs(1);
/// Largest number of doublings of the pause: about a minute.
const PAUSE_DOUBLINGS_MAX: u32 = 6;
/// Divisor of the recovery target. The target begins a checkpoint only if the replay of the log reaches the quotient.
/// Otherwise most of the recovery is the checkpoint's own load, and another checkpoint would not shorten the load.
const REPLAY_SHARE: u32 = 8;

/// The built-in policy: time, bytes or entries of log, thresholds by load, and forecast recovery time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Trigger {
    /// Time after the end of the last checkpoint.
    pub(crate) interval: Option<Duration>,
    /// Bytes of log since the last checkpoint began.
    pub(crate) log_bytes: Option<u64>,
    /// Entries since the last checkpoint began, or since the open.
    pub(crate) log_records: Option<u64>,
    /// Threshold by bytes, entries or time that follows the load.
    pub(crate) adaptive: Option<AdaptiveThreshold>,
    pub(crate) recovery_time: Option<Duration>,
    /// True without a log: only a checkpoint makes changes durable, so a small change is enough.
    pub(crate) is_without_log: bool,
}

/// Inputs of the decision.
#[derive(Clone, Debug)]
pub(crate) struct Situation {
    /// True if a caller asks for a checkpoint.
    pub(crate) is_demanded: bool,
    /// True if, without a log, a result waits for a checkpoint.
    pub(crate) is_awaited: bool,
    /// Number of failed attempts since the last success.
    pub(crate) failures: u32,
    /// True if the log waits for space on its disk.
    pub(crate) is_log_full: bool,
    /// Time since the last attempt ended, or since the open.
    pub(crate) since_end: Duration,
    /// Number of turns of a cycling checkpoint; the next turn writes one share of the state. 1 if a checkpoint writes
    /// the whole state.
    pub(crate) turns: u32,
    /// Bytes of log since the last checkpoint began; without a log, changed bytes. For turns, the bytes of one turn
    /// scaled to a round, so the write rate equals the rate of whole checkpoints.
    pub(crate) log_bytes: u64,
    /// Entries since the last checkpoint began, or since the open; scaled for turns as `log_bytes`.
    pub(crate) log_records: u64,
    /// Load of the database; 1 is its capacity. 0 if no threshold needs the load.
    pub(crate) load: f64,
    pub(crate) checkpoint_bytes: u64,
    pub(crate) recovery: RecoveryForecast,
}

/// Reason why a checkpoint begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum CheckpointReason {
    /// A caller asked, or waits for a result.
    Demand,
    /// The interval has passed, and the log has grown.
    Interval,
    /// The log has reached its limit of bytes.
    LogBytes,
    /// The log has reached its limit of entries.
    LogRecords,
    /// The log or the time has reached the threshold at this load. By time, the log has grown too (SLACH §4).
    Adaptive,
    /// Recovery would reach its target by the time that a new checkpoint is installed.
    RecoveryTime,
}

impl fmt::Display for CheckpointReason {
    /// One word, as in figures.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Demand => "demand",
            Self::Interval => "interval",
            Self::LogBytes => "log_bytes",
            Self::LogRecords => "log_records",
            Self::Adaptive => "adaptive",
            Self::RecoveryTime => "recovery_time",
        })
    }
}

/// The last decision about a checkpoint, with its reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CheckpointVerdict {
    /// No decision yet.
    #[default]
    NotLooked,
    /// A checkpoint begins.
    Begins(CheckpointReason),
    /// No checkpoint: the last attempt failed, and the pause is not over.
    AfterFailure,
    /// No checkpoint: the log waits for space on its disk.
    LogIsFull,
    /// No checkpoint: no count has reached its limit.
    NotDue,
    /// No checkpoint: the time has come, and the log has hardly grown.
    HardlyGrew,
}

impl fmt::Display for CheckpointVerdict {
    /// One word, as in figures: `begins:` with the reason, or the reason against a checkpoint.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotLooked => f.write_str("not_looked"),
            Self::Begins(reason) => write!(f, "begins:{reason}"),
            Self::AfterFailure => f.write_str("after_failure"),
            Self::LogIsFull => f.write_str("log_is_full"),
            Self::NotDue => f.write_str("not_due"),
            Self::HardlyGrew => f.write_str("hardly_grew"),
        }
    }
}

#[cfg(feature = "serde")]
impl serde::Serialize for CheckpointVerdict {
    /// The word of [`Display`](fmt::Display).
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl Trigger {
    /// The decision about a checkpoint now, with its reason. The situation is the only input.
    pub(crate) fn verdict(&self, now: &Situation) -> CheckpointVerdict {
        if now.is_demanded {
            return CheckpointVerdict::Begins(CheckpointReason::Demand);
        }
        // While the log waits for space a checkpoint could take the space, and could not be installed: no mark is
        // written before.
        if now.is_log_full {
            return CheckpointVerdict::LogIsFull;
        }
        if now.since_end < self.pause(now.failures) {
            return CheckpointVerdict::AfterFailure;
        }
        if let Some(reason) = self.reached_limit(now) {
            return CheckpointVerdict::Begins(reason);
        }
        let has_grown = if self.is_without_log { now.log_bytes > 0 } else { now.has_grown() };
        match (self.reached_time_limit(now), has_grown) {
            (Some(reason), true) => CheckpointVerdict::Begins(reason),
            (Some(_), false) => CheckpointVerdict::HardlyGrew,
            (None, _) => CheckpointVerdict::NotDue,
        }
    }

    /// Reason to begin at once, if a limit other than a limit of time is reached.
    fn reached_limit(&self, now: &Situation) -> Option<CheckpointReason> {
        if now.is_awaited {
            return Some(CheckpointReason::Demand);
        }
        if self.log_bytes.is_some_and(|most| now.log_bytes >= most) {
            return Some(CheckpointReason::LogBytes);
        }
        if self.log_records.is_some_and(|most| now.log_records >= most) {
            return Some(CheckpointReason::LogRecords);
        }
        if self.adaptive.is_some_and(|of| of.measure != ThresholdMeasure::Time && now.reaches(&of)) {
            return Some(CheckpointReason::Adaptive);
        }
        let is_late = self.recovery_time.is_some_and(|target| now.misses(target));
        is_late.then_some(CheckpointReason::RecoveryTime)
    }

    /// Least time between a failed attempt and the next attempt. Without a log the pause does not grow, because results
    /// wait for a picture.
    fn pause(&self, failures: u32) -> Duration {
        let doublings_max = if self.is_without_log { 0 } else { PAUSE_DOUBLINGS_MAX };
        match failures.checked_sub(1) {
            Some(more) => PAUSE_AFTER_FAILURE * (1 << more.min(doublings_max)),
            None => Duration::ZERO,
        }
    }

    /// Reason to begin once the log has grown, if a limit of time is reached.
    fn reached_time_limit(&self, now: &Situation) -> Option<CheckpointReason> {
        if self.interval.is_some_and(|interval| now.since_end >= interval / now.turns) {
            return Some(CheckpointReason::Interval);
        }
        let is_due = self.adaptive.is_some_and(|of| of.measure == ThresholdMeasure::Time && now.reaches(&of));
        is_due.then_some(CheckpointReason::Adaptive)
    }
}

impl Situation {
    /// True if the log has grown enough to be worth a checkpoint.
    fn has_grown(&self) -> bool {
        self.log_bytes >= HARDLY_GREW_BYTES.max(self.checkpoint_bytes / HARDLY_GREW_SHARE)
    }

    /// Amount to compare with a threshold of this measure. For turns, time is scaled to a round, as bytes are.
    fn measured_amount(&self, of: ThresholdMeasure) -> u64 {
        match of {
            ThresholdMeasure::Bytes => self.log_bytes,
            ThresholdMeasure::Records => self.log_records,
            ThresholdMeasure::Time => {
                let millis = u64::try_from(self.since_end.as_millis()).unwrap_or(u64::MAX);
                millis.saturating_mul(u64::from(self.turns))
            }
        }
    }

    /// True if the measured amount has reached the threshold at this load.
    fn reaches(&self, adaptive: &AdaptiveThreshold) -> bool {
        self.measured_amount(adaptive.measure) >= adaptive.threshold(self.load)
    }

    /// Reading of this threshold, for people; the load is a share of `capacity`.
    pub(crate) fn threshold_reading(&self, adaptive: &AdaptiveThreshold, capacity: f64) -> ThresholdReading {
        ThresholdReading {
            load: self.load,
            capacity: capacity as u64,
            measure: adaptive.measure,
            threshold: adaptive.threshold(self.load),
            reached: self.measured_amount(adaptive.measure),
        }
    }

    /// True if a recovery would exceed `target` once a checkpoint begun now is installed, and replay is a good part of
    /// it.
    fn misses(&self, target: Duration) -> bool {
        let RecoveryForecast { replay, growth, .. } = self.recovery;
        self.recovery.total() + growth >= target && replay >= target / REPLAY_SHARE
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
