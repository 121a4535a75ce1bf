//! Ticket of one attempt at a checkpoint: progress and outcome, for the callers that demanded the checkpoint.
//!
//! Neighbours: `state_machine` makes a ticket for each attempt, `manager` answers the ticket, applications and backups
//! hold handles. The objects let a waiting thread step the checkpointers.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use ensile_base::Epoch;
use ensile_base::sync::{Condvar, Mutex, sleep};
use ensile_disk::Process;

use crate::control::adaptive::ThresholdReading;
use crate::control::pace::CheckpointPace;
use crate::control::recovery_time::RecoveryForecast;
use crate::control::trigger::CheckpointReason;
use crate::counter::Counter;
use crate::error::kind::{Returns, into_caller_error};
use crate::reentrancy::{HeldGuard, LogAddress, UserCode, is_awaited, permit_wait};
use crate::{DurabilityError, Result, StorageError};

/// Figures of an installed checkpoint.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct CheckpointReport {
    /// Number of the checkpoint.
    pub number: u64,
    /// e_l: recovery still needs the log from this epoch on; the freeze S of a picture, the least e_l of ranges.
    pub low: Epoch,
    /// e_h: the installation waited until D reached this epoch. Of a picture: e_c = S - 1.
    pub high: Epoch,
    /// Reason to begin the checkpoint.
    pub reason: CheckpointReason,
    /// Number of entries; of a turn, the entries of all ranges.
    pub entries: u64,
    /// Number of displaced versions beside the pages of a semi-fuzzy picture (SIREN §3.3), or also in pages.
    pub displaced: u64,
    /// Bytes of the blocks of displaced versions in page tails. A tail is the unused rest of a written page's last
    /// unit, so tails take no extra space. An examination counts the same bytes
    /// ([`PictureFacts`](crate::examination::PictureFacts::displaced_tail_bytes)).
    pub displaced_tail_bytes: u64,
    /// Bytes that a load of the checkpoint reads.
    pub bytes: u64,
    /// Bytes written for the checkpoint, without a picture's kept pages, and without the other ranges of a turn.
    pub bytes_written: u64,
    /// Number of pages that were written for a picture (SIREN §3.1).
    pub pages_written: u64,
    /// Number of pages that a picture keeps from the previous picture (SIREN §3.1).
    pub pages_kept: u64,
    /// Ranges that a turn of a cycling checkpoint took; `None` for a whole checkpoint.
    pub turn: Option<CheckpointTurn>,
    /// Expected and permitted time of a recovery, at the decision to begin.
    pub recovery: RecoveryForecast,
    /// Load, threshold and compared value at the decision to begin; `None` if no threshold followed a load.
    pub adaptive: Option<ThresholdReading>,
    /// Time from the begin to the installation.
    pub elapsed: Duration,
}

/// Ranges that a turn of a cycling checkpoint took (SiloR §8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct CheckpointTurn {
    /// Index of the first taken range in key order, from 0.
    pub first: u64,
    /// Number of taken ranges: one, or all.
    pub taken: u64,
    /// Number of ranges of the checkpoint.
    pub ranges: u64,
}

impl CheckpointReport {
    /// Epoch e_c, at whose end the picture shows the state; `None` for a fuzzy checkpoint.
    #[must_use]
    pub fn picture_epoch(&self) -> Option<Epoch> {
        picture_epoch(self.low, self.high)
    }
}

/// e_c of a picture. A picture is not walked in epochs of its own, so e_h is below e_l.
pub(crate) fn picture_epoch(low: Epoch, high: Epoch) -> Option<Epoch> {
    (low > high).then_some(high)
}

/// Progress of an attempt.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct CheckpointProgress {
    /// Number of written bytes.
    pub bytes: u64,
    /// Number of written entries.
    pub entries: u64,
    /// Finished fraction of the walk, by slices: 0 before the walk begins, 1 once the walk has ended.
    pub share: f64,
}

pub(super) type AttemptOutcome = Result<CheckpointReport>;

