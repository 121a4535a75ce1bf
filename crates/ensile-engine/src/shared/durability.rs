//! When a result may be shown: the durable epoch, and waiting for it (R1).
//!
//! Neighbours: the log has D; receipts, runs and snapshots wait here. `close` waits here for the commits under way.

use std::time::Duration;

use ensile_base::Epoch;
use ensile_base::limits::EPOCH_MICROS_MIN;
use ensile_base::sync::{Ordering, fence, sleep};
use ensile_durability::DurabilityError;
use ensile_epoch::{Advance, Epochs};

use super::SharedState;
use crate::error::{Error, Result};

/// When a transaction's result is released.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Durability {
    /// When it is durable: nothing that was released is lost by a crash.
    #[default]
    Strict,
    /// At commit: a crash may lose the last epochs (whole ones, the newest first), never a part of a transaction.
    Relaxed,
    /// At commit, which the operating system has by then: nothing that was released is lost when the process dies,
    /// however it dies. A crash of the machine loses what it loses of relaxed results.
    ///
    /// It is a database's: [`Builder::durability`](crate::Builder::durability) with it makes every commit so, those of
    /// relaxed transactions too. In a database that was opened without it, a transaction that asks for it is strict.
    /// The folder's file system is to be ext4, XFS, F2FS or tmpfs, and the system Linux: the open fails elsewhere, and
    /// says so.
    Process,
}

impl SharedState {
    /// The durable epoch D; in memory nothing is ever lost but with the process, so nothing waits for it.
    #[inline]
    pub(crate) fn durable_epoch(&self) -> Epoch {
        self.log.as_ref().map_or(self.durable_without_log, |log| log.durable_epoch())
    }

    /// The answer for a result of a database without a log, whose D stands still.
    pub(crate) fn settled(&self, epoch: Epoch) -> Result<()> {
        let durable = self.durable_without_log;
        if epoch <= durable {
            return Ok(());
        }
        let reason = self.read_only.as_deref().unwrap_or_default().into();
        Err(Error::Durability(DurabilityError::NotProven { durable, reason }))
    }

    /// Waits until `epoch` is durable.
    pub(crate) fn wait_durable(&self, epoch: Epoch) -> Result<()> {
        match &self.log {
            Some(log) => Ok(log.wait_durable(epoch)?),
            None => self.settled(epoch),
        }
    }

    /// After `mark_closed`: waits until every commit that has not seen the mark is installed and appended (E2), so that
    /// what is committed is made durable by the log's end.
    pub(crate) fn wait_for_commits(&self) {
        // SeqCst: the mark comes before the look at E and at bindings; partner: the fence between a commit's locks and
        // its look at the mark. A commit that missed the mark is bound to this E or an earlier one.
        fence(Ordering::SeqCst);
        if let Some(log) = &self.log {
            log.use_kept_epochs();
        }
        let over = self.epochs.now().plus(2);
        let is_over = self.advance_until(|| self.epochs.now() >= over, Epochs::try_advance_early);
        debug_assert!(is_over, "epochs are kept for a close (L6)");
    }

    /// Takes this step towards new epochs, each as soon as it can close, until that is reached; false if E came to its
    /// end before (L6).
    pub(crate) fn advance_until(
        &self,
        is_reached: impl Fn() -> bool,
        step: impl Fn(&Epochs, u64) -> Advance,
    ) -> bool {
        while !is_reached() {
            // A clock that stands still would never let the epoch close; the machine's ignores this.
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
