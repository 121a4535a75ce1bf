//! The base of both forms: an open folder with its epochs, log and checkpoints, and the path of an entry into the log.
//!
//! ```text
//! encode | lock the object | bind, log space, fence  E  TID  append  release  unbind | apply, unlock      => a receipt
//!                            from here to there nothing waits, fails or runs user code (E1)
//! else     reserve | lock the object | bind, fence  E  TID  append  release  unbind | ..          what is to be waited for
//! ```
//! Invariants:
//! - O1: the TID is chosen under the lock of its object (or of its slot), above the last TID there, in the epoch that
//!   the bound worker reads.
//! - O3: no thread waits for an object's lock, or runs user code, while the thread holds a log buffer; an exception is
//!   the comparison of two keys.
//! - E1: between bind and unbind nothing waits, fails or runs user code.
//!
//! Neighbours: `open` makes the runtime, `threads` drives it, `close` ends it; `collection` and `application` log
//! through it.

mod close;
mod driver;
mod open;
mod stop_signal;
mod threads;
pub(crate) mod watchdog;
mod worker;

use std::sync::Arc as StdArc;
use std::time::Duration;

use ensile_base::clock::Clock;
use ensile_base::limits::EPOCH_MICROS_MIN;
use ensile_base::sync::{Arc, AtomicBool, Mutex, MutexGuard, Ordering, yield_now};
use ensile_base::{Epoch, Tid};
use ensile_disk::Process;
use ensile_durability::{
    CheckpointConfig, CheckpointStats, CheckpointStep, Checkpoints, DurabilityError, Durable, Health, Log,
    LogStats, LoggerStep, OutermostUserCode, Recoverable, RecoveryReport, Shipper, ShippingStats, UserCode,
    Walk,
};
use ensile_epoch::Epochs;

pub(crate) use close::OpenRuntime;
pub use driver::CheckpointHandle;
use driver::Driver;
pub(crate) use open::{KeyCheck, ObjectsSettings};
use stop_signal::HeartbeatStop;
use watchdog::CallBackWatch;
pub use watchdog::WaitingCallBack;
pub(crate) use worker::LogWorker;
use worker::LogWorkers;

use crate::apply_time::AppliedTime;
use crate::error::{ObjectsError, ObjectsResult as Result};

/// Objects that can be walked and rebuilt.
pub(crate) trait ObjectState: Recoverable + Walk + Send {
    /// Checks that the loaded and replayed objects are whole. The error is the fault.
    fn check_recovered(&self) -> Result<()>;

    /// Time to apply operations, from the open on.
    fn applied_time(&self) -> &StdArc<AppliedTime>;

    /// Approximate time to apply operations at recovery, in nanoseconds.
    fn replayed_nanos(&self) -> u64;

    /// Watch over the call-backs of checkpoints; `None` for objects whose locks the library has.
    fn watch(&self) -> Option<&CallBackWatch> {
        None
    }

    /// Poisons an object whose change failed. A collection poisons its own objects.
    fn change_failed(&self, object: u64) {
        let _ = object;
    }

    /// Number of operations that recovery did not replay, because their object did not exist (O10).
    fn passed_over(&self) -> u64 {
        0
    }
}

/// Figures of open objects.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ObjectsStats {
    /// Number of objects, and of removed objects that are remembered since the last checkpoint.
    pub objects: u64,
    /// Number of poisoned objects: an operation on the object has panicked, or a change has failed.
    pub poisoned: u64,
    /// E.
    pub epoch: Epoch,
    /// D: all operations of epochs up to D survive a crash.
    pub durable_epoch: Epoch,
    /// Figures of the log.
    pub log: LogStats,
    /// Health of the log, with the reason if the log takes no operations.
    pub log_health: Health,
    /// Figures of checkpoints, with the load, the threshold that follows the load, the predicted recovery, the reason
    /// why the last checkpoint began, and the reason why none begins.
    pub checkpoints: CheckpointStats,
    /// Figures of shipping, if finished files go to a shared store.
    pub shipping: Option<ShippingStats>,
    /// An application's call-back of a checkpoint that waits, perhaps for the guard of an object.
    pub waiting_call_back: Option<WaitingCallBack>,
}

