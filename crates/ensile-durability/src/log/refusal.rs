//! Reasons for which every call of `reserve` fails: no worker may append an entry.
//!
//! Neighbours: `open_log` keeps the reasons under a lock; `admission` changes and reports them.

use std::collections::BTreeMap;
use std::sync::Arc;

/// Reasons for the failure of every call of `reserve`.
#[derive(Debug, Default)]
pub(super) struct Refusal {
    /// True if the log is poisoned, closing or closed.
    pub(super) stopped: bool,
    /// Indexes of loggers with entries for which the disk has no space, each with the disk's error.
    pub(super) full: BTreeMap<usize, Arc<str>>,
    /// Reason against the reservation of more epochs, while E is near the last reserved epoch (L6).
    pub(super) epochs_ended: Option<Arc<str>>,
    /// Start of the refusal for want of space or epochs, in nanoseconds of the clock.
    pub(super) full_since_nanos: u64,
    /// Number of writes that found the disk full.
    pub(super) tries: u64,
}

impl Refusal {
    /// Checks that a write has found the full disk, and that every reason has a text.
    pub(super) fn check(&self) {
        debug_assert!(self.full.is_empty() || self.tries > 0, "held without a try");
        debug_assert!(self.full.values().chain(&self.epochs_ended).all(|reason| !reason.is_empty()));
    }
}
