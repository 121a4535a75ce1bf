//! What both forms stand on: an open folder with its epochs, log and checkpoints, and how an entry gets into the log.
//!
//! ```text
//! encode | lock the object | bind, log space, fence  E  TID  append  release  unbind | apply, unlock      => a receipt
//!                            from here to there nothing waits, fails or runs user code (E1)
//! else     reserve | lock the object | bind, fence  E  TID  append  release  unbind | ..          what is to be waited for
//! ```
//! Invariants:
//! - O1: the TID is chosen under the lock of its object (or of its slot), above the last one there, in the epoch that
//!   the worker reads once it is bound.
//! - O3: no thread waits for an object's lock, or runs user code, while it holds a log buffer; but two keys may be
//!   compared there.
//! - E1: between bind and unbind nothing waits, fails or runs user code.
//!
//! Neighbours: `open` makes it, `threads` drives it, `close` ends it; `collection` and `application` log through it.

mod close;
mod driving;
mod open;
mod stop;
mod threads;
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
    LogStats, LoggerStep, Recoverable, RecoveryReport, Shipper, ShippingStats, UnderLock, Walk,
};
use ensile_epoch::Epochs;

pub(crate) use close::OpenRuntime;
use driving::Driver;
pub(crate) use open::{KeyCheck, ObjectsSettings};
use stop::HeartbeatStop;
pub(crate) use worker::LogWorker;
use worker::LogWorkers;

use crate::applied::AppliedTime;
use crate::error::{ObjectsError, ObjectsResult as Result};

/// What is kept: objects that can be walked and rebuilt.
pub(crate) trait ObjectState: Recoverable + Walk + Send {
    /// What was loaded and replayed is whole; or what is wrong with it.
    fn check_recovered(&self) -> Result<()>;

    /// What applying operations takes, from the open on.
    fn applied(&self) -> &StdArc<AppliedTime>;

    /// About how many nanoseconds applying operations took at recovery.
    fn replayed_nanos(&self) -> u64;
}

/// Figures of open objects.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ObjectsStats {
    /// Objects, and what is remembered of those that were removed since the last checkpoint.
    pub objects: u64,
    /// Objects of which an operation panicked.
    pub poisoned: u64,
    /// E.
    pub epoch: Epoch,
    /// D: all operations of epochs up to this survive a crash.
    pub durable_epoch: Epoch,
    /// Of the log.
    pub log: LogStats,
    /// Whether the log takes operations, and if not why.
    pub log_health: Health,
    /// Of checkpoints: also the load, the threshold that follows it, what a recovery would take, why the last one
    /// began, and why none begins.
    pub checkpoints: CheckpointStats,
    /// Of shipping, if finished files go to a shared store.
    pub shipping: Option<ShippingStats>,
}

/// An open folder, its log and its checkpoints.
pub(crate) struct Runtime {
    pub(crate) state: StdArc<dyn ObjectState>,
    pub(crate) log: StdArc<Log>,
    pub(crate) checkpoints: StdArc<Checkpoints>,
    pub(crate) shipping: Option<StdArc<Shipper>>,
    pub(crate) epochs: Arc<Epochs>,
    pub(crate) clock: Clock,
    /// The state's.
    pub(crate) applied: StdArc<AppliedTime>,
    process: Process,
    workers: StdArc<LogWorkers>,
    is_strict: bool,
    pub(crate) is_logged: bool,
    epoch_interval: Duration,
    closed: AtomicBool,
    stop: HeartbeatStop,
    driver: Driver,
    /// Threads of its own take the steps.
    has_threads: bool,
    /// A thread that waits drives. Not where a test has the clock, as time then stands still while it waits.
    is_driven: bool,
    checkpoint_config: Mutex<CheckpointConfig>,
    pub(crate) report: RecoveryReport,
}

/// What came of an attempt to append.
enum Appended {
    Logged(Tid),
    /// All TIDs of the epoch behind the last one are used (E5).
    EpochFull,
    Closed,
}

/// What came of logging an entry.
pub(crate) enum LogAttempt<'l, L> {
    /// It is logged, with this TID; the lock is held.
    Logged(MutexGuard<'l, L>, Tid),
    /// The epoch is full, and may be closed by now: lock the object again.
    Again(Box<LogWorker>),
}

/// An object's lock, held, and log space for one entry of it.
pub(crate) struct LockedObject<'l, L> {
    pub(crate) state: MutexGuard<'l, L>,
    pub(crate) worker: Box<LogWorker>,
}

