//! A collection of objects: keys, each with an object. Every object keeps the TID of its last operation.
//!
//! ```text
//! update   encode | find the cell, lock it, log, apply, unlock | receipt          beside it: a walk, cell by cell
//! open     load objects -> operations wait for their epochs -> applied in the order of TIDs -> served
//! ```
//! Invariants:
//! - O1, O3, E1: as `crate::runtime` logs.
//! - O2: the cell is in its shard before the operation is logged.
//! - O6: the object of an operation that does not return is poisoned before the object's lock is free.
//! - R1: the result of a read rests on the epoch of the object's last operation. R2: a refusal rests on the same epoch,
//!   because a refusal has seen the object as a read does.
//!
//! Neighbours: applications call `reads` and `changes`; `persistent` has their codecs, `shards` the objects, `recovery`
//! and `walk` the sides of recovery and checkpoints, `shadow_copy` the debug mode, `check` the debug mode for a folder.

// A file uses only files above it.
mod cell;
pub(crate) mod persistent;
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
