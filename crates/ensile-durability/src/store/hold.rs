//! Closed log files that a shipper has not shipped yet, and that a checkpoint has made superfluous: their removal
//! waits, up to a stated limit (H5 in `docs/protocols/shipping.md`).
//!
//! Invariants:
//! - H5: while shipping goes on, no log file is removed that is neither in the shared store nor covered by the
//!   checkpoint that the newest shared manifest names, before the limit has passed since the first refusal.
//! - A removal beyond the limit is counted, and told.
//!
//! Neighbours: the removal of log files asks; the shipper says what may go, and when nothing is left to ship.

use std::collections::BTreeSet;
use std::time::Duration;

use ensile_base::Epoch;
use ensile_base::sync::Mutex;

use super::closed_files::ClosedFile;
use super::names::SegmentFile;

/// What a running database knows of its shipping. Whole at every point.
#[derive(Debug, Default)]
pub(crate) struct ShippingHold(Mutex<HoldState>);

#[derive(Debug, Default)]
struct HoldState {
    /// How long files are held; `None` where nothing is shipped.
    limit_nanos: Option<u64>,
    /// Files that are in the shared store.
    shipped: BTreeSet<SegmentFile>,
    /// Entries of smaller epochs are in the checkpoint that the shared store has.
    covered: Epoch,
    /// When a removal was refused first since the shipper last had caught up, by the log's clock.
    refused_nanos: Option<u64>,
    /// A file has gone that was not shipped, since the shipper last had caught up.
    is_overrun: bool,
    overruns: u64,
}

impl ShippingHold {
    /// From now on files are held, each for so long at most.
    pub(crate) fn begin(&self, limit: Duration) {
        self.0.lock().limit_nanos = Some(u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX));
    }

    /// Nothing is shipped any more.
    pub(crate) fn end(&self) {
        let mut state = self.0.lock();
        *state = HoldState { overruns: state.overruns, ..HoldState::default() };
    }

    /// These files may go, and all whose entries are of epochs below `covered`.
    pub(crate) fn release(&self, shipped: BTreeSet<SegmentFile>, covered: Epoch) {
        let mut state = self.0.lock();
        (state.shipped, state.covered) = (shipped, covered);
    }

    /// Nothing is left to ship: a later refusal is the first one.
    pub(crate) fn caught_up(&self) {
        let mut state = self.0.lock();
        (state.refused_nanos, state.is_overrun) = (None, false);
    }

    /// Is the removal of this file refused at `now`?
    pub(crate) fn keeps(&self, closed: &ClosedFile, now: u64) -> bool {
        let mut state = self.0.lock();
        let Some(limit) = state.limit_nanos else { return false };
        if closed.largest < state.covered || state.shipped.contains(&closed.file.archived()) {
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

    /// Was a removal refused, so that it is to be tried again?
    pub(crate) fn is_holding(&self) -> bool {
        let state = self.0.lock();
        state.refused_nanos.is_some() && !state.is_overrun
    }

    /// How often files have gone before they were shipped.
    pub(crate) fn overruns(&self) -> u64 {
        self.0.lock().overruns
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
