//! The options for the triggers of a service's checkpoints: by records, bytes, time or load, in time for a recovery, or
//! only on demand (SLACH §4).
//!
//! Invariant: an option that is not given triggers no checkpoint; without any option, the usual policy holds.
//!
//! Neighbours: [`super`] opens a service with the policy; `ensile-objects` implements the policy.

use std::time::Duration;

use clap::{Args, ValueEnum, value_parser};
use ensile_base::limits::NICENESS_MAX;
use ensile_objects::{AdaptiveThreshold, CheckpointPolicy};

use super::ServiceKind;

/// Unit of `--adaptive-lower` and `--adaptive-upper`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum AdaptiveMeasure {
    /// Records of the log since the last checkpoint began
    #[default]
    Records,
    /// Bytes of the log since the last checkpoint began
    Bytes,
    /// Milliseconds since the last checkpoint ended; no checkpoint begins before the log has grown
    Time,
}

/// Triggers of checkpoints.
#[derive(Clone, Debug, Default, Args)]
#[command(
    next_help_heading = "Checkpoints: without any of these one after ten seconds if the log has grown, or 4 GiB of log"
)]
pub struct CheckpointArguments {
    /// Begin a checkpoint after this many records of the log
    #[arg(long, value_name = "RECORDS", value_parser = value_parser!(u64).range(1..))]
    pub checkpoint_records: Option<u64>,
    /// Begin a checkpoint after this many bytes of the log
    #[arg(long, value_name = "BYTES", value_parser = value_parser!(u64).range(1..))]
    pub checkpoint_bytes: Option<u64>,
    /// Begin a checkpoint this many milliseconds after the last one, if the log has grown
    #[arg(long, value_name = "MS", value_parser = value_parser!(u64).range(1..))]
    pub checkpoint_ms: Option<u64>,
    /// Begin a checkpoint in time to keep the predicted recovery below this many milliseconds
    #[arg(long, value_name = "MS", value_parser = value_parser!(u64).range(1..))]
    pub recovery_ms: Option<u64>,
    /// Begin a checkpoint after a number of records, or of --adaptive-measure, that follows the load. The value is the
    /// capacity of the service in requests a second
    #[arg(long, value_name = "REQUESTS", value_parser = value_parser!(u64).range(1..))]
    pub adaptive: Option<u64>,
    /// Measure the capacity: the rate at which 5 % of the requests are lost. Requests that the log refuses, and replies
    /// that no client had waited for, count as lost; --adaptive is the capacity until then
    #[arg(long, requires = "adaptive")]
    pub adaptive_probed: bool,
    /// Measure that follows the load
    #[arg(long, requires = "adaptive", value_enum, default_value_t, value_name = "MEASURE")]
    pub adaptive_measure: AdaptiveMeasure,
    /// Records, bytes or milliseconds while the load is low [default: 1000000; of his 300000; 512 MiB; 10000 ms]
    #[arg(long, requires = "adaptive", value_name = "NUMBER")]
    pub adaptive_lower: Option<u64>,
    /// Records, bytes or milliseconds while the load is high [default: 8000000; of his 1800000; 4 GiB; 80000 ms]
    #[arg(long, requires = "adaptive", value_name = "NUMBER")]
    pub adaptive_upper: Option<u64>,
    /// Largest low load, in percent of --adaptive [default: 20; of his 35]
    #[arg(long, requires = "adaptive", value_name = "PERCENT")]
    pub adaptive_low_watermark: Option<u8>,
    /// Smallest high load, in percent of --adaptive [default: 85]
    #[arg(long, requires = "adaptive", value_name = "PERCENT")]
    pub adaptive_high_watermark: Option<u8>,
    /// Power that keeps the number near the lower number as the load grows [default: 3; of his 6]
    #[arg(long, requires = "adaptive", value_name = "POWER")]
    pub adaptive_scaling: Option<u8>,
    /// Weight of the earlier load beside the load of the last window, in percent [default: 80]
    #[arg(long, requires = "adaptive", value_name = "PERCENT")]
    pub adaptive_weight: Option<u8>,
    /// Window of the load in milliseconds, 1000 at least [default: 5000]
    #[arg(long, requires = "adaptive", value_name = "MS")]
    pub adaptive_window_ms: Option<u64>,
    /// Make checkpoints only when a client asks for them (BGSAVE)
    #[arg(long, conflicts_with_all = REASONS)]
    pub checkpoint_on_demand: bool,
    /// Largest rate of checkpoint writes, in bytes a second; unlimited by default
    #[arg(long, value_name = "BYTES", value_parser = value_parser!(u64).range(1..))]
    pub checkpoint_bandwidth: Option<u64>,
    /// Niceness of checkpoints relative to the threads that serve, 0 to 19: requests are answered sooner beside a
    /// checkpoint. If all cores are busy, a checkpoint may take minutes, while the log grows
    #[arg(long, default_value_t = 0, value_name = "NICENESS",
        value_parser = value_parser!(u8).range(..=i64::from(NICENESS_MAX)))]
    pub checkpoint_niceness: u8,
}

/// Names of the options that trigger checkpoints by themselves.
pub(super) const REASONS: [&str; 5] =
    ["checkpoint_records", "checkpoint_bytes", "checkpoint_ms", "recovery_ms", "adaptive"];

impl CheckpointArguments {
    /// Policy from the options, or the usual policy.
    #[must_use]
    pub fn policy(&self, service: ServiceKind) -> CheckpointPolicy {
        let asked = CheckpointPolicy {
            log_records: self.checkpoint_records,
            log_bytes: self.checkpoint_bytes,
            interval: self.checkpoint_ms.map(Duration::from_millis),
            recovery_time: self.recovery_ms.map(Duration::from_millis),
            adaptive: self.adaptive.map(|capacity| self.threshold(service, capacity)),
        };
        if asked == CheckpointPolicy::on_demand() && !self.checkpoint_on_demand {
            CheckpointPolicy::default()
        } else {
            asked
        }
    }

    /// Threshold of Table 3 for the service, except for given options. The paper has no threshold for its hash table,
    /// so the hash table takes the values of UPS. The paper has no bounds of bytes and of time either; these bounds
    /// come from the durability crate.
    fn threshold(&self, service: ServiceKind, capacity: u64) -> AdaptiveThreshold {
        let table_3 = match service {
            ServiceKind::Pht | ServiceKind::Ups => AdaptiveThreshold::of_ups(capacity),
            ServiceKind::His => AdaptiveThreshold::of_his(capacity),
        };
        let bounds = match self.adaptive_measure {
            AdaptiveMeasure::Records => table_3,
            AdaptiveMeasure::Bytes => AdaptiveThreshold::of_capacity(capacity),
            AdaptiveMeasure::Time => AdaptiveThreshold::of_time(capacity),
        };
        AdaptiveThreshold {
            measure: bounds.measure,
            lower: self.adaptive_lower.unwrap_or(bounds.lower),
            upper: self.adaptive_upper.unwrap_or(bounds.upper),
            low_watermark: self.adaptive_low_watermark.unwrap_or(table_3.low_watermark),
            high_watermark: self.adaptive_high_watermark.unwrap_or(table_3.high_watermark),
            scaling: self.adaptive_scaling.unwrap_or(table_3.scaling),
            weight: self.adaptive_weight.unwrap_or(table_3.weight),
            window: self.adaptive_window_ms.map_or(table_3.window, Duration::from_millis),
            capacity,
            is_probed: self.adaptive_probed,
        }
    }
}

#[cfg(test)]
mod tests;
