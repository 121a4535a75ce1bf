//! Figures of the checkpoints of an open database.
//!
//! Neighbours: `manager` raises the figures, the statistics of the engine and of the objects report them.

use std::io;
use std::time::Duration;

use ensile_base::sync::OnceLock;

use super::request::{CheckpointProgress, CheckpointReport};
use crate::control::recovery_time::RecoveryForecast;
use crate::control::trigger::CheckpointVerdict;
use crate::counter::Counter;

/// Figures of checkpoints since the database was opened.
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct CheckpointStats {
    /// Number of installed attempts.
    pub installed: u64,
    /// Number of attempts that were given up.
    pub failed: u64,
    /// Bytes written, including failed attempts.
    pub bytes: u64,
    /// Number of entries written, including failed attempts.
    pub entries: u64,
    /// Number of syncs of files that are being written, one sync after each `sync_bytes` of writes.
    pub syncs: u64,
    /// Number of files removed because a checkpoint covers the files.
    pub files_removed: u64,
    /// Number of failed removals of such files; the next checkpoint and the next open try again.
    pub removals_failed: u64,
    /// Bytes of the page files of this process's pictures, including free bytes.
    pub page_file_bytes: u64,
    /// Bytes of the page files that the next picture may use again. See [`CheckpointStats::page_file_bytes`].
    pub page_file_bytes_free: u64,
    /// Last error of an attempt or a removal.
    pub last_error: Option<String>,
    /// Reason for putting off the next checkpoint: the disk has no room. The room is checked again from time to time.
    pub misfit: Option<String>,
    /// Report of the last checkpoint installed since the open.
    pub last: Option<CheckpointReport>,
    /// Progress of the attempt under way.
    pub running: Option<CheckpointProgress>,
    /// Load of the database, if the next checkpoint depends on the load: 1 is the capacity (SLACH §4).
    pub load: Option<f64>,
    /// Set or probed capacity, in units a second, if the load is a share of a capacity.
    pub capacity: Option<u64>,
    /// Bytes of log at which the next checkpoint begins at this load, if bytes are counted.
    pub log_bytes_threshold: Option<u64>,
    /// Entries of the log at which the next checkpoint begins at this load, if entries are counted.
    pub log_records_threshold: Option<u64>,
    /// Time after the last checkpoint's end at which the next begins at this load, if the log has grown.
    pub interval_threshold: Option<Duration>,
    /// Decision at the last check of the rules for a checkpoint's beginning, and the reason.
    pub verdict: CheckpointVerdict,
    /// Predicted time of the next open, the rates of the prediction, and the permitted time. `None` without a log.
    pub recovery: Option<RecoveryForecast>,
    /// Reason why no checkpoint keeps the set recovery time, with the figure: loading alone takes longer.
    pub unreachable: Option<String>,
    /// Reason why checkpointers do not give way by the set niceness: refused, or no priority of a single thread.
    pub niceness_refused: Option<String>,
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
    /// Requests that the application reports.
    pub(crate) served: Counter,
    pub(crate) lost: Counter,
    /// First refusal. It is read in a forked child too, where a lock might never be released.
    niceness_refused: OnceLock<String>,
}

impl CheckpointCounters {
    pub(crate) fn note_niceness(&self, lowered: io::Result<()>) {
        if let Err(error) = lowered {
            self.niceness_refused.get_or_init(|| error.to_string());
        }
    }

    pub(crate) fn read(&self) -> CheckpointStats {
        CheckpointStats {
            installed: self.installed.read(),
            failed: self.failed.read(),
            bytes: self.bytes.read(),
            entries: self.entries.read(),
            syncs: self.syncs.read(),
            files_removed: self.files_removed.read(),
            removals_failed: self.removals_failed.read(),
            niceness_refused: self.niceness_refused.get().cloned(),
            ..CheckpointStats::default()
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use std::io;

    use super::CheckpointCounters;

    #[test]
    fn a_niceness_that_is_refused_is_told_and_nothing_else_happens() {
        let counters = CheckpointCounters::default();
        counters.note_niceness(Ok(()));
        assert_eq!(counters.read().niceness_refused, None);
        counters.note_niceness(Err(io::Error::new(io::ErrorKind::Unsupported, "none of a thread")));
        counters.note_niceness(Err(io::Error::new(io::ErrorKind::PermissionDenied, "not so low")));
        assert_eq!(counters.read().niceness_refused.as_deref(), Some("none of a thread"));
    }
}
