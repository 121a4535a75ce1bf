//! Workers: a binding, a way into the log, and a buffer to encode into.
//!
//! A thread that logs repeatedly finds its worker in its own memory, without a shared line. When the thread ends, or
//! logs into another folder, the worker goes back to its folder, and the next thread takes the worker from there.
//!
//! Invariants:
//! - I4: in a forked child no worker ends or goes back: the lists around the worker may be locked for ever.
//! - E1: a worker that ends while bound, by a panic alone, ends the log.
//!
//! Neighbours: `entry` takes a worker for every entry, and keeps the worker afterwards.

use std::cell::Cell;
use std::sync::Arc as StdArc;

use ensile_base::Tid;
use ensile_base::limits::KEEP_BYTES_MAX;
use ensile_base::sync::{Mutex, thread_local};
use ensile_disk::Process;
use ensile_durability::{Appender, DurabilityError, Log};
use ensile_epoch::{CommitHandle, Epochs};

pub(crate) struct LogWorker {
    pub(super) commit: CommitHandle,
    pub(super) appender: Appender,
    /// Body of the entry: user code encodes into the body, outside of the log's memory.
    pub(crate) body: Vec<u8>,
    home: StdArc<LogWorkers>,
}

/// A worker ends between two entries, except when its thread panicked while the worker was bound. The binding would
/// hold D back for good, and the worker's log entries are unknown: the log ends (E1).
impl Drop for LogWorker {
    fn drop(&mut self) {
        if self.commit.bound_epoch().is_some() {
            self.appender.abandon();
            self.commit.unbind();
        }
    }
}

impl LogWorker {
    #[cold]
    pub(super) fn new(home: &StdArc<LogWorkers>, epochs: &Epochs, log: &StdArc<Log>) -> Box<Self> {
        let commit = epochs.register_worker();
        let mut appender = log.attach(commit.slot().clone());
        if home.step_while_waiting {
            appender.step_while_waiting();
        }
        Box::new(Self { commit, appender, body: Vec::new(), home: StdArc::clone(home) })
    }

    #[inline]
    pub(super) fn reserve(&mut self) -> Result<(), DurabilityError> {
        self.appender.reserve(self.body.len())
    }

    #[inline]
    pub(super) fn append(&mut self, tid: Tid) {
        debug_assert!(self.commit.bound_epoch().is_some_and(|bound| bound <= tid.epoch()), "E1");
        let body = &self.body;
        self.appender.append(tid, |out| out.extend_from_slice(body));
    }

    /// Appends the body, with the TID from `tid`, if space is available at once: see [`Appender::append_at_once`].
    #[inline]
    pub(super) fn append_at_once(&mut self, tid: impl FnOnce() -> Option<Tid>) -> Option<Tid> {
        let tid = self.appender.append_at_once(&self.body, tid);
        let bound = self.commit.bound_epoch();
        debug_assert!(tid.is_none_or(|tid| bound.is_some_and(|bound| bound <= tid.epoch())), "E1");
        tid
    }

    #[cold]
    fn go_home(self: Box<Self>) {
        if !self.home.process.is_this() {
            return std::mem::forget(self);
        }
        debug_assert!(self.commit.bound_epoch().is_none(), "E1: an idle worker holds no epoch");
        debug_assert!(self.body.is_empty(), "an idle worker has no entry");
        let home = StdArc::clone(&self.home);
        let mut idle = home.idle.lock();
        let surplus = match &mut *idle {
            Some(idle) => {
                idle.push(*self);
                None
            }
            None => Some(self),
        };
        // Outside the lock: the worker ends here, as the folder is closed.
        drop(idle);
        drop(surplus);
    }
}

pub(super) struct LogWorkers {
    process: Process,
    /// True if a worker that waits for log space steps its logger.
    step_while_waiting: bool,
    /// Idle workers; `None` once the folder is closed.
    idle: Mutex<Option<Vec<LogWorker>>>,
}

struct LastWorker(Cell<Option<Box<LogWorker>>>);

impl Drop for LastWorker {
    fn drop(&mut self) {
        self.0.take().into_iter().for_each(LogWorker::go_home);
    }
}

thread_local! {
    static LAST: LastWorker = const { LastWorker(Cell::new(None)) };
}

impl LogWorkers {
    pub(super) fn new(process: Process, step_while_waiting: bool) -> StdArc<Self> {
        StdArc::new(Self { process, step_while_waiting, idle: Mutex::new(Some(Vec::new())) })
    }

    /// Takes this thread's worker, or an idle worker; `None` without an idle worker.
    #[inline]
    pub(super) fn take(self: &StdArc<Self>) -> Option<Box<LogWorker>> {
        match LAST.try_with(|last| last.0.take()) {
            Ok(Some(worker)) if StdArc::ptr_eq(&worker.home, self) => Some(worker),
            other => self.take_idle(other.ok().flatten()),
        }
    }

    #[cold]
    fn take_idle(&self, foreign: Option<Box<LogWorker>>) -> Option<Box<LogWorker>> {
        foreign.into_iter().for_each(LogWorker::go_home);
        let idle = self.idle.lock().as_mut().and_then(Vec::pop).map(Box::new);
        debug_assert!(idle.as_ref().is_none_or(|worker| std::ptr::eq(&*worker.home, self)));
        idle
    }

    /// Keeps a worker for this thread's next entry. The memory of a huge entry is released.
    #[inline]
    pub(super) fn keep(mut worker: Box<LogWorker>) {
        worker.body.clear();
        worker.body.shrink_to(KEEP_BYTES_MAX);
        debug_assert!(worker.body.capacity() <= KEEP_BYTES_MAX, "an idle worker has little memory");
        let mut worker = Some(worker);
        let displaced = LAST.try_with(|last| last.0.replace(worker.take())).ok().flatten();
        if displaced.is_some() || worker.is_some() {
            // The thread has logged elsewhere meanwhile, or is being torn down.
            displaced.into_iter().chain(worker).for_each(LogWorker::go_home);
        }
    }

    /// Ends the idle workers. A worker in use ends with its thread, or when the thread logs into another folder.
    pub(super) fn end(&self) {
        let idle = self.idle.lock().take();
        drop(idle);
    }
}
