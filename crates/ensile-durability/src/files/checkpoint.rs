//! The files of a fuzzy checkpoint: m files of every checkpointer (`docs/internals/formats/checkpoint.md`).
//!
//! Invariants: I1. K1: an installed checkpoint's files are whole, and together the installed checkpoint: the manifest
//! has their seal.
//!
//! Neighbours: `fuzzy_part_writer` writes the files beside commits, `checkpoint::orphans` removes unneeded files;
//! recovery loads and judges files; the manifest names the installed checkpoint.

pub(crate) mod block;
pub(crate) mod end_block;
pub(crate) mod page;
pub(crate) mod reader;
pub(crate) mod writer;
