//! Workers without a thread: the heartbeat collects the garbage of a worker until a thread takes the worker.
//!
//! Neighbours: `session` takes and gives workers; the heartbeat visits.

use ensile_base::sync::{AtomicBool, Mutex, MutexGuard, Ordering};
use ensile_disk::Process;

use super::Worker;

/// Workers without a thread.
pub(crate) struct IdleWorkers {
    #[expect(
        clippy::vec_box,
        reason = "a worker moves between sessions, threads and this list as a pointer"
    )]
    workers: Mutex<Vec<Box<Worker>>>,
    closed: AtomicBool,
    /// The process that opened the database. A forked process gives nothing back: the lock may be held for ever (I4).
    pub(crate) process: Process,
}

impl IdleWorkers {
    pub(crate) fn new(process: Process) -> Self {
        Self { workers: Mutex::default(), closed: AtomicBool::new(false), process }
    }

    /// Locks the workers. Meanwhile no thread takes or gives a worker.
    #[expect(clippy::vec_box, reason = "a worker moves as a pointer, in and out of this list")]
    pub(crate) fn lock(&self) -> MutexGuard<'_, Vec<Box<Worker>>> {
        // Pushing, popping and collecting leave a whole list at every point.
        self.workers.lock()
    }

    /// Closes the list at the end of the database. A worker that a thread gives back afterwards is dropped.
    pub(crate) fn close(&self) {
        // Release: partner is the Acquire in `is_closed`.
        self.closed.store(true, Ordering::Release);
        self.lock().clear();
    }

    pub(crate) fn is_closed(&self) -> bool {
        // Acquire: partner is the Release in `close`.
        self.closed.load(Ordering::Acquire)
    }

    /// Adds a worker that its thread no longer keeps. In a forked process the worker is leaked (I4).
    pub(crate) fn give(&self, worker: Box<Worker>) {
        if !self.process.is_this() {
            return std::mem::forget(worker);
        }
        let mut workers = self.lock();
        // The check is under the lock: a worker that came after `close` has emptied the list would stay in the list.
        if !self.is_closed() {
            workers.push(worker);
        }
    }
}