/// An open folder, its log and its checkpoints.
pub(crate) struct Runtime {
    pub(crate) state: StdArc<dyn ObjectState>,
    pub(crate) log: StdArc<Log>,
    pub(crate) checkpoints: StdArc<Checkpoints>,
    pub(crate) shipping: Option<StdArc<Shipper>>,
    pub(crate) epochs: Arc<Epochs>,
    pub(crate) clock: Clock,
    /// Times of the state.
    pub(crate) applied: StdArc<AppliedTime>,
    process: Process,
    workers: StdArc<LogWorkers>,
    is_strict: bool,
    pub(crate) is_logged: bool,
    epoch_interval: Duration,
    closed: AtomicBool,
    /// True once no entry may be logged at once: the objects are closed, or one of the objects is poisoned.
    detour: AtomicBool,
    stop: HeartbeatStop,
    driver: Driver,
    /// True if threads of the runtime take the steps.
    has_threads: bool,
    /// True if a waiting thread drives. False where a test has the clock, because time then stands still during the
    /// wait.
    is_driven: bool,
    checkpoint_config: Mutex<CheckpointConfig>,
    pub(crate) report: RecoveryReport,
}

/// Outcome of an attempt to append.
enum Appended {
    Logged(Tid),
    /// All TIDs of the epoch after the last TID are used (E5).
    EpochFull,
    Closed,
}

/// Outcome of an attempt to log an entry.
pub(crate) enum LogAttempt<'l, L> {
    /// The entry is logged, with this TID; the lock is held.
    Logged(MutexGuard<'l, L>, Tid),
    /// The epoch is full, and may be closed by now: lock the object again.
    Again(Box<LogWorker>),
}

/// Held lock of an object, and log space for an entry of the object.
pub(crate) struct LockedObject<'l, L> {
    pub(crate) state: MutexGuard<'l, L>,
    pub(crate) worker: Box<LogWorker>,
}

impl<L> LockedObject<'_, L> {
    /// Gives unused log space back. The space may be reserved again (O3).
    fn release(&mut self) {
        self.worker.release();
    }
}

impl Runtime {
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

    /// Returns a worker, with a buffer to encode into.
    ///
    /// # Errors
    /// [`DurabilityError::Closed`] if the objects are closed and the thread has no worker: no further worker is made.
    #[inline]
    pub(crate) fn worker(&self) -> Result<Box<LogWorker>, DurabilityError> {
        match self.workers.take() {
            Some(worker) => Ok(worker),
            None => self.new_worker(),
        }
    }

    #[cold]
    fn new_worker(&self) -> Result<Box<LogWorker>, DurabilityError> {
        self.check_open()?;
        Ok(LogWorker::new(&self.workers, &self.epochs, &self.log))
    }

    /// Gives a worker back.
    #[inline]
    pub(crate) fn give_back(&self, worker: Box<LogWorker>) {
        LogWorkers::keep(worker);
    }

