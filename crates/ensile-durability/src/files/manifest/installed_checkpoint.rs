//! Installed checkpoint, as the manifest names it. A kind is a variant of [`InstalledCheckpoint`], and has a file below
//! for its line in the manifest. Code for every kind of checkpoint calls the methods of [`kinds`].
//!
//! Invariants: I1, K1, K5, N12 and N15 (`docs/internals/protocols/checkpoints.md`, `pictures.md`).
//!
//! Neighbours: `manifest` lists the checkpoint. `ownership`, `leases` and the shipper read its folders and files.
//! `checkpoint` installs the checkpoint, `recovery` loads its files, and `backup` copies them.

mod cycling;
mod fuzzy;
mod kinds;
mod part_files;
mod picture;

pub(crate) use cycling::{CyclingCheckpoint, InstalledRange, RangesCut};
pub(crate) use fuzzy::FuzzyCheckpoint;
pub(crate) use kinds::{CheckpointShare, InstalledCheckpoint};
pub(crate) use part_files::{PartFiles, WalkRecord};
pub(crate) use picture::{ListedPageFile, PictureCheckpoint};
