//! The path of an entry into the log, under the lock of its object.
//!
//! Invariants:
//! - O1: the TID is chosen under the lock of its object (or of its slot), above the last TID there, in the epoch that
//!   the bound worker reads.
//! - O3: no thread waits for an object's lock, or runs user code, while the thread holds a log buffer; an exception is
//!   the comparison of two keys.
//! - E1: between bind and unbind nothing waits, fails or runs user code.
//!
//! Neighbours: `collection` and `application` log their changes; `worker` has the buffers.

use std::time::Duration;

use ensile_base::limits::EPOCH_MICROS_MIN;
use ensile_base::sync::{Mutex, MutexGuard, Ordering, yield_now};
use ensile_base::{Epoch, Tid};
use ensile_durability::DurabilityError;

use super::open_folder::{Runtime, closed_error};
use super::worker::{LogWorker, LogWorkers};

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

impl Runtime {
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
        let worker = LogWorker::new(&self.workers, &self.epochs, &self.log);
        assert!(worker.commit.bound_epoch().is_none() && worker.body.is_empty());
        Ok(worker)
    }

    #[inline]
    pub(crate) fn give_back(&self, worker: Box<LogWorker>) {
        debug_assert!(worker.commit.bound_epoch().is_none(), "E1: a kept worker holds no epoch");
        LogWorkers::keep(worker);
    }

    /// Takes the lock with log space for the worker's entry. If the lock is not free, the space is given back during
    /// the wait, and reserved again under the lock (O3). After an error of the log, the lock is not held.
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
    pub(crate) fn unless_refused(&self, worker: Box<LogWorker>) -> Result<Box<LogWorker>, DurabilityError> {
        match worker.appender.check() {
            Ok(()) => Ok(worker),
            Err(error) => Err(self.handle_refusal(worker, error)),
        }
    }

    /// Handles an entry that the log refuses. The worker is kept: a thread that tries again and again needs no further
    /// worker. If the objects are closed, the worker ends: the worker would hold their log.
    #[cold]
    fn handle_refusal(&self, worker: Box<LogWorker>, error: DurabilityError) -> DurabilityError {
        // Relaxed: a worker that is kept meanwhile ends with the next call.
        if !self.marks.closed.load(Ordering::Relaxed) {
            self.give_back(worker);
        }
        error
    }

    /// Takes the lock, and log space for the worker's entry; returns `None`, without space, if the lock is not free.
    /// The object itself reports the state that a panic of the application leaves under the lock (O6), so a poisoned
    /// lock is taken all the same: otherwise every later change would take the waiting path.
    #[inline]
    pub(crate) fn try_lock<'l, L>(
        &self,
        lock: &'l Mutex<L>,
        worker: &mut LogWorker,
    ) -> Result<Option<MutexGuard<'l, L>>, DurabilityError> {
        worker.reserve()?;
        let state = lock.try_lock();
        if state.is_none() {
            worker.appender.release();
        }
        Ok(state)
    }

    /// Adds log space for the worker's entry to a held lock.
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
        locked.worker.appender.release();
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
            Ok(Some(tid)) => {
                assert!(*last < tid, "O1: an object's TIDs only grow");
                *last = tid;
                self.give_back(locked.worker);
                Ok(LogAttempt::Logged(locked.state, tid))
            }
            Ok(None) => {
                debug_assert!(
                    last.successor().is_none(),
                    "E5: an epoch is closed early for its last TID alone"
                );
                let worker = self.unlock(locked);
                self.close_epoch();
                Ok(LogAttempt::Again(worker))
            }
            Err(closed) => {
                let worker = self.unlock(locked);
                Err(self.handle_refusal(worker, closed))
            }
        }
    }

    /// As [`log`](Self::log), for a caller that has the lock and no log space: returns `None`, and logs nothing, if the
    /// entry would have to wait, if the epoch is full, if the log takes no entries, or after
    /// [`take_detour`](Self::take_detour). The caller then begins anew, by [`lock`](Self::lock).
    #[inline]
    pub(crate) fn log_at_once(&self, worker: &mut LogWorker, last: &mut Tid) -> Option<Tid> {
        debug_assert!(worker.commit.bound_epoch().is_none(), "E1: a worker logs one entry at a time");
        worker.commit.bind(self.epochs.now());
        let tid = worker.append_at_once(|| {
            // The worker has just taken its buffer, and taking a buffer is the commit's fence: the bind comes before
            // the look at E (E1). The worker sees a close, or the close waits for this binding.
            // Relaxed: the fence orders the load; partner: the fence in `wait_for_entries`.
            if self.marks.detour.load(Ordering::Relaxed) {
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

    /// Appends the worker's entry with a TID above `last`; `None` if all TIDs of the epoch after `last` are used (E5).
    #[inline]
    fn append(&self, worker: &mut LogWorker, last: Tid) -> Result<Option<Tid>, DurabilityError> {
        debug_assert!(worker.commit.bound_epoch().is_none(), "E1: a worker logs one entry at a time");
        // The bind comes before the look at E, or the scan that moves E sees the bind; partners: the fences in
        // `Epochs::try_advance` and in the loggers' claim (L1). The worker sees a close, or the close waits for this
        // binding.
        worker.commit.bind_and_fence(self.epochs.now());
        // Relaxed: the fence orders the load; partner: the fence in `wait_for_entries`.
        let is_closed = self.marks.closed.load(Ordering::Relaxed);
        let tid = if is_closed { None } else { tid_above(last, self.epochs.now()) };
        if let Some(tid) = tid {
            worker.append(tid);
            worker.appender.release();
        }
        worker.commit.unbind();
        if tid.is_none() {
            // The return of unused space may give up a whole buffer, and takes longer than a binding may.
            worker.appender.release();
        }
        if is_closed { Err(closed_error()) } else { Ok(tid) }
    }

    /// TID of an unlogged change, for an object with the last TID `last` and a held lock: a walk writes TIDs, and
    /// forgets absent objects by TIDs (O2). If all TIDs of the epoch are used, the last TID stays: no two entries have
    /// the TID.
    #[inline]
    pub(crate) fn unlogged_tid(&self, last: Tid) -> Tid {
        let tid = tid_above(last, self.epochs.now()).unwrap_or(last);
        debug_assert!(tid >= last, "O2: a walk forgets an absent object by its TID");
        tid
    }

    /// Closes the epoch as soon as allowed: its TIDs are used (E5).
    fn close_epoch(&self) {
        // A clock that stands still would never let the epoch close; the machine's clock ignores the call.
        self.clock.advance(Duration::from_micros(EPOCH_MICROS_MIN));
        let _ = self.epochs.try_advance_early(self.clock.nanos());
        yield_now();
    }
}

/// Smallest TID of this epoch above the last TID; `None` if the epoch has no TID left (E5).
fn tid_above(last: Tid, epoch: Epoch) -> Option<Tid> {
    assert!(last.epoch() <= epoch, "O1: E was read behind the last TID of this object");
    if last.epoch() < epoch { Some(Tid::first_of(epoch)) } else { last.successor() }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
