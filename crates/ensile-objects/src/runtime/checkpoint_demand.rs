//! A request for a checkpoint.
//!
//! Neighbours: `driver` takes the steps of the checkpoint if the runtime has no threads.

use std::sync::Arc as StdArc;

use ensile_durability::UserCode;

use super::close::OpenRuntime;
use crate::error::ObjectsError;

/// Handle of a requested checkpoint.
pub type CheckpointHandle = ensile_durability::CheckpointHandle<ObjectsError>;

impl OpenRuntime {
    /// Asks for a checkpoint. Without threads, a thread that waits for the checkpoint drives.
    pub(crate) fn demand_checkpoint(&self) -> CheckpointHandle {
        if UserCode::is_running() {
            return self.checkpoints.refuse_demand().returning();
        }
        // The handle keeps nothing open: a close answers it.
        let runtime = StdArc::downgrade(self.shared());
        let asked = self.checkpoints.demand().of_guarded_objects();
        if !self.mode.is_driven {
            return asked.returning();
        }
        asked.driven_by(move || runtime.upgrade().and_then(|runtime| runtime.drive())).returning()
    }
}
