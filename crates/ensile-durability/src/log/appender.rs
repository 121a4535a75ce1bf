//! A worker's access to the log: reserve before binding, append while bound, release (E1).
//!
//! L1 and L2 need the append (and its `note_oldest`) before the unbind, and E1 the release. A logger that reads c_w
//! idle then sees the entry, either in a buffer that the logger can take or as the `oldest` of a buffer that it cannot
//! take. A worker that encodes its entry before the bind may take its buffer after the bind
//! ([`Appender::append_at_once`]): the exchange that takes the buffer is then the commit's fence. Nothing waits after
//! the bind. If waiting is due, the worker unbinds and begins anew with `reserve`. A panic between bind and unbind ends
//! the log ([`Appender::abandon`]).
//!
//! A commit of a task reserves without a wait ([`Appender::reserve_by`]): without space, the task's waker is registered
//! in the queue of the worker's logger (P2). The task owns the registration, as a [`SpaceWait`], because the next try
//! of the commit may have another worker.
//!
//! Neighbours: a worker of the engine or of objects owns the appender; `buffers` hands the worker's buffer to the
//! logger, by the worker's slot or by the queue.

use std::sync::Arc as StdArc;
use std::task::Waker;

use ensile_base::Tid;
use ensile_base::limits::TRANSACTION_BYTES_MAX;
use ensile_base::sync::{Arc, Ordering, plain_access};
use ensile_disk::DiskError;
use ensile_epoch::CommitSlot;

use super::logger::Logger;
use super::open_log::Log;
use crate::DurabilityError;
use crate::buffers::{Buffer, FoundBuffer, WorkerSlot};

/// Reason of the log's end after a panic between bind and unbind.
const PANICKED_BOUND: &str = "a thread panicked while it logged an entry, so what it has logged is not known";

/// Registration of a waker for log space: the index of the logger, and the number in the logger's queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpaceWait {
    logger: usize,
    number: u64,
}

/// A task that reserves log space without a wait: the waker, and the place of the waker's registration.
#[derive(Debug)]
pub struct SpaceTask<'t> {
    /// Waker that is called once a new try is worthwhile. The registration takes the waker.
    pub waker: &'t mut Option<Waker>,
    /// Registration of an earlier try; the new registration after the call.
    pub wait: &'t mut Option<SpaceWait>,
}

/// Appends one worker's entries.
#[derive(Debug)]
pub struct Appender {
    log: StdArc<Log>,
    logger: usize,
    slot: Arc<WorkerSlot>,
    owned: Option<Box<Buffer>>,
    /// True if the worker steps its logger while waiting for space.
    steps: bool,
}

impl Log {
    /// Makes the appender of a worker whose epoch binding is `slot`. A worker calls this function once, between
    /// commits, because the slot must not be bound during the call. Loggers get workers in turn.
    #[must_use]
    pub fn attach(self: &StdArc<Self>, slot: Arc<CommitSlot>) -> Appender {
        assert!(self.has_loggers(), "entries are for a logger");
        // Relaxed: the counter only spreads workers, and has no partner.
        let logger = self.next_logger.fetch_add(1, Ordering::Relaxed) % self.loggers.len();
        debug_assert!(slot.bound_epoch().is_none(), "a worker attaches between commits");
        Appender::new(StdArc::clone(self), logger, slot)
    }

    /// Takes a waker for log space back. The waker is not called afterwards, unless its call is under way.
    pub fn withdraw_space_wait(&self, wait: SpaceWait) {
        debug_assert!(wait.logger < self.loggers.len(), "a registration is in the queue of a logger");
        if !self.store.is_forked() {
            self.loggers[wait.logger].queue.withdraw(wait.number);
        }
    }

    /// Calls the wakers for which space has come, or which find the log refuse. The calling thread holds no lock. Each
    /// step calls this function at its end, and the heartbeat during a slow sync of a step.
    pub fn wake_for_space(&self) {
        if self.store.is_forked() {
            return;
        }
        for logger in &self.loggers {
            self.waiters.wake_all(logger.queue.take_released());
        }
    }
}

