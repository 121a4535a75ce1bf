//! Counters of the log. Loggers and waiting appends raise the counters; the hot path never does.
//!
//! Neighbours: `figures` adds the figures of files and buffers; the statistics of engine and objects report the sum.

use ensile_base::Epoch;

use crate::counter::Counter;

/// Figures of the log since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct LogStats {
    /// Bytes written, marks included.
    pub bytes: u64,
    /// Data blocks written.
    pub blocks: u64,
    /// Entries written.
    pub entries: u64,
    /// Durable marks written.
    pub marks: u64,
    /// Syncs on the commit path.
    pub syncs: u64,
    /// Number of times that a worker waited for a buffer because too many buffers were unwritten.
    pub buffer_waits: u64,
    /// Epochs that a logger closed early because strict results waited.
    pub early_closes: u64,
    /// Steps of a logger that a lone waiter took on its own thread.
    pub waiter_steps: u64,
    /// Files begun after the first file of each log.
    pub rolls: u64,
    /// Attempts to begin a file that found no space; the log continued in the current file.
    pub rolls_held: u64,
    /// Number of times that a logger held its blocks back because the disk had no space.
    pub holds: u64,
    /// Files removed because a checkpoint holds their entries.
    pub files_removed: u64,
    /// Bytes of [`files_removed`](LogStats::files_removed).
    pub bytes_removed: u64,
    /// Removals of log files and of checkpoint files that were put off because a reader held a lease.
    pub removals_put_off: u64,
    /// Removals that were done despite a lease, because the lease had put the removals off for too long.
    pub leases_overrun: u64,
    /// Closed log files that were copied into the archive.
    pub archived_files: u64,
    /// Bytes of [`archived_files`](LogStats::archived_files).
    pub archived_bytes: u64,
    /// Closed log files that are not in the archive yet, and stay until the archive has a copy; 0 without an archive.
    pub unarchived_files: u64,
    /// Bytes of [`unarchived_files`](LogStats::unarchived_files).
    pub unarchived_bytes: u64,
    /// Failed writes to the archive. The log tries again every second.
    pub archive_failures: u64,
    /// Epoch up to which the archive has at least every entry of this life; 0 without an archive, and until each log
    /// has a file in the archive.
    pub archived_epoch: Epoch,
    /// Log files on disk now, including files of earlier generations.
    pub files: u64,
    /// Bytes of [`files`](LogStats::files), including allocated space.
    pub file_bytes: u64,
    /// Bytes of all log buffers now: in use, waiting to be written, and free.
    pub buffer_bytes: u64,
}

#[derive(Debug, Default)]
pub(crate) struct LogCounters {
    pub(crate) bytes: Counter,
    pub(crate) blocks: Counter,
    pub(crate) entries: Counter,
    pub(crate) marks: Counter,
    pub(crate) syncs: Counter,
    pub(crate) buffer_waits: Counter,
    pub(crate) early_closes: Counter,
    pub(crate) waiter_steps: Counter,
    pub(crate) rolls: Counter,
    pub(crate) rolls_held: Counter,
    pub(crate) holds: Counter,
    pub(crate) files_removed: Counter,
    pub(crate) bytes_removed: Counter,
}

impl LogCounters {
    /// Values of the counters. The caller adds the figures of the files on disk.
    pub(crate) fn read(&self) -> LogStats {
        LogStats {
            bytes: self.bytes.read(),
            blocks: self.blocks.read(),
            entries: self.entries.read(),
            marks: self.marks.read(),
            syncs: self.syncs.read(),
            buffer_waits: self.buffer_waits.read(),
            early_closes: self.early_closes.read(),
            waiter_steps: self.waiter_steps.read(),
            rolls: self.rolls.read(),
            rolls_held: self.rolls_held.read(),
            holds: self.holds.read(),
            files_removed: self.files_removed.read(),
            bytes_removed: self.bytes_removed.read(),
            ..LogStats::default()
        }
    }
}
