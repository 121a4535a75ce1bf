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
//!   system's cache only. Recovery writes and syncs such blocks again, unless a later block proves their sync.
//!
//! Neighbours: `Database::open` calls, then [`crate::OpenStore::start`]; `store` and `checkpoint` have the files.

// From low to high: a file uses files of the groups above its group. Within a group, `report` uses `progress`,
// and `archive` uses `examination`. This file uses no other file.
mod generation_plan;
mod log_files;
mod progress;
mod read_ahead;
mod report;
mod walk_files;

mod chain;
mod load;

mod durable_epoch;
mod orphan_logs;
mod replay;
mod resync_tail;

mod commit_plan;
mod mapped_tail;
mod replay_scheduler;
mod tid_order;
mod validation;

mod merge;
mod replay_state;

mod cleanup;
mod scan;

pub(crate) mod copied_logs;
mod install_generation;

pub mod archive;
pub mod examination;
mod phase_times;
mod single_thread;

pub use examination::{AdoptOptions, adopt, adopt_with};
pub use install_generation::{Finished, ReadOnly, Recovered};
pub use phase_times::RecoveryWatch;
pub use progress::{Phase, PhaseReport, Progress};
pub use replay_state::Recovery;
pub use report::{RecoveryReport, TornTail};
pub use scan::{CheckpointAmount, LogScan};
pub use single_thread::recover;
