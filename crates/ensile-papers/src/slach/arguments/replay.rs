//! The options of `slach replay`.
//!
//! Neighbours: [`super`] has the options of all experiments.

use clap::{Args, value_parser};

/// The options of `slach replay`.
#[derive(Clone, Debug, Args)]
pub(crate) struct ReplayArguments {
    /// replay: numbers of replayed operations, a log for each
    #[arg(long, value_delimiter = ',', default_values_t = [1_000_000, 4_000_000, 16_000_000], value_parser = value_parser!(u64).range(1..=1 << 32))]
    pub(crate) replayed: Vec<u64>,
    /// replay: objects of the operations
    #[arg(long, default_value_t = 1_000_000, value_parser = value_parser!(u64).range(1..=1 << 32))]
    pub(crate) replayed_objects: u64,
}
