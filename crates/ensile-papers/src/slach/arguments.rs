//! The options of `ensile-papers slach`.
//!
//! Neighbours: parsed by [`crate::command`]; [`super`] runs by the options.

use std::path::PathBuf;

use clap::{Args, builder::RangedU64ValueParser, value_parser};
use ensile_bench::arguments::positive_seconds;

use super::Name;
use super::adaptive::AdaptiveArguments;
use super::berkeley::BerkeleyArguments;
use super::checkpoint_loss::CheckpointArguments;
use super::logging::LoggingArguments;
use super::replay::ReplayArguments;
use super::services::ServicesArguments;
use super::target::TargetArguments;

/// `ensile-papers slach`.
#[derive(Clone, Debug, Args)]
pub struct SlachArguments {
    /// The experiment
    #[arg(value_enum, default_value_t = Name::Cost)]
    pub(crate) figure: Name,
    /// Folder for the figures
    #[arg(long, default_value = "slach-results")]
    pub(crate) out: PathBuf,
    /// Print JSON documents instead of tables
    #[arg(long)]
    pub(crate) json: bool,
    /// Folder for the objects; removed after the measurement
    #[arg(long, default_value = "ensile-data")]
    pub(crate) data: PathBuf,
    /// Objects, of 40 bytes each; of about 100 bytes where operations are replayed and where checkpoints are looked at
    #[arg(long, default_value_t = 20_000, value_parser = value_parser!(u64).range(1..=1 << 32))]
    pub(crate) objects: u64,
    /// Timed calls; a tenth of the calls is counted under valgrind
    #[arg(long, default_value_t = 500_000, value_parser = value_parser!(u64).range(100..=1 << 32))]
    pub(crate) calls: u64,
    /// Timings of each call, in turns
    #[arg(long, default_value_t = 3, value_parser = RangedU64ValueParser::<usize>::new().range(1..=1_000))]
    pub(crate) rounds: usize,
    /// Of `cost`: limit of the time, in seconds. A round or a count under valgrind begins only if it would end within
    /// the limit, judged by the longest before; one round is made in any case. About 120 give a few rounds
    #[arg(long, value_parser = positive_seconds)]
    pub(crate) cost_seconds: Option<f64>,
    /// Seed of the choice of called objects
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    #[command(flatten)]
    pub(crate) services: ServicesArguments,
    #[command(flatten)]
    pub(crate) target: TargetArguments,
    #[command(flatten)]
    pub(crate) adaptive: AdaptiveArguments,
    #[command(flatten)]
    pub(crate) berkeley: BerkeleyArguments,
    #[command(flatten)]
    pub(crate) checkpoint: CheckpointArguments,
    #[command(flatten)]
    pub(crate) replay: ReplayArguments,
    #[command(flatten)]
    pub(crate) logging: LoggingArguments,
}
