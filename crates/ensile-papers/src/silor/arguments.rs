//! The options of `ensile-papers silor`.
//!
//! Neighbours: parsed by [`crate::command`]; [`super`] runs by the options.

use std::path::PathBuf;

use clap::{Args, ValueEnum, builder::RangedU64ValueParser, value_parser};
use ensile_bench::arguments::positive_seconds;

use crate::arguments::ExperimentArguments;

/// The requested experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Name {
    /// Every experiment in turn.
    All,
    /// YCSB over time: memsilo, logsilo, silor (§6.2).
    Fig1,
    /// Memsilo with a worker for each core, and with a core to spare.
    Fig2,
    /// Silor with a worker for each core: loggers and checkpointers have no core of their own.
    Fig3,
    /// Three ways to sync checkpoints: once at the end, once at the end with sleeps, every 32 MB.
    Fig4,
    /// TPC-C over time: memsilo, logsilo, silor (§6.3).
    Fig5,
    /// Figure 1 again, once per round.
    Fig6,
    /// Figure 5 again, once per round, and with a worker for each core.
    Fig7,
    /// Savings of a checkpoint that leaves out logged records (§4.2).
    Skip,
    /// The log without and with before-images.
    BeforeImages,
    /// The rows to be reached, with limits; exit code 1 if a limit is missed.
    Table,
}

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
