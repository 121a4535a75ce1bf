//! Figures of the checkpoints of an open database.
//!
//! Neighbours: raised by `manager`, read by the engine's statistics.

use std::io;
use std::time::Duration;

use ensile_base::sync::OnceLock;

use super::ticket::{CheckpointProgress, CheckpointReport};
use crate::control::recovery_time::RecoveryForecast;
use crate::control::trigger::CheckpointVerdict;
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
    /// What a second is all that can be done, where the load is a share of it: as it was set, or as it was probed.
    pub capacity: Option<u64>,
    /// Bytes of log at which the next one begins at this load, where bytes are counted.
    pub log_bytes_threshold: Option<u64>,
    /// Entries of the log at which the next one begins at this load, where entries are counted.
    pub log_records_threshold: Option<u64>,
    /// The time after the end of the last one at which the next one begins at this load, if the log has grown, where
    /// time counts.
    pub interval_threshold: Option<Duration>,
    /// Whether one was to begin when that was looked at last, and why, or why not.
    pub verdict: CheckpointVerdict,
    /// What the next open would take if the process ended now, at which rates, and what it may take. `None` without a
    /// log.
    pub recovery: Option<RecoveryForecast>,
    /// Why no checkpoint keeps the recovery time that was set, with the figure: loading alone takes longer.
    pub unreachable: Option<String>,
    /// Why checkpointers do not give way to other threads by as much as was set: the system refused it, or has no
    /// priority of a single thread.
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
    /// The first refusal. It is read in a forked child too, where a lock might never be let go.
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
