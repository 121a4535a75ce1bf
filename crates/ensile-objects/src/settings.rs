//! Settings of an application before it opens its objects, and the policy by which checkpoints begin.
//!
//! Neighbours: opens collections and applications; the durability crate defines most settings.

// A file uses only files above it.
mod policy;

mod builder;

#[cfg(feature = "simulation")]
mod simulation;

pub use builder::{ObjectDurability, ObjectsBuilder};
pub use policy::CheckpointPolicy;
