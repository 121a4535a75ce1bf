//! What commits: one worker's commit binding, log buffer, memory and garbage.
//!
//! A worker belongs to one thread at a time and to no transaction: an open transaction borrows one at commit (E4).
//! Nothing here is shared but the counters, which only the owner writes.
//!
//! Neighbours: `session` hands workers to transactions; commit drives one; `garbage` frees what it left behind.

pub(crate) mod cores;
pub(crate) mod idle;

// `Log` and `Memory` take `self` by std's, which no other door's can be.
use std::sync::Arc as StdArc;

use crossbeam_utils::CachePadded;
use ensile_base::sync::{Arc, AtomicU64, Ordering};
use ensile_base::{Epoch, Tid};
use ensile_durability::{Appender, Log};
use ensile_epoch::{CommitHandle, Epochs, Pinned, ReclaimLimits};
use ensile_index::NodeChanges;
use ensile_memory::Memory;

use crate::garbage::{Garbage, Horizon};
use crate::record::blocks::{Blocks, NodeBlocks};

/// Read-only commits between two looks at the garbage.
const READS_PER_COLLECTION: u32 = 32;
/// Figures of one worker, written by its owner alone.
#[derive(Debug, Default)]
pub(crate) struct WorkerCounters {
    pub(crate) commits: AtomicU64,
    pub(crate) aborts: AtomicU64,
    pub(crate) retries: AtomicU64,
    pub(crate) garbage_pinned_bytes: AtomicU64,
    pub(crate) garbage_version_bytes: AtomicU64,
    pub(crate) garbage_things: AtomicU64,
    /// The limits that the two figures of bytes were left over at; 0 while there is still something to free.
    pub(crate) held_at_pins: AtomicU64,
    pub(crate) held_at_snapshots: AtomicU64,
}

impl WorkerCounters {
    #[inline]
    pub(crate) fn add(counter: &AtomicU64, by: u64) {
        // Relaxed, both: one writer, and readers want a figure, not an order.
        counter.store(counter.load(Ordering::Relaxed) + by, Ordering::Relaxed);
    }

    #[inline]
    fn set(counter: &AtomicU64, value: usize) {
        // Relaxed: one writer, and readers want a figure, not an order.
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
    pub(crate) changes: NodeChanges,
    pub(crate) counters: Arc<CachePadded<WorkerCounters>>,
    /// The last commit failed because its epoch had no TID left (E5).
    pub(crate) sequence_is_full: bool,
    /// The last commit gave its locks back for somebody else's turn (P1).
    pub(crate) is_turned_away: bool,
    /// Before-images.
    pub(crate) images: ImageRoom,
    reads_since: u32,
    /// The limits below which everything has been freed, if no absent record waits.
    collected: Option<ReclaimLimits>,
    /// What `held_at_pins` and `held_at_snapshots` are to be.
    held_at: (Epoch, Epoch),
}

impl Worker {
    pub(crate) fn new(epochs: &Epochs, log: Option<&StdArc<Log>>, memory: &StdArc<Memory>) -> Self {
        let commit = epochs.register_worker();
        let appender = log.map(|log| log.attach(Arc::clone(commit.slot())));
        let counters = Arc::new(CachePadded::new(WorkerCounters::default()));
        Self {
            commit,
            appender,
            blocks: Blocks::new(memory.cache()),
            garbage: Garbage::default(),
            last_tid: Tid::ZERO,
            changes: NodeChanges::new(),
            counters,
            sequence_is_full: false,
            is_turned_away: false,
            images: ImageRoom::default(),
            reads_since: 0,
            collected: None,
            held_at: (Epoch::ZERO, Epoch::ZERO),
        }
    }

    /// The index's view of this worker's memory, and where inserts report what they changed.
    #[inline]
    pub(crate) fn nodes<'w>(&'w mut self, epochs: &'w Epochs) -> (NodeBlocks<'w>, &'w mut NodeChanges) {
        (self.garbage.node_memory(&mut self.blocks, epochs), &mut self.changes)
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
        WorkerCounters::add(counter, 1);
    }

    /// Whether a read-only commit is to collect: one in [`READS_PER_COLLECTION`] does.
    #[inline]
    pub(crate) fn is_to_collect(&mut self) -> bool {
        let is_due = self.reads_since >= READS_PER_COLLECTION;
        if !is_due {
            self.reads_since += 1;
        }
        is_due
    }

    /// Begins a collection: whether all that waits below these limits was freed before.
    #[inline]
    pub(crate) fn has_collected(&mut self, limits: ReclaimLimits) -> bool {
        self.reads_since = 0;
        self.collected == Some(limits)
    }

    /// What the heartbeat compares with the garbage limit (E4).
    #[inline]
    pub(crate) fn publish_garbage(&self) {
        WorkerCounters::set(&self.counters.garbage_pinned_bytes, self.garbage.pinned_bytes);
        WorkerCounters::set(&self.counters.garbage_version_bytes, self.garbage.version_bytes);
        WorkerCounters::set(&self.counters.held_at_pins, self.held_at.0.number() as usize);
        WorkerCounters::set(&self.counters.held_at_snapshots, self.held_at.1.number() as usize);
    }

    /// Frees at most `most` things of each kind that wait below the horizon.
    pub(crate) fn collect(&mut self, horizon: &Horizon<'_>, pinned: Pinned<'_>, most: usize) {
        let drained = self.garbage.collect(&mut self.blocks, &self.commit, horizon, pinned, most);
        let (pins, snapshots) = (horizon.limits.pins(), horizon.limits.snapshots());
        self.collected = (drained && !self.garbage.must_look_again()).then_some(horizon.limits);
        // What waits for D is held back by no snapshot, and ending one would free nothing.
        let held_at_snapshots =
            if self.garbage.waits_for_epochs(snapshots) { Epoch::ZERO } else { snapshots };
        self.held_at = if drained { (pins, held_at_snapshots) } else { (Epoch::ZERO, Epoch::ZERO) };
        WorkerCounters::set(&self.counters.garbage_things, self.garbage.len());
    }
}

/// Room in the log for before-images: what a commit has reserved.
#[derive(Default)]
pub(crate) struct ImageRoom {
    /// Bytes of the log entry without the replaced values.
    pub(crate) entry_bytes: usize,
    /// Bytes reserved for those.
    pub(crate) bytes: usize,
    /// The last commit found longer ones, and may be made again.
    pub(crate) fell_short: bool,
}

impl ImageRoom {
    /// Whether the commit that failed did so for want of log space; asked once.
    #[inline]
    pub(crate) fn fell_short(&mut self) -> bool {
        std::mem::take(&mut self.fell_short)
    }
}
