//! The manifest of a database folder. The manifest names the owner of the folder (I1, I2), the installed checkpoint
//! (K1), the generations whose log counts, and their durable epochs (L4).
//!
//! The manifest is a text file with a checksum (`docs/internals/formats/manifest.md`). Format 4 is for a picture, a
//! checkpoint by ranges, an archive, a process-safe life, or a generation without a log. Format 5 is for an
//! application, or a copy that has not ended. Format 6 is for a backup with an older state that is a picture with a
//! log. Format 7 is for types of the entries. A manifest without these has format 3:
//! ```text
//! ensile manifest 3
//! database 5b1e0c9a77d24f0e8f6d3a2b1c4d5e6f parent none state created
//! reserved 5000
//! folder . inode 131073 born 1763812345123456789
//! folder log0 inode 131080 born none
//! checkpoint 7 generation 3 low 62 high 64 checkpointers 2 files 4 entries 9000 bytes 1234568 salt 5e6f7a8b seal ..
//! generation 3 first 61 format 4 entries values logs 2 salt 1a2b3c4d database 5b1e.. durable 66
//! generation 4 first 70 format 4 entries values logs 2 salt 1a2b3c4d database 5b1e..
//! crc32c 5ba37c1e
//! ```
//! Invariants:
//! - I2: the manifest is the first file of a database. In state *creating*, the manifest lists no generation. The next
//!   open finishes or undoes the creation.
//! - L4: the last generation is open. Each earlier generation has its durable epoch D, and the next generation begins
//!   above D. Numbers and epochs of generations only grow. A generation that left no entry may be missing.
//! - L6: no epoch at or above `reserved` was ever shown. A later life begins at `reserved` or above.
//! - L7: reading the manifest refuses an unknown format, before any block is judged.
//! - N18: the open generation may have no log. Then only a picture makes its epochs durable, and the list drops the
//!   generation once it is closed.
//! - K1, K5, N12: no listed generation is older than the checkpoint's, or than the oldest generation of a checkpoint's
//!   ranges. The durable epoch of each closed generation fits the checkpoint ([`Generation::fits`]).
//! - A2: with an archive, the manifest keeps a seal of the archive's list of ended generations.
//! - I1: the manifest keeps the identity of each database whose files have left the list. The files are removed after
//!   the manifest that no longer lists them.
//! - N23: the manifest remembers the generations that have left the list. In a backup, the manifest remembers the
//!   generations of the copied database.
//! - B4: the manifest of a process-safe life names the boot in which the life began.
//! - I5, I6: the manifest keeps the name of the application, and the types of the entries.
//! - N16, N21: the manifest of a backup may list older states; `backup_states` has the lines.
//! - A write replaces the whole manifest: write a new file, sync, rename, sync the folder. Only [`ManifestKeeper`]
//!   writes, and recovery hands the keeper to the log. A manifest that `read` would refuse is not written.
//!
//! Files, low to high: [`contents`] has the values, [`consistency`] judges them, [`text_form`] writes and parses them,
//! [`file`] reads and replaces the file, and [`keeper`] installs.
//!
//! Neighbours: `recovery` reads and replaces the manifest. The installation of a checkpoint and `epoch_renewal` replace
//! the manifest. `installed_checkpoint` has the lines of the checkpoint.

pub(crate) mod application;
pub(crate) mod archive_seal;
pub(crate) mod backup_states;
pub(crate) mod creation_marker;
pub(crate) mod generation;
pub(crate) mod installed_checkpoint;
pub(crate) mod lineage;
pub(crate) mod log_span;
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
