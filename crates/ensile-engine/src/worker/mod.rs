//! A worker: the commit binding, log buffer, memory and garbage of a committing thread.
//!
//! A worker belongs to one thread at a time and to no transaction: an open transaction borrows a worker at commit (E4).
//! Threads share only [`WorkerShared`]: the counters, the garbage, which the heartbeat frees if the worker does not
//! (E6), and the versions that commits leave to a picture, which checkpointers take.
//!
//! Neighbours: `session` hands workers to transactions; `commit` uses a worker; `garbage` frees the leftovers of
//! commits.

pub(crate) mod idle_workers;
pub(crate) mod pinning;

// Methods of `Log` and `Memory` take `self` by the `Arc` of std. The `Arc` of the sync door cannot be a receiver.
use std::sync::Arc as StdArc;

use std::ops::{Deref, DerefMut};

use crossbeam_utils::CachePadded;
use ensile_base::sync::{Arc, AtomicU64, Mutex, MutexGuard, Ordering, add_as_only_writer};
use ensile_base::{Epoch, Tid};
use ensile_durability::{Appender, Log};
use ensile_epoch::{CommitHandle, Epochs, Pinned, ReclaimLimits};
use ensile_index::NodeChanges;
use ensile_memory::Memory;

use crate::garbage::{Garbage, Horizon, RetiredNodes};
use crate::pictures::pending_removes::WorkerList;
use crate::pictures::prepared_pages::PreparedPages;
use crate::record::blocks::{Blocks, NodeBlocks};

/// Number of read-only commits between two checks of the garbage.
pub(crate) const READS_PER_COLLECTION: u32 = 32;
/// Counters of one worker. Each counter has one writer at a time: the worker's owner, or for garbage the holder of its
/// lock.
#[derive(Debug, Default)]
pub(crate) struct WorkerCounters {
    pub(crate) commits: AtomicU64,
    pub(crate) aborts: AtomicU64,
    pub(crate) retries: AtomicU64,
    /// Bytes of garbage that waits for pins now.
    pub(crate) garbage_pinned_bytes: AtomicU64,
    /// Bytes of garbage that waits for snapshots now.
    pub(crate) garbage_version_bytes: AtomicU64,
    /// Bytes of absent records in `garbage_version_bytes`.
    pub(crate) garbage_unhook_bytes: AtomicU64,
    /// Number of waiting entries of garbage.
    pub(crate) garbage_things: AtomicU64,
    /// Bytes that the worker's commits have changed, in a database without a log.
    pub(crate) changed_bytes: AtomicU64,
    /// Bytes that the worker's commits ever left to pictures.
    pub(crate) displaced_bytes: AtomicU64,
    /// Bytes that ever began to wait for pins, and for snapshots.
    pub(crate) made_for_pins: AtomicU64,
    pub(crate) made_for_snapshots: AtomicU64,
}

impl WorkerCounters {
    /// Adds `by` to a counter that no other thread writes now. The counted build names writes by their file.
    #[inline]
    pub(crate) fn add(counter: &AtomicU64, by: u64) {
        add_as_only_writer(counter, by);
    }

    #[inline]
    fn set(counter: &AtomicU64, value: u64) {
        // Relaxed: a counter has one writer, and readers need a value, not an order.
        counter.store(value, Ordering::Relaxed);
    }
}

/// The part of a worker that other threads see.
#[derive(Debug, Default)]
pub(crate) struct WorkerShared {
    pub(crate) counters: CachePadded<WorkerCounters>,
    /// Versions that the worker's commits have left to a picture, if pictures are semi-fuzzy.
    pub(crate) displaced: CachePadded<WorkerList>,
    garbage: Mutex<Garbage>,
}

/// A worker's garbage under its lock: no other thread adds or frees. The drop publishes the counters.
pub(crate) struct LockedGarbage<'w> {
    garbage: MutexGuard<'w, Garbage>,
    counters: &'w WorkerCounters,
}

