//! The policy by which checkpoints begin.
//!
//! Neighbours: `builder` sets the policy before the open; the durability crate has the triggers.

use std::time::Duration;

use ensile_durability::{AdaptiveThreshold, CheckpointConfig};

use crate::application::ApplicationLog;
use crate::collection::Objects;
use crate::collection::persistent::{ObjectKey, Persistent};
use crate::error::ObjectsResult as Result;

/// Triggers of checkpoints (SLACH §4). A trigger that is `None` begins no checkpoint. The policy may change while the
/// objects are open.
///
/// ```
/// use std::time::Duration;
/// use ensile_objects::{AdaptiveThreshold, CheckpointPolicy};
/// // After 1 million operations while there is little to do, after 8 million while there is much; 56,000 requests a
/// // second are all that the service can do.
/// let adaptive = AdaptiveThreshold::of_ups(56_000);
/// let by_load = CheckpointPolicy { adaptive: Some(adaptive), ..CheckpointPolicy::on_demand() };
/// // No recovery takes more than five seconds.
/// let by_target = CheckpointPolicy { recovery_time: Some(Duration::from_secs(5)), ..CheckpointPolicy::on_demand() };
/// # let _ = (by_load, by_target);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckpointPolicy {
    /// Bytes of log since the last checkpoint began.
    pub log_bytes: Option<u64>,
    /// Entries since the last checkpoint began, or since the open: logged operations, whole values and removals.
    pub log_records: Option<u64>,
    /// Threshold in entries, bytes or time that follows the load (SLACH §4). [`AdaptiveThreshold::of_ups`] and
    /// [`of_his`](AdaptiveThreshold::of_his) are the paper's thresholds, in entries.
    /// [`of_capacity`](AdaptiveThreshold::of_capacity) counts bytes, and [`of_time`](AdaptiveThreshold::of_time) counts
    /// time.
    pub adaptive: Option<AdaptiveThreshold>,
    /// Time since the last checkpoint ended. The checkpoint is put off while the log hardly grows.
    pub interval: Option<Duration>,
    /// Longest recovery: a checkpoint begins in time to keep the predicted recovery below this duration. The prediction
    /// uses the costs of this folder's earlier recoveries, the bytes to load and to replay, the present cost of
    /// operations, and the log expected until the checkpoint is installed.
    /// [`CheckpointStats::recovery`](crate::CheckpointStats) shows the prediction and its rates. Before the first
    /// measured recovery, costs are assumed.
    ///
    /// [`register_policy`](Objects::register_policy) refuses a target below the time of loading alone, and reports the
    /// figure. An open is never refused for the target, and nothing stops when the objects outgrow the target.
    /// [`CheckpointStats::unreachable`](crate::CheckpointStats) then reports an unreachable target, and the log is kept
    /// as short as an eighth of the target allows.
    pub recovery_time: Option<Duration>,
}

impl Default for CheckpointPolicy {
    /// Checkpoints every ten seconds if the log has grown, and after 4 GiB of log.
    fn default() -> Self {
        let CheckpointConfig { log_bytes, log_records, adaptive, interval, recovery_time, .. } =
            CheckpointConfig::default();
        Self { log_bytes, log_records, adaptive, interval, recovery_time }
    }
}

impl CheckpointPolicy {
    /// Checkpoints on demand only.
    #[must_use]
    pub fn on_demand() -> Self {
        Self { log_bytes: None, log_records: None, adaptive: None, interval: None, recovery_time: None }
    }

    pub(super) fn apply(&self, config: &mut CheckpointConfig) {
        let Self { log_bytes, log_records, adaptive, interval, recovery_time } = *self;
        (config.log_bytes, config.log_records, config.adaptive) = (log_bytes, log_records, adaptive);
        (config.interval, config.recovery_time) = (interval, recovery_time);
    }
}

impl ApplicationLog {
    /// Sets the policy by which checkpoints begin from now on (SLACH §3.2's `register_policy`).
    ///
    /// # Errors
    /// [`ObjectsError::Misuse`](crate::ObjectsError::Misuse) for settings that cannot work, such as a recovery time
    /// below the time of loading alone.
    pub fn register_policy(&self, policy: &CheckpointPolicy) -> Result<()> {
        self.runtime.reschedule(|config| policy.apply(config))
    }
}

impl<K: ObjectKey, T: Persistent> Objects<K, T> {
    /// As [`ApplicationLog::register_policy`].
    ///
    /// # Errors
    /// As for [`ApplicationLog::register_policy`].
    pub fn register_policy(&self, policy: &CheckpointPolicy) -> Result<()> {
        self.runtime.reschedule(|config| policy.apply(config))
    }
}
