//! State shared by all transactions of a database.
//!
//! ```text
//! database_life      number, process, closed state; the gate of commits with its turns
//! settings           settings, and the levels of durability (durability_level)
//! durable_storage    log, checkpoints, shipping; the durable epoch
//! table_registry     directory, logged tables, catalogue
//! worker_registry    all workers, idle workers
//! heartbeat_state    stop signal, collector, panic
//! state              the whole: [`SharedState`]
//! displaced_versions versions that commits have displaced: takes and frees
//! garbage_collector  collection of garbage, with its limit (garbage_limit)
//! commit_end         the end of all commits, for a close
//! commit_waits       waits of a task's commit, between two tries
//! ```
//!
//! Neighbours: below are the epochs, the log, the memory, tables, pictures and workers. `open` builds the state,
//! `database` owns the state, and every module above uses it.

#[cfg(feature = "audit")]
mod audit;
mod collector;
mod commit_end;
mod commit_waits;
mod database_life;
mod displaced_versions;
mod durability_level;
mod durable_storage;
mod garbage_collector;
mod garbage_limit;
mod heartbeat_state;
mod settings;
mod state;
mod stop_signal;
mod table_registry;
mod worker_registry;

pub(crate) use commit_waits::CommitWaits;
pub use durability_level::Durability;
pub(crate) use durable_storage::DurableStorage;
pub(crate) use settings::Settings;
pub(crate) use state::{SharedParts, SharedState};
