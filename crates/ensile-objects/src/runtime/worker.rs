//! Workers: a binding, a way into the log, and buffers to encode into. A thread takes one for each entry.
//!
//! Neighbours: `super` takes and keeps them.

use std::sync::Arc as StdArc;

use crossbeam_utils::CachePadded;
use ensile_base::Tid;
use ensile_base::limits::KEEP_BYTES_MAX;
use ensile_base::sync::{Mutex, thread_local};
use ensile_durability::{Appender, DurabilityError, Log};
use ensile_epoch::{CommitHandle, Epochs};

/// Shelves of workers. Threads that share one take turns for some nanoseconds.
const SHELVES: usize = if cfg!(shuttle) { 1 } else { 16 };

/// What one entry is logged with.
pub(crate) struct LogWorker {
    pub(super) commit: CommitHandle,
    appender: Appender,
    /// User code encodes into these, outside of the log's memory.
    pub(crate) key: Vec<u8>,
    pub(crate) bytes: Vec<u8>,
    /// The entry's body.
    pub(crate) body: Vec<u8>,
}

impl LogWorker {
    pub(super) fn new(epochs: &Epochs, log: &StdArc<Log>) -> Self {
        let commit = epochs.register_worker();
        let appender = log.attach(commit.slot().clone());
        Self { commit, appender, key: Vec::new(), bytes: Vec::new(), body: Vec::new() }
    }

    /// Takes log space for the body.
    pub(super) fn reserve(&mut self) -> Result<(), DurabilityError> {
        self.appender.reserve(self.body.len())
    }

    /// Appends the body, for which there is space.
    pub(super) fn append(&mut self, tid: Tid) {
        let body = &self.body;
        self.appender.append(tid, |out| out.extend_from_slice(body));
    }

    /// Gives the log buffer back, with what was appended.
    pub(super) fn release(&mut self) {
        self.appender.release();
    }

    /// Empties the buffers; those that a huge entry made long are given back.
    fn clear(&mut self) {
        for buffer in [&mut self.key, &mut self.bytes, &mut self.body] {
            buffer.clear();
            buffer.shrink_to(KEEP_BYTES_MAX);
        }
    }
}

/// Workers that no thread has.
pub(super) struct LogWorkers {
    shelves: Box<[CachePadded<Mutex<Vec<LogWorker>>>]>,
}

impl LogWorkers {
    pub(super) fn new() -> Self {
        Self { shelves: (0..SHELVES).map(|_| CachePadded::default()).collect() }
    }

    /// One of this thread's shelf, if there is one.
    pub(super) fn take(&self) -> Option<LogWorker> {
        self.shelves[shelf()].lock().pop()
    }

    /// Keeps one on this thread's shelf.
    pub(super) fn keep(&self, mut worker: LogWorker) {
        worker.clear();
        self.shelves[shelf()].lock().push(worker);
    }

    /// Ends all of them.
    pub(super) fn end(&self) {
        self.shelves.iter().for_each(|shelf| shelf.lock().clear());
    }
}

/// This thread's shelf, by where the thread has its own memory.
fn shelf() -> usize {
    thread_local! {
        static HERE: u8 = const { 0 };
    }
    HERE.with(|here| std::ptr::from_ref(here).addr() >> 12) % SHELVES
}
