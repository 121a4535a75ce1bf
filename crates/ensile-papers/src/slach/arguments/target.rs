//! The options of `slach target`.
//!
//! Neighbours: [`super`] has the options of all experiments.

use clap::{Args, builder::RangedU64ValueParser, value_parser};

/// The options of `slach target`.
#[derive(Clone, Debug, Args)]
pub(crate) struct TargetArguments {
    /// Targets for the recovery time, in seconds
    #[arg(long, value_delimiter = ',', default_values_t = [2.0, 5.0, 10.0])]
    pub(crate) seconds_of_target: Vec<f64>,
    /// Killed processes, for each target
    #[arg(long, default_value_t = 20, value_parser = RangedU64ValueParser::<usize>::new().range(1..=10_000))]
    pub(crate) kills_of_target: usize,
    /// Objects for each second of the target
    #[arg(long, default_value_t = 100_000, value_parser = value_parser!(u64).range(1..=1 << 32))]
    pub(crate) objects_a_second: u64,
    /// Operations a second; a tenth is the lower rate
    #[arg(long, default_value_t = 100_000, value_parser = value_parser!(u64).range(10..=1 << 30))]
    pub(crate) target_rate: u64,
}
