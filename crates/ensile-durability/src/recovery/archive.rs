//! Archive of a database's log: judgement of its contents, and restore.
//!
//! Neighbours: `recovery` reads log files in the same way; the backup calls for a restore to a later epoch, and the
//! engine for the `ensile` command.

// From low to high: a file uses files of the groups above its group. This file uses no other file.
mod epoch_spans;

mod archive_contents;

mod archive_source;

mod restore;

pub use archive_contents::{ArchiveFacts, ArchivedGeneration, inspect_archive, is_archive, verify_archive};
pub(crate) use archive_source::{ArchiveSource, ForwardReach};
pub use epoch_spans::EpochSpan;
pub use restore::{ArchiveRestore, RestoredFromArchive, restore_from_archive};
