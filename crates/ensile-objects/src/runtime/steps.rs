//! Steps of open objects: the runtime's threads take them, or the threads of the application.
//!
//! Neighbours: `threads` and `driver` take the steps; `ensile-epoch` and `ensile-durability` have the parts of the
//! steps.

use ensile_durability::{CheckpointStep, LoggerStep};
use ensile_epoch::Advance;

use super::open_folder::Runtime;

impl Runtime {
    /// One tick of the heartbeat: begins a new epoch if possible. Readers are not scanned: objects have no pins and no
    /// snapshots.
    pub(crate) fn heartbeat_step(&self) {
        if self.check_process().is_err() {
            return;
        }
        if let Advance::Advanced(begun) = self.epochs.try_advance(self.clock.nanos()) {
            debug_assert!(self.epochs.now() >= begun, "E only grows");
            self.log.wake_loggers();
        }
        self.state.watch().iter().for_each(|watch| _ = watch.look());
        self.log.hint_step();
        if self.checkpoints.has_panicked() {
            self.log.reserved_epochs_step();
        }
    }

    /// One step of a logger, and the preparation of its next file, as the logger's thread takes both.
    pub(crate) fn logger_step(&self, logger: usize) -> LoggerStep {
        let step = self.log.logger_step(logger);
        self.log.logger_prepare(logger);
        step
    }

    pub(crate) fn checkpoint_step(&self, checkpointer: usize) -> CheckpointStep {
        self.checkpoints.step(checkpointer, &*self.state)
    }
}
