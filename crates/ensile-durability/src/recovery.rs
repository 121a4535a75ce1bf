//! Recovery at open: manifest, chains, verdict, replay, and the next generation (SiloR §5), in steps by many threads.
//!
//! ```text
//! LogScan: files are read --> D is decided --> Recovery: files are loaded, then pieces replayed --> its ending
//!          by any thread   by `durable_epoch`         by any thread, as                   as `commit_plan` says:
//!                                                     `replay_scheduler` says             open, read only, error
//! ```
//! `durable_epoch`, `replay_scheduler`, `generation_plan` and `commit_plan` decide, without a clock, lock or file.
//!
//! Invariants: L4, L5, L8 (`docs/internals/protocols/durability.md`). Results that may have been read from the system's
//! cache only, after a failed sync or a crash of the process alone, are written and synced again before they count.
//!
//! Neighbours: `Database::open` and the open of objects call, then [`crate::OpenStore::start`]; `store` opens the
//! folders, and `files` and `checkpoint` read the files. `backup` and `shipping::take_over` use parts.

// From low to high: a file uses files of the groups above its group; `archive` uses `examination`.
mod generation_plan;
mod log_files;
mod read_ahead;
mod report;

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

pub(crate) mod copied_logs;
mod install_generation;

pub mod archive;
pub mod examination;
mod phase_times;
mod scan;

pub use examination::{AdoptOptions, adopt, adopt_with};
pub use install_generation::{Finished, ReadOnly, Recovered};
pub use phase_times::RecoveryWatch;
pub use replay_state::Recovery;
pub use report::{Phase, PhaseReport, Progress, RecoveryReport, TornTail};
pub use scan::{CheckpointAmount, LogScan, recover};