impl WorkerShared {
    /// The worker's garbage, for the worker's thread. The thread waits for at most one step of the heartbeat, and never
    /// while it is bound (E1).
    #[inline]
    pub(crate) fn lock_garbage(&self) -> LockedGarbage<'_> {
        LockedGarbage { garbage: self.garbage.lock(), counters: &self.counters }
    }

    /// The worker's garbage, for another thread; `None` while a thread holds the lock, or after a panic under the lock.
    pub(crate) fn try_lock_garbage(&self) -> Option<LockedGarbage<'_>> {
        let garbage = self.garbage.try_lock_unless_panicked()?;
        Some(LockedGarbage { garbage, counters: &self.counters })
    }
}

impl Deref for LockedGarbage<'_> {
    type Target = Garbage;

    #[inline]
    fn deref(&self) -> &Garbage {
        &self.garbage
    }
}

impl DerefMut for LockedGarbage<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut Garbage {
        &mut self.garbage
    }
}

impl Drop for LockedGarbage<'_> {
    #[inline]
    fn drop(&mut self) {
        let (pins, snapshots, unhook_bytes) = self.garbage.waiting_bytes();
        WorkerCounters::set(&self.counters.garbage_pinned_bytes, pins.bytes as u64);
        WorkerCounters::set(&self.counters.garbage_version_bytes, snapshots.bytes as u64);
        WorkerCounters::set(&self.counters.garbage_unhook_bytes, unhook_bytes as u64);
        WorkerCounters::set(&self.counters.made_for_pins, pins.made);
        WorkerCounters::set(&self.counters.made_for_snapshots, snapshots.made);
        WorkerCounters::set(&self.counters.garbage_things, self.garbage.len() as u64);
    }
}

/// Limits at which a collection has freed everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CollectedAt {
    limits: ReclaimLimits,
    /// The limit of unhooks (U2), if absent records waited.
    unhooks: Option<Epoch>,
    /// The limit of ended commits (V1), if pages waited for commits.
    commits: Option<Epoch>,
}

pub(crate) struct Worker {
    /// Binding of the worker to a commit's epoch.
    pub(crate) commit: CommitHandle,
    /// The worker's log buffer; `None` if nothing is logged.
    pub(crate) appender: Option<Appender>,
    /// Memory for records, versions and index nodes.
    pub(crate) blocks: Blocks,
    /// Retired nodes on their way into the garbage.
    pub(crate) retired: RetiredNodes,
    /// The last TID that this worker chose (§4.2 b).
    pub(crate) last_tid: Tid,
    /// Leaves that the last insert changed.
    pub(crate) changes: NodeChanges,
    pub(crate) shared: Arc<WorkerShared>,
    /// True if the last commit failed because its epoch had no TID left (E5).
    pub(crate) sequence_is_full: bool,
    /// True if the last commit gave its locks back for another thread's turn (P1).
    pub(crate) is_turned_away: bool,
    /// True if the last commit, in its turn, met the lock of a commit that is about to be turned away (P1).
    pub(crate) is_behind_a_lock: bool,
    /// Room for before-images in the log.
    pub(crate) images: ImageRoom,
    /// Versions that a commit may leave to a picture.
    pub(crate) prepared_pages: PreparedPages,
    /// Number of read-only commits since the last collection.
    reads_since: u32,
    /// Limits at which everything free has been freed; `None` if a collection may free more.
    collected: Option<CollectedAt>,
}

impl Worker {
    pub(crate) fn new(epochs: &Epochs, log: Option<&StdArc<Log>>, memory: &StdArc<Memory>) -> Self {
        let commit = epochs.register_worker();
        let appender = log.filter(|log| log.has_loggers()).map(|log| log.attach(Arc::clone(commit.slot())));
        Self {
            commit,
            appender,
            blocks: Blocks::new(memory.cache()),
            retired: RetiredNodes::default(),
            last_tid: Tid::ZERO,
            changes: NodeChanges::new(),
            shared: Arc::default(),
            sequence_is_full: false,
            is_turned_away: false,
            is_behind_a_lock: false,
            images: ImageRoom::default(),
            prepared_pages: PreparedPages::default(),
            reads_since: 0,
            collected: None,
        }
    }

