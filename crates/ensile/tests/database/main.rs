//! The database as applications name it, in one program, so that the engine's code for their types is made once.
//!
//! Neighbours: the engine's own tests see inside; `examples/` has whole programs.

mod backups;
mod batches;
mod common;
mod compatibility;
mod face;
mod figures;
mod handles;
mod isolation;
mod misuse;
mod model;
mod own_writes;
mod reads;
mod receipts;
mod reopening;
mod secondary_indexes;
mod types;
mod whose_folder;
