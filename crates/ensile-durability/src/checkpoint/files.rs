//! Walks of a fuzzy checkpoint: a checkpointer writes its part into sets of m files, beside commits.
//!
//! ```text
//! part := slice* -> block*, in turn to m files; of a turn that takes several ranges one set of m files for each
//! ```
//! Neighbours: `manager` begins, steps and ends sets of files; `files::checkpoint` has the files' grammar, writer and
//! reader.

mod file_set_writer;
pub(super) mod fuzzy_part_writer;
