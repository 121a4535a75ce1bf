//! A worker's way into the log: reserve before binding, append while bound, release (E1).
//!
//! The order around a commit: `reserve`, bind, .., `append`, `release`, unbind. L1 and L2 need that the append (and its
//! `note_oldest`) comes before the unbind, for a logger that reads c_w idle then sees the entry, in the buffer that it
//! can take or as the `oldest` of one that it cannot. Release comes before unbind: unbinding is the commit's last step
//! (E1), and a worker that is seen idle does not hold its buffer.
//!
//! A worker whose entry is encoded before it binds may take its buffer behind the bind ([`Appender::append_at_once`]):
//! the exchange that takes it is then the commit's fence as well. L1 and L2 do not ask when a worker takes its buffer.
//! E1 does: so nothing is waited for there, and where waiting is due the worker unbinds and begins anew by `reserve`.
//!
//! A panic between bind and unbind ends the log: what stands in the buffer may be half an entry, and the binding would
//! hold D back for good ([`Appender::abandon`]). Each guard of it is dropped by an unwinding only, so that the usual
//! way pays nothing.
//!
//! Neighbours: owned by an engine worker; the buffer goes through its slot or the queue of `buffers` to the logger.

use std::sync::Arc as StdArc;

use ensile_base::Tid;
use ensile_base::limits::TRANSACTION_BYTES_MAX;
use ensile_base::sync::{Arc, note};
use ensile_disk::DiskError;
use ensile_epoch::CommitSlot;

use super::Log;
use super::logger::Logger;
use crate::DurabilityError;
use crate::buffers::{Buffer, WorkerSlot};

/// Why the log stops when a worker panics between bind and unbind.
const PANICKED_BOUND: &str = "a thread panicked while it logged an entry, so what it has logged is not known";

/// Appends one worker's entries.
#[derive(Debug)]
pub struct Appender {
    log: StdArc<Log>,
    logger: usize,
    slot: Arc<WorkerSlot>,
    owned: Option<Box<Buffer>>,
    /// While it waits for space it steps its logger.
    steps: bool,
}

impl Appender {
    pub(super) fn new(log: StdArc<Log>, logger: usize, commit: Arc<CommitSlot>) -> Self {
        assert!(commit.bound().is_none(), "a worker attaches between commits");
        let slot = Arc::new(WorkerSlot::new(commit));
        log.loggers[logger].add(Arc::clone(&slot));
        Self { log, logger, slot, owned: None, steps: false }
    }

    fn logger(&self) -> &Logger {
        &self.log.loggers[self.logger]
    }

    /// Where loggers have no threads of their own: from now on this worker steps its logger itself while it waits for
    /// space in [`Appender::reserve`]. What becomes durable by that is announced, but wakers are called by the next
    /// thread that steps: the worker's caller may hold locks that they want ([`Log::wake_kept`]).
    pub fn step_while_waiting(&mut self) {
        debug_assert!(self.owned.is_none(), "between two entries");
        self.steps = true;
    }

    /// Whether the log takes entries now: for a commit that would leave something behind if [`Appender::reserve`]
    /// refused.
    ///
    /// # Errors
    /// [`DurabilityError::Stopped`] when the log is poisoned or closed, [`DurabilityError::DiskFull`].
    #[inline]
    pub fn check(&self) -> Result<(), DurabilityError> {
        if self.log.refuses() { self.check_refusal() } else { Ok(()) }
    }

    /// Takes the worker's buffer and makes room in it for one entry with a body of up to `body_bytes`. Before binding:
    /// this may allocate, and wait for the disk when too much is unwritten. Follow it by [`Appender::append`] or not,
    /// and by [`Appender::release`] soon: until then the logger cannot take what this worker appended before.
    ///
    /// # Errors
    /// [`DurabilityError::Stopped`] when the log is poisoned or closed, [`DurabilityError::DiskFull`],
    /// [`DurabilityError::TooLarge`]; nothing is reserved then.
    #[inline]
    pub fn reserve(&mut self, body_bytes: usize) -> Result<(), DurabilityError> {
        debug_assert!(self.owned.is_none(), "release before the next reserve");
        note::load(&*self.log);
        if self.log.refuses() {
            self.check_refusal()?;
        }
        let buffer = self.slot.take();
        if buffer.has_room(body_bytes) {
            debug_assert!(body_bytes <= TRANSACTION_BYTES_MAX, "a usual buffer has no room for more");
            buffer.prefetch(body_bytes);
            self.owned = Some(buffer);
            return Ok(());
        }
        self.change_buffer(buffer, body_bytes)
    }

    #[cold]
    fn check_refusal(&self) -> Result<(), DurabilityError> {
        self.log.refusal().map_or(Ok(()), Err)
    }

