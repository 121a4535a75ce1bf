//! End of shipping with its database: a close waits for the present step, for a limited time.
//!
//! Invariants:
//! - No step begins after the end. A step inside a call of the store may still finish the call: put one object, install
//!   a manifest, or remove an object listed before. Such a step begins no further removal or offer, because the store
//!   may already hold objects of the next life.
//! - The close reports unshipped files.
//!
//! Neighbours: the owners of databases and of objects call this module once their log has ended.

use std::sync::Arc;
use std::time::Duration;

use ensile_base::sync::sleep;

use super::state::Shipper;
use crate::DurabilityError;

/// Interval between two checks for the end of the present step.
const LOOK: Duration = Duration::from_millis(5);

impl Shipper {
    /// Ends the shipping of a database whose log has ended. Waits for the present step, at most for
    /// [`close_wait`](crate::ShippingConfig::close_wait). Afterwards a stepping thread ends with its next step, or is
    /// in a call that does not return: the caller must not join such a thread. A second call returns the result of the
    /// first.
    ///
    /// # Errors
    /// [`DurabilityError::NotShipped`] if the present step has not ended in time.
    pub fn end(&self) -> Result<(), DurabilityError> {
        if self.store.is_forked() {
            return Ok(());
        }
        let mut ended = self.ended.lock();
        ended.get_or_insert_with(|| self.wait_for_step()).clone()
    }

    /// Stops shipping until the next open, and holds no log files. A waiting [`Shipper::end`] waits no more. The call
    /// itself waits for nothing.
    pub fn cancel(&self) {
        if self.store.is_forked() {
            return;
        }
        let mut steps = self.steps.lock();
        (steps.has_ended, steps.is_cancelled) = (true, true);
        drop(steps);
        self.store.hold().end();
        self.wake();
    }

    /// Ends shipping, and waits for the present step.
    fn wait_for_step(&self) -> Result<(), DurabilityError> {
        self.steps.lock().has_ended = true;
        self.wake();
        let looks = self.config.close_wait.as_nanos().div_ceil(LOOK.as_nanos());
        for _ in 0..looks {
            if !self.is_stepping() || self.is_cancelled() {
                break;
            }
            sleep(LOOK);
        }
        if !self.is_stepping() {
            return Ok(());
        }
        let stats = self.stats();
        let why = format!(
            "; a call of {} has not returned and is left to itself: {} files of {} bytes wait, which the next open \
             ships, and all of it is durable here",
            self.config.to.place(),
            stats.waiting_files,
            stats.waiting_bytes
        );
        let wanted = self.epoch_to_ship().min(self.store.epochs().now());
        Err(DurabilityError::NotShipped { shipped: stats.shipped_epoch, wanted, why: why.into() })
    }

    /// True if another thread takes a step. A step's own callee may end the database.
    fn is_stepping(&self) -> bool {
        let own = std::thread::current().id();
        self.steps.lock().threads.iter().any(|thread| *thread != own)
    }
}

/// A step under way. A panic of the step is reported: shipping stops.
pub(super) struct StepUnderWay<'s>(&'s Shipper);

impl<'s> StepUnderWay<'s> {
    /// Begins a step on the calling thread; `None` after the end of shipping.
    pub(super) fn begin(shipper: &'s Shipper) -> Option<Self> {
        let mut steps = shipper.steps.lock();
        if steps.has_ended {
            return None;
        }
        let own = std::thread::current().id();
        debug_assert!(!steps.threads.contains(&own), "a step within a step");
        steps.threads.push(own);
        Some(Self(shipper))
    }
}

impl Drop for StepUnderWay<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let told = "a step of shipping panicked: nothing is shipped until the database is opened again";
            self.0.stats.lock().last_error = Some(Arc::from(told));
        }
        let own = std::thread::current().id();
        let mut steps = self.0.steps.lock();
        let at = steps.threads.iter().position(|thread| *thread == own);
        steps.threads.swap_remove(at.expect("it was begun here"));
    }
}
