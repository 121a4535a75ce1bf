//! The options of `slach adaptive`.
//!
//! Neighbours: [`super`] has the options of all experiments.

use clap::{Args, value_parser};

/// The options of `slach adaptive`.
#[derive(Clone, Debug, Args)]
pub(crate) struct AdaptiveArguments {
    /// Loads, in percent of the capacity
    #[arg(long, value_delimiter = ',', default_values_t = [10, 20, 40, 60, 80, 90, 100])]
    pub(crate) loads: Vec<u32>,
    /// Services: ups, his
    #[arg(long, value_delimiter = ',', default_values_t = ["ups".to_owned(), "his".to_owned()])]
    pub(crate) of_services: Vec<String>,
    /// adaptive: objects; without this option a number at which the largest fixed threshold loses 5 % of the requests
    /// at the first load above the high watermark, searched from --objects on
    #[arg(long, value_name = "OBJECTS", value_parser = value_parser!(u64).range(1..=1 << 32))]
    pub(crate) adaptive_objects: Option<u64>,
    /// adaptive: objects at which the search ends
    #[arg(long, default_value_t = 8_000_000, value_parser = value_parser!(u64).range(1..=1 << 32))]
    pub(crate) objects_max: u64,
    /// Seconds for which a policy is measured at a load, and up to four times as many until three checkpoints are
    /// installed
    #[arg(long, default_value_t = 10.0)]
    pub(crate) seconds: f64,
    /// Thresholds and windows, as a share of the paper's (1: UPS' fixed ones are 1, 3 and 8 million records)
    #[arg(long, default_value_t = 0.1)]
    pub(crate) of_thresholds: f64,
    /// A request that waits longer is lost, in milliseconds
    #[arg(long, default_value_t = 100)]
    pub(crate) time_out_ms: u64,
}
