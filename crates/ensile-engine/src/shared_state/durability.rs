//! Release of results: the durable epoch, and the wait for an epoch (R1).
//!
//! Neighbours: the log has D. Receipts, runs and snapshots wait here, and `close` waits here for the commits under way.

use std::time::Duration;

use ensile_base::Epoch;
use ensile_base::limits::EPOCH_MICROS_MIN;
use ensile_base::sync::{Ordering, fence, sleep};
use ensile_durability::DurabilityError;
use ensile_epoch::{Advance, Epochs};

use super::SharedState;
use crate::error::Result;

/// Time at which a transaction's result is released.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Durability {
    /// When the result is durable: a crash loses no released result.
    #[default]
    Strict,
    /// At commit: a crash may lose the last epochs (whole epochs, the newest first), never a part of a transaction.
    Relaxed,
    /// At commit, after the operating system has the commit: the death of the process, of any kind, loses no released
    /// result. A crash of the machine loses the same results as with relaxed durability.
    ///
    /// The level applies to a whole database: [`Builder::durability`](crate::Builder::durability) with this level
    /// applies to every commit, also of relaxed transactions. In a database opened with another level, a transaction
    /// with this level is strict. The folder's file system must be ext4, XFS, F2FS or tmpfs, and the system Linux:
    /// elsewhere the open fails with this reason.
    Process,
}

impl SharedState {
    /// The durable epoch D. In memory a commit is lost only with the process, so no result waits for D.
    #[inline]
    pub(crate) fn durable_epoch(&self) -> Epoch {
        self.log.as_ref().map_or(self.fixed_durable_epoch, |log| log.durable_epoch())
    }

    /// Outcome of the wait for `epoch` without a running `Log`: in memory, or in read-only operation after an open on a
    /// full disk. D stands still there, so the call fails for an epoch above D.
    pub(crate) fn check_durable(&self, epoch: Epoch) -> Result<()> {
        let durable = self.fixed_durable_epoch;
        if epoch <= durable {
            return Ok(());
        }
        let reason = self.read_only.as_deref().unwrap_or_default().into();
        Err(DurabilityError::NotProven { durable, reason }.into())
    }

    /// Waits until `epoch` is durable.
    pub(crate) fn wait_durable(&self, epoch: Epoch) -> Result<()> {
        match &self.log {
            Some(log) => Ok(log.wait_durable(epoch)?),
            None => self.check_durable(epoch),
        }
    }

    /// Waits after `mark_closed` until every commit that has not seen the mark is installed and appended (E2). The end
    /// of the log then makes all commits durable.
    pub(crate) fn wait_for_commits(&self) {
        // SeqCst: the mark is written before the reads of E and of bindings; partner: the fence between a commit's
        // locks and its read of the mark. A commit that missed the mark is bound to this E or an earlier epoch.
        fence(Ordering::SeqCst);
        if let Some(log) = &self.log {
            log.use_kept_epochs();
        }
        let over = self.epochs.now().plus(2);
        let is_over = self.advance_until(|| self.epochs.now() >= over, Epochs::try_advance_early);
        debug_assert!(is_over, "epochs are kept for a close (L6)");
    }

    /// Repeats `step` towards new epochs, each as soon as it can close, until `is_reached` is true. Returns false if E
    /// came to its end before (L6).
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
