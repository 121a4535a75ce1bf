//! The options of `ensile-papers silor`.
//!
//! Neighbours: parsed by [`crate::command`]; [`super`] runs by the options.

use std::path::PathBuf;

use clap::{Args, builder::RangedU64ValueParser, value_parser};
use ensile_bench::arguments::positive_seconds;

use super::Name;
use crate::arguments::ExperimentArguments;

/// `ensile-papers silor`.
#[derive(Clone, Debug, Args)]
pub struct SilorArguments {
    /// The experiment
    #[arg(value_enum, default_value_t = Name::All)]
    pub(crate) figure: Name,
    /// Folder for the figures
    #[arg(long, default_value = "silor-results")]
    pub(crate) out: PathBuf,
    /// Length of a run, in seconds
    #[arg(long, default_value_t = 60.0, value_parser = positive_seconds)]
    pub(crate) seconds: f64,
    /// Rounds of repeated experiments
    #[arg(long, default_value_t = 3, value_parser = RangedU64ValueParser::<usize>::new().range(1..=10_000))]
    pub(crate) rounds: usize,
    /// Worker threads [default: one less than the number of cores; a core is left to loggers and checkpointers]
    #[arg(long, value_parser = RangedU64ValueParser::<usize>::new().range(1..=1024))]
    pub(crate) workers: Option<usize>,
    /// Keys of YCSB
    #[arg(long, default_value_t = 10_000_000, value_parser = value_parser!(u64).range(1..=1 << 40))]
    pub(crate) records: u64,
    /// Warehouses of TPC-C [default: one for each worker]
    #[arg(long, value_parser = value_parser!(u16).range(1..=64))]
    pub(crate) warehouses: Option<u16>,
    /// Memory at which a run ends early, in GB: TPC-C's business grows for ever
    #[arg(long, default_value_t = 12.0)]
    pub(crate) resident_max_gb: f64,
    /// Checkpointer threads
    #[arg(long, default_value_t = 1, value_parser = RangedU64ValueParser::<usize>::new().range(1..=64))]
    pub(crate) checkpointers: usize,
    /// Time from the end of a checkpoint to the beginning of the next, in seconds
    #[arg(long, default_value_t = 10.0, value_parser = positive_seconds)]
    pub(crate) checkpoint_seconds: f64,
    /// Checkpoints that a run with checkpoints shows from beginning to end: a run with fewer goes on, up to a hundred
    /// times --seconds and ten minutes at least
    #[arg(long, default_value_t = 0)]
    pub(crate) least_checkpoints: usize,
    /// Total write rate of checkpointers, at most, in MiB a second: the rest of the disk is the log's
    #[arg(long, default_value_t = 450, value_parser = value_parser!(u64).range(1..))]
    pub(crate) checkpoint_mib: u64,
    /// Let all threads run on all cores; otherwise each worker has a core to itself if cores are to spare
    #[arg(long)]
    pub(crate) no_pin: bool,
    #[command(flatten)]
    pub(crate) common: ExperimentArguments,
}
