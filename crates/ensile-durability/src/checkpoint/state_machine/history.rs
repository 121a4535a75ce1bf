//! Outcomes of the attempts so far: failures in a row, and the last report.
//!
//! Neighbours: `machine` records the outcomes; the rules of `control` wait after a failure.

use std::sync::Arc;
use std::time::Duration;

use crate::checkpoint::request::CheckpointReport;

/// Period, in failures in a row, of an attempt that ignores the expected size.
pub(super) const TRIED_EVERY: u32 = 8;
/// Number of failures in a row from which a database's health reports the failures.
const FAILURES_TOLD: u32 = 3;
const _: () = assert!(FAILURES_TOLD < TRIED_EVERY, "a failure that lasts is reported");

/// Outcomes of the attempts since the open.
#[derive(Debug)]
pub(crate) struct AttemptHistory {
    /// Time of the end of the last attempt, or of the last lack of room.
    ended_nanos: u64,
    /// Number of attempts that failed or found no room since the last cleared checkpoint.
    pub(super) failures: u32,
    /// Most bytes that a failed attempt wrote since the last cleared checkpoint: the next one needs as many.
    pub(super) needed_bytes: u64,
    /// Reason for putting off the next checkpoint.
    misfit: Option<Arc<str>>,
    /// Report of the last checkpoint installed since the open.
    last: Option<CheckpointReport>,
    last_error: Option<Arc<str>>,
}

impl AttemptHistory {
    /// History of a database that is opened at `now_nanos`.
    pub(super) fn new(now_nanos: u64) -> Self {
        Self {
            ended_nanos: now_nanos,
            failures: 0,
            needed_bytes: 0,
            misfit: None,
            last: None,
            last_error: None,
        }
    }

    /// Time since the last attempt ended, or since the open.
    pub(super) fn since_end(&self, now_nanos: u64) -> Duration {
        Duration::from_nanos(now_nanos.saturating_sub(self.ended_nanos))
    }

    /// Expected bytes of the next attempt, for the search for room; `first_bytes` without an earlier attempt.
    pub(super) fn expected_bytes(&self, first_bytes: u64, takes_whole: bool) -> u64 {
        // Deleted rows may have made the next checkpoint smaller, so it is tried now and then, and gives up in time.
        if self.failures % TRIED_EVERY == TRIED_EVERY - 1 {
            return 0;
        }
        // A picture writes only changed pages, so the last checkpoint predicts the size of the next.
        let written = self.last.as_ref().filter(|_| takes_whole).map(|last| last.bytes_written);
        self.needed_bytes.max(written.unwrap_or(first_bytes))
    }

    /// Notes that the next attempt has room.
    pub(super) fn note_room(&mut self) {
        self.misfit = None;
    }

    /// Records that the next attempt is put off for want of room.
    pub(super) fn record_misfit(&mut self, reason: Arc<str>, now_nanos: u64) {
        assert!(!reason.is_empty(), "a lack of room has a reason");
        (self.ended_nanos, self.failures) = (now_nanos, self.failures.saturating_add(1));
        self.misfit = Some(reason);
    }

    /// Records an installed attempt. The covered files are removed later.
    pub(super) fn record_install(&mut self, report: CheckpointReport) {
        let before = self.last.as_ref().map_or(0, |last| last.number);
        assert!(before < report.number, "a later checkpoint replaces an earlier one");
        self.last = Some(report);
    }

    /// Records the end of an attempt that is installed and cleared.
    pub(super) fn record_success(&mut self, now_nanos: u64) {
        (self.ended_nanos, self.failures, self.needed_bytes) = (now_nanos, 0, 0);
    }

    /// Records the end of a failed attempt that wrote `bytes`.
    pub(super) fn record_failure(&mut self, reason: Arc<str>, bytes: u64, now_nanos: u64) {
        debug_assert!(!reason.is_empty(), "an attempt that failed says why");
        (self.ended_nanos, self.failures) = (now_nanos, self.failures.saturating_add(1));
        self.needed_bytes = self.needed_bytes.max(bytes);
        self.last_error = Some(reason);
    }

    /// Notes an error outside an attempt.
    pub(super) fn note_error(&mut self, error: Arc<str>) {
        self.last_error = Some(error);
    }

    /// Last checkpoint installed since the open.
    pub(crate) fn last(&self) -> Option<&CheckpointReport> {
        self.last.as_ref()
    }

    /// Reason of the last failure after at least [`FAILURES_TOLD`] failures in a row.
    pub(crate) fn repeated_failure(&self) -> Option<String> {
        let why =
            self.misfit.as_ref().or(self.last_error.as_ref()).filter(|_| self.failures >= FAILURES_TOLD)?;
        Some(format!("no checkpoint was made {} times in a row: {why}", self.failures))
    }

    /// Reason for putting off the next checkpoint.
    pub(crate) fn misfit(&self) -> Option<&str> {
        self.misfit.as_deref()
    }

    pub(crate) fn last_error(&self) -> Option<&str> {
        self.last_error.as_deref()
    }
}
