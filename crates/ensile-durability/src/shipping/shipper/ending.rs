//! How shipping ends with its database: a close waits for the step under way, and not for ever.
//!
//! Invariants:
//! - No step begins behind the end. One that hangs in a call of the store may still end that call: put one object,
//!   install a manifest, or remove what it had listed before. It removes and offers nothing that it had not begun to:
//!   what is there by then may be the next life's.
//! - What was not shipped is said.
//!
//! Neighbours: the owners of databases and of objects call it once their log has ended.

use std::sync::Arc;
use std::thread::ThreadId;
use std::time::Duration;

use ensile_base::sync::sleep;

use super::Shipper;
use crate::DurabilityError;

/// What is said of shipping that was cancelled.
pub(super) const CANCELLED: &str = "shipping was cancelled: nothing is shipped until the next open";
/// How often it is looked whether the step under way has ended.
const LOOK: Duration = Duration::from_millis(5);

impl Shipper {
    /// Ends the shipping of a database whose log has ended: waits for the step under way, at most as long as
    /// [`close_wait`](crate::ShippingConfig::close_wait) says. Then a thread that steps ends with its next step, or is
    /// in a call that does not return: it is to be left to itself. A second call says what the first did.
    ///
    /// # Errors
    /// [`DurabilityError::NotShipped`] in that case.
    pub fn end(&self) -> Result<(), DurabilityError> {
        if self.store.is_forked() {
            return Ok(());
        }
        let mut ended = self.ended.lock();
        ended.get_or_insert_with(|| self.wait_for_step()).clone()
    }

    /// Ships nothing any more until the next open, and holds no log files. An [`Shipper::end`] that waits for a step
    /// waits no more. This call waits for nothing.
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

    /// Has its end come while a step was in a call of the store? The next life may have begun.
    pub(super) fn has_ended(&self) -> bool {
        self.steps.lock().has_ended
    }

    pub(super) fn is_cancelled(&self) -> bool {
        self.steps.lock().is_cancelled
    }

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
        let wanted = self.logged().min(self.store.epochs().now());
        Err(DurabilityError::NotShipped { shipped: stats.shipped_epoch, wanted, why: why.into() })
    }

    /// Is a step under way, on another thread? What a step calls may end the database.
    fn is_stepping(&self) -> bool {
        let own = std::thread::current().id();
        self.steps.lock().threads.iter().any(|thread| *thread != own)
    }
}

/// The steps under way, on which threads; and whether any may begin.
#[derive(Debug, Default)]
pub(super) struct ShipSteps {
    threads: Vec<ThreadId>,
    has_ended: bool,
    is_cancelled: bool,
}

/// A step under way. If it panics, that is told: nothing is shipped any more.
pub(super) struct StepUnderWay<'s>(&'s Shipper);

impl<'s> StepUnderWay<'s> {
    /// `None` behind the end.
    pub(super) fn begin(shipper: &'s Shipper) -> Option<Self> {
        let mut steps = shipper.steps.lock();
        if steps.has_ended {
            return None;
        }
        steps.threads.push(std::thread::current().id());
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
