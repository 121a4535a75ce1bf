//! The store: ownership of the files, and the list of files that count (`docs/internals/protocols/store.md`).
//!
//! The store is the one module under log and checkpoints that knows folders, locks, identity, manifest and hint. Log
//! and checkpoints ask the store for folders, and hand over the finished files.
//!
//! Invariants:
//! - I1: nothing is removed, cut, renamed over or appended to in a folder that does not prove to be this database's.
//! - I2: a folder is new only if the folder and its linked folders have no trace of an earlier life.
//! - I3: one process owns the folders, by locks on the folders and on `LOCK`. Removals wait for readers' leases.
//! - I4: only the process that opened the database changes its files.
//! - I5: a folder with the name of an application is opened for that application only.
//! - I6: a folder that names the types of its entries is opened for the same types only.
//! - L6: epochs never repeat, because the manifest reserves epochs ahead.
//! - L7: a generation has one format, and the manifest names the format before any block is judged.
//!
//! Neighbours: `recovery` opens the store and hands it over as [`OpenStore`] to log and checkpoints; `ensile-disk` has
//! the folders and locks.

pub(crate) mod names;
mod text;

pub(crate) mod application;
pub(crate) mod installed;
pub(crate) mod kept;
pub(crate) mod life_run;
pub(crate) mod lineage;
mod made_from;
pub(crate) mod manifest;
pub(crate) mod mapped;
pub(crate) mod mark;
pub(crate) mod renew_marks;
pub(crate) mod shared_manifest;
pub(crate) mod ships_to;
pub(crate) mod types;
pub(crate) mod unfinished;

pub(crate) mod folders;
pub(crate) mod hint;
pub(crate) mod rates;
pub(crate) mod reserve;
pub(crate) mod reserved_epochs;
pub(crate) mod returned;
pub(crate) mod whose;

pub(crate) mod leases;
mod locks;
mod watched;

pub(crate) mod claim;
pub(crate) mod open;

pub(crate) mod archive;
pub(crate) mod closed_files;
pub(crate) mod handle;
pub(crate) mod hold;
mod renewal;

pub(crate) mod adopt;
mod rename;

pub use adopt::Adopted;
pub use application::{ApplicationName, NameGiven, Naming, application_name};
pub use archive::Archiving;
pub use handle::{OpenStore, StoreStart};
pub use leases::{Lease, LeasedFile, lease};
pub(crate) use locks::Hold;
pub use locks::Locks;
pub(crate) use made_from::MadeFrom;
pub use open::Opening;
pub use rename::{Renamed, rename_application};
pub use ships_to::{RememberedStore, Shipping, ShippingOpen};
pub use types::{StatedType, StatedTypes};
pub use whose::{entries_in, expect_entries};
