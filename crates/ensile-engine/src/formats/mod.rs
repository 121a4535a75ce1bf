//! Formats of the entries and rows in the database's files. Each format is encoded and decoded in one module, from and
//! to bytes.
//!
//! Neighbours: `commit` and the walk of a checkpoint write, `open::replay` and `open::folder` read. The durability
//! crate frames the entries.

pub(crate) mod checkpoint_entry;
pub(crate) mod definition;
pub(crate) mod log_entry;
