//! A log without loggers: pictures make its epochs durable (SIREN §5). D moves only after the manifest that names the
//! picture is durable (N18). A waiting result asks for a picture of its epoch by waiting, so all waiting results share
//! a picture, and a failed picture is tried again.
//!
//! Neighbours: the checkpoints take pictures and report the outcome; `waiters` has the waiting results.

use std::sync::Arc;

use ensile_base::Epoch;

use super::marks::Frontier;
use super::open_log::Log;
use crate::DurabilityError;
use crate::wake_up::WakeUp;

impl Log {
    /// True if the log has loggers. Otherwise only pictures make epochs durable.
    #[inline]
    #[must_use]
    pub fn has_loggers(&self) -> bool {
        !self.loggers.is_empty()
    }

    /// Checks that the log takes commits now. In a log without loggers, a commit calls this function in place of a
    /// reserve, because the commit has no entry.
    ///
    /// # Errors
    /// [`DurabilityError::Stopped`] when the log is poisoned, [`DurabilityError::Closed`],
    /// [`DurabilityError::EpochsEnded`].
    #[inline]
    pub fn check(&self) -> Result<(), DurabilityError> {
        if self.refuses() { self.check_refusal() } else { Ok(()) }
    }

    #[cold]
    pub(super) fn check_refusal(&self) -> Result<(), DurabilityError> {
        self.refusal().map_or(Ok(()), Err)
    }

    /// Wake-up of the checkpointer that makes the pictures for which results wait.
    pub(crate) fn picture_wanted(&self) -> Arc<WakeUp> {
        Arc::clone(&self.picture_wanted)
    }

    /// True if a result waits for a picture.
    pub(crate) fn awaits_picture(&self) -> bool {
        !self.has_loggers() && self.waiters.wanted_epoch() > self.durable_epoch()
    }

    /// Notes that the durable manifest names a picture of `epoch`, so D is `epoch` in a log without loggers. Removals
    /// may rely on `epoch` from here on. The caller announces D.
    pub(crate) fn picture_installed(&self, epoch: Epoch) {
        if self.has_loggers() {
            return;
        }
        assert!(epoch >= self.marks.of_all(Frontier::Synced), "N18: a later picture shows a later epoch");
        for frontier in [Frontier::Appended, Frontier::Written, Frontier::Synced] {
            self.marks.advance(0, frontier, epoch);
        }
    }

    /// Reports a failed picture: waiting results get `NotDurableYet` with the reason, and may wait for the next
    /// picture.
    pub(crate) fn picture_failed(&self, reason: &Arc<str>) {
        if !self.has_loggers() {
            self.waiters.wake_all(self.waiters.expire_all(reason));
        }
    }

    /// Closes a log without loggers. The epochs up to its last picture are durable; the hint records D and E.
    pub(super) fn end_without_loggers(&self) -> Result<(), DurabilityError> {
        assert!(self.refuses() && !self.has_loggers(), "nothing is committed any more");
        if let Some(end) = self.waiters.how_ended() {
            return end.of_close();
        }
        self.close_hint(Vec::new());
        self.end_closed();
        Ok(())
    }
}
