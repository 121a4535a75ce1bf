//! What commits: one worker's commit binding, log buffer, memory and garbage.
//!
//! A worker belongs to one thread at a time and to no transaction: an open transaction borrows one at commit (E4).
//! Nothing here is shared but the counters, which only the owner writes.
//!
//! Neighbours: `session` lends workers out; commit drives one; `collect` frees what it left behind.

pub(crate) mod cores;

use crossbeam_utils::CachePadded;
use ensile_base::sync::{Arc, AtomicU64, Ordering};
use ensile_base::{Epoch, Tid};
use ensile_durability::Appender;
use ensile_epoch::{CommitHandle, Pinned, ReclaimLimits};
use ensile_index::NodeChanges;

use crate::commit::Images;
use crate::database::Core;
use crate::garbage::{Garbage, Horizon};
use crate::record::blocks::{Blocks, NodeBlocks};

/// Things of each kind that a worker frees after one commit, beyond what a commit of that size leaves behind: so
/// garbage shrinks whatever the size of transactions, and no request waits for much of others' (§4.8).
const FREED_PER_COMMIT: usize = 16;
/// Read-only commits between two looks at the garbage.
const READS_PER_COLLECTION: u32 = 32;
/// Things of one kind that one write leaves behind at most: the record that it replaces, and one that is unhooked.
const LEFT_PER_WRITE: usize = 2;
/// The same for an idle worker's step.
const FREED_PER_IDLE_STEP: usize = 4096;

/// Figures of one worker, written by its owner alone.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) commits: AtomicU64,
    pub(crate) aborts: AtomicU64,
    pub(crate) garbage_pinned_bytes: AtomicU64,
    pub(crate) garbage_version_bytes: AtomicU64,
    pub(crate) garbage_things: AtomicU64,
    /// The limits that the two figures of bytes were left over at; 0 while there is still something to free.
    pub(crate) held_at_pins: AtomicU64,
    pub(crate) held_at_snapshots: AtomicU64,
}

impl Counters {
    #[inline]
    pub(crate) fn add(counter: &AtomicU64, by: u64) {
        // Relaxed, both: one writer, and readers want a figure, not an order.
        counter.store(counter.load(Ordering::Relaxed) + by, Ordering::Relaxed);
    }

    #[inline]
    fn set(counter: &AtomicU64, value: usize) {
        // Relaxed: as above.
        counter.store(value as u64, Ordering::Relaxed);
    }
}

/// One worker.
pub(crate) struct Worker {
    pub(crate) commit: CommitHandle,
    pub(crate) appender: Option<Appender>,
    pub(crate) blocks: Blocks,
    pub(crate) garbage: Garbage,
    /// The last TID that this worker chose (§4.2 b).
    pub(crate) last_tid: Tid,
    /// Positions of the write-set in lock order.
    pub(crate) order: Vec<u32>,
    pub(crate) changes: NodeChanges,
    pub(crate) counters: Arc<CachePadded<Counters>>,
    /// The last commit failed because its epoch had no TID left (E5).
    pub(crate) sequence_is_full: bool,
    /// Before-images.
    pub(crate) images: Images,
    reads_since: u32,
    /// The limits below which everything has been freed.
    collected: Option<ReclaimLimits>,
}

impl Worker {
    pub(crate) fn new(core: &Core) -> Self {
        let commit = core.epochs.register_worker();
        let appender = core.log.as_ref().map(|log| log.attach(Arc::clone(commit.slot())));
        let counters = Arc::new(CachePadded::new(Counters::default()));
        core.register_counters(&counters);
        Self {
            commit,
            appender,
            blocks: Blocks::new(core.memory.cache()),
            garbage: Garbage::default(),
            last_tid: Tid::ZERO,
            order: Vec::new(),
            changes: NodeChanges::new(),
            counters,
            sequence_is_full: false,
            images: Images::default(),
            reads_since: 0,
            collected: None,
        }
    }

    /// The index's view of this worker's memory, and where inserts report what they changed.
    #[inline]
    pub(crate) fn nodes<'w>(&'w mut self, core: &'w Core) -> (NodeBlocks<'w>, &'w mut NodeChanges) {
        let nodes = NodeBlocks {
            blocks: &mut self.blocks,
            garbage_list: &mut self.garbage.nodes,
            epochs: &core.epochs,
            retired_bytes: &mut self.garbage.pinned_bytes,
        };
        (nodes, &mut self.changes)
    }

    /// Retires the pages of versions that a commit of `epoch`, or earlier ones, filled.
    #[inline]
    pub(crate) fn retire_full_pages(&mut self, epoch: Epoch) {
        while let Some(page) = self.blocks.full_page() {
            self.garbage.page(epoch, page);
        }
    }

    /// Counts an attempt to commit.
    #[inline]
    pub(crate) fn count(&self, committed: bool) {
        let counter = if committed { &self.counters.commits } else { &self.counters.aborts };
        Counters::add(counter, 1);
    }

    /// After a commit without writes, which left nothing behind: only now and then looks for what others left.
    #[inline]
    pub(crate) fn collect_now_and_then(&mut self, core: &Core, pinned: Pinned<'_>) {
        if self.reads_since < READS_PER_COLLECTION {
            self.reads_since += 1;
        } else {
            self.collect(core, 0, pinned);
        }
    }

    /// Frees a bounded amount of garbage after a commit of so many writes: a step between requests. While the limits
    /// have not moved since everything below them was freed, there is nothing to look for.
    pub(crate) fn collect(&mut self, core: &Core, writes: usize, pinned: Pinned<'_>) {
        if !core.switches.collects() {
            return;
        }
        self.reads_since = 0;
        let limits = core.epochs.limits();
        if self.collected != Some(limits) {
            self.collect_most(core, limits, pinned, FREED_PER_COMMIT + LEFT_PER_WRITE * writes);
        }
        self.publish_garbage();
    }

    /// What the heartbeat compares with the garbage limit (E4).
    #[inline]
    fn publish_garbage(&self) {
        Counters::set(&self.counters.garbage_pinned_bytes, self.garbage.pinned_bytes);
        Counters::set(&self.counters.garbage_version_bytes, self.garbage.version_bytes);
        let held_at = self.collected.map_or((0, 0), |at| (at.pins.number(), at.snapshots.number()));
        Counters::set(&self.counters.held_at_pins, held_at.0 as usize);
        Counters::set(&self.counters.held_at_snapshots, held_at.1 as usize);
    }

    /// As [`Worker::collect`], for a worker that nobody waits for.
    pub(crate) fn collect_idle(&mut self, core: &Core, pinned: Pinned<'_>) {
        if !core.switches.collects() {
            return;
        }
        self.collect_most(core, core.epochs.limits(), pinned, FREED_PER_IDLE_STEP);
        self.publish_garbage();
    }

    fn collect_most(&mut self, core: &Core, limits: ReclaimLimits, pinned: Pinned<'_>, most: usize) {
        let horizon =
            Horizon { limits, durable: core.durable_epoch(), epochs: &core.epochs, tables: &core.tables };
        let drained = self.garbage.collect(&mut self.blocks, &horizon, pinned, most);
        self.collected = drained.then_some(limits);
        Counters::set(&self.counters.garbage_things, self.garbage.len());
    }
}
