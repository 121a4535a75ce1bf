//! When a checkpoint begins (SiloR §4.3 has a fixed pause, and wished for what is here).
//!
//! What is set is for all of the state. A turn of a cycling checkpoint that takes one of n ranges begins after an n-th
//! of the time, or of the bytes.
//!
//! Without a log there are no bytes of log to count: what commits have changed takes their place.
//!
//! Neighbours: asked by `checkpoint::manager` while no checkpoint is under way.

use std::fmt;
use std::time::Duration;

use super::adaptive::{AdaptiveThreshold, ThresholdMeasure, ThresholdReading};
use super::recovery_time::RecoveryForecast;

/// The log has hardly grown while it is smaller than this part of the installed checkpoint: writing all again would
/// cost more than replaying so little.
const HARDLY_GREW_SHARE: u64 = 8;
/// Nor is a database small enough for this worth a checkpoint by itself.
const HARDLY_GREW_BYTES: u64 = 1 << 20;
/// A failed attempt is not repeated before this has passed, unless a caller asks; with a log it doubles with each
/// failure in a row.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_secs(1);
/// Doublings of it at most: about a minute.
const PAUSE_DOUBLINGS_MAX: u32 = 6;
/// A target for recovery time begins a checkpoint only if replaying the log is this part of the target: the remainder
/// is the checkpoint's own load, which another checkpoint would not shorten.
const REPLAY_SHARE: u32 = 8;

/// The policy of SiloR and of this database: time, bytes of log, also by the load, and how long a recovery would take.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Trigger {
    /// Time after the last one ended.
    pub(crate) interval: Option<Duration>,
    /// Log written since the last one began.
    pub(crate) log_bytes: Option<u64>,
    /// Entries written since the last one began, or the open.
    pub(crate) log_records: Option<u64>,
    /// As by bytes, by entries or by time, with a number that follows the load.
    pub(crate) adaptive: Option<AdaptiveThreshold>,
    /// What recovery may take.
    pub(crate) recovery_time: Option<Duration>,
    /// Without a log only a checkpoint makes anything durable: a little that has changed is enough.
    pub(crate) is_without_log: bool,
}

/// How things stand.
#[derive(Clone, Debug)]
pub(crate) struct Situation {
    /// A caller asks for one.
    pub(crate) is_demanded: bool,
    /// Without a log: a result waits for one.
    pub(crate) is_awaited: bool,
    /// How many attempts have failed since one did not.
    pub(crate) failures: u32,
    /// The log waits for space on its disk.
    pub(crate) is_log_full: bool,
    /// Since the last attempt ended, or the database was opened.
    pub(crate) since_end: Duration,
    /// The next one writes one of this many shares of the state: a turn of a cycling checkpoint. 1 if it writes all.
    pub(crate) turns: u32,
    /// Bytes of log since the last one began; without a log, bytes that have changed. Of turns what a round of them
    /// would come to: so what is written in a second is that of whole checkpoints.
    pub(crate) log_bytes: u64,
    /// Entries that were written since the last one began, or the open; of turns as `log_bytes` counts.
    pub(crate) log_records: u64,
    /// How busy the database is: 1 is its capacity. 0 where nobody asks.
    pub(crate) load: f64,
    /// Bytes of the installed checkpoint.
    pub(crate) checkpoint_bytes: u64,
    /// What a recovery would take now.
    pub(crate) recovery: RecoveryForecast,
}

/// Why a checkpoint begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CheckpointReason {
    /// A caller asked, or waits for a result.
    Demand,
    /// Time has passed, and the log has grown.
    Interval,
    /// The log is as long as it may be.
    LogBytes,
    /// The log has as many entries as it may have.
    LogRecords,
    /// The log is as long as it may be at this load, or as much time has passed, and the log has grown (SLACH §4).
    Adaptive,
    /// Recovery would take as long as it may, by the time that a checkpoint that begins now is installed.
    RecoveryTime,
}

impl fmt::Display for CheckpointReason {
    /// In a word, as figures show it.
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

/// Whether a checkpoint was to begin when it was looked at last, and why, or why not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CheckpointVerdict {
    /// Nobody has looked yet.
    #[default]
    NotLooked,
    /// It begins.
    Begins(CheckpointReason),
    /// No: the last attempt has failed, and a while is to pass.
    AfterFailure,
    /// No: the log waits for space on its disk.
    LogIsFull,
    /// No: nothing that was counted has reached what was set.
    NotDue,
    /// No: the time has come, and the log has hardly grown.
    HardlyGrew,
}

