//! Collection of the garbage of all workers: the limits of each worker, the visits to idle workers, and the limit of
//! waiting garbage (E6).
//!
//! Neighbours: commits collect after themselves, and the heartbeat (`open::threads`) collects for workers without
//! commits. `worker` frees. `garbage_limit` selects the readers to end. The first snapshot of a table fills its side
//! index here.

use std::time::Duration;

use ensile_base::Epoch;
use ensile_base::sync::{Arc, AtomicU64, Ordering};
use ensile_epoch::{Pinned, ReclaimLimits};

use super::collector::Collector;
use super::garbage_limit::GarbageBytes;
use super::state::SharedState;
use crate::garbage::{EpochLimits, Horizon};
use crate::record::blocks::Blocks;
use crate::tables::TableCore;
use crate::worker::Worker;

/// Number of objects of each kind that a worker frees after a commit, beyond the number that a commit of this size
/// leaves. So garbage shrinks with transactions of any size, and no request waits for much garbage of others (§4.8).
const FREED_PER_COMMIT: usize = 16;
/// Largest number of objects of a kind that a write leaves: the replaced record, and an unhooked record.
const LEFT_PER_WRITE: usize = 2;
/// Largest number of objects of each kind that the heartbeat frees for a worker in a visit. The worker's thread waits
/// for no more at its next commit.
const FREED_PER_VISIT: usize = 1024;
/// Number of workers visited in a step.
const VISITS_PER_STEP: usize = 4;

impl SharedState {
    pub(crate) fn new_worker(&self) -> Box<Worker> {
        let worker = Worker::new(&self.epochs, self.storage.log.as_ref(), &self.memory);
        self.workers.add(&worker);
        Box::new(worker)
    }

    /// Collects from time to time after a commit without writes. Such a commit leaves no garbage.
    #[inline]
    pub(crate) fn collect_now_and_then(&self, worker: &mut Worker, pinned: Pinned<'_>) {
        if worker.count_read_and_check_due() {
            self.collect(worker, 0, pinned);
        }
    }

    /// Frees a bounded amount of a worker's garbage after a commit of `writes` writes: a step between requests. The
    /// search is skipped while the limits have not moved since the last complete collection.
    pub(crate) fn collect(&self, worker: &mut Worker, writes: usize, pinned: Pinned<'_>) {
        if !self.settings.switches.collects() {
            return;
        }
        worker.hand_over_nodes(&self.epochs);
        let limits = self.epochs.limits();
        if !worker.has_collected(limits, || self.bare_limit(), || self.commit_limit()) {
            let most = FREED_PER_COMMIT + LEFT_PER_WRITE * writes;
            worker.collect(&self.horizon(self.epoch_limits(limits)), pinned, most);
        }
    }

    /// Runs a tick, after its scan: schedules visits to all workers with garbage, and ends readers if too much garbage
    /// waits (E6).
    pub(crate) fn collection_tick(&self, collector: &mut Collector) {
        if !self.settings.switches.collects() {
            return;
        }
        self.collect_after_pictures();
        self.bound_displaced();
        // Relaxed: figures, each a little old.
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let (mut made, mut waiting, mut unhooks) = (GarbageBytes::default(), GarbageBytes::default(), 0);
        collector.due.clear();
        for worker in &*self.workers.lock_all() {
            let counters = &worker.counters;
            made.pins += read(&counters.made_for_pins);
            made.snapshots += read(&counters.made_for_snapshots);
            waiting.pins += read(&counters.garbage_pinned_bytes);
            waiting.snapshots += read(&counters.garbage_version_bytes);
            unhooks += read(&counters.garbage_unhook_bytes);
            if read(&counters.garbage_things) > 0 {
                collector.due.push(Arc::clone(worker));
            }
        }
        if let Some(worker) = collector.worker.as_mut().filter(|_| collector.due.is_empty()) {
            worker.give_scattered();
        }
        let maps = &self.tables.logged.waiting_maps;
        made.pins += maps.made_bytes();
        waiting.pins += maps.bytes();
        let limits = self.epoch_limits(self.epochs.limits());
        collector.before_last = std::mem::replace(&mut collector.last, limits);
        // Deletes above D wait for D, so the end of a reader would free none of them. Without a log deletes do not wait
        // for D.
        let durable = if self.settings.is_without_log { Epoch::MAX } else { self.storage.durable_epoch() };
        let undurable = collector.limit.made_above(durable, made);
        waiting.snapshots = waiting.snapshots.saturating_sub(unhooks.min(undurable));
        let (now, served) = (self.epochs.now(), self.epochs.served_snapshot());
        if let Some(before) = collector.limit.tick(now, served, made, waiting) {
            let _asked = self.epochs.expire(before.pins, before.snapshots);
        }
    }