impl<L> LockedObject<'_, L> {
    /// Gives the log space back, which is not used. It may be had again (O3).
    fn release(&mut self) {
        self.worker.release();
    }
}

impl Runtime {
    /// Fails in a process that was forked from the one that opened the folder (I4).
    #[inline]
    pub(crate) fn check_process(&self) -> Result<(), DurabilityError> {
        if self.process.is_this() { Ok(()) } else { Err(DurabilityError::Forked) }
    }

    /// A worker, with a buffer to encode into.
    ///
    /// # Errors
    /// [`DurabilityError::Stopped`] where the objects are closed and the thread has no worker: no other one is made.
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

    /// Takes the lock with log space for the worker's entry. Where the lock is not free, the space is given back while
    /// the thread waits, and had again under the lock (O3).
    ///
    /// # Errors
    /// The log's, which takes no entry: then the lock is not held.
    #[inline]
    pub(crate) fn lock<'l, L>(
        &self,
        lock: &'l Mutex<L>,
        mut worker: Box<LogWorker>,
    ) -> Result<LockedObject<'l, L>, DurabilityError> {
        match self.try_lock(lock, &mut worker) {
            Ok(Some(state)) => Ok(LockedObject { state, worker }),
            Ok(None) => self.with_space(lock.lock(), worker),
            Err(error) => Err(self.refused(worker, error)),
        }
    }

    /// The worker, unless the log takes no entries now.
    ///
    /// # Errors
    /// As for [`Runtime::lock`].
    pub(crate) fn unless_refused(&self, worker: Box<LogWorker>) -> Result<Box<LogWorker>, DurabilityError> {
        match worker.check() {
            Ok(()) => Ok(worker),
            Err(error) => Err(self.refused(worker, error)),
        }
    }

    /// An entry that the log refuses. The worker is kept: a thread that tries again and again needs no other one. Where
    /// the objects are closed it ends: it would hold their log.
    #[cold]
    fn refused(&self, worker: Box<LogWorker>, error: DurabilityError) -> DurabilityError {
        // Relaxed: a worker that is kept meanwhile ends with the next call.
        if !self.closed.load(Ordering::Relaxed) {
            self.give_back(worker);
        }
        error
    }

    /// The lock, and log space for the worker's entry; `None`, and no space, where the lock is not free. What a panic
    /// of the application's leaves under it is its object's to tell (O6), so the lock is taken all the same: else each
    /// later change would take the way of those that wait.
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

    /// Adds log space for the worker's entry to a lock that is held.
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
                Err(self.refused(worker, error))
            }
        }
    }

    /// Gives lock and space back, and the worker.
    #[inline]
    pub(crate) fn unlock<L>(&self, mut locked: LockedObject<'_, L>) -> Box<LogWorker> {
        locked.release();
        drop(locked.state);
        locked.worker
    }

    /// Logs the worker's entry with a TID above `last`, and stores that there (O1). The lock is still held then, and
    /// the worker given back. Where the epoch is full, everything is given back: the caller begins anew.
    ///
    /// # Errors
    /// [`DurabilityError::Stopped`] where the objects are being closed.
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
                Err(self.refused(worker, closed()))
            }
        }
    }

    /// As [`log`](Self::log), for a caller that has the lock and no log space: `None`, and nothing is logged, if that
    /// would take waiting, if the epoch is full, or if the log takes no entries. Begin anew then, by
    /// [`lock`](Self::lock).
    #[inline]
    pub(crate) fn log_at_once(&self, worker: &mut LogWorker, last: &mut Tid) -> Option<Tid> {
        worker.commit.bind(self.epochs.now());
        let tid = worker.append_at_once(|| {
            // The worker has just taken its buffer, which is the commit's fence: the bind comes before the look at E
            // (E1). A close is seen, or waits for this binding.
            // Relaxed: that fence orders it; partner: the fence in `wait_for_entries`.
            if self.closed.load(Ordering::Relaxed) {
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
        // The bind comes before the look at E, or the scan that moves E sees it; partners: the fences in
        // `Epochs::try_advance` and in the loggers' claim (L1). A close is seen, or waits for this binding.
        worker.commit.bind_and_fence(self.epochs.now());
        // Relaxed: the fence orders it; partner: the fence in `wait_for_entries`.
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
            // Space that is not used may be given up whole, which takes longer than a binding may.
            Err(refused) => {
                worker.commit.unbind();
                worker.release();
                refused
            }
        }
    }

    /// Fails where a change that is not logged cannot be made either.
    #[inline]
    pub(crate) fn check_open(&self) -> Result<(), DurabilityError> {
        self.check_process()?;
        // Relaxed: nothing is logged, so a close has nothing to wait for.
        if self.closed.load(Ordering::Relaxed) {
            return Err(closed());
        }
        // A log that has stopped, as that of a fenced folder, keeps nothing.
        if self.is_logged { Ok(()) } else { self.log.check() }
    }

    /// The TID of a change that is not logged, for the object whose last one is this, and whose lock is held: a walk
    /// writes TIDs, and forgets absent objects by them (O2). Where all TIDs of the epoch are used it stays: no two
    /// entries have it.
    #[inline]
    pub(crate) fn unlogged_tid(&self, last: Tid) -> Tid {
        tid_above(last, self.epochs.now()).unwrap_or(last)
    }

    /// Closes the epoch, once it may: its TIDs are used (E5).
    fn close_epoch(&self) {
        // A clock that stands still would never let the epoch close; the machine's ignores this.
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
    /// [`ObjectsError::NotLogged`], [`ObjectsError::OtherReceipt`].
    pub(crate) fn durable(&self, epoch: Epoch) -> Result<Durable> {
        if !self.is_logged {
            return Err(ObjectsError::NotLogged);
        }
        self.check_given(epoch)?;
        Ok(self.log.durable(epoch))
    }

    /// A receipt of these objects is of an epoch that E has come to.
    fn check_given(&self, epoch: Epoch) -> Result<()> {
        let newest = self.epochs.now();
        if epoch > newest { Err(ObjectsError::OtherReceipt { epoch, newest }) } else { Ok(()) }
    }

    /// Checkpoints begin by these settings from now on.
    pub(crate) fn reschedule(&self, change: impl FnOnce(&mut CheckpointConfig)) -> Result<()> {
        self.check_process()?;
        let mut config = self.checkpoint_config.lock();
        let mut next = config.clone();
        change(&mut next);
        self.checkpoints.reschedule(&next)?;
        *config = next;
        Ok(())
    }

    /// The figures; the caller counts its objects.
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
        }
    }

    /// Ships all that is logged by now; the epoch up to which the shared store is complete.
    ///
    /// # Errors
    /// [`DurabilityError::Config`] where nothing is shipped, [`DurabilityError::Fenced`],
    /// [`DurabilityError::NotShipped`] when the time is over; the log's.
    pub(crate) fn ship(&self, timeout: Duration) -> Result<Epoch> {
        self.check_process()?;
        let Some(shipping) = &self.shipping else {
            return Err(DurabilityError::Config("nothing is shipped: open it with `ship_to`".into()).into());
        };
        if self.is_driven { self.ship_driving(shipping, timeout) } else { Ok(shipping.ship(timeout)?) }
    }

    /// Ships nothing any more.
    pub(crate) fn cancel_shipping(&self) {
        if let Some(shipping) = &self.shipping {
            shipping.cancel();
        }
    }
}

