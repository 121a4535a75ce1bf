//! The manifest of a database folder, a text with a checksum (`docs/internals/formats/manifest.md`): the owner of the
//! folder (I1, I2), the installed checkpoint (K1), and the generations whose log counts, with their durable epochs
//! (L4).
//!
//! Invariants, argued in `docs/internals/protocols/`: A2, B4, I1, I2, I5, I6, K1, K5, L4, L6, L7, N12, N16, N18, N21,
//! N23. Only [`ManifestKeeper`] writes, and recovery hands the keeper to the log.
//!
//! Files, low to high: one for each kind of line; [`contents`] has the values, [`consistency`] judges them,
//! [`text_form`] writes and parses them, [`file`] reads and replaces the file, and [`keeper`] installs.
//!
//! Neighbours: `recovery`, the installation of a checkpoint, `epoch_renewal` and the close of the log replace the
//! manifest. Backups, restores, take-overs and adoptions replace the manifest of a folder that is not open.

pub(crate) mod application;
pub(crate) mod archive_seal;
pub(crate) mod backup_states;
pub(crate) mod creation_marker;
pub(crate) mod generation;
pub(crate) mod installed_checkpoint;
pub(crate) mod lineage;
pub(crate) mod origin;
pub(crate) mod shipping_target;
pub(crate) mod types;

mod consistency;
mod contents;
mod file;
mod keeper;
mod text_form;

pub(crate) use contents::{Making, Manifest};
pub(crate) use file::NotReplaced;
pub(crate) use keeper::ManifestKeeper;

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