    /// Takes the lock with log space for the worker's entry. If the lock is not free, the space is given back during
    /// the wait, and reserved again under the lock (O3).
    ///
    /// # Errors
    /// The log's error, if the log takes no entry: the lock is not held then.
    #[inline]
    pub(crate) fn lock<'l, L>(
        &self,
        lock: &'l Mutex<L>,
        mut worker: Box<LogWorker>,
    ) -> Result<LockedObject<'l, L>, DurabilityError> {
        match self.try_lock(lock, &mut worker) {
            Ok(Some(state)) => Ok(LockedObject { state, worker }),
            Ok(None) => self.with_space(lock.lock(), worker),
            Err(error) => Err(self.handle_refusal(worker, error)),
        }
    }

    /// Returns the worker, unless the log takes no entries now.
    ///
    /// # Errors
    /// As for [`Runtime::lock`].
    pub(crate) fn unless_refused(&self, worker: Box<LogWorker>) -> Result<Box<LogWorker>, DurabilityError> {
        match worker.check() {
            Ok(()) => Ok(worker),
            Err(error) => Err(self.handle_refusal(worker, error)),
        }
    }

    /// Handles an entry that the log refuses. The worker is kept: a thread that tries again and again needs no further
    /// worker. If the objects are closed, the worker ends: the worker would hold their log.
    #[cold]
    fn handle_refusal(&self, worker: Box<LogWorker>, error: DurabilityError) -> DurabilityError {
        // Relaxed: a worker that is kept meanwhile ends with the next call.
        if !self.closed.load(Ordering::Relaxed) {
            self.give_back(worker);
        }
        error
    }

    /// Takes the lock, and log space for the worker's entry; returns `None`, without space, if the lock is not free.
    /// The object itself reports the state that a panic of the application leaves under the lock (O6), so a poisoned
    /// lock is taken all the same: otherwise every later change would take the waiting path.
    ///
    /// # Errors
    /// As for [`Runtime::lock`].
    #[inline]
    pub(crate) fn try_lock<'l, L>(
        &self,
        lock: &'l Mutex<L>,
        worker: &mut LogWorker,
    ) -> Result<Option<MutexGuard<'l, L>>, DurabilityError> {
        worker.reserve()?;
        let state = lock.try_lock();
        if state.is_none() {
            worker.release();
        }
        Ok(state)
    }

    /// Adds log space for the worker's entry to a held lock.
    ///
    /// # Errors
    /// As for [`Runtime::lock`].
    #[inline]
    pub(crate) fn with_space<'l, L>(
        &self,
        state: MutexGuard<'l, L>,
        mut worker: Box<LogWorker>,
    ) -> Result<LockedObject<'l, L>, DurabilityError> {
        match worker.reserve() {
            Ok(()) => Ok(LockedObject { state, worker }),
            Err(error) => {
                drop(state);
                Err(self.handle_refusal(worker, error))
            }
        }
    }

    /// Gives lock and space back. Returns the worker.
    #[inline]
    pub(crate) fn unlock<L>(&self, mut locked: LockedObject<'_, L>) -> Box<LogWorker> {
        locked.release();
        drop(locked.state);
        locked.worker
    }

    /// Logs the worker's entry with a TID above `last`, and stores the TID in `last` (O1). The lock is still held
    /// afterwards, and the worker is given back. If the epoch is full, lock and space are given back: the caller begins
    /// anew.
    ///
    /// # Errors
    /// [`DurabilityError::Closed`] if the objects are being closed.
    #[inline]
    pub(crate) fn log<'l, L>(
        &self,
        mut locked: LockedObject<'l, L>,
        last: impl FnOnce(&mut L) -> &mut Tid,
    ) -> Result<LogAttempt<'l, L>, DurabilityError> {
        let last = last(&mut locked.state);
        match self.append(&mut locked.worker, *last) {
            Appended::Logged(tid) => {
                assert!(*last < tid, "O1: an object's TIDs only grow");
                *last = tid;
                self.give_back(locked.worker);
                Ok(LogAttempt::Logged(locked.state, tid))
            }
            Appended::EpochFull => {
                let worker = self.unlock(locked);
                self.close_epoch();
                Ok(LogAttempt::Again(worker))
            }
            Appended::Closed => {
                let worker = self.unlock(locked);
                Err(self.handle_refusal(worker, closed_error()))
            }
        }
    }

    /// As [`log`](Self::log), for a caller that has the lock and no log space: returns `None`, and logs nothing, if the
    /// entry would have to wait, if the epoch is full, if the log takes no entries, or after
    /// [`take_detour`](Self::take_detour). The caller then begins anew, by [`lock`](Self::lock).
    #[inline]
    pub(crate) fn log_at_once(&self, worker: &mut LogWorker, last: &mut Tid) -> Option<Tid> {
        worker.commit.bind(self.epochs.now());
        let tid = worker.append_at_once(|| {
            // The worker has just taken its buffer, and taking a buffer is the commit's fence: the bind comes before
            // the look at E (E1). The worker sees a close, or the close waits for this binding.
            // Relaxed: the fence orders the load; partner: the fence in `wait_for_entries`.
            if self.detour.load(Ordering::Relaxed) {
                return None;
            }
            tid_above(*last, self.epochs.now())
        });
        worker.commit.unbind();
        if let Some(tid) = tid {
            assert!(*last < tid, "O1: an object's TIDs only grow");
            *last = tid;
        }
        tid
    }

    #[inline]
    fn append(&self, worker: &mut LogWorker, last: Tid) -> Appended {
        // The bind comes before the look at E, or the scan that moves E sees the bind; partners: the fences in
        // `Epochs::try_advance` and in the loggers' claim (L1). The worker sees a close, or the close waits for this
        // binding.
        worker.commit.bind_and_fence(self.epochs.now());
        // Relaxed: the fence orders the load; partner: the fence in `wait_for_entries`.
        let tid = match self.closed.load(Ordering::Relaxed) {
            true => Err(Appended::Closed),
            false => tid_above(last, self.epochs.now()).ok_or(Appended::EpochFull),
        };
        match tid {
            Ok(tid) => {
                worker.append(tid);
                worker.release();
                worker.commit.unbind();
                Appended::Logged(tid)
            }
            // The return of unused space may give up a whole buffer, and takes longer than a binding may.
            Err(refused) => {
                worker.commit.unbind();
                worker.release();
                refused
            }
        }
    }

    /// Fails where an unlogged change is impossible too.
    #[inline]
    pub(crate) fn check_open(&self) -> Result<(), DurabilityError> {
        self.check_process()?;
        // Relaxed: nothing is logged, so a close has nothing to wait for.
        if self.closed.load(Ordering::Relaxed) {
            return Err(closed_error());
        }
        // A stopped log, such as the log of a fenced folder, keeps nothing.
        if self.is_logged { Ok(()) } else { self.log.check() }
    }

    /// Ends [`log_at_once`](Self::log_at_once) for all entries from now on: a caller has to ask something first.
    pub(crate) fn take_detour(&self) {
        // Relaxed: concerns the object whose guard the caller holds. The next holder of the guard sees the mark.
        self.detour.store(true, Ordering::Relaxed);
    }

    /// Poisons an object whose change failed, under the caller's guard (O6).
    pub(crate) fn change_failed(&self, object: u64) {
        self.state.change_failed(object);
        self.take_detour();
    }

    /// True after [`take_detour`](Self::take_detour), or a close.
    pub(crate) fn is_detour_taken(&self) -> bool {
        // Relaxed: the caller holds the guard under which the mark was set, if the mark concerns the caller.
        self.detour.load(Ordering::Relaxed)
    }

    /// Marks the objects as closed.
    fn mark_closed(&self) {
        // SeqCst: partner is the fence between an entry's bind and its look at this mark.
        self.closed.store(true, Ordering::SeqCst);
        // SeqCst: partner is the fence between an entry's bind and its look at this mark.
        self.detour.store(true, Ordering::SeqCst);
    }

    /// TID of an unlogged change, for an object with the last TID `last` and a held lock: a walk writes TIDs, and
    /// forgets absent objects by TIDs (O2). If all TIDs of the epoch are used, the last TID stays: no two entries have
    /// the TID.
    #[inline]
    pub(crate) fn unlogged_tid(&self, last: Tid) -> Tid {
        tid_above(last, self.epochs.now()).unwrap_or(last)
    }

    /// Closes the epoch as soon as allowed: its TIDs are used (E5).
    fn close_epoch(&self) {
        // A clock that stands still would never let the epoch close; the machine's clock ignores the call.
        self.clock.advance(Duration::from_micros(EPOCH_MICROS_MIN));
        let _ = self.epochs.try_advance_early(self.clock.nanos());
        yield_now();
    }

    /// Waits until `epoch` is durable, if results are strict.
    #[inline]
    pub(crate) fn wait_if_strict(&self, epoch: Epoch) -> Result<()> {
        if self.is_strict { self.wait_durable(epoch) } else { Ok(()) }
    }

    /// Waits until `epoch` is durable.
    pub(crate) fn wait_durable(&self, epoch: Epoch) -> Result<()> {
        if !self.is_logged {
            return Err(ObjectsError::NotLogged);
        }
        if self.log.durable_epoch() >= epoch {
            return Ok(());
        }
        self.check_given(epoch)?;
        let waited = if self.is_driven { self.wait_driving(epoch) } else { self.log.wait_durable(epoch) };
        Ok(waited?)
    }

    /// As [`wait_durable`](Self::wait_durable), as a future.
    ///
    /// # Errors
    /// [`ObjectsError::NotLogged`]; [`ObjectsError::Misuse`] for a receipt of other objects.
    pub(crate) fn durable(&self, epoch: Epoch) -> Result<Durable> {
        if !self.is_logged {
            return Err(ObjectsError::NotLogged);
        }
        self.check_given(epoch)?;
        Ok(self.log.durable(epoch))
    }

    /// Checks that a receipt is of these objects: E has reached the receipt's epoch.
    fn check_given(&self, epoch: Epoch) -> Result<()> {
        let newest = self.epochs.now();
        if epoch > newest { Err(ObjectsError::other_receipt(epoch, newest)) } else { Ok(()) }
    }

    /// Sets the triggers of checkpoints from now on.
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
        if self.is_driven { self.ship_driving(shipping, timeout) } else { Ok(shipping.ship(timeout)?) }
    }

    /// Stops shipping.
    pub(crate) fn cancel_shipping(&self) {
        if let Some(shipping) = &self.shipping {
            shipping.cancel();
        }
    }
}

