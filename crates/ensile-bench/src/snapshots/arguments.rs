//! The options of `ensile-bench snapshots`.
//!
//! Neighbours: parsed by [`crate::command`]; [`super`] runs by them.

use clap::{Args, value_parser};

use crate::arguments::RunArguments;

/// `ensile-bench snapshots`.
#[derive(Clone, Debug, Args)]
pub struct SnapshotsArguments {
    #[command(flatten)]
    pub(crate) run: RunArguments,
    /// Keys that the table is loaded with
    #[arg(long, default_value_t = 1_000_000, value_parser = value_parser!(u64).range(1..=1 << 40))]
    pub(crate) records: u64,
}