/// State shared by an attempt and its handles.
#[derive(Debug, Default)]
pub(crate) struct Ticket {
    bytes: Counter,
    entries: Counter,
    slices: Counter,
    slices_done: Counter,
    /// Outcome, set in one step.
    outcome: Mutex<Option<AttemptOutcome>>,
    answered: Condvar,
}

impl Ticket {
    pub(crate) fn set_slices(&self, slices: u64) {
        assert_eq!(self.slices.read(), 0, "an attempt cuts the state once");
        self.slices.add(slices);
    }

    pub(crate) fn add_slice(&self) {
        self.slices_done.add(1);
        debug_assert!(self.slices_done.read() <= self.slices.read());
    }

    pub(crate) fn add_block(&self, bytes: u64, entries: u64) {
        debug_assert!(bytes > 0 && entries > 0, "a block without entries is not written");
        self.bytes.add(bytes);
        self.entries.add(entries);
    }

    /// Outcome of the attempt; `None` before the attempt is answered.
    pub(crate) fn outcome(&self) -> Option<AttemptOutcome> {
        self.outcome.lock().clone()
    }

    /// Progress of the attempt. Each figure may be a little old.
    pub(crate) fn progress(&self) -> CheckpointProgress {
        let slices = self.slices.read();
        let share = if slices == 0 { 0.0 } else { self.slices_done.read() as f64 / slices as f64 };
        CheckpointProgress { bytes: self.bytes.read(), entries: self.entries.read(), share }
    }

    /// Sets the outcome, and wakes the waiting callers.
    pub(crate) fn answer(&self, outcome: AttemptOutcome) {
        let before = self.outcome.lock().replace(outcome);
        assert!(before.is_none(), "an attempt has one outcome");
        self.answered.notify_all();
    }
}

/// Step of a waiting thread, where no other thread may take steps. Returns the time until the next due step.
type DriveStep = dyn Fn() -> Option<Duration> + Send + Sync;
/// Longest pause of a waiting thread between two driven steps: short, because another thread may drive too.
const DRIVEN_PAUSE: Duration = Duration::from_micros(500);

/// A caller that demanded a checkpoint at a rate. The rate holds while a handle of the caller exists.
#[derive(Debug)]
struct PacedCaller {
    number: u64,
    pace: Arc<Mutex<CheckpointPace>>,
    process: Process,
}

impl Drop for PacedCaller {
    fn drop(&mut self) {
        // I4: in a forked child, a thread of the parent may have held the lock.
        if self.process.is_this() {
            self.pace.lock().remove_caller(self.number);
        }
    }
}

/// Handle of a demanded checkpoint. The checkpoint goes on after the drop of the handle. A rate of the demand
/// ([`Checkpoints::demand_paced`](super::Checkpoints::demand_paced)) counts until the last clone is dropped.
///
/// `E` is the error that the calls return: each public crate names its own.
pub struct CheckpointHandle<E = DurabilityError> {
    ticket: Arc<Ticket>,
    process: Process,
    _caller: Option<Arc<PacedCaller>>,
    drive: Option<Arc<DriveStep>>,
    log: LogAddress,
    /// True if the checkpoint may wait for the guard of an object.
    takes_guards: bool,
    returns: Returns<E>,
}

impl<E> Clone for CheckpointHandle<E> {
    fn clone(&self) -> Self {
        self.returning()
    }
}

impl<E> fmt::Debug for CheckpointHandle<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CheckpointHandle").field("ticket", &self.ticket).finish_non_exhaustive()
    }
}

impl CheckpointHandle {
    pub(crate) fn new(ticket: Arc<Ticket>, process: Process, log: LogAddress) -> Self {
        Self { ticket, process, _caller: None, drive: None, log, takes_guards: false, returns: PhantomData }
    }

    /// Attaches the handle to the paced caller with this number.
    pub(crate) fn with_paced_caller(self, number: u64, pace: &Arc<Mutex<CheckpointPace>>) -> Self {
        let caller = PacedCaller { number, pace: Arc::clone(pace), process: self.process.clone() };
        Self { _caller: Some(Arc::new(caller)), ..self }
    }

