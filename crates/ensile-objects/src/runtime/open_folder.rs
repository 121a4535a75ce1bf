//! An open folder, its log and its checkpoints, and their steps: the runtime's threads take the steps, or the threads
//! of the application.
//!
//! Neighbours: `entry` logs, `driver` and `threads` drive, `waits` waits, `close` ends.

use std::sync::Arc as StdArc;
use std::time::Duration;

use ensile_base::clock::Clock;
use ensile_base::sync::{Arc, AtomicBool, Condvar, Mutex, Ordering};
use ensile_disk::Process;
use ensile_durability::{
    CheckpointConfig, CheckpointStep, Checkpoints, DurabilityError, Log, LoggerStep, OutermostUserCode,
    RecoveryReport, Shipper, UserCode,
};
use ensile_epoch::{Advance, Epochs};

use super::object_state::ObjectState;
use super::stats::ObjectsStats;
use super::watchdog::WaitingCallBack;
use super::worker::LogWorkers;
use crate::apply_time::AppliedTime;
use crate::error::ObjectsResult as Result;

/// Properties of a runtime that stay until the close.
#[derive(Clone, Copy, Debug)]
pub(super) struct RuntimeMode {
    /// True if a result is released once it is durable.
    pub(super) is_strict: bool,
    pub(super) is_logged: bool,
    pub(super) epoch_interval: Duration,
    /// True if threads of the runtime take the steps.
    pub(super) has_threads: bool,
    /// True if a waiting thread drives. False where a test has the clock, because time then stands still during the
    /// wait.
    pub(super) is_driven: bool,
}

/// Marks that a change tests before the change logs an entry.
#[derive(Debug)]
pub(super) struct EntryMarks {
    pub(super) closed: AtomicBool,
    /// True once no entry may be logged at once: the objects are closed, or one of the objects is poisoned.
    pub(super) detour: AtomicBool,
}

/// Tells the heartbeat to stop, before the heartbeat's interval has passed.
#[derive(Debug, Default)]
pub(super) struct HeartbeatStop {
    stopped: Mutex<bool>,
    changed: Condvar,
}

impl HeartbeatStop {
    pub(super) fn stop(&self) {
        *self.stopped.lock() = true;
        self.changed.notify_all();
    }

    /// Waits for the word or for `timeout`. True if the heartbeat is to stop. If the wait ends early, a tick comes
    /// early.
    pub(super) fn wait(&self, timeout: Duration) -> bool {
        let stopped = self.stopped.lock();
        *stopped || *self.changed.wait_timeout(stopped, timeout)
    }
}

/// Locks of the threads that drive a runtime.
#[derive(Debug, Default)]
pub(super) struct DriverLocks {
    /// Lock of the thread that drives the log, with the time of the last heartbeat in nanoseconds.
    pub(super) beat_nanos: Mutex<Option<u64>>,
    /// Lock of the thread that drives checkpoints and shipping.
    pub(super) checkpoints: Mutex<()>,
}

pub(crate) struct Runtime {
    pub(crate) state: StdArc<dyn ObjectState>,
    pub(crate) log: StdArc<Log>,
    pub(crate) checkpoints: StdArc<Checkpoints>,
    pub(crate) shipping: Option<StdArc<Shipper>>,
    pub(crate) epochs: Arc<Epochs>,
    pub(crate) clock: Clock,
    pub(crate) applied: StdArc<AppliedTime>,
    pub(super) process: Process,
    pub(super) workers: StdArc<LogWorkers>,
    pub(super) mode: RuntimeMode,
    pub(super) marks: EntryMarks,
    pub(super) stop: HeartbeatStop,
    pub(super) driver: DriverLocks,
    pub(super) checkpoint_config: Mutex<CheckpointConfig>,
    pub(crate) report: RecoveryReport,
}

impl Runtime {
    /// True if changes are logged. Otherwise only checkpoints keep changes.
    #[inline]
    pub(crate) fn is_logged(&self) -> bool {
        self.mode.is_logged
    }

