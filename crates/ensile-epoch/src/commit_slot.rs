//! The commit binding of one worker: `c_w` (E1).
//!
//! Invariants:
//! - Only the owner binds and unbinds; the heartbeat and the loggers only read.
//! - E1: bound before the first lock, unbound after the log entry is in the buffer.
//! - P1: marked as in the index during changes of leaves outside a commit's locks.
//!
//! Neighbours: the engine's commit is the owner; [`crate::Epochs::try_advance`] and the loggers read.

use crossbeam_utils::CachePadded;
use ensile_base::Epoch;
use ensile_base::sync::{Arc, AtomicBool, AtomicU64, Ordering, fence_after_exchange};

use crate::registry::Registry;

/// Value of `bound` without a commit.
const IDLE: u64 = u64::MAX;

/// A worker's commit binding, on a cache line of its own.
#[derive(Debug)]
pub struct CommitSlot {
    words: CachePadded<SlotWords>,
}

#[derive(Debug)]
struct SlotWords {
    bound: AtomicU64,
    in_index: AtomicBool,
}

impl CommitSlot {
    pub(crate) fn new() -> Self {
        let words = SlotWords { bound: AtomicU64::new(IDLE), in_index: AtomicBool::new(false) };
        Self { words: CachePadded::new(words) }
    }

    /// Binds the owner to `epoch`, just read from the global epoch (a stale epoch only delays the next advance).
    #[inline]
    pub fn bind(&self, epoch: Epoch) {
        // Release, then the commit's fence(SeqCst) after its locks: the Dekker partner is the fence between the
        // epoch load and the scan in `Epochs::try_advance` and in the loggers' durable mark (C1, L1).
        self.words.bound.store(epoch.number(), Ordering::Release);
    }

    /// As [`bind`](Self::bind), with a `fence(SeqCst)` behind: the binding comes before every later load of the owner.
    #[inline]
    pub fn bind_and_fence(&self, epoch: Epoch) {
        // Release, as in `bind`; Acquire, so that no compiler turns an exchange with an unused result into a store. On
        // x86-64 an exchange is the fence as well; on other machines a fence follows. Partners: the fences in
        // `Epochs::try_advance` and in the loggers' durable mark (C1, L1).
        self.words.bound.swap(epoch.number(), Ordering::AcqRel);
        fence_after_exchange();
    }

    /// Ends the binding. A thread that reads `IDLE` sees every write of the commit, its log entry included (E1).
    #[inline]
    pub fn unbind(&self) {
        // Release: partner is the Acquire in `bound_epoch`.
        self.words.bound.store(IDLE, Ordering::Release);
    }

    /// The epoch that the owner is bound to, if a commit is under way.
    #[inline]
    #[must_use]
    pub fn bound_epoch(&self) -> Option<Epoch> {
        // Acquire: a thread that reads `IDLE` sees the commit's installed and appended data (partner: `unbind`).
        match self.words.bound.load(Ordering::Acquire) {
            IDLE => None,
            number => Some(Epoch::new(number)),
        }
    }

    /// Marks the owner as a possible changer of index leaves (P1), until the guard is dropped. The caller fences before
    /// looking up the turn.
    #[inline]
    pub(crate) fn enter_index(&self) -> InIndex<'_> {
        debug_assert!(!self.is_in_index(), "a worker does one thing at a time");
        // Relaxed: the caller's light fence orders the store before the look-up; partner: the heavy fence of
        // `fence_turn`.
        self.words.in_index.store(true, Ordering::Relaxed);
        InIndex { slot: self }
    }

    /// True if the owner may be changing leaves of the index.
    #[inline]
    pub(crate) fn is_in_index(&self) -> bool {
        // Acquire: a thread that reads `false` sees the leaves as the owner left them; partner: `InIndex`'s drop.
        self.words.in_index.load(Ordering::Acquire)
    }
}

/// A worker that may change leaves of the index (P1). Dropping the guard ends the worker's time in the index.
#[derive(Debug)]
#[must_use = "dropping it ends the worker's time in the index"]
pub struct InIndex<'s> {
    slot: &'s CommitSlot,
}

impl Drop for InIndex<'_> {
    #[inline]
    fn drop(&mut self) {
        // Release: changes of leaves come before; partner: the Acquire in `is_in_index`.
        self.slot.words.in_index.store(false, Ordering::Release);
    }
}

/// Ownership of a registered [`CommitSlot`]; dropping the handle takes the slot out of the registry.
#[derive(Debug)]
pub struct CommitHandle {
    slot: Arc<CommitSlot>,
    registry: Arc<Registry<CommitSlot>>,
}

impl CommitHandle {
    pub(crate) fn register(registry: &Arc<Registry<CommitSlot>>) -> Self {
        let slot = Arc::new(CommitSlot::new());
        registry.add(&slot);
        Self { slot, registry: Arc::clone(registry) }
    }

    /// The slot, to share with the reader of the binding: the worker's logger.
    #[must_use]
    pub fn slot(&self) -> &Arc<CommitSlot> {
        &self.slot
    }
}

impl std::ops::Deref for CommitHandle {
    type Target = CommitSlot;

    #[inline]
    fn deref(&self) -> &CommitSlot {
        &self.slot
    }
}

impl Drop for CommitHandle {
    fn drop(&mut self) {
        debug_assert!(self.slot.bound_epoch().is_none(), "a worker ends only between commits (E1)");
        self.registry.remove(&self.slot);
    }
}