impl Appender {
    fn new(log: StdArc<Log>, logger: usize, commit: Arc<CommitSlot>) -> Self {
        assert!(commit.bound_epoch().is_none(), "a worker attaches between commits");
        let slot = Arc::new(WorkerSlot::new(commit));
        log.loggers[logger].add(Arc::clone(&slot));
        Self { log, logger, slot, owned: None, steps: false }
    }

    fn logger(&self) -> &Logger {
        &self.log.loggers[self.logger]
    }

    /// For loggers without threads of their own: from now on this worker steps its logger itself while the worker waits
    /// for space in [`Appender::reserve`]. A step announces newly durable epochs. The next thread that steps calls the
    /// wakers, because this worker's caller may hold locks that a waker wants ([`Log::wake_kept`]).
    pub fn step_while_waiting(&mut self) {
        debug_assert!(self.owned.is_none(), "between two entries");
        self.steps = true;
    }

    /// Checks that the log takes entries now. A commit calls first if a later refusal by [`Appender::reserve`] would
    /// leave placeholders or other traces.
    ///
    /// # Errors
    /// [`DurabilityError::Stopped`] when the log is poisoned, [`DurabilityError::Closed`],
    /// [`DurabilityError::DiskFull`].
    #[inline]
    pub fn check(&self) -> Result<(), DurabilityError> {
        self.log.check()
    }

    /// Takes the worker's buffer and makes room for one entry with a body of up to `body_bytes`. Call before binding:
    /// the call may allocate, and wait for the disk if too many bytes are unwritten. [`Appender::append`] may follow;
    /// [`Appender::release`] must follow soon. Until the release the logger cannot take earlier entries of this worker.
    ///
    /// # Errors
    /// [`DurabilityError::Stopped`] when the log is poisoned, [`DurabilityError::Closed`],
    /// [`DurabilityError::DiskFull`], [`DurabilityError::TooLarge`]; nothing is reserved then.
    #[inline]
    pub fn reserve(&mut self, body_bytes: usize) -> Result<(), DurabilityError> {
        let is_reserved = self.reserve_by(body_bytes, || None)?;
        debug_assert!(is_reserved, "a thread waits for space");
        Ok(())
    }

