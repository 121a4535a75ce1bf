//! From a folder to a database that lives: settings, catalogue, recovery, threads, and what a checkpoint walks.
//!
//! Neighbours: below are all rooms that an open database consists of; the durability crate has the files.

pub(crate) mod builder;
mod catalogue;
pub mod folder;
mod opening;
mod replay;
#[cfg(feature = "simulation")]
mod simulation;
mod threads;
pub(crate) mod tuning;
mod walk;
