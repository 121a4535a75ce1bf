//! The last picture of a database without a log, and which picture holds a result.
//!
//! Invariant: N18: what no picture shows is lost by a close. So a close takes one if anything has changed, or says
//! which epochs go.
//!
//! Neighbours: `manager` steps; `Log::close` follows; the engine's close and receipts ask.

use std::time::Duration;

use ensile_base::Epoch;
use ensile_base::limits::EPOCH_MICROS_MIN;
use ensile_base::sync::sleep;
use ensile_epoch::Advance;

use super::{CheckpointStep, Checkpoints};
use crate::DurabilityError;
use crate::checkpoint::ticket::CheckpointReport;
use crate::checkpoint::walk::Walk;

impl Checkpoints {
    /// Of a database without a log: whether commits have changed anything that the installed picture does not show.
    /// Exact once all commits have ended.
    #[must_use]
    pub fn has_changes(&self, walk: &dyn Walk) -> bool {
        !self.log.has_loggers() && self.life.lock().has_changed(walk.changed_bytes())
    }

    /// Takes a last picture of a database without a log, if anything has changed. The caller has ended its commits.
    /// Checkpointers' threads may still run; this thread takes their steps as well.
    ///
    /// # Errors
    /// [`DurabilityError::OutcomeUnknown`] says up to which epoch the database is durable, and why not beyond. The log
    /// is stopped then.
    pub fn take_last(&self, walk: &dyn Walk) -> Result<(), DurabilityError> {
        if self.store.is_forked() || !self.has_changes(walk) {
            return Ok(());
        }
        self.log.use_kept_epochs();
        self.life.lock().begin_last();
        let mut taken = self.take_one(walk);
        // What is kept for such a moment may do.
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

    /// A picture that begins from now on.
    fn take_one(&self, walk: &dyn Walk) -> Result<(), DurabilityError> {
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
            // A clock that stands still would never let an epoch close; the machine's ignores this.
            self.clock.advance(Duration::from_micros(EPOCH_MICROS_MIN));
            if self.epochs.try_advance_early(self.clock.nanos()) == Advance::AtLimit {
                return Err(DurabilityError::CheckpointFailed("no epoch is left for it".into()));
            }
            sleep(Duration::from_micros(EPOCH_MICROS_MIN / 2));
        }
    }

    /// The last picture that was installed since the open, if it holds `epoch`, which is durable.
    #[must_use]
    pub fn report_of(&self, epoch: Epoch) -> Option<CheckpointReport> {
        if self.store.is_forked() || self.log.has_loggers() {
            return None;
        }
        let life = self.life.lock();
        life.last().filter(|last| last.high >= epoch).cloned()
    }
}
