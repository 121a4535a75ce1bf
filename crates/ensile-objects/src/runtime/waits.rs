//! Waits for results: until an epoch is durable or shipped, or a requested checkpoint has ended.
//!
//! Neighbours: `driver` drives during a wait if the runtime has no threads.

use std::sync::Arc as StdArc;
use std::time::Duration;

use ensile_base::Epoch;
use ensile_durability::{DurabilityError, Durable, UserCode};

use super::close::OpenRuntime;
use super::open_folder::Runtime;
use crate::error::{ObjectsError, ObjectsResult as Result};

/// Handle of a requested checkpoint.
pub type CheckpointHandle = ensile_durability::CheckpointHandle<ObjectsError>;

impl Runtime {
    #[inline]
    pub(crate) fn wait_if_strict(&self, epoch: Epoch) -> Result<()> {
        if self.mode.is_strict { self.wait_durable(epoch) } else { Ok(()) }
    }

    /// Waits until `epoch` is durable.
    pub(crate) fn wait_durable(&self, epoch: Epoch) -> Result<()> {
        if !self.mode.is_logged {
            return Err(ObjectsError::NotLogged);
        }
        if self.log.durable_epoch() >= epoch {
            return Ok(());
        }
        self.check_given(epoch)?;
        if self.mode.is_driven {
            self.wait_driving(epoch)?;
        } else {
            self.log.wait_durable(epoch)?;
        }
        debug_assert!(self.log.durable_epoch() >= epoch, "R1: the wait is for D");
        Ok(())
    }

    /// As [`wait_durable`](Self::wait_durable), as a future.
    ///
    /// # Errors
    /// [`ObjectsError::NotLogged`]; [`ObjectsError::Misuse`] for a receipt of other objects.
    pub(crate) fn durable(&self, epoch: Epoch) -> Result<Durable> {
        if !self.mode.is_logged {
            return Err(ObjectsError::NotLogged);
        }
        self.check_given(epoch)?;
        Ok(self.log.durable(epoch))
    }

    pub(crate) fn wait_for_log(&self) -> Result<(), DurabilityError> {
        let now = self.epochs.now();
        if self.mode.is_driven { self.wait_driving(now) } else { self.log.wait_durable(now) }
    }

    /// Checks that a receipt is of these objects: E has reached the receipt's epoch.
    fn check_given(&self, epoch: Epoch) -> Result<()> {
        let newest = self.epochs.now();
        if epoch > newest { Err(ObjectsError::other_receipt(epoch, newest)) } else { Ok(()) }
    }

    /// Ships everything logged by now. Returns the epoch up to which the shared store is complete.
    ///
    /// # Errors
    /// [`DurabilityError::Config`] if nothing is shipped, [`DurabilityError::Fenced`], [`DurabilityError::NotShipped`]
    /// at the timeout; errors of the log.
    pub(crate) fn ship(&self, timeout: Duration) -> Result<Epoch> {
        self.check_caller()?;
        let Some(shipping) = &self.shipping else {
            return Err(DurabilityError::Config("nothing is shipped: open it with `ship_to`".into()).into());
        };
        if self.mode.is_driven { self.ship_driving(shipping, timeout) } else { Ok(shipping.ship(timeout)?) }
    }

    pub(crate) fn cancel_shipping(&self) {
        if let Some(shipping) = &self.shipping {
            shipping.cancel();
        }
    }
}

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
