//! Figures of the checkpoints of an open database.
//!
//! Neighbours: raised by `manager`, read by the engine's statistics.

use super::ticket::{CheckpointProgress, CheckpointReport};
use crate::counter::Counter;

/// What checkpoints have come to since the database was opened.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct CheckpointStats {
    /// Attempts that were installed.
    pub installed: u64,
    /// Attempts that were given up.
    pub failed: u64,
    /// Bytes written, those of failed attempts included.
    pub bytes: u64,
    /// Entries written, those of failed attempts included.
    pub entries: u64,
    /// Syncs of files while they were written, one for each time that enough was.
    pub syncs: u64,
    /// Files removed because a checkpoint covers them.
    pub files_removed: u64,
    /// Times that such files could not be removed; the next checkpoint and the next open try again.
    pub removals_failed: u64,
    /// Bytes of the page files of this life's pictures, and those of them that the next picture may use again.
    pub page_file_bytes: u64,
    /// See [`CheckpointStats::page_file_bytes`].
    pub page_file_bytes_free: u64,
    /// What went wrong last, in an attempt or a removal.
    pub last_error: Option<String>,
    /// Why the next one is put off: it does not fit on the disk. It is looked at again from time to time.
    pub misfit: Option<String>,
    /// The last one installed since the database was opened.
    pub last: Option<CheckpointReport>,
    /// How far the attempt under way is.
    pub running: Option<CheckpointProgress>,
    /// How busy the database is, where the next checkpoint depends on it: 1 is its capacity (SLACH §4).
    pub load: Option<f64>,
    /// Bytes of log at which the next one begins at this load.
    pub log_bytes_threshold: Option<u64>,
}

#[derive(Debug, Default)]
pub(crate) struct CheckpointCounters {
    pub(crate) installed: Counter,
    pub(crate) failed: Counter,
    pub(crate) bytes: Counter,
    pub(crate) entries: Counter,
    pub(crate) syncs: Counter,
    pub(crate) files_removed: Counter,
    pub(crate) removals_failed: Counter,
}

impl CheckpointCounters {
    pub(crate) fn read(&self) -> CheckpointStats {
        CheckpointStats {
            installed: self.installed.read(),
            failed: self.failed.read(),
            bytes: self.bytes.read(),
            entries: self.entries.read(),
            syncs: self.syncs.read(),
            files_removed: self.files_removed.read(),
            removals_failed: self.removals_failed.read(),
            ..CheckpointStats::default()
        }
    }
}
