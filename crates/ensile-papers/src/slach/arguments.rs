//! The options of `ensile-papers slach`.
//!
//! Neighbours: parsed by [`crate::command`]; [`super`] runs by the options.

pub(super) mod adaptive;
pub(super) mod berkeley;
pub(super) mod checkpoint;
pub(super) mod logging;
pub(super) mod replay;
mod seconds;
pub(super) mod services;
pub(super) mod target;

use std::path::PathBuf;

use clap::{Args, ValueEnum, builder::RangedU64ValueParser, value_parser};
use ensile_bench::arguments::positive_seconds;

use adaptive::AdaptiveArguments;
use berkeley::BerkeleyArguments;
use checkpoint::CheckpointArguments;
use logging::LoggingArguments;
use replay::ReplayArguments;
use services::ServicesArguments;
use target::TargetArguments;

/// Experiments to choose from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Name {
    /// Every experiment, one after the other: many hours.
    All,
    /// Instructions and nanoseconds of updates, logged and not, of reads, whole values and replay; needs valgrind.
    Cost,
    /// A service of §5 under an open load: losses and response times by rate and share of writes.
    Load,
    /// A service of §5 is killed under load, again and again: every reply's data is present, once and in order.
    Kills,
    /// Processes with a target for the recovery time are killed at random: time of the next open, and number of
    /// checkpoints.
    Target,
    /// A persistent hash table beside Berkeley DB: lookups, multi-gets, updates, and updates with checkpoints; needs a
    /// C compiler and libdb5.3-dev.
    Berkeley,
    /// Throughput of one thread at full load while a checkpoint of 1.9 GB is written.
    CheckpointLoss,
    /// Capacity of each service in objects, and the reads and writes a second at which 5 % are lost.
    Table2,
    /// Lost requests and response times of UPS over the load, with logging and without.
    Figure6,
    /// UPS over time at its capacity while checkpoints are written.
    Figure7,
    /// Response times of UPS at 60 and 80 % of its capacity while checkpoints are written.
    Response,
    /// Throughput of UPS with logging and without, in process and over loopback.
    Logging,
    /// Replay of operations of 100 bytes on one core: operations a second, and the memory of the replay.
    Replay,
    /// Fixed thresholds for checkpoints against a threshold that follows the load: replay time, lost requests, response
    /// time.
    Adaptive,
}

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
