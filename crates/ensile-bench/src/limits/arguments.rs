//! The options of `ensile-bench limits`.
//!
//! Neighbours: parsed by [`crate::command`]; [`super`] runs by the options.

use clap::{Args, builder::RangedU64ValueParser, value_parser};

use super::Experiment;
use super::held::{Culprit, Load};
use crate::arguments::positive_seconds;
use crate::ycsb::distribution::Distribution;

/// `ensile-bench limits`.
#[derive(Clone, Debug, Args)]
pub struct LimitsArguments {
    /// The experiment
    #[arg(value_enum)]
    pub(crate) experiment: Experiment,
    /// Length of each timed part, in seconds
    #[arg(long, default_value_t = 5.0, value_parser = positive_seconds)]
    pub(crate) seconds: f64,
    /// Rows of the table [default: 1000000 for turns and contended, 100000 deleted for dead, 20000 for versions and
    /// ends]
    #[arg(long, value_parser = value_parser!(u64).range(1..=1 << 32))]
    pub(crate) records: Option<u64>,
    /// Threads, or several numbers of threads for contended [default: versions and turns 1; contended 2,4,8; ends 64]
    #[arg(long, value_delimiter = ',', value_parser = RangedU64ValueParser::<usize>::new().range(1..=1024))]
    pub(crate) threads: Vec<usize>,
    /// held: the limit on garbage, in MiB
    #[arg(long, default_value_t = 16, value_parser = value_parser!(u64).range(1..=1 << 20))]
    pub(crate) limit_mib: u64,
    /// held: causes of held memory [default: each]
    #[arg(long, value_enum, value_delimiter = ',')]
    pub(crate) culprits: Vec<Culprit>,
    /// held: loads of the other threads [default: each]
    #[arg(long, value_enum, value_delimiter = ',')]
    pub(crate) loads: Vec<Load>,
    /// versions: numbers of held snapshots [default: 1 and 3]
    #[arg(long, value_delimiter = ',', value_parser = RangedU64ValueParser::<usize>::new().range(1..=64))]
    pub(crate) snapshots: Vec<usize>,
    /// versions: choice of rows [default: both]
    #[arg(long, value_enum, value_delimiter = ',')]
    pub(crate) distributions: Vec<Distribution>,
    /// turns: transactions of the other threads in a second; 0 for no limit
    #[arg(long, default_value_t = 1_000)]
    pub(crate) rate: u64,
    /// Time between epochs, in milliseconds
    #[arg(long, default_value_t = 40, value_parser = value_parser!(u64).range(1..=10_000))]
    pub(crate) epoch_ms: u64,
    /// Seed of all random numbers
    #[arg(long, default_value_t = 42)]
    pub(crate) seed: u64,
    /// Print one JSON document instead of a table
    #[arg(long)]
    pub(crate) json: bool,
}

impl LimitsArguments {
    /// The number of threads for experiments with a single number.
    pub(crate) fn threads_or(&self, usual: usize) -> usize {
        self.threads.first().copied().unwrap_or(usual)
    }
}

/// The named values, or all values.
pub(crate) fn or_all<T: Clone>(named: &[T], all: &[T]) -> Vec<T> {
    if named.is_empty() { all.to_vec() } else { named.to_vec() }
}
