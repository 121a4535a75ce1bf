//! Common options of the experiments of Silo's and SiloR's papers.
//!
//! Invariant: parsed options can be run; numbers out of range are refused here, with the reason.
//!
//! Neighbours: [`crate::command`] is the command line; [`crate::silo`] and [`crate::silor`] have further options.

use std::path::PathBuf;

use clap::{Args, builder::RangedU64ValueParser, value_parser};

/// Common options of the experiments of Silo's and SiloR's papers.
#[derive(Clone, Debug, Args)]
pub struct ExperimentArguments {
    /// Items of TPC-C's catalogue (fewer than 100000 to try things out)
    #[arg(long, default_value_t = 100_000, value_parser = value_parser!(u32).range(20..=1_000_000))]
    pub(crate) items: u32,
    /// Customers of a district (fewer than 3000 to try things out)
    #[arg(long, default_value_t = 3_000, value_parser = value_parser!(u32).range(10..=60_000))]
    pub(crate) customers: u32,
    /// Folder for logs and checkpoints on disk; removed after the measurement
    #[arg(long, default_value = "ensile-data")]
    pub(crate) data: PathBuf,
    /// Logger threads
    #[arg(long, default_value_t = 1, value_parser = RangedU64ValueParser::<usize>::new().range(1..=64))]
    pub(crate) loggers: usize,
    /// Time between epochs, in milliseconds
    #[arg(long, default_value_t = 40, value_parser = value_parser!(u64).range(1..=10_000))]
    pub(crate) epoch_ms: u64,
    /// Seed of all random numbers
    #[arg(long, default_value_t = 42)]
    pub(crate) seed: u64,
}
