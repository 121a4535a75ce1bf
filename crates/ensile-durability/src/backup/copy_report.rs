//! Results of a run: the result of a step, and the report at the end.
//!
//! Neighbours: [`super::pages`] and [`super::files`] make reports; [`super::copy_run`] adds the facts of the source.

use std::time::Duration;

use ensile_base::Epoch;

use crate::unproven_tail::NotProven;

/// Error text of a step after the end of the run.
pub(super) const HAS_ENDED: &str = "the copy has ended: begin another one";

/// Report of a run at its end.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CopyReport {
    /// Identity of the database in the target, 32 hex digits.
    pub database: String,
    /// Identity of the copied database, 32 hex digits.
    pub parent: String,
    /// Epoch of the copy: the target has the state at the end of this epoch.
    pub epoch: Epoch,
    /// Durable epoch in the source's folder when the copy began. For a restore, the newest epoch of the backup and the
    /// archive. If [`CopyReport::epoch`] is smaller, the caller asked for an earlier state, and the copy lacks the
    /// epochs in between.
    pub durable: Epoch,
    /// Number of entries in the checkpoint, which may be a picture; 0 without a checkpoint. Entries of logs are not
    /// counted.
    pub entries: u64,
    /// Number of pages in the picture; 0 without a picture.
    pub pages: u64,
    /// Number of pages that this run wrote.
    pub pages_written: u64,
    /// Bytes of the copied state, including bytes that stayed in the target from earlier backups.
    pub bytes: u64,
    /// Bytes that this run wrote.
    pub bytes_written: u64,
    /// Number of entries that a restore took from archived log files, in addition to `entries`.
    pub log_entries: u64,
    /// Number of times that the copy began anew because the lease was overrun.
    pub overruns: u64,
    /// Epochs of the states in the target, the newest first.
    pub kept: Vec<Epoch>,
    /// Epochs of the states that this run dropped, the newest first ([`CopyOptions::keep`](super::CopyOptions::keep)).
    pub dropped: Vec<Epoch>,
    /// Entries that a process-safe life returned, and that the backup lacks. The life ended before the run had read the
    /// source to the end. `None` for a restore.
    pub not_proven: Option<NotProven>,
}

/// Result of a step of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CopyStep {
    /// The step did a part of the work: step again.
    Worked,
    /// The rate is used up for this duration.
    Paced(Duration),
    /// The run has ended, and the copy counts.
    Ended(Box<CopyReport>),
}
