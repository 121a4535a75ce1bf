//! Occasion of an attempt: its reason, and the figures behind the decision to begin.
//!
//! Neighbours: `schedule` finds the occasion; an attempt's report has the figures.

use crate::control::adaptive::ThresholdReading;
use crate::control::recovery_time::RecoveryForecast;
use crate::control::trigger::CheckpointReason;

/// Reason of an attempt, with the figures at the decision to begin.
#[derive(Clone, Copy, Debug)]
pub(super) struct Occasion {
    pub(super) reason: CheckpointReason,
    pub(super) recovery: RecoveryForecast,
    /// Reading of the adaptive threshold, if the rules have a threshold.
    pub(super) adaptive: Option<ThresholdReading>,
}
