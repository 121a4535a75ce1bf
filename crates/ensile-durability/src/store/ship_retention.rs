//! Hold on closed log files that a checkpoint covers, and that are not shipped yet (`protocols/shipping.md`).
//!
//! Invariant: H5: while a database ships, a log file is removed only if the shared store has the file, or its
//! checkpoint covers the file, or the limit has passed since the first refusal, which is counted.
//!
//! Neighbours: `log::removal` asks before it removes a file; the shipper releases files.

use std::collections::BTreeSet;
use std::time::Duration;

use ensile_base::Epoch;
use ensile_base::sync::Mutex;

use super::closed_files::ClosedFile;
use crate::files::names::SegmentFile;

/// Hold of a running database. No panic under the lock leaves a half-changed state.
#[derive(Debug, Default)]
pub(crate) struct ShippingHold(Mutex<HoldState>);

#[derive(Debug, Default)]
struct HoldState {
    /// Time for which files are held, in nanoseconds; `None` without shipping.
    limit_nanos: Option<u64>,
    shipped: BTreeSet<SegmentFile>,
    /// Epoch below which the checkpoint in the shared store has every entry.
    covered: Epoch,
    /// Time of the first refused removal since the shipper last had caught up, by the log's clock, in nanoseconds.
    refused_nanos: Option<u64>,
    /// True if an unshipped file was released for removal since the shipper last had caught up.
    is_overrun: bool,
    overruns: u64,
}

impl ShippingHold {
    /// Holds files from now on, until `limit` has passed since the first refusal.
    pub(crate) fn begin(&self, limit: Duration) {
        self.0.lock().limit_nanos = Some(u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX));
    }

    pub(crate) fn end(&self) {
        let mut state = self.0.lock();
        *state = HoldState { overruns: state.overruns, ..HoldState::default() };
    }

    /// Releases the `shipped` files, and every file whose entries have epochs below `covered`.
    pub(crate) fn release(&self, shipped: BTreeSet<SegmentFile>, covered: Epoch) {
        let mut state = self.0.lock();
        (state.shipped, state.covered) = (shipped, covered);
    }

    /// Notes that everything is shipped. The next refusal is a first refusal again.
    pub(crate) fn caught_up(&self) {
        let mut state = self.0.lock();
        (state.refused_nanos, state.is_overrun) = (None, false);
    }

    /// True if the removal of this file is refused at `now`, in nanoseconds. The first refusal starts the limit.
    pub(crate) fn keeps(&self, closed: &ClosedFile, now: u64) -> bool {
        let mut state = self.0.lock();
        let Some(limit) = state.limit_nanos else { return false };
        if closed.largest < state.covered || state.shipped.contains(&closed.file.archive_name()) {
            return false;
        }
        let since = *state.refused_nanos.get_or_insert(now);
        if now.saturating_sub(since) < limit {
            return true;
        }
        if !state.is_overrun {
            state.is_overrun = true;
            state.overruns += 1;
        }
        false
    }

    /// True if a removal was refused and must be tried again.
    pub(crate) fn is_holding(&self) -> bool {
        let state = self.0.lock();
        state.refused_nanos.is_some() && !state.is_overrun
    }

    /// Number of times that the limit passed, and files were released for removal before they were shipped.
    pub(crate) fn overruns(&self) -> u64 {
        self.0.lock().overruns
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