    /// Fails in a process forked from the opener of the folder (I4).
    #[inline]
    pub(crate) fn check_process(&self) -> Result<(), DurabilityError> {
        if self.process.is_this() { Ok(()) } else { Err(DurabilityError::Forked) }
    }

    /// Refuses a call from user code (O8), and in a forked process (I4).
    #[inline]
    pub(crate) fn check_caller(&self) -> Result<(), DurabilityError> {
        UserCode::check_outside()?;
        self.check_process()
    }

    /// Fails where an unlogged change is impossible too.
    #[inline]
    pub(crate) fn check_open(&self) -> Result<(), DurabilityError> {
        self.check_process()?;
        // Relaxed: nothing is logged, so a close has nothing to wait for.
        if self.marks.closed.load(Ordering::Relaxed) {
            return Err(closed_error());
        }
        // A stopped log, such as the log of a fenced folder, keeps nothing.
        if self.mode.is_logged { Ok(()) } else { self.log.check() }
    }

    /// Ends [`log_at_once`](Self::log_at_once) for all entries from now on: a caller has to ask something first.
    pub(crate) fn take_detour(&self) {
        // Relaxed: concerns the object whose guard the caller holds. The next holder of the guard sees the mark.
        self.marks.detour.store(true, Ordering::Relaxed);
    }

    /// Poisons an object whose change failed, under the caller's guard (O6).
    pub(crate) fn change_failed(&self, object: u64) {
        self.state.change_failed(object);
        self.take_detour();
    }

    /// True after [`take_detour`](Self::take_detour), or a close.
    pub(crate) fn is_detour_taken(&self) -> bool {
        // Relaxed: the caller holds the guard under which the mark was set, if the mark concerns the caller.
        self.marks.detour.load(Ordering::Relaxed)
    }

    pub(super) fn mark_closed(&self) {
        // SeqCst: partner is the fence between an entry's bind and its look at this mark.
        self.marks.closed.store(true, Ordering::SeqCst);
        // SeqCst: partner is the fence between an entry's bind and its look at this mark.
        self.marks.detour.store(true, Ordering::SeqCst);
    }

    /// Marks this thread as running user code of these objects, until the mark is dropped (O8). The caller was
    /// [checked](Self::check_caller).
    #[inline]
    pub(crate) fn user_code(&self) -> OutermostUserCode {
        self.log.user_code()
    }

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

    pub(crate) fn reschedule(&self, change: impl FnOnce(&mut CheckpointConfig)) -> Result<()> {
        self.check_caller()?;
        let mut config = self.checkpoint_config.lock();
        let mut next = config.clone();
        change(&mut next);
        self.checkpoints.reschedule(&next)?;
        *config = next;
        Ok(())
    }

    /// Reports requests, except from user code: a replay would report them again.
    pub(crate) fn report_requests(&self, served: u64, lost: u64) {
        if !UserCode::is_running() {
            self.checkpoints.report_requests(served, lost);
        }
    }

    /// Figures of the runtime; the caller counts its objects.
    pub(crate) fn stats(&self, objects: u64, poisoned: u64) -> ObjectsStats {
        ObjectsStats {
            objects,
            poisoned,
            epoch: self.epochs.now(),
            durable_epoch: self.log.durable_epoch(),
            log: self.log.stats(),
            log_health: self.log.health(),
            checkpoints: self.checkpoints.stats(),
            shipping: self.shipping.as_ref().map(|shipping| shipping.stats()),
            waiting_call_back: self.waiting_call_back(),
        }
    }

    fn waiting_call_back(&self) -> Option<WaitingCallBack> {
        // I4: a lock that another thread of the parent held at the fork is never released.
        self.check_process().ok()?;
        self.state.watch()?.look()
    }
}

pub(super) fn closed_error() -> DurabilityError {
    DurabilityError::Closed("the objects are closed".into())
}
