//! From a folder to a running database: settings, catalogue, recovery, and threads.
//!
//! Neighbours: below, all modules that make up an open database; the durability crate has the files.

pub(crate) mod builder;
mod catalogue;
pub mod folder;
mod replay;
#[cfg(feature = "simulation")]
mod simulation;
mod startup;
mod threads;
pub(crate) mod tuning;
