//! Checkpoints bound the log, and are written beside running transactions. A *fuzzy* checkpoint (SiloR §4) shows the
//! state together with the log of the epochs in which the checkpoint is written. A *picture* (SIREN §3) shows the state
//! at the end of one epoch. A *cycling* checkpoint is fuzzy by ranges of keys, a range a turn (SiloR §8).
//!
//! Invariants: K1, K4, K5 (`docs/internals/protocols/checkpoints.md`), N1, N2, N12, N13 (`pictures.md` there). The e_l
//! of a picture is S, and the e_h is e_c. No thread is spawned here: every checkpointer has a thread that steps.
//!
//! Neighbours: below, `control` decides the time of a checkpoint, the log has D, the store the manifest; `recovery`
//! reads the files written here; the engine implements `Walk` and `Pages`.

// Order of the modules, as the data flows: settings, interfaces of the state, files, decisions, actions.
mod config;
mod request;
mod stats;

mod pages;
mod walk;

mod disk_space;
mod range_partition;

mod slices;

pub(crate) mod orphans;

pub(crate) mod files;

pub(crate) mod picture;

mod part;

mod state_machine;

pub(crate) mod start;

mod manager;

pub use config::{CheckpointConfig, Strategy};
pub use manager::{CheckpointStep, Checkpoints};
pub use pages::{Pages, PagesEnded, PictureAttempt, PublishedPages, TakenPage, WantedPages};
pub use range_partition::RangeCut;
pub(crate) use request::picture_epoch;
pub use request::{CheckpointHandle, CheckpointProgress, CheckpointReport, CheckpointTurn};
pub use start::CheckpointStart;
pub use stats::CheckpointStats;
pub use walk::{Slice, Walk};
