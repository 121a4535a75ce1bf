//! Recovery at open: manifest, chains, verdict, replay, and the next generation (SiloR §5).
//!
//! The caller's threads do the work in parts. [`LogScan::begin`] reads the manifest and lists the log files.
//! [`LogScan::step`], called by any number of threads, reads the blocks of one file. [`LogScan::finish`] puts the files
//! together and decides D. [`Recovery::replay_step`], called by any number of threads, loads one file of the checkpoint
//! or replays one piece. [`Recovery::finish`] makes the decision durable and begins the next generation.
//!
//! ```text
//! LogScan: files are read --> D is decided --> Recovery: files are loaded, then pieces replayed --> its ending
//!          by any thread   by `durable_epoch`         by any thread, as                   as `commit_plan` says:
//!                                                     `replay_scheduler` says             open, read only, error
//! ```
//! Modules without a clock, lock or file make the decisions: `durable_epoch`, `replay_scheduler`, `generation_plan` and
//! `commit_plan`.
//!
//! Invariants:
//! - L5: D is the minimum over the open generation's logs of the last mark of the whole chain; `durable_epoch`
//!   distinguishes torn from damaged.
//! - L4: before the database serves requests, the manifest records the part of each generation that counted, and the
//!   beginning of the next generation: above every epoch in the blocks, ignored and torn blocks included.
//! - After a failed sync, or after a crash of the process alone, recovery may have read durable results from the
//!   system's cache only. Recovery writes and syncs such blocks again, unless a later block proves that the blocks are
//!   on the medium.
//!
//! Neighbours: `validation` judges, also for [`examination`]; below `log_files`, `file_chain`, `chain`,
//! `durable_epoch`, `replay`, `replay_scheduler`, `commit_plan`, `resync_tail`, `store::manifest`; above,
//! `Database::open`, then [`crate::OpenStore::start`].

// In the order of the data: names, bytes of a file, a log, a verdict; the replay; the next life; and the same without
// an open.
mod progress;
mod report;

mod phase_times;

mod chain;
mod durable_epoch;
mod file_chain;
mod log_files;

mod walk_files;

mod load;
mod read_ahead;
mod replay;
mod replay_scheduler;

mod validation;

mod mapped_tail;
mod replay_state;
mod scan;

mod cleanup;
mod commit_plan;
mod generation_plan;
mod install_generation;
mod merge;
mod orphan_logs;
mod resync_tail;
mod tid_order;

pub(crate) mod copied_logs;

pub mod examination;

pub mod archive;

use std::sync::Arc;

use ensile_disk::Disk;

pub use examination::{AdoptOptions, adopt, adopt_with};
pub use install_generation::{Finished, ReadOnly, Recovered};
pub use phase_times::RecoveryWatch;
pub use progress::{Phase, PhaseReport, Progress};
pub use replay_state::Recovery;
pub use report::{RecoveryReport, TornTail};
pub use scan::LogScan;

use crate::log::LogConfig;
use crate::{DurabilityError, Recoverable};

impl Recovery {
    /// Runs the whole scan on the calling thread: see [`LogScan`].
    ///
    /// # Errors
    /// As for [`LogScan`]'s parts.
    pub fn open(disk: Arc<dyn Disk>, config: LogConfig) -> Result<Self, DurabilityError> {
        let scan = LogScan::begin(disk, config)?;
        while scan.step()? {}
        scan.finish()
    }
}

/// Recovers on the calling thread alone: scan, replay into `target`, and finish.
///
/// # Errors
/// As [`Recovery::open`], [`Recovery::replay_step`] and [`Recovery::finish`].
pub fn recover(
    disk: Arc<dyn Disk>,
    config: LogConfig,
    target: &dyn Recoverable,
) -> Result<Recovered, DurabilityError> {
    let recovery = Recovery::open(disk, config)?;
    while recovery.replay_step(target)? {}
    recovery.finish(target)
}
