//! The end of all commits under way, for a close.
//!
//! Neighbours: `database::owner` waits here before the end of the log, and `read_path::snapshot` for the newest
//! boundary.

use std::time::Duration;

use ensile_base::limits::EPOCH_MICROS_MIN;
use ensile_base::sync::{Ordering, fence, sleep};
use ensile_epoch::{Advance, Epochs};

use super::state::SharedState;

impl SharedState {
    /// Waits after `mark_closed` until every commit that has not seen the mark is installed and appended (E2). The end
    /// of the log then makes all commits durable.
    pub(crate) fn wait_for_commits(&self) {
        // SeqCst: the mark is written before the reads of E and of bindings; partner: the fence between a commit's
        // locks and its read of the mark. A commit that missed the mark is bound to this E or an earlier epoch.
        fence(Ordering::SeqCst);
        if let Some(log) = &self.storage.log {
            log.use_kept_epochs();
        }
        let over = self.epochs.now().plus(2);
        let is_over = self.advance_until(|| self.epochs.now() >= over, Epochs::try_advance_early);
        debug_assert!(is_over, "epochs are kept for a close (L6)");
    }

    /// Repeats `step` towards new epochs, each as soon as it can close, until `is_reached` is true: for a close, or for
    /// the newest snapshot. Returns false if E came to its end before (L6).
    pub(crate) fn advance_until(
        &self,
        is_reached: impl Fn() -> bool,
        step: impl Fn(&Epochs, u64) -> Advance,
    ) -> bool {
        while !is_reached() {
            // A clock that stands still would never let the epoch close; the machine's clock ignores this call.
            self.clock.advance(Duration::from_micros(EPOCH_MICROS_MIN));
            match step(&self.epochs, self.clock.nanos()) {
                Advance::Advanced(_) => {}
                Advance::AtLimit => return false,
                _ => sleep(Duration::from_micros(EPOCH_MICROS_MIN / 2)),
            }
        }
        true
    }
}
