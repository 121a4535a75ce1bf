//! The options of `ensile-bench limits`.
//!
//! Neighbours: parsed by [`crate::command`]; [`super`] runs by the options.

use clap::{Args, ValueEnum, builder::RangedU64ValueParser, value_parser};

use crate::arguments::positive_seconds;
use crate::ycsb::distribution::Distribution;

/// The experiments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Experiment {
    /// Memory that an idle transaction, a leaked snapshot, a parked thread or a waiting call-back holds back.
    Held,
    /// Bytes of old versions while snapshots are held.
    Versions,
    /// A closure that reads a whole table and writes a row, beside many small transactions.
    Turns,
    /// Transactions of 16 operations, half of them writes, zipfian.
    Contended,
    /// The longest epoch while many threads end after many deletions.
    Ends,
    /// Each reading operation behind 100,000 deleted rows.
    Dead,
    /// Memory of keys of 4,001 bytes in pairs that differ only in the last byte.
    Prefixes,
}

/// Cause of held memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Culprit {
    /// A transaction that has read a row, and is left open.
    Idle,
    /// A snapshot that has shown a row, and stays until the end.
    Snapshot,
    /// A thread that has run the load for half of the time, and waits.
    Parked,
    /// A scan whose call-back waits.
    Callback,
}

/// The load of the other threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Load {
    /// Puts of rows of 1 to 4,000 bytes: a database may write a short row over the old row, and replaces a long row.
    Puts,
    /// A row is put and deleted.
    Deletes,
    /// A row is inserted by a transaction that loses.
    AbortedInserts,
    /// Puts of rows of 32 to 64 KiB.
    LargeValues,
}

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
