//! Objects without threads of their own: the application's threads take the steps.
//!
//! Invariants:
//! - One thread at a time drives. Another one that comes meanwhile finds nothing to do.
//! - A thread that waits for a result drives the log while it waits, and no checkpoint: it may be one that a call-back
//!   of a checkpoint would wait for.
//!
//! Neighbours: `threads` takes the same steps on threads of its own; `open` makes the state.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use ensile_base::Epoch;
use ensile_base::limits::EPOCH_MICROS_MIN;
use ensile_base::sync::{Mutex, sleep};
use ensile_durability::{CheckpointStep, DurabilityError, LoggerStep, ShipStep};

use super::{Runtime, threads};

/// Whose turn it is to drive, and when the heartbeat ticked last.
#[derive(Debug, Default)]
pub(super) struct Driver(Mutex<Option<u64>>);

impl Runtime {
    /// Takes each step that is due; how long nothing is due behind that, or `None` once the objects are closed, or
    /// their log has stopped.
    pub(crate) fn drive(&self) -> Option<Duration> {
        self.check_open().ok()?;
        if self.has_threads {
            return Some(self.epoch_interval);
        }
        // Another thread drives.
        let Some(mut beat_nanos) = self.driver.0.try_lock() else { return Some(self.epoch_interval) };
        let mut pause = self.drive_log(&mut beat_nanos)?;
        for checkpointer in 0..self.checkpoints.checkpointers() {
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
        Some(pause)
    }

    /// A tick of the heartbeat once the epoch's time is over, and a step of each logger.
    fn drive_log(&self, beat_nanos: &mut Option<u64>) -> Option<Duration> {
        let now = self.clock.nanos();
        let passed = beat_nanos.map(|beat| Duration::from_nanos(now.saturating_sub(beat)));
        let left = match passed.and_then(|passed| self.epoch_interval.checked_sub(passed)) {
            Some(left) if !left.is_zero() => left,
            _ => {
                threads::tick(self);
                *beat_nanos = Some(now);
                self.epoch_interval
            }
        };
        let mut has_ended = false;
        for logger in 0..self.log.loggers() {
            has_ended |= self.logger_step(logger) == LoggerStep::Stopped;
        }
        if has_ended { None } else { Some(left) }
    }

    /// Waits until `epoch` is durable, on a thread that drives the log meanwhile.
    pub(super) fn wait_driving(&self, epoch: Epoch) -> Result<(), DurabilityError> {
        self.check_process()?;
        // It stands among those that wait, so that epochs close early.
        let mut durable = self.log.durable(epoch);
        loop {
            if let Poll::Ready(answer) = Pin::new(&mut durable).poll(&mut Context::from_waker(Waker::noop()))
            {
                return answer;
            }
            if let Some(mut beat_nanos) = self.driver.0.try_lock() {
                self.drive_log(&mut beat_nanos);
            }
            // The epoch is too short yet, or another thread drives.
            sleep(Duration::from_micros(EPOCH_MICROS_MIN / 2));
        }
    }
}
