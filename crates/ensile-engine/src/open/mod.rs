//! From a folder to a running database: settings, catalogue, recovery, threads, and the engine's side of checkpoints.
//!
//! Neighbours: below, all modules that make up an open database; the durability crate has the files.

pub(crate) mod builder;
mod catalogue;
pub mod folder;
mod page_partition;
mod pages;
mod replay;
#[cfg(feature = "simulation")]
mod simulation;
mod startup;
mod threads;
pub(crate) mod tuning;
mod walk;
