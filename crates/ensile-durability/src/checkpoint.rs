//! Fuzzy checkpoints (SiloR §4): what bounds the log, written beside running transactions.
//!
//! ```text
//! trigger --> e_l = E --E >= e_l + 1--> slices --> blocks, in turn to m files a checkpointer --all synced--> e_h = E
//!         --D >= e_h--> manifest --> what it covers is removed
//! ```
//! No thread is spawned here: `Database` gives every checkpointer a thread that steps, and a simulator steps itself.
//!
//! Invariants: K1 (`docs/protocols/checkpoints.md` argues it): an installed checkpoint `[e_l, e_h]` and the log from
//! e_l on give the state at any D >= e_h.
//!
//! Neighbours: below, `control` decides when, the log has D, the store the manifest; `recovery` reads what is written
//! here; the engine walks.

// In the order of the data: settings, what is walked, what is written and read, decisions, actions.
mod config;
mod stats;
mod ticket;

mod page;
mod pages;
mod walk;

mod block;
mod room;

pub(crate) mod fuzzy;

mod life;

mod manager;

pub use block::CheckpointBlock;
pub use config::CheckpointConfig;
pub use manager::{CheckpointStep, Checkpoints};
pub use page::PageContents;
pub use pages::{Pages, PagesEnded, PictureAttempt, PublishedPages, TakenPage};
pub use stats::CheckpointStats;
pub use ticket::{CheckpointHandle, CheckpointProgress, CheckpointReport};
pub use walk::{Slice, Walk};