impl fmt::Display for CheckpointVerdict {
    /// In a word, as figures show it: the reason behind `begins:`, or why none begins.
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

/// Decides when a checkpoint begins. It sees the situation and nothing else.
pub(crate) trait Policy: std::fmt::Debug + Send + Sync {
    /// Whether a checkpoint begins now, and why, or why not.
    fn verdict(&self, now: &Situation) -> CheckpointVerdict;
}

impl Policy for Trigger {
    fn verdict(&self, now: &Situation) -> CheckpointVerdict {
        if now.is_demanded {
            return CheckpointVerdict::Begins(CheckpointReason::Demand);
        }
        // While the log waits for space a checkpoint could take it, and could not be installed: no mark is written
        // before.
        if now.is_log_full {
            return CheckpointVerdict::LogIsFull;
        }
        if now.since_end < self.pause(now.failures) {
            return CheckpointVerdict::AfterFailure;
        }
        if let Some(reason) = self.reached(now) {
            return CheckpointVerdict::Begins(reason);
        }
        let has_grown = if self.is_without_log { now.log_bytes > 0 } else { now.has_grown() };
        match (self.passed(now), has_grown) {
            (Some(reason), true) => CheckpointVerdict::Begins(reason),
            (Some(_), false) => CheckpointVerdict::HardlyGrew,
            (None, _) => CheckpointVerdict::NotDue,
        }
    }
}

impl Trigger {
    /// What has come to as much as it may, but for the time.
    fn reached(&self, now: &Situation) -> Option<CheckpointReason> {
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

    /// Least time between a failed attempt and the next one. Without a log it does not grow: results wait for a
    /// picture.
    fn pause(&self, failures: u32) -> Duration {
        let doublings_max = if self.is_without_log { 0 } else { PAUSE_DOUBLINGS_MAX };
        match failures.checked_sub(1) {
            Some(more) => PAUSE_AFTER_FAILURE * (1 << more.min(doublings_max)),
            None => Duration::ZERO,
        }
    }

    /// By what as much time has passed as may.
    fn passed(&self, now: &Situation) -> Option<CheckpointReason> {
        if self.interval.is_some_and(|interval| now.since_end >= interval / now.turns) {
            return Some(CheckpointReason::Interval);
        }
        let is_due = self.adaptive.is_some_and(|of| of.measure == ThresholdMeasure::Time && now.reaches(&of));
        is_due.then_some(CheckpointReason::Adaptive)
    }
}

impl Situation {
    fn has_grown(&self) -> bool {
        self.log_bytes >= HARDLY_GREW_BYTES.max(self.checkpoint_bytes / HARDLY_GREW_SHARE)
    }

    /// What a threshold of this measure is compared with. Of a turn time counts as bytes do: what a round comes to.
    fn measured(&self, of: ThresholdMeasure) -> u64 {
        match of {
            ThresholdMeasure::Bytes => self.log_bytes,
            ThresholdMeasure::Records => self.log_records,
            ThresholdMeasure::Time => {
                let millis = u64::try_from(self.since_end.as_millis()).unwrap_or(u64::MAX);
                millis.saturating_mul(u64::from(self.turns))
            }
        }
    }

    fn reaches(&self, adaptive: &AdaptiveThreshold) -> bool {
        self.measured(adaptive.measure) >= adaptive.threshold(self.load)
    }

    /// How this threshold stands, for people; the load is a share of `capacity`.
    pub(crate) fn reading(&self, adaptive: &AdaptiveThreshold, capacity: f64) -> ThresholdReading {
        ThresholdReading {
            load: self.load,
            capacity: capacity as u64,
            measure: adaptive.measure,
            threshold: adaptive.threshold(self.load),
            reached: self.measured(adaptive.measure),
        }
    }

    fn misses(&self, target: Duration) -> bool {
        let RecoveryForecast { replay, growth, .. } = self.recovery;
        self.recovery.total() + growth >= target && replay >= target / REPLAY_SHARE
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
