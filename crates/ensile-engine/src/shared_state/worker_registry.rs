//! The workers of a database: all workers since the open, the idle workers, and the cores of their threads.
//!
//! Neighbours: `session` takes idle workers; the heartbeat and checkpointers visit all workers.

use ensile_base::sync::{Arc, AtomicU64, Mutex, MutexGuard, Ordering};

use crate::worker::idle_workers::IdleWorkers;
use crate::worker::pinning::Cores;
use crate::worker::{Worker, WorkerCounters, WorkerShared};

pub(crate) struct WorkerRegistry {
    /// All workers since the open.
    all: Mutex<Vec<Arc<WorkerShared>>>,
    /// Workers without a thread.
    pub(crate) idle: Arc<IdleWorkers>,
    /// Cores for worker threads, if the threads are pinned.
    pub(crate) cores: Option<Cores>,
}

impl WorkerRegistry {
    pub(super) fn new(idle: IdleWorkers, cores: Option<Cores>) -> Self {
        Self { all: Mutex::new(Vec::new()), idle: Arc::new(idle), cores }
    }

    pub(super) fn add(&self, worker: &Worker) {
        self.all.lock().push(Arc::clone(&worker.shared));
    }

    /// The shared parts of all workers since the open.
    pub(super) fn lock_all(&self) -> MutexGuard<'_, Vec<Arc<WorkerShared>>> {
        self.all.lock()
    }

    /// Runs `work` for the shared part of each worker since the open.
    pub(crate) fn each_worker(&self, work: impl FnMut(&WorkerShared)) {
        self.all.lock().iter().map(|worker| &**worker).for_each(work);
    }

    /// Sum of a counter over all workers since the open. 0 in a forked child: the list may be locked for ever (I4).
    pub(crate) fn sum(&self, counter: impl Fn(&WorkerCounters) -> &AtomicU64) -> u64 {
        if !self.idle.process.is_this() {
            return 0;
        }
        let workers = self.all.lock();
        // Relaxed: figures, each a little old.
        workers.iter().map(|worker| counter(&worker.counters).load(Ordering::Relaxed)).sum()
    }
}
