//! Runtime of objects without threads of their own: the application's threads take the steps (O9).
//!
//! ```text
//! drive                         a tick | loggers | checkpointers, the shipper
//! waits for a result            a tick | loggers
//! waits for log space                    its logger, and wakes nobody          under its object's lock
//! waits for a checkpoint        drive                                          without a guard
//! waits for the shared store    drive                                          without a guard
//! ```
//! One thread at a time drives the log, and one thread drives checkpoints and shipping. A waker can drive the log
//! without a lock. User code drives nothing, and a thread with a guard no checkpoint (O8).
//!
//! Neighbours: `open_folder` has the steps, and `threads` takes them on its own threads; `worker` waits for log space.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use ensile_base::Epoch;
use ensile_base::limits::EPOCH_MICROS_MIN;
use ensile_base::sync::sleep;
use ensile_durability::{
    CheckpointStep, DurabilityError, HeldGuard, LoggerStep, ShipStep, Shipper, UserCode,
};

use super::open_folder::Runtime;
use crate::error::ObjectsResult as Result;

/// Time after which a waiting thread looks again: the epoch was too short, or another thread drives.
const LOOK_AGAIN: Duration = Duration::from_micros(EPOCH_MICROS_MIN / 2);

impl Runtime {
    /// Takes the steps that are due. Returns the time until the next step is due, or `None` once the objects are closed
    /// or their log has stopped.
    pub(crate) fn drive(&self) -> Option<Duration> {
        self.check_open().ok()?;
        // O8: a step might wait for the object whose user code this thread runs.
        if self.mode.has_threads || UserCode::is_running() {
            return Some(self.mode.epoch_interval);
        }
        let log = self.drive_log();
        // Checkpoint steps go on after the log has stopped: the step informs a thread that waits for a checkpoint.
        let rest = self.drive_checkpoints();
        Some(log?.min(rest))
    }

    /// Ticks the heartbeat once the epoch's time is over, and takes a step of each logger.
    fn drive_log(&self) -> Option<Duration> {
        if self.log.is_in_waker() {
            // This thread is in a step, which holds no lock while it wakes. But the thread may hold the lock of the
            // log's driver.
            return self.step_loggers().then_some(self.mode.epoch_interval);
        }
        // Another thread drives.
        let Some(mut beat_nanos) = self.driver.beat_nanos.try_lock() else {
            return Some(self.mode.epoch_interval);
        };
        let now = self.clock.nanos();
        let passed = beat_nanos.map(|beat| Duration::from_nanos(now.saturating_sub(beat)));
        let left = match passed.and_then(|passed| self.mode.epoch_interval.checked_sub(passed)) {
            Some(left) if !left.is_zero() => left,
            _ => {
                self.heartbeat_step();
                *beat_nanos = Some(now);
                self.mode.epoch_interval
            }
        };
        // L6: the checkpointer normally reserves epochs. But the checkpointer may be in a call-back, or without a
        // driver.
        self.log.reserved_epochs_step();
        let goes_on = self.step_loggers();
        self.log.wake_kept();
        debug_assert!(left <= self.mode.epoch_interval, "a tick is due within an epoch");
        goes_on.then_some(left)
    }

    fn step_loggers(&self) -> bool {
        // The fold steps every logger, even after a logger has stopped.
        let steps = (0..self.log.loggers()).map(|logger| self.logger_step(logger) != LoggerStep::Stopped);
        steps.fold(true, |goes_on, goes| goes_on & goes)
    }

    /// Takes a step of each checkpointer and of the shipper. Returns the time until the next step is due.
    fn drive_checkpoints(&self) -> Duration {
        let mut pause = self.mode.epoch_interval;
        // Another thread drives, or this thread is in a waker that a checkpoint's step called.
        let Some(_turn) = self.driver.checkpoints.try_lock() else { return pause };
        // O8: a call-back of a checkpoint might wait for this thread's guard.
        let checkpointers = HeldGuard::check_none().map_or(0, |()| self.checkpoints.checkpointers());
        for checkpointer in 0..checkpointers {
            match self.checkpoint_step(checkpointer) {
                CheckpointStep::Worked => pause = Duration::ZERO,
                CheckpointStep::Paced(wait) => pause = pause.min(wait),
                CheckpointStep::Waiting | CheckpointStep::Idle | CheckpointStep::Stopped => {}
            }
        }
        match self.shipping.as_ref().map(|shipping| shipping.step()) {
            Some(ShipStep::Worked) => pause = Duration::ZERO,
            Some(ShipStep::Paced(wait)) => pause = pause.min(wait),
            Some(ShipStep::Idle | ShipStep::Stopped) | None => {}
        }
        pause
    }

    /// Waits until `epoch` is durable, on a thread that drives the log meanwhile.
    pub(super) fn wait_driving(&self, epoch: Epoch) -> Result<(), DurabilityError> {
        self.check_process()?;
        // The future registers as a waiter, so that epochs close early.
        assert!(!self.mode.has_threads, "O9: a thread drives if no thread of the runtime does");
        let mut durable = self.log.durable(epoch);
        loop {
            if let Poll::Ready(answer) = Pin::new(&mut durable).poll(&mut Context::from_waker(Waker::noop()))
            {
                debug_assert!(answer.is_err() || self.log.durable_epoch() >= epoch, "R1: the wait is for D");
                return answer;
            }
            self.drive_log();
            if self.log.durable_epoch() < epoch {
                sleep(LOOK_AGAIN);
            }
        }
    }

    /// Ships as [`Shipper::ship`] does, on a thread that drives meanwhile.
    pub(super) fn ship_driving(&self, shipping: &Shipper, timeout: Duration) -> Result<Epoch> {
        let pause = || {
            let due = self.drive().unwrap_or(LOOK_AGAIN);
            sleep(due.min(LOOK_AGAIN));
        };
        Ok(shipping.ship_by(timeout, |epoch| self.wait_driving(epoch), pause)?)
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
