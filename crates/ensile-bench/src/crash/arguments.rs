//! The options of `ensile-bench tpcc --crash-after`, on the side of the process that is killed: `tpcc-victim`.
//!
//! Neighbours: parsed by [`crate::command`]; [`super`] runs by them.

use std::path::PathBuf;

use clap::Args;

use crate::arguments::RunArguments;
use crate::tpcc::arguments::BusinessArguments;

/// `ensile-bench tpcc-victim`: not for people.
#[derive(Clone, Debug, Args)]
pub struct VictimArguments {
    #[command(flatten)]
    pub(crate) run: RunArguments,
    #[command(flatten)]
    pub(crate) business: BusinessArguments,
    /// Number of victims that the folder has had before
    #[arg(long)]
    pub(crate) life: u32,
    /// Only open the database, and wait
    #[arg(long)]
    pub(crate) recover_only: bool,
    /// Time between checkpoints
    #[arg(long)]
    pub(crate) checkpoint_ms: Option<u64>,
    /// Checkpoints are pictures
    #[arg(long)]
    pub(crate) picture_checkpoints: bool,
    /// There is no log
    #[arg(long)]
    pub(crate) no_log: bool,
    /// The database's folder
    #[arg(long)]
    pub(crate) folder: PathBuf,
}
