//! Log files, each read without the other files of its log; and the next file of a log, made ahead of time
//! (`docs/internals/formats/log.md`).
//!
//! Neighbours: `log::segments` appends to the files; `recovery` joins the files of a log to one chain.

pub(crate) mod file_chain;
pub(crate) mod next_file;
