//! A collection of objects: keys, each with an object. Every object keeps the TID of its last operation.
//!
//! ```text
//! update   encode | find the cell, lock it, log, apply, unlock | receipt          beside it: a walk, cell by cell
//! open     load objects -> operations wait for their epochs -> applied in the order of TIDs -> served
//! ```
//! Neighbours: applications call `reads` and `changes`; `persistent` has their codecs, and `shards` has the objects.
//! `recovery` rebuilds the objects, and `walk` writes the objects into checkpoints. `shadow_copy` has the debug mode,
//! and `check` has the debug mode for a folder.

// A file uses only files above it.
pub(crate) mod persistent;

mod cell;
mod cell_arena;
mod number_table;

mod shards;

mod logged_change;
mod shadow_copy;
mod state;

mod recovery;
mod walk;

mod objects;

mod lookup;

mod change_steps;
pub(crate) mod check;
mod reads;
mod unlogged_changes;

mod changes;

pub use objects::Objects;
