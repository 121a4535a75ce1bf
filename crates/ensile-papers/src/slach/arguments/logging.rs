//! The options of `slach logging`.
//!
//! Neighbours: [`super`] has the options of all experiments.

use clap::Args;

use super::seconds::positive_seconds;

/// The options of `slach logging`.
#[derive(Clone, Debug, Args)]
pub(crate) struct LoggingArguments {
    /// logging: seconds of a run in process, and of a run over loopback
    #[arg(long, default_value_t = 3.0, value_parser = positive_seconds)]
    pub(crate) slice_seconds: f64,
    /// logging: no runs over loopback
    #[arg(long)]
    pub(crate) in_process_only: bool,
}