/// Steps of objects opened without threads.
impl Runtime {
    /// One tick of the heartbeat.
    pub(crate) fn heartbeat_step(&self) {
        threads::tick(self);
    }

    /// One step of a logger, and the preparation of its next file, as the logger's thread takes both.
    pub(crate) fn logger_step(&self, logger: usize) -> LoggerStep {
        let step = self.log.logger_step(logger);
        self.log.logger_prepare(logger);
        step
    }

    /// One step of a checkpointer.
    pub(crate) fn checkpoint_step(&self, checkpointer: usize) -> CheckpointStep {
        self.checkpoints.step(checkpointer, &*self.state)
    }

    /// Marks this thread as running user code of these objects, until the mark is dropped (O8). The caller was
    /// [checked](Self::check_caller).
    #[inline]
    pub(crate) fn user_code(&self) -> OutermostUserCode {
        self.log.user_code()
    }
}

/// Smallest TID of this epoch above the last TID; `None` if the epoch has no TID left (E5).
fn tid_above(last: Tid, epoch: Epoch) -> Option<Tid> {
    assert!(last.epoch() <= epoch, "O1: E was read behind the last TID of this object");
    if last.epoch() < epoch { Some(Tid::first_of(epoch)) } else { last.successor() }
}

fn closed_error() -> DurabilityError {
    DurabilityError::Closed("the objects are closed_error".into())
}

impl From<ensile_disk::DiskError> for ObjectsError {
    fn from(error: ensile_disk::DiskError) -> Self {
        DurabilityError::from(error).into()
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
