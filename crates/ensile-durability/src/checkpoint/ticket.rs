//! One attempt at a checkpoint as the callers see it that asked for it: how far it is, and what came of it.
//!
//! Neighbours: `manager` makes one for each attempt and answers it; handles are the applications'.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use ensile_base::Epoch;
use ensile_base::sync::{Condvar, Mutex, sleep};
use ensile_disk::Process;

use crate::DurabilityError;
use crate::call_backs::{LogAddress, is_awaited, leave_to_wait};
use crate::control::adaptive::ThresholdReading;
use crate::control::pace::CheckpointPace;
use crate::control::recovery_time::RecoveryForecast;
use crate::control::trigger::CheckpointReason;
use crate::counter::Counter;

/// An installed checkpoint, in figures.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct CheckpointReport {
    /// Its number.
    pub number: u64,
    /// e_l: the log from this epoch on is still needed. Of a picture its freeze S; of a turn the least e_l of all
    /// ranges.
    pub low: Epoch,
    /// e_h: it took D to reach this to install it. Of a picture e_c, which is S - 1.
    pub high: Epoch,
    /// Why it began.
    pub reason: CheckpointReason,
    /// Its entries; of a turn those of all ranges.
    pub entries: u64,
    /// Of these, versions that commits have displaced and that stand beside the pages of a semi-fuzzy picture (SIREN
    /// §3.3). Their rows may stand in pages too.
    pub displaced: u64,
    /// Bytes of the blocks with such versions that stand in what pages which were written leave of their last units.
    /// They cost no bytes of their own. An examination counts the same
    /// ([`PictureFacts`](crate::examine::PictureFacts::displaced_tail_bytes)).
    pub displaced_tail_bytes: u64,
    /// Bytes that loading it reads.
    pub bytes: u64,
    /// Bytes that were written for it. A picture keeps pages of the one before, and those are not written again; a turn
    /// keeps the other ranges.
    pub bytes_written: u64,
    /// Pages of a picture that were written, and those that it keeps from the one before (SIREN §3.1).
    pub pages_written: u64,
    /// See [`CheckpointReport::pages_written`].
    pub pages_kept: u64,
    /// Of a checkpoint that goes round by ranges: which of them it took. `None` of one that is whole.
    pub turn: Option<CheckpointTurn>,
    /// What a recovery would have taken when it was decided that it begins, and what it may take.
    pub recovery: RecoveryForecast,
    /// The load, the threshold that follows it, and what it was compared with, when it was decided that it begins;
    /// `None` where no threshold followed a load.
    pub adaptive: Option<ThresholdReading>,
    /// From its beginning until it was installed.
    pub elapsed: Duration,
}

/// Which ranges a turn of a cycling checkpoint took (SiloR §8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CheckpointTurn {
    /// The first one, in the order of keys, from 0.
    pub first: u64,
    /// How many: one, or all.
    pub taken: u64,
    /// How many there are.
    pub ranges: u64,
}

impl CheckpointReport {
    /// The epoch e_c at whose end the checkpoint shows the state, if it is a picture; `None` of a fuzzy one.
    #[must_use]
    pub fn picture_epoch(&self) -> Option<Epoch> {
        picture_epoch(self.low, self.high)
    }
}

/// e_c of a picture: it has no epoch of its own to be walked in, so it ends before it begins.
pub(crate) fn picture_epoch(low: Epoch, high: Epoch) -> Option<Epoch> {
    (low > high).then_some(high)
}

/// How far an attempt is.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct CheckpointProgress {
    /// Bytes written.
    pub bytes: u64,
    /// Entries written.
    pub entries: u64,
    /// Which part of the walk is done, by slices: 0 before it begins, 1 once it has ended.
    pub share: f64,
}

/// What came of an attempt.
pub(super) type AttemptOutcome = Result<CheckpointReport, DurabilityError>;

/// Shared by an attempt and its handles.
#[derive(Debug, Default)]
pub(crate) struct Ticket {
    bytes: Counter,
    entries: Counter,
    slices: Counter,
    slices_done: Counter,
    /// It is set in one step.
    outcome: Mutex<Option<AttemptOutcome>>,
    answered: Condvar,
}

impl Ticket {
    /// Notes that the walk has this many slices.
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

    /// What came of it, if that is known yet.
    pub(crate) fn outcome(&self) -> Option<AttemptOutcome> {
        self.outcome.lock().clone()
    }

    /// How far it is: each figure may be a little old.
    pub(crate) fn progress(&self) -> CheckpointProgress {
        let slices = self.slices.read();
        let share = if slices == 0 { 0.0 } else { self.slices_done.read() as f64 / slices as f64 };
        CheckpointProgress { bytes: self.bytes.read(), entries: self.entries.read(), share }
    }

    /// Answers everybody who asked.
    pub(crate) fn answer(&self, outcome: AttemptOutcome) {
        let before = self.outcome.lock().replace(outcome);
        assert!(before.is_none(), "an attempt has one outcome");
        self.answered.notify_all();
    }
}

