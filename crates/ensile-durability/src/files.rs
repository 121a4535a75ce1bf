//! Readers and writers of all bytes on disk, without threads and clocks: blocks, the manifest, log files, checkpoint
//! files and page files (`docs/internals/formats/` has the byte boxes).
//!
//! Neighbours: `buffers`, `store`, `log` and `checkpoint` decide the time of each write; `recovery` and `backup` read.

pub(crate) mod archive_list;
pub(crate) mod block;
pub(crate) mod checkpoint;
pub(crate) mod hint;
pub(crate) mod log;
pub(crate) mod manifest;
pub(crate) mod mark;
pub(crate) mod names;
pub(crate) mod picture;
pub(crate) mod rates;
pub(crate) mod shared_manifest;
pub(crate) mod text;
