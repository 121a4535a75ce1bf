//! The last picture of a database without a log, and the picture that holds a result.
//!
//! Invariant: N18: a close takes a picture of changes that no picture shows, or reports the lost epochs.
//!
//! Neighbours: the engine's close calls `take_last` before `Log::close`, and receipts call `report_of`.

use std::time::Duration;

use ensile_base::Epoch;
use ensile_base::limits::EPOCH_MICROS_MIN;
use ensile_base::sync::sleep;
use ensile_epoch::Advance;

use super::{CheckpointStep, Checkpoints};
use crate::checkpoint::request::CheckpointReport;
use crate::checkpoint::walk::Walk;
use crate::{DurabilityError, Result};

impl Checkpoints {
    /// True if the database has no log, and changes that the installed picture lacks, once all commits have ended.
    #[must_use]
    pub fn has_changes(&self, walk: &dyn Walk) -> bool {
        !self.log.has_loggers() && self.machine.lock().has_changed(walk.changed_bytes())
    }

    /// Takes a last picture of a database without a log, if there are changes. The caller has ended its commits.
    /// Checkpointers' threads may still run; the calling thread takes the steps of every checkpointer as well.
    ///
    /// # Errors
    /// [`DurabilityError::OutcomeUnknown`] names the epoch up to which the database is durable. The log has stopped.
    pub fn take_last(&self, walk: &dyn Walk) -> Result<()> {
        if self.store.is_forked() || !self.has_changes(walk) {
            return Ok(());
        }
        self.log.use_kept_epochs();
        self.machine.lock().begin_last();
        let mut taken = self.take_one(walk);
        // The reserve exists for such a moment, and may suffice.
        if taken.is_err() && self.log.give_up_reserve() {
            taken = self.take_one(walk);
        }
        let Err(why) = taken else {
            assert!(!self.has_changes(walk), "N18: the last picture shows all commits");
            return Ok(());
        };
        let durable = self.log.durable_epoch();
        Err(self.log.poison(&format!(
            "closed without its last picture, durable up to epoch {durable} and not beyond: {why}"
        )))
    }

    /// Takes a picture that begins after the call, stepping every checkpointer until it is installed or has failed.
    fn take_one(&self, walk: &dyn Walk) -> Result<()> {
        let handle = self.demand();
        loop {
            if let Some(outcome) = handle.outcome() {
                return outcome.map(drop);
            }
            let mut has_worked = false;
            for checkpointer in 0..self.checkpointers() {
                has_worked |= self.step(checkpointer, walk) == CheckpointStep::Worked;
            }
            if has_worked {
                continue;
            }
            // A clock that stands still would never let an epoch close; the machine's clock ignores `advance`.
            self.clock.advance(Duration::from_micros(EPOCH_MICROS_MIN));
            if self.epochs.try_advance_early(self.clock.nanos()) == Advance::AtLimit {
                return Err(DurabilityError::CheckpointFailed("no epoch is left for it".into()));
            }
            sleep(Duration::from_micros(EPOCH_MICROS_MIN / 2));
        }
    }

    /// Returns the report of the last picture installed since the open, if it shows the receipt's `epoch`.
    #[must_use]
    pub fn report_of(&self, epoch: Epoch) -> Option<CheckpointReport> {
        if self.store.is_forked() || self.log.has_loggers() {
            return None;
        }
        let machine = self.machine.lock();
        machine.history().last().filter(|last| last.high >= epoch).cloned()
    }
}