/// What a thread that waits does meanwhile, where no other thread may do it: it says for how long nothing is due.
type DriveStep = dyn Fn() -> Option<Duration> + Send + Sync;
/// A thread that drives while it waits looks again after this long at the latest: another one may drive too.
const DRIVEN_PAUSE: Duration = Duration::from_micros(500);

/// A caller that asked for a checkpoint at a rate. The rate holds while one of its handles is there.
#[derive(Debug)]
struct PacedCaller {
    number: u64,
    pace: Arc<Mutex<CheckpointPace>>,
    process: Process,
}

impl Drop for PacedCaller {
    fn drop(&mut self) {
        // I4: in a forked child somebody may have held the lock.
        if self.process.is_this() {
            self.pace.lock().left(self.number);
        }
    }
}

/// A checkpoint that was asked for. If it is dropped the checkpoint goes on, and a rate that came with the demand
/// ([`Checkpoints::demand_paced`](super::Checkpoints::demand_paced)) counts no more.
#[derive(Clone)]
pub struct CheckpointHandle {
    ticket: Arc<Ticket>,
    process: Process,
    _caller: Option<Arc<PacedCaller>>,
    drive: Option<Arc<DriveStep>>,
    /// Whose checkpoint it is.
    log: LogAddress,
}

impl fmt::Debug for CheckpointHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CheckpointHandle").field("ticket", &self.ticket).finish_non_exhaustive()
    }
}

impl CheckpointHandle {
    pub(crate) fn new(ticket: Arc<Ticket>, process: Process, log: LogAddress) -> Self {
        Self { ticket, process, _caller: None, drive: None, log }
    }

    /// Of the caller with this number, which has a rate.
    pub(crate) fn paced(self, number: u64, pace: &Arc<Mutex<CheckpointPace>>) -> Self {
        let caller = PacedCaller { number, pace: Arc::clone(pace), process: self.process.clone() };
        Self { _caller: Some(Arc::new(caller)), ..self }
    }

    /// Where checkpointers have no threads of their own: a thread that [waits](Self::wait) calls this again and again.
    /// It takes the steps that are due, and returns for how long none is; `None` where there are no more.
    #[must_use]
    pub fn driven_by(self, drive: impl Fn() -> Option<Duration> + Send + Sync + 'static) -> Self {
        assert!(self.drive.is_none(), "a handle is driven in one way");
        Self { drive: Some(Arc::new(drive)), ..self }
    }

    /// Waits until the checkpoint is installed, or has failed. Not for a thread that takes checkpointers' steps itself,
    /// nor for one that has the guard of an object, or is in a future's waker: the checkpoint may wait for these.
    ///
    /// # Errors
    /// [`DurabilityError::CheckpointFailed`]: the checkpoint was given up, and nothing else changed.
    /// [`DurabilityError::Stopped`]: the log has stopped, or the database was closed. [`DurabilityError::Removed`]: the
    /// folder of the database was removed. [`DurabilityError::Forked`]. [`DurabilityError::InCallBack`]: the call was
    /// made in an operation on an object, or in a call-back of a checkpoint, for which the checkpoint waits, perhaps by
    /// way of other logs. The checkpoint goes on.
    pub fn wait(&self) -> Result<CheckpointReport, DurabilityError> {
        if !self.process.is_this() {
            return Err(DurabilityError::Forked);
        }
        if let Some(outcome) = self.ticket.outcome() {
            return outcome;
        }
        if is_awaited(self.log) {
            return Err(DurabilityError::InCallBack);
        }
        let _leave = leave_to_wait(self.log)?;
        if let Some(drive) = &self.drive {
            return self.wait_driving(&**drive);
        }
        let mut outcome = self.ticket.outcome.lock();
        loop {
            match &*outcome {
                Some(outcome) => return outcome.clone(),
                None => {
                    outcome = self.ticket.answered.wait(outcome);
                }
            }
        }
    }

    fn wait_driving(&self, drive: &DriveStep) -> Result<CheckpointReport, DurabilityError> {
        debug_assert!(self.process.is_this(), "I4: in a forked child nobody drives");
        loop {
            if let Some(outcome) = self.ticket.outcome() {
                return outcome;
            }
            // `None`: there are no more steps, and the last one has answered this ticket or is about to.
            sleep(drive().unwrap_or(DRIVEN_PAUSE).min(DRIVEN_PAUSE));
        }
    }

    /// What came of it, if that is known yet.
    #[must_use]
    pub fn outcome(&self) -> Option<Result<CheckpointReport, DurabilityError>> {
        if !self.process.is_this() {
            return Some(Err(DurabilityError::Forked));
        }
        self.ticket.outcome()
    }

    /// How far it is; all zero while it waits for its turn.
    #[must_use]
    pub fn progress(&self) -> CheckpointProgress {
        self.ticket.progress()
    }
}
