//! Checkpoints over the public API: a store of keys that is walked beside its writers, seeded lives with crashes at any
//! call of the disk, each condition of K1 by name, and damage.

mod conditions;
mod cycling;
mod damaged;
pub(crate) mod ended;
mod ending;
mod page_files;
mod pages;
mod picture_files;
pub(crate) mod pictures;
mod reopened;
mod room;
mod scenes;
mod simulation;
pub(crate) mod store;
mod whole;
mod without_log;