    /// The buffer is full, a stub, or too small: hand it over and get another.
    #[cold]
    fn change_buffer(&mut self, buffer: Box<Buffer>, body_bytes: usize) -> Result<(), DurabilityError> {
        let logger = self.logger();
        let was_sealed = !buffer.is_empty();
        if was_sealed {
            // The entries are in the queue before `oldest` says that they left: the logger reads in this order (L1).
            logger.queue.push(buffer);
            self.slot.clear_oldest();
        } else {
            logger.queue.give_back_empty(buffer);
        }
        // While this worker waits for the disk it owns nothing, so it cannot hold D back (L2).
        self.slot.put(Buffer::stub());
        if was_sealed {
            logger.wake();
        }
        if body_bytes > TRANSACTION_BYTES_MAX {
            return Err(DurabilityError::TooLarge { bytes: body_bytes, limit: TRANSACTION_BYTES_MAX });
        }
        let bound = self.log.buffer_bytes_max;
        let waits = &self.log.counters.buffer_waits;
        let step = || logger.step_for_space(&self.log);
        // A waker of this log's runs on a thread that steps, perhaps the only one.
        let step = (self.steps || self.log.is_in_waker()).then_some(&step as &dyn Fn());
        let fresh = logger.queue.fresh(body_bytes, bound, waits, || self.log.refuses(), step);
        let Some(fresh) = fresh.map_err(not_mapped)? else {
            self.check_refusal()?;
            // It refused, and went on just now.
            return self.reserve(body_bytes);
        };
        let stub = self.slot.take();
        assert!(stub.is_empty(), "nobody but this worker fills its buffer");
        assert!(self.owned.is_none(), "a worker has one buffer");
        self.owned = Some(fresh);
        Ok(())
    }

    /// Appends the entry that was reserved for: `encode` adds its body, at most as many bytes as were reserved. While
    /// bound to at most `tid`'s epoch; allocates nothing, waits for nothing, cannot fail (E1).
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

    /// Reserves, appends `body` and releases in one step, if that takes no waiting: for a worker that is bound already,
    /// and has reserved nothing. `tid` is called once the worker has its buffer, and what it loads comes behind the
    /// bind: the exchange that takes the buffer is the commit's fence. `None`, and nothing is appended, if `tid` gives
    /// none, if a logger has the buffer just now, if that has no room, or if the log takes no entries: unbind then, and
    /// [`reserve`](Self::reserve), which says what stands in the way.
    #[inline]
    pub fn append_at_once(&mut self, body: &[u8], tid: impl FnOnce() -> Option<Tid>) -> Option<Tid> {
        debug_assert!(self.owned.is_none(), "what is reserved for an entry is used by `append`");
        debug_assert!(self.slot.bound().is_some(), "bind comes before append (E1)");
        note::load(&*self.log);
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
        // The slot gets it back, whatever came of it (L2).
        self.slot.put(buffer);
        tid
    }

    /// Ends the log, for a worker that panicked while it was bound: nothing that is logged later becomes durable, and
    /// callers are told why. The buffer, which may have half an entry, goes to no logger. Unbind then.
    #[cold]
    pub fn abandon(&mut self) {
        self.log.stop(PANICKED_BOUND);
        drop(self.owned.take());
    }

    /// Gives the buffer back, after the append or instead of it. Without a reservation it does nothing.
    #[inline]
    pub fn release(&mut self) {
        if let Some(buffer) = self.owned.take() {
            if buffer.is_empty() && buffer.is_large() {
                return self.give_up(buffer);
            }
            self.slot.put(buffer);
        }
    }

    /// A large buffer that was not needed is not kept: it would stand in the way of others'.
    #[cold]
    fn give_up(&self, buffer: Box<Buffer>) {
        debug_assert!(buffer.is_empty() && buffer.is_large());
        self.slot.put(Buffer::stub());
        self.logger().queue.give_back_empty(buffer);
    }

    /// The log that this appends to.
    #[must_use]
    pub fn log(&self) -> &StdArc<Log> {
        &self.log
    }
}

/// Ends the log when it is dropped: by a panic, as it is forgotten otherwise.
struct EndsLog<'l>(&'l Log);

impl Drop for EndsLog<'_> {
    #[cold]
    fn drop(&mut self) {
        self.0.stop(PANICKED_BOUND);
    }
}

/// No file could be had for a buffer of a process-safe log: nothing is reserved.
fn not_mapped(error: DiskError) -> DurabilityError {
    if error.is_full() { DurabilityError::DiskFull(error.to_string().into()) } else { error.into() }
}

impl Drop for Appender {
    fn drop(&mut self) {
        // I4: another thread of the parent may have held a lock at the fork. No thread gives it back here.
        if self.log.store.is_forked() {
            std::mem::forget(self.owned.take());
            return;
        }
        // A thread that unwinds past its own unbind: a worker ends between commits otherwise (E1).
        if self.slot.bound().is_some() {
            self.abandon();
        }
        self.release();
        // What is left in the buffer is the logger's to take; then it forgets the slot (L2).
        self.slot.end();
    }
}