    /// As [`Appender::reserve`]. If the worker's buffer has no room and `task` returns a task, the call does not wait:
    /// without space the call registers the task's waker, reserves nothing, and returns false (P2).
    ///
    /// # Errors
    /// As for [`Appender::reserve`].
    #[inline]
    pub fn reserve_by<'t>(
        &mut self,
        body_bytes: usize,
        task: impl FnOnce() -> Option<SpaceTask<'t>>,
    ) -> Result<bool, DurabilityError> {
        debug_assert!(self.owned.is_none(), "release before the next reserve");
        plain_access::load(&*self.log);
        if self.log.refuses() {
            self.log.check_refusal()?;
        }
        let buffer = self.slot.take();
        if buffer.has_room(body_bytes) {
            debug_assert!(body_bytes <= TRANSACTION_BYTES_MAX, "a usual buffer has no room for more");
            buffer.prefetch(body_bytes);
            self.owned = Some(buffer);
            return Ok(true);
        }
        self.change_buffer(buffer, body_bytes, task())
    }

    /// Replaces a buffer without room for `body_bytes`, by a fresh buffer from the queue. May wait for the disk, if no
    /// task is given. False if the task's waker is registered instead.
    #[cold]
    fn change_buffer(
        &mut self,
        buffer: Box<Buffer>,
        body_bytes: usize,
        mut task: Option<SpaceTask<'_>>,
    ) -> Result<bool, DurabilityError> {
        let logger = self.logger();
        let was_sealed = !buffer.is_empty();
        if let Some(wait) = task.as_mut().and_then(|task| task.wait.take()) {
            // The return of this worker's own buffer does not call this task: the task would try again and again.
            self.log.withdraw_space_wait(wait);
        }
        let must_step = if was_sealed {
            // The queue has the entries before `oldest` is cleared: the logger reads in this order (L1).
            logger.queue.push(buffer);
            self.slot.clear_oldest();
            true
        } else {
            logger.queue.give_back_empty(buffer)
        };
        // While this worker waits for the disk, the worker owns no buffer, so the worker cannot hold D back (L2).
        self.slot.put(Buffer::stub());
        if must_step {
            logger.wake();
        }
        if body_bytes > TRANSACTION_BYTES_MAX {
            return Err(DurabilityError::TooLarge { bytes: body_bytes, limit: TRANSACTION_BYTES_MAX });
        }
        let Some(mut task) = task else { return self.wait_for_buffer(body_bytes) };
        loop {
            match self.find_buffer(body_bytes, &mut task)? {
                FoundBuffer::Fresh(fresh) => {
                    self.own_fresh(fresh);
                    return Ok(true);
                }
                FoundBuffer::Registered => return Ok(false),
                // A log that has continued since takes entries again.
                FoundBuffer::Refused => self.log.check_refusal()?,
            }
        }
    }

    /// Waits for a fresh buffer from the queue. True: the buffer is the worker's.
    fn wait_for_buffer(&mut self, body_bytes: usize) -> Result<bool, DurabilityError> {
        let logger = self.logger();
        let bound = self.log.buffer_bytes_max;
        let waits = &self.log.counters.buffer_waits;
        let step = || logger.step_for_space(&self.log);
        // A waker of this log may run on the only thread that steps.
        let step = (self.steps || self.log.is_in_waker()).then_some(&step as &dyn Fn());
        let fresh = logger.queue.fresh(body_bytes, bound, waits, || self.log.refuses(), step);
        let Some(fresh) = fresh.map_err(|error| self.note_not_mapped(error))? else {
            self.log.check_refusal()?;
            // The log refused, and has continued since.
            return self.reserve_by(body_bytes, || None);
        };
        self.own_fresh(fresh);
        Ok(true)
    }

    /// Searches for a fresh buffer, and registers the task's waker if the queue has no space. The task has no other
    /// registration.
    fn find_buffer(
        &self,
        body_bytes: usize,
        task: &mut SpaceTask<'_>,
    ) -> Result<FoundBuffer, DurabilityError> {
        debug_assert!(task.wait.is_none(), "an earlier registration is withdrawn before");
        let mut number = None;
        let (queue, bound) = (&self.logger().queue, self.log.buffer_bytes_max);
        let found = queue.find_fresh(body_bytes, bound, || self.log.refuses(), task.waker, &mut number);
        *task.wait = number.map(|number| SpaceWait { logger: self.logger, number });
        if matches!(found, Ok(FoundBuffer::Registered)) {
            assert!(task.wait.is_some(), "a registration can be withdrawn (P2)");
            self.log.counters.buffer_waits.add(1);
        }
        found.map_err(|error| self.note_not_mapped(error))
    }

    /// Converts the error of a process-safe log that gets no file for a buffer. The failed call has reserved nothing,
    /// and has released the wakers of other workers: the logger calls these wakers.
    #[cold]
    fn note_not_mapped(&self, error: DiskError) -> DurabilityError {
        self.logger().wake();
        if error.is_full() { DurabilityError::DiskFull(error.to_string().into()) } else { error.into() }
    }

    /// Takes a fresh buffer as the worker's buffer.
    fn own_fresh(&mut self, fresh: Box<Buffer>) {
        let stub = self.slot.take();
        assert!(stub.is_empty(), "nobody but this worker fills its buffer");
        assert!(self.owned.is_none(), "a worker has one buffer");
        self.owned = Some(fresh);
    }

    /// Appends the reserved entry: `encode` adds its body, at most as many bytes as reserved. The worker is bound to at
    /// most `tid`'s epoch. The call allocates nothing, waits for nothing and cannot fail (E1).
    ///
    /// # Panics
    /// Without a reservation, or when `encode` adds more than was reserved.
    #[inline]
    pub fn append(&mut self, tid: Tid, encode: impl FnOnce(&mut Vec<u8>)) {
        let buffer = self.owned.as_mut().expect("reserve comes before append (E1)");
        if buffer.is_empty() {
            self.slot.note_oldest(tid.epoch());
        }
        buffer.push(tid, encode);
        debug_assert!(buffer.epochs().1 == tid.epoch(), "the last entry is this one");
    }

    /// Reserves, appends `body` and releases in one step, without waiting. The worker is already bound, and has
    /// reserved nothing. `tid` is called once the worker has its buffer, so the loads in `tid` come after the bind: the
    /// exchange that takes the buffer is the commit's fence. Returns `None` and appends nothing if `tid` returns none,
    /// a logger has the buffer, the buffer has no room, or the log takes no entries. After `None`, unbind and call
    /// [`reserve`](Self::reserve), which reports the obstacle.
    #[inline]
    pub fn append_at_once(&mut self, body: &[u8], tid: impl FnOnce() -> Option<Tid>) -> Option<Tid> {
        debug_assert!(self.owned.is_none(), "what is reserved for an entry is used by `append`");
        debug_assert!(self.slot.bound_epoch().is_some(), "bind comes before append (E1)");
        plain_access::load(&*self.log);
        if self.log.refuses() {
            return None;
        }
        let mut buffer = self.slot.take_bound()?;
        let unwinds = EndsLog(&self.log);
        let tid = if buffer.has_room(body.len()) { tid() } else { None };
        if let Some(tid) = tid {
            if buffer.is_empty() {
                self.slot.note_oldest(tid.epoch());
            }
            buffer.push_body(tid, body);
            debug_assert!(buffer.epochs().1 == tid.epoch(), "the last entry is this one");
            buffer.prefetch_next();
        }
        std::mem::forget(unwinds);
        // The slot gets the buffer back in every case (L2).
        self.slot.put(buffer);
        tid
    }

    /// Ends the log after a panic of a bound worker: no later entry becomes durable, and callers hear the reason. The
    /// buffer may hold half an entry, and goes to no logger. Unbind afterwards.
    #[cold]
    pub fn abandon(&mut self) {
        self.log.stop(PANICKED_BOUND);
        drop(self.owned.take());
    }

    /// Gives the buffer back, after the append or instead of an append. Does nothing without a reservation.
    #[inline]
    pub fn release(&mut self) {
        if let Some(buffer) = self.owned.take() {
            if buffer.is_empty() && buffer.is_large() {
                return self.give_up(buffer);
            }
            self.slot.put(buffer);
        }
    }

    /// Returns an unused large buffer to the queue at once. In the slot, the buffer would block the large buffers of
    /// other workers.
    #[cold]
    fn give_up(&self, buffer: Box<Buffer>) {
        debug_assert!(buffer.is_empty() && buffer.is_large());
        self.slot.put(Buffer::stub());
        if self.logger().queue.give_back_empty(buffer) {
            // The logger calls the wakers, because this worker is bound.
            self.logger().wake();
        }
    }

    /// The log of this appender.
    #[must_use]
    pub fn log(&self) -> &StdArc<Log> {
        &self.log
    }
}

/// Ends the log on drop. Only a panic drops the guard; the usual path forgets it.
struct EndsLog<'l>(&'l Log);

impl Drop for EndsLog<'_> {
    #[cold]
    fn drop(&mut self) {
        self.0.stop(PANICKED_BOUND);
    }
}

impl Drop for Appender {
    fn drop(&mut self) {
        // I4: another thread of the parent may have held a lock at the fork. No thread in this process releases the
        // lock.
        if self.log.store.is_forked() {
            std::mem::forget(self.owned.take());
            return;
        }
        // A bound slot means that the thread unwinds before its own unbind; otherwise a worker ends between commits
        // (E1).
        if self.slot.bound_epoch().is_some() {
            self.abandon();
        }
        self.release();
        // The logger takes the remaining entries of the buffer, and then forgets the slot (L2).
        self.slot.end();
    }
}
