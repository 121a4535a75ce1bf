//! Checkpoints: what bounds the log, written beside running transactions. *Fuzzy* ones (SiloR §4) show the state
//! together with the log of the epochs in which they were written. *Pictures* (SIREN §3) show it at the end of one
//! epoch.
//!
//! ```text
//! fuzzy:   trigger --> e_l = E --E >= e_l + 1--> slices --> blocks, in turn to m files a checkpointer --> e_h = E ..
//! picture: trigger --> pages: x = E --E >= x + 2--> freeze S = E + 1 --E >= S + 1--> marked pages, each into an extent
//!          of its checkpointer's page file --> directory, root --> e_c = S - 1 ..
//! both:    .. all synced --D is there--> manifest --> what it covers is removed
//! cycling: as fuzzy, by ranges of keys: a turn takes one of them, the first all (SiloR §8)
//! ```
//! No thread is spawned here: `Database` gives every checkpointer a thread that steps, and a simulator steps itself.
//!
//! Invariants:
//! - K1 (`docs/protocols/checkpoints.md` argues it): an installed checkpoint `[e_l, e_h]` and the log from e_l on give
//!   the state at any D >= e_h.
//! - K4, K5: so does each range of a cycling one, and ranges tile; the log is needed from the least e_l of all on.
//! - N1, N2, N12, N13 (`docs/protocols/pictures.md`): of a picture e_l is S and e_h is e_c.
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
mod cut;
mod displaced;
mod room;

mod slices;

pub(crate) mod leftovers;

pub(crate) mod files;

pub(crate) mod picture;

mod part;

mod life;

pub(crate) mod start;

mod manager;

pub use block::CheckpointBlock;
pub use config::{CheckpointConfig, Strategy};
pub use cut::RangeCut;
pub use displaced::DisplacedBlock;
pub use manager::{CheckpointStep, Checkpoints};
pub use page::PageContents;
pub use pages::{Pages, PagesEnded, PictureAttempt, PublishedPages, TakenPage, WantedPages};
pub use start::CheckpointStart;
pub use stats::CheckpointStats;
pub(crate) use ticket::picture_epoch;
pub use ticket::{CheckpointHandle, CheckpointProgress, CheckpointReport, CheckpointTurn};
pub use walk::{Slice, Walk};
