//! The options of `ensile-bench limits`.
//!
//! Neighbours: parsed by [`crate::command`]; [`super`] runs by them.

use clap::{Args, builder::RangedU64ValueParser, value_parser};

use super::Experiment;
use super::held::{Culprit, Load};
use crate::arguments::positive_seconds;
use crate::ycsb::distribution::Distribution;

/// `ensile-bench limits`.
#[derive(Clone, Debug, Args)]
pub struct LimitsArguments {
    /// Which experiment
    #[arg(value_enum)]
    pub(crate) experiment: Experiment,
    /// Length of each part that is timed, in seconds
    #[arg(long, default_value_t = 5.0, value_parser = positive_seconds)]
    pub(crate) seconds: f64,
    /// Rows of the table [default: 1000000 for turns and contended, 20000 for versions and ends]
    #[arg(long, value_parser = value_parser!(u64).range(1..=1 << 32))]
    pub(crate) records: Option<u64>,
    /// Threads, or several numbers of threads for contended [default: versions and turns 1; contended 2,4,8; ends 64]
    #[arg(long, value_delimiter = ',', value_parser = RangedU64ValueParser::<usize>::new().range(1..=1024))]
    pub(crate) threads: Vec<usize>,
    /// held: the limit on garbage, in MiB
    #[arg(long, default_value_t = 16, value_parser = value_parser!(u64).range(1..=1 << 20))]
    pub(crate) limit_mib: u64,
    /// held: what holds memory back [default: each]
    #[arg(long, value_enum, value_delimiter = ',')]
    pub(crate) culprits: Vec<Culprit>,
    /// held: what the other threads do [default: each]
    #[arg(long, value_enum, value_delimiter = ',')]
    pub(crate) loads: Vec<Load>,
    /// versions: how many snapshots are held [default: 1 and 3]
    #[arg(long, value_delimiter = ',', value_parser = RangedU64ValueParser::<usize>::new().range(1..=64))]
    pub(crate) snapshots: Vec<usize>,
    /// versions: how rows are chosen [default: both]
    #[arg(long, value_enum, value_delimiter = ',')]
    pub(crate) distributions: Vec<Distribution>,
    /// turns: transactions of the others in a second; 0 for as many as they can
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
    /// The number of threads, of experiments that have one.
    pub(crate) fn threads_or(&self, usual: usize) -> usize {
        self.threads.first().copied().unwrap_or(usual)
    }
}

/// What was named, or all of it.
pub(crate) fn or_all<T: Clone>(named: &[T], all: &[T]) -> Vec<T> {
    if named.is_empty() { all.to_vec() } else { named.to_vec() }
}