    /// The index's view of this worker's memory, and the place where inserts report changes.
    #[inline]
    pub(crate) fn nodes<'w>(&'w mut self, epochs: &'w Epochs) -> (NodeBlocks<'w>, &'w mut NodeChanges) {
        (self.retired.node_memory(&mut self.blocks, epochs), &mut self.changes)
    }

    /// Counts an attempt to commit: as a commit if `committed` is true, else as an abort.
    #[inline]
    pub(crate) fn count(&self, committed: bool) {
        let counter = if committed { &self.shared.counters.commits } else { &self.shared.counters.aborts };
        WorkerCounters::add(counter, 1);
    }

    /// True if a commit without writes must collect: [`READS_PER_COLLECTION`] such commits have come since the last
    /// collection. Otherwise the call counts the commit. `SharedState::collect_now_and_then` asks at each such commit.
    #[inline]
    pub(crate) fn count_read_and_check_due(&mut self) -> bool {
        let is_due = self.reads_since >= READS_PER_COLLECTION;
        if !is_due {
            self.reads_since += 1;
        }
        is_due
    }

    /// Makes the next collection search the garbage, whatever the limits.
    #[inline]
    pub(crate) fn must_collect(&mut self) {
        self.collected = None;
    }

    /// Begins a collection. True if an earlier collection freed everything at these limits. `unhooks` is the limit of
    /// unhooks of absent records, `commits` is the limit of ended commits.
    #[inline]
    pub(crate) fn has_collected(
        &mut self,
        limits: ReclaimLimits,
        unhooks: impl FnOnce() -> Epoch,
        commits: impl FnOnce() -> Epoch,
    ) -> bool {
        self.reads_since = 0;
        let Some(collected) = self.collected else { return false };
        collected.limits == limits
            && collected.unhooks.is_none_or(|before| before == unhooks())
            && collected.commits.is_none_or(|before| before == commits())
    }

    /// Adds the nodes retired by inserts to the garbage: before a collection, and after work outside any transaction.
    #[inline]
    pub(crate) fn hand_over_nodes(&mut self, epochs: &Epochs) {
        if !self.retired.is_empty() {
            self.shared.lock_garbage().add_nodes(&mut self.retired, epochs);
        }
    }

    /// Frees at most `most` entries of each kind, as far as the horizon allows.
    pub(crate) fn collect(&mut self, horizon: &Horizon<'_>, pinned: Pinned<'_>, most: usize) {
        let mut garbage = self.shared.lock_garbage();
        let drained = garbage.collect(&mut self.blocks, &self.commit, horizon, pinned, most);
        let limits = horizon.limits;
        let unhooks = garbage.has_unhooks().then_some(limits.bare);
        let commits = garbage.has_passed_pages().then_some(limits.commits);
        self.collected = (drained && !garbage.is_revisiting()).then_some(CollectedAt {
            limits: limits.readers,
            unhooks,
            commits,
        });
    }

    /// Gives free blocks to the pool, if most of the memory in use is free. The heartbeat calls for its own worker.
    pub(crate) fn give_scattered(&mut self) {
        self.blocks.give_scattered();
    }

    /// As [`Worker::collect`], for another worker's garbage. True if the horizon allows no further free.
    pub(crate) fn collect_for(
        &mut self,
        other: &mut LockedGarbage<'_>,
        horizon: &Horizon<'_>,
        pinned: Pinned<'_>,
        most: usize,
    ) -> bool {
        other.collect(&mut self.blocks, &self.commit, horizon, pinned, most)
    }
}

/// Log space that a commit has reserved for before-images.
#[derive(Default)]
pub(crate) struct ImageRoom {
    /// Length of the log entry without the replaced values, in bytes.
    pub(crate) entry_bytes: usize,
    /// Log space reserved for the replaced values, in bytes.
    pub(crate) bytes: usize,
    /// True if the last commit found longer values. The commit may run again.
    pub(crate) fell_short: bool,
}

impl ImageRoom {
    /// True if the failed commit lacked log space. The call clears the flag.
    #[inline]
    pub(crate) fn fell_short(&mut self) -> bool {
        std::mem::take(&mut self.fell_short)
    }
}
