//! From a folder to a database that lives: settings, catalogue, recovery, threads, and what a checkpoint walks.
//!
//! Neighbours: below are all rooms that an open database consists of; the durability crate has the files.

pub(crate) mod builder;
pub(crate) mod catalogue;
pub mod folder;
pub(crate) mod replay;
#[cfg(feature = "simulation")]
mod simulation;
pub(crate) mod threads;
pub(crate) mod walk;