    /// Refuses a wait on a thread that holds the guard of an object (O8).
    #[must_use]
    pub fn of_guarded_objects(self) -> Self {
        Self { takes_guards: true, ..self }
    }

    /// Lets a thread that [waits](Self::wait) drive the checkpoint, where checkpointers have no threads of their own.
    /// `drive` takes the due steps and returns the time until the next due step; `None` if no step will follow.
    #[must_use]
    pub fn driven_by(self, drive: impl Fn() -> Option<Duration> + Send + Sync + 'static) -> Self {
        assert!(self.drive.is_none(), "a handle is driven in one way");
        Self { drive: Some(Arc::new(drive)), ..self }
    }
}

impl<E> CheckpointHandle<E> {
    /// Another handle of the checkpoint, with calls that return errors of type `F`.
    #[doc(hidden)]
    #[must_use]
    pub fn returning<F>(&self) -> CheckpointHandle<F> {
        CheckpointHandle {
            ticket: Arc::clone(&self.ticket),
            process: self.process.clone(),
            _caller: self._caller.clone(),
            drive: self.drive.clone(),
            log: self.log,
            takes_guards: self.takes_guards,
            returns: PhantomData,
        }
    }

    /// Progress of the checkpoint; all zero while the checkpoint waits for its turn.
    #[must_use]
    pub fn progress(&self) -> CheckpointProgress {
        self.ticket.progress()
    }

    fn wait_for_outcome(&self) -> AttemptOutcome {
        if !self.process.is_this() {
            return Err(DurabilityError::Forked);
        }
        UserCode::check_outside()?;
        if let Some(outcome) = self.ticket.outcome() {
            return outcome;
        }
        if is_awaited(self.log) {
            return Err(DurabilityError::InCallBack);
        }
        if self.takes_guards {
            HeldGuard::check_none()?;
        }
        let _leave = permit_wait(self.log)?;
        if let Some(drive) = &self.drive {
            return self.wait_driving(&**drive);
        }
        debug_assert!(!UserCode::is_running(), "O8: user code waits for no checkpoint");
        let mut outcome = self.ticket.outcome.lock();
        loop {
            if let Some(outcome) = &*outcome {
                return outcome.clone();
            }
            outcome = self.ticket.answered.wait(outcome);
        }
    }

    fn wait_driving(&self, drive: &DriveStep) -> AttemptOutcome {
        debug_assert!(self.process.is_this(), "I4: in a forked child nobody drives");
        loop {
            if let Some(outcome) = self.ticket.outcome() {
                return outcome;
            }
            // `None`: no step will follow. The last step has answered this ticket, or is about to.
            sleep(drive().unwrap_or(DRIVEN_PAUSE).min(DRIVEN_PAUSE));
        }
    }
}

impl<E: From<StorageError>> CheckpointHandle<E> {
    /// Waits until the checkpoint is installed or has failed. Must not be called on a thread that takes checkpointers'
    /// steps, has the guard of an object, or runs a future's waker: the checkpoint may wait for the thread.
    ///
    /// # Errors
    /// The checkpoint was given up, and nothing else changed; the log has stopped, or the database was closed; the
    /// folder was removed; this process is a fork. In a call-back: the call-back demanded the checkpoint, and none is
    /// made; or a call-back waits, or a thread with the guard of an object, and the checkpoint goes on.
    pub fn wait(&self) -> Result<CheckpointReport, E> {
        self.wait_for_outcome().map_err(into_caller_error)
    }

    /// Outcome of the checkpoint; `None` while the checkpoint is not finished.
    #[must_use]
    pub fn outcome(&self) -> Option<Result<CheckpointReport, E>> {
        if !self.process.is_this() {
            return Some(Err(into_caller_error(DurabilityError::Forked)));
        }
        self.ticket.outcome().map(|outcome| outcome.map_err(into_caller_error))
    }
}