/// Steps of objects that were opened without threads.
impl Runtime {
    /// One tick of the heartbeat.
    pub(crate) fn heartbeat_step(&self) {
        threads::tick(self);
    }

    /// One step of a logger, and the file that its thread makes ready after it.
    pub(crate) fn logger_step(&self, logger: usize) -> LoggerStep {
        let step = self.log.logger_step(logger);
        self.log.logger_prepare(logger);
        step
    }

    /// One step of a checkpointer.
    pub(crate) fn checkpoint_step(&self, checkpointer: usize) -> CheckpointStep {
        self.checkpoints.step(checkpointer, &*self.state)
    }

    /// Until it is dropped this thread runs the application's code under the lock of an object (O8).
    #[inline]
    pub(crate) fn under_lock(&self) -> UnderLock {
        self.log.under_lock()
    }
}

/// The smallest TID of this epoch above the last one; `None` if there is none (E5).
fn tid_above(last: Tid, epoch: Epoch) -> Option<Tid> {
    assert!(last.epoch() <= epoch, "O1: E was read behind the last TID of this object");
    if last.epoch() < epoch { Some(Tid::first_of(epoch)) } else { last.successor() }
}

fn closed() -> DurabilityError {
    DurabilityError::Stopped("the objects are closed".into())
}

impl From<ensile_disk::DiskError> for ObjectsError {
    fn from(error: ensile_disk::DiskError) -> Self {
        DurabilityError::from(error).into()
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
