//! The options of `slach berkeley`.
//!
//! Neighbours: [`super`] has the options of all experiments.

use clap::{Args, builder::RangedU64ValueParser, value_parser};

use super::seconds::positive_seconds;
use crate::slach::berkeley::table::TableKind;

/// The cache of the paper, in MiB.
pub(in crate::slach) const PAPER_CACHE_MB: u64 = 1_536;

/// The options of `slach berkeley`.
#[derive(Clone, Debug, Args)]
pub(crate) struct BerkeleyArguments {
    /// berkeley: the hash table
    #[arg(long, value_enum, default_value_t)]
    pub(crate) table: TableKind,
    /// berkeley: bytes of a value, a table for each
    #[arg(long, value_delimiter = ',', default_value = "30,100,1024,10240", value_parser = value_parser!(u64).range(1..=1 << 20))]
    pub(crate) sizes: Vec<u64>,
    /// berkeley: keys, a number for each size; without this option as many as fit the cache
    #[arg(long, value_delimiter = ',', value_parser = value_parser!(u64).range(1..=1 << 30))]
    pub(crate) keys: Vec<u64>,
    /// berkeley: seconds of a run; a run with checkpoints goes on until three have ended on that side
    #[arg(long, default_value_t = 60.0, value_parser = positive_seconds)]
    pub(crate) run_seconds: f64,
    /// berkeley: seconds from the beginning of a checkpoint to the beginning of the next, on both sides
    #[arg(long, default_value_t = 10.0, value_parser = positive_seconds)]
    pub(crate) checkpoint_interval: f64,
    /// berkeley: MiB of Berkeley DB's cache
    #[arg(long, default_value_t = PAPER_CACHE_MB, value_parser = value_parser!(u64).range(1..=1 << 20))]
    pub(crate) cache_mb: u64,
    /// berkeley: KiB of Berkeley DB's pages
    #[arg(long, default_value_t = 32, value_parser = RangedU64ValueParser::<u64>::new().range(1..=64))]
    pub(crate) page_kb: u64,
    /// berkeley: maximum MB/s of the table's checkpoints; without this option no limit
    #[arg(long, value_parser = value_parser!(u64).range(1..=100_000))]
    pub(crate) checkpoint_mb: Option<u64>,
}
