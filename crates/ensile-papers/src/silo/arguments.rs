//! The options of `ensile-papers silo`.
//!
//! Neighbours: [`crate::command`] parses the options; [`super`] runs by them.

use std::path::PathBuf;

use clap::{Args, ValueEnum, builder::RangedU64ValueParser, value_parser};
use ensile_bench::arguments::positive_seconds;
use ensile_bench::system::SNAPSHOT_MS;

use crate::arguments::ExperimentArguments;

/// Experiments to choose from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Name {
    /// Every experiment, one after the other.
    All,
    /// Cost of transactions: key-value, memsilo, memsilo with a global TID (§5.2).
    Fig4,
    /// TPC-C over workers: throughput (§5.3).
    Fig5,
    /// TPC-C over workers: throughput per core.
    Fig6,
    /// TPC-C over workers: latency.
    Fig7,
    /// New-orders over the share that crosses partitions: partitioned store, memsilo, memsilo with split tables (§5.4).
    Fig8,
    /// New-orders of more and more workers on four warehouses: partitioned store, memsilo, memsilo with fast ids.
    Fig9,
    /// Stock-level on snapshots and in the present, beside new-orders (§5.5, figure 10).
    #[value(alias = "fig10")]
    Table10,
    /// Memory of old versions (§5.6).
    Space,
    /// Cache lines written by transactions and touched by other workers (in a build with the feature `counted`).
    SharedWrites,
    /// Value of allocator, overwrites, snapshots, garbage collection and forms of logging (§5.7).
    Fig11,
}

/// `ensile-papers silo`.
#[derive(Clone, Debug, Args)]
pub struct SiloArguments {
    /// Experiment
    #[arg(value_enum, default_value_t = Name::All)]
    pub(crate) figure: Name,
    /// Folder for the figures
    #[arg(long, default_value = "silo-results")]
    pub(crate) out: PathBuf,
    /// Length of a timed slice, in seconds [default: 2; 1 for experiments with many slices]
    #[arg(long, value_parser = positive_seconds)]
    pub(crate) seconds: Option<f64>,
    /// Rounds; figures are medians over them
    #[arg(long, default_value_t = 3, value_parser = RangedU64ValueParser::<usize>::new().range(1..=10_000))]
    pub(crate) rounds: usize,
    /// Maximum number of worker threads [default: the number of cores; for table10 two on each warehouse]
    #[arg(long, value_parser = RangedU64ValueParser::<usize>::new().range(1..=1024))]
    pub(crate) workers: Option<usize>,
    /// Keys of the key-value experiments [default: the experiment's own]
    #[arg(long, value_parser = value_parser!(u64).range(1..=1 << 40))]
    pub(crate) records: Option<u64>,
    /// Warehouses of fig8, fig9, table10 and fig11 [default: one for each worker; fig9 4, table10 1]
    #[arg(long, value_parser = value_parser!(u16).range(1..=64))]
    pub(crate) warehouses: Option<u16>,
    /// Folder for logs in memory (in a tmpfs); removed after the measurement
    #[arg(long, default_value = "/dev/shm/ensile-data")]
    pub(crate) tmpfs: PathBuf,
    /// Memory that each database of TPC-C maps and touches beforehand, in MiB [default: the expected size, up to half
    /// of the machine's memory]
    #[arg(long)]
    pub(crate) prefault_mib: Option<usize>,
    /// Time between snapshot boundaries, in milliseconds
    #[arg(long, default_value_t = SNAPSHOT_MS, value_parser = value_parser!(u64).range(1..=3_600_000))]
    pub(crate) snapshot_ms: u64,
    /// Keep each worker on one core
    #[arg(long)]
    pub(crate) pin: bool,
    #[command(flatten)]
    pub(crate) common: ExperimentArguments,
}
