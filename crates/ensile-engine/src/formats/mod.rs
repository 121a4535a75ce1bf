//! What stands in files, each format written and read in one file. Formats know bytes only.
//!
//! Neighbours: commit and the walk of a checkpoint write, `open::replay` and `open::folder` read; the durability crate
//! frames what is written here.

pub(crate) mod checkpoint_entry;
pub(crate) mod definition;
pub(crate) mod log_entry;
