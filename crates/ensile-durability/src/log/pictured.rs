//! A log without loggers: pictures make its epochs durable (SIREN §5).
//!
//! Invariants:
//! - N18: D is e_c of the installed picture. It moves once the manifest that names the picture is durable, and not
//!   before.
//! - A result that waits asks for a picture of its epoch by waiting: the checkpoints look at the largest epoch that is
//!   waited for. So all that wait share a picture, and one that has failed is tried again.
//!
//! Neighbours: the checkpoints take pictures and say what came of them; `waiters` has those that wait.

use std::sync::Arc;

use ensile_base::Epoch;

use super::Log;
use super::marks::Frontier;
use super::waiters::LogEnd;
use crate::DurabilityError;
use crate::wake_up::WakeUp;

impl Log {
    /// Whether anything is logged. If not, only pictures make epochs durable.
    #[inline]
    #[must_use]
    pub fn has_loggers(&self) -> bool {
        !self.loggers.is_empty()
    }

    /// Whether a commit may go on that appends nothing, as there are no loggers.
    ///
    /// # Errors
    /// [`DurabilityError::Stopped`] when the log is poisoned or closed, [`DurabilityError::EpochsEnded`].
    #[inline]
    pub fn check(&self) -> Result<(), DurabilityError> {
        if self.refuses() { self.check_refusal() } else { Ok(()) }
    }

    #[cold]
    fn check_refusal(&self) -> Result<(), DurabilityError> {
        self.refusal().map_or(Ok(()), Err)
    }

    /// What wakes the checkpointer that looks whether a picture is wanted.
    pub(crate) fn picture_wanted(&self) -> Arc<WakeUp> {
        Arc::clone(&self.picture_wanted)
    }

    /// Does a result wait for a picture?
    pub(crate) fn awaits_picture(&self) -> bool {
        !self.has_loggers() && self.waiters.wanted() > self.durable_epoch()
    }

    /// The manifest names a picture of `epoch`: what is to be removed may rest on it. The caller announces it.
    pub(crate) fn picture_installed(&self, epoch: Epoch) {
        if self.has_loggers() {
            return;
        }
        assert!(epoch >= self.marks.of_all(Frontier::Synced), "N18: a later picture shows a later epoch");
        for frontier in [Frontier::Appended, Frontier::Written, Frontier::Synced] {
            self.marks.advance(0, frontier, epoch);
        }
    }

    /// A picture was not installed: results that wait for one hear why. They may wait again, for the next.
    pub(crate) fn picture_failed(&self, reason: &Arc<str>) {
        if !self.has_loggers() {
            self.waiters.wake_all(self.waiters.expire_all(reason));
        }
    }

    /// The end of a log without loggers: what its last picture shows is durable. The hint says so, and where E stands.
    pub(super) fn end_without_loggers(&self) -> Result<(), DurabilityError> {
        assert!(self.refuses() && !self.has_loggers(), "nothing is committed any more");
        if let Some(end) = self.waiters.how_ended() {
            return end.of_close();
        }
        let ended = self.epochs.stop();
        self.store.close_hint(self.marks.of_all(Frontier::Synced), Vec::new(), ended);
        self.end(LogEnd::Closed);
        // The next open may need it; without it that one begins as well as it can.
        let _ = self.store.reserve().make();
        Ok(())
    }
}
