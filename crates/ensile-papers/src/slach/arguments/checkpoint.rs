//! The options of experiments on one checkpoint.
//!
//! Neighbours: [`super`] has the options of all experiments.

use clap::{Args, value_parser};
use ensile_base::limits::NICENESS_MAX;

use super::seconds::positive_seconds;

/// The options of experiments on one checkpoint.
#[derive(Clone, Debug, Args)]
pub(crate) struct CheckpointArguments {
    /// checkpoint-loss, response, figure7: MB of a checkpoint
    #[arg(long, default_value_t = 1_900, value_parser = value_parser!(u64).range(1..=1 << 20))]
    pub(crate) data_mb: u64,
    /// checkpoint-loss, response, figure7: MB/s of a checkpoint's writes
    #[arg(long, default_value_t = 110, value_parser = value_parser!(u64).range(1..=1 << 20))]
    pub(crate) paced_mb: u64,
    /// checkpoint-loss, response, figure7: percent of requests that write
    #[arg(long, default_value_t = 50, value_parser = value_parser!(u64).range(0..=100))]
    pub(crate) write_percent: u64,
    /// checkpoint-loss, response, figure7: seconds without a checkpoint before each checkpoint and after the last
    #[arg(long, default_value_t = 10.0, value_parser = positive_seconds)]
    pub(crate) between_seconds: f64,
    /// checkpoint-loss, response, figure7, berkeley: niceness of checkpoints above other threads, 0 to 19
    #[arg(long, default_value_t = 0, value_parser = value_parser!(u8).range(..=i64::from(NICENESS_MAX)))]
    pub(crate) checkpoint_niceness: u8,
}

impl CheckpointArguments {
    /// A figure's notes on its checkpoints.
    pub(in crate::slach) fn noted(&self) -> Vec<String> {
        vec![format!("checkpoints are paced to {} MB/s", self.paced_mb), self.niceness_noted()]
    }

    /// A figure's note on the threads of its checkpoints.
    pub(in crate::slach) fn niceness_noted(&self) -> String {
        format!("checkpointers' niceness: {} above the others'", self.checkpoint_niceness)
    }
}
