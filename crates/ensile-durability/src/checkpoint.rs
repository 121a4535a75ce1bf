//! Checkpoints bound the log, and are written beside running transactions. A *fuzzy* checkpoint (SiloR §4) shows the
//! state together with the log of the epochs in which the checkpoint is written. A *picture* (SIREN §3) shows the state
//! at the end of one epoch. `docs/internals/protocols` has the conditions K and N.
//!
//! ```text
//! fuzzy:   trigger --> e_l = E --E >= e_l + 1--> slices --> blocks, in turn to m files a checkpointer --> e_h = E ..
//! picture: trigger --> pages: x = E --E >= x + 2--> freeze S = E + 1 --E >= S + 1--> marked pages, each into an extent
//!          of its checkpointer's page file --> directory, root --> e_c = S - 1 ..
//! both:    .. all synced --D >= e_h--> manifest --> covered files are removed
//! cycling: as fuzzy, by ranges of keys: a turn takes one range, the first turn all ranges (SiloR §8)
//! ```
//! No thread is spawned here: the engine or the objects give every checkpointer a thread that steps.
//!
//! Neighbours: `control` decides the time; `recovery` reads the files; the engine implements `Walk` and `Pages`, the
//! objects implement `Walk`.

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

mod fuzzy_part_writer;

pub(crate) mod picture;

mod part;

mod state_machine;

mod manager;

pub use config::{CheckpointConfig, Strategy};
pub use manager::{CheckpointStart, CheckpointStep, Checkpoints};
pub use pages::{Pages, PagesEnded, PictureAttempt, PublishedPages, TakenPage, WantedPages};
pub use range_partition::RangeCut;
pub(crate) use request::picture_epoch;
pub use request::{CheckpointHandle, CheckpointProgress, CheckpointReport, CheckpointTurn};
pub use stats::CheckpointStats;
pub use walk::{Slice, Walk};
