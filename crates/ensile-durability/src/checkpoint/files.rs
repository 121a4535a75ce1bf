//! The files of a fuzzy checkpoint: m files of every checkpointer, written beside commits, read back as a whole
//! (`docs/internals/formats/checkpoint.md`).
//!
//! ```text
//! part := slice* -> block*, in turn to m files; of a turn that takes several ranges one set of m files for each
//! file := opening-block rows-block* end-block     and nothing behind it
//! ```
//! Invariants:
//! - K1: an installed checkpoint's files are whole, and together the installed checkpoint: the manifest has their seal.
//! - I1: every file names its database.
//!
//! Neighbours: the checkpoint's `manager` begins, steps and ends sets of files, `orphans` removes unneeded files;
//! recovery loads and judges files; the store names the installed checkpoint.

// In the order of a file's life: written, read.
pub(crate) mod end_block;
mod file_set_writer;
pub(super) mod fuzzy_part_writer;
pub(super) mod writer;

pub(crate) mod reader;