    /// Frees a bounded amount of neglected garbage (E6), of threads that wait, read, have ended, or fall behind. Also
    /// frees versions of ended pictures. False if no garbage is left.
    pub(crate) fn collection_step(&self, collector: &mut Collector) -> bool {
        let has_more = self.free_ended_step();
        let Collector { worker, before_last: limits, due, .. } = collector;
        if due.is_empty() {
            return has_more;
        }
        let worker = worker.get_or_insert_with(|| {
            let worker = Worker::new(&self.epochs, None, &self.memory);
            self.workers.add(&worker);
            Box::new(worker)
        });
        let mut pin = self.epochs.register_pin();
        let call = pin.begin(self.epochs.now());
        let horizon = self.horizon(*limits);
        let first = due.len().saturating_sub(VISITS_PER_STEP);
        let mut visited = due.split_off(first);
        visited.retain(|other| {
            // The holder of the lock frees the garbage itself.
            let Some(mut garbage) = other.try_lock_garbage() else { return false };
            let before = garbage.work();
            let drained = worker.collect_for(&mut garbage, &horizon, call.pin_token(), FREED_PER_VISIT);
            // Garbage held back by a turn is examined again after the next tick (P1).
            !drained && garbage.work() < before
        });
        // Workers with remaining garbage come last.
        due.splice(0..0, visited);
        has_more || !due.is_empty()
    }

    /// Adds the counts of workers without a thread to the count of a limited memory: such a worker counts nothing by
    /// itself, and freed memory must be free for writes (M4).
    pub(crate) fn report_idle_use(&self, collector: &mut Collector) {
        if !self.settings.is_memory_limited {
            return;
        }
        if let Some(worker) = &mut collector.worker {
            worker.blocks.report_use();
        }
        self.workers.idle.lock().iter_mut().for_each(|worker| worker.blocks.report_use());
    }

    /// Repeats [`SharedState::collection_step`] until no garbage is left, until `time` has passed by the database's
    /// clock, or until the database closes. Returns the unused part of `time`.
    pub(crate) fn collect_for(&self, collector: &mut Collector, time: Duration) -> Duration {
        let began = self.clock.nanos();
        loop {
            let passed = Duration::from_nanos(self.clock.nanos().saturating_sub(began));
            let Some(left) = time.checked_sub(passed) else { return Duration::ZERO };
            if self.heartbeat.stop.is_stopped() || !self.collection_step(collector) {
                return left;
            }
        }
    }

    /// Makes sure that a snapshot finds the table's buried records in the side index (U3). Every read of a snapshot
    /// asks first.
    #[inline(always)]
    pub(crate) fn prepare_side(&self, table: &TableCore) {
        if !table.side.is_filled() {
            self.fill_side(table);
        }
    }

    /// Enters the buried records of all workers into the side index of a table, in steps with a pin each.
    #[cold]
    fn fill_side(&self, table: &TableCore) {
        table.side.fill(|| {
            let (mut pin, mut blocks) = (self.epochs.register_pin(), Blocks::new(self.memory.cache()));
            // A worker that comes later has locked the list later, and so lets its buried records enter.
            let workers = self.workers.lock_all().clone();
            for worker in workers {
                let steps = (0..).take_while(|&step| {
                    let call = pin.begin(self.epochs.now());
                    worker.lock_garbage().fill_side(table, step, &mut blocks, &self.epochs, call.pin_token())
                });
                let _steps = steps.count();
            }
        });
    }

    /// The limits of freeable garbage, and the state that a worker needs to free garbage.
    fn horizon(&self, limits: EpochLimits) -> Horizon<'_> {
        let unhooked = self.settings.is_without_log.then(|| &*self.unhooked);
        Horizon {
            limits,
            epochs: &self.epochs,
            tables: &self.tables.directory,
            gate: &self.life.gate,
            unhooked,
        }
    }

    /// All limits of freeable garbage, computed from the limits of readers at the last scan.
    fn epoch_limits(&self, readers: ReclaimLimits) -> EpochLimits {
        let (unhooks, commits) = (self.unhook_limit(readers), self.commit_limit());
        EpochLimits { readers, unhooks, bare: self.bare_limit(), commits }
    }

    /// E2: all commits of epochs below this limit, at most E - 2, have ended.
    fn commit_limit(&self) -> Epoch {
        self.epochs.now().previous()
    }

    /// U2: an absent record is unhooked if its delete's epoch is below the snapshots' limit, at most E - 2, and at most
    /// D. Without a log D does not count (N19).
    fn unhook_limit(&self, limits: ReclaimLimits) -> Epoch {
        limits.snapshots().min(self.bare_limit())
    }

    /// As [`Self::unhook_limit`], for absent records without versions: no snapshot reads them.
    fn bare_limit(&self) -> Epoch {
        let durable =
            if self.settings.is_without_log { Epoch::MAX } else { self.storage.durable_epoch().next() };
        self.commit_limit().min(durable)
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
