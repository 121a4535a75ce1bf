//! Figures of a log: the counters, and the present files and buffers.
//!
//! Neighbours: the statistics and metrics of engine and objects report the figures; checkpoints read the written bytes,
//! and the shipper reads the largest written epoch.

use ensile_base::Epoch;

use super::open_log::Log;
use super::stats::LogStats;

impl Log {
    /// Bytes written since the start of the log, marks included.
    pub(crate) fn bytes_written(&self) -> u64 {
        self.counters.bytes.read()
    }

    /// Largest epoch of an entry that a logger has written or is about to write. `Shipper::ship` waits until the store
    /// has the epoch.
    pub(crate) fn logged_epoch(&self) -> Epoch {
        self.marks.high()
    }

    /// Figures of the log since its start, and the log files on disk now. In a forked child, only the figures since the
    /// start.
    #[must_use]
    pub fn stats(&self) -> LogStats {
        if self.store.is_forked() {
            return self.counters.read();
        }
        let (mut files, mut file_bytes) = self.store.older_figures();
        for logger in &self.loggers {
            let (closed, closed_bytes) = logger.closed.figures();
            files += closed + 1;
            file_bytes += closed_bytes + logger.open_bytes();
        }
        let buffer_bytes = self.loggers.iter().map(|logger| logger.queue.bytes() as u64).sum();
        let leases = self.store.leases();
        let (removals_put_off, leases_overrun) = (leases.put_off.read(), leases.overrun.read());
        let counted = self.counters.read();
        let (unarchived_files, unarchived_bytes) = self.unarchived_figures();
        let (archived_files, archived_bytes, archive_failures) =
            self.store.archive().map_or((0, 0, 0), |archive| {
                (archive.files.read(), archive.bytes.read(), archive.failures.read())
            });
        let archived = self.loggers.iter().map(|logger| logger.closed.archived_largest().previous());
        LogStats {
            archived_epoch: archived.min().unwrap_or_default(),
            files,
            file_bytes,
            buffer_bytes,
            removals_put_off,
            leases_overrun,
            archived_files,
            archived_bytes,
            unarchived_files,
            unarchived_bytes,
            archive_failures,
            ..counted
        }
    }
}
