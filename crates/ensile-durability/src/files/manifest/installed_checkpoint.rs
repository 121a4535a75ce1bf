//! Installed checkpoint, as the manifest names it: the operations of every kind of checkpoint.
//!
//! A kind is a variant of [`InstalledCheckpoint`], and has a file below for its line in the manifest. Code for every
//! kind of checkpoint calls the methods of [`kinds`]. Only code for a single kind matches on the variant.
//!
//! Invariants:
//! - K1, K5, N12, N15: [`InstalledCheckpoint::redo_epoch`] and [`InstalledCheckpoint::durable_min`] bound the log that
//!   a checkpoint needs.
//! - I1: The files of a checkpoint name a database in [`InstalledCheckpoint::databases`].
//!
//! Neighbours: `manifest` lists the checkpoint. `ownership` and `leases` read its folders and files. `checkpoint`
//! installs the checkpoint, and `recovery` loads its files.

mod cycling;
mod fuzzy;
mod kinds;
mod part_files;
mod picture;

pub(crate) use cycling::{CyclingCheckpoint, InstalledRange, RangesCut};
pub(crate) use fuzzy::FuzzyCheckpoint;
pub(crate) use kinds::WrittenEpochs;
pub(crate) use kinds::{CheckpointShare, InstalledCheckpoint};
pub(crate) use part_files::PartFiles;
pub(crate) use picture::{ListedPageFile, PictureCheckpoint};
