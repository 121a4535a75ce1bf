//! Workers' garbage as a whole: how far each may free, and how much all of them hold back (E4).
//!
//! Neighbours: commits collect after themselves, the heartbeat collects for workers that no thread has; `worker` frees.

use ensile_base::sync::{Arc, AtomicU64, Ordering};
use ensile_epoch::{Pinned, ReclaimLimits};

use super::SharedState;
use crate::garbage::Horizon;
use crate::worker::{Worker, WorkerCounters};

/// Things of each kind that a worker frees after one commit, beyond what a commit of that size leaves behind: so
/// garbage shrinks whatever the size of transactions, and no request waits for much of others' (§4.8).
const FREED_PER_COMMIT: usize = 16;
/// Things of one kind that one write leaves behind at most: the record that it replaces, and one that is unhooked.
const LEFT_PER_WRITE: usize = 2;
/// Things of each kind that one step frees for a worker that no thread has.
const FREED_PER_IDLE_STEP: usize = 4096;

impl SharedState {
    /// A new worker of this database.
    pub(crate) fn new_worker(&self) -> Box<Worker> {
        let worker = Worker::new(&self.epochs, self.log.as_ref(), &self.memory);
        self.counters.lock().push(Arc::clone(&worker.counters));
        Box::new(worker)
    }

    /// After a commit without writes, which left nothing behind: only now and then looks for what others left.
    #[inline]
    pub(crate) fn collect_now_and_then(&self, worker: &mut Worker, pinned: Pinned<'_>) {
        if worker.is_to_collect() {
            self.collect(worker, 0, pinned);
        }
    }

    /// Frees a bounded amount of a worker's garbage after its commit of `writes` writes: a step between requests. While
    /// the limits have not moved since everything below them was freed, there is nothing to look for.
    pub(crate) fn collect(&self, worker: &mut Worker, writes: usize, pinned: Pinned<'_>) {
        if !self.settings.switches.collects() {
            return;
        }
        let limits = self.epochs.limits();
        if !worker.has_collected(limits) {
            let most = FREED_PER_COMMIT + LEFT_PER_WRITE * writes;
            worker.collect(&self.horizon(limits), pinned, most);
        }
        worker.publish_garbage();
    }

    /// As [`SharedState::collect`], for a worker that no thread waits for.
    pub(crate) fn collect_idle(&self, worker: &mut Worker, pinned: Pinned<'_>) {
        if !self.settings.switches.collects() {
            return;
        }
        worker.collect(&self.horizon(self.epochs.limits()), pinned, FREED_PER_IDLE_STEP);
        worker.publish_garbage();
    }

    fn horizon(&self, limits: ReclaimLimits) -> Horizon<'_> {
        Horizon { limits, durable: self.durable_epoch(), epochs: &self.epochs, tables: &self.tables }
    }

    /// Bytes of garbage that somebody's pin or snapshot really holds back at these limits. What an idle thread's worker
    /// could free and has not is held back by none.
    pub(crate) fn held_bytes(&self, limits: ReclaimLimits) -> u64 {
        let counters = self.counters.lock();
        // Relaxed: figures, each a little old.
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let held = |worker: &WorkerCounters| {
            let pinned = read(&worker.held_at_pins) == limits.pins().number();
            let versions = read(&worker.held_at_snapshots) == limits.snapshots().number();
            u64::from(pinned) * read(&worker.garbage_pinned_bytes)
                + u64::from(versions) * read(&worker.garbage_version_bytes)
        };
        counters.iter().map(|worker| held(worker)).sum()
    }

    /// Sums one counter over all workers there ever were; 0 in a forked child, where the list may be locked for ever
    /// (I4).
    pub(crate) fn sum(&self, counter: impl Fn(&WorkerCounters) -> &AtomicU64) -> u64 {
        if !self.is_own_process() {
            return 0;
        }
        let counters = self.counters.lock();
        // Relaxed: figures, each a little old.
        counters.iter().map(|worker| counter(worker).load(Ordering::Relaxed)).sum()
    }
}
