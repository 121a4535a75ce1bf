//! A worker's slot in its logger: the buffer, and its present owner, worker or logger. The thread that takes the box
//! out of the exchange owns the buffer. An empty exchange means "owned, for a short time".
//!
//! Invariants: L2. L1: `oldest` is the epoch of the oldest entry in the slot's buffer, or none, and is set before the
//! appending commit unbinds. Only an owner clears `oldest`, after putting the entries on the logger's own list, or in
//! its queue, which the logger drains after the scan of the slots.
//!
//! Neighbours: the appender on the worker's side, `log::worker_scan` on the logger's.

use crossbeam_utils::CachePadded;
use ensile_base::Epoch;
use ensile_base::sync::{Arc, AtomicBool, AtomicU64, Backoff, Ordering, fence_after_exchange};
use ensile_epoch::CommitSlot;
use ensile_memory::Exchange;

use super::buffer::Buffer;

/// Value of `oldest` for a buffer without entries.
const NONE: u64 = u64::MAX;

/// Result of the logger's scan of a slot.
#[derive(Debug)]
pub(crate) enum SlotScan {
    /// No entry that the mark would claim.
    Nothing,
    /// A buffer with entries, now the logger's.
    Taken(Box<Buffer>),
    /// The worker holds the buffer, with entries from this epoch on.
    Owned(Epoch),
}

/// One worker's slot, on cache lines of its own.
#[derive(Debug)]
pub(crate) struct WorkerSlot {
    shared: CachePadded<SlotExchange>,
    commit: Arc<CommitSlot>,
}

/// Fields that the worker and the logger share.
#[derive(Debug)]
struct SlotExchange {
    exchange: Exchange<Buffer>,
    /// Epoch of the oldest entry in the buffer, or `NONE`.
    oldest: AtomicU64,
    /// True once the worker's appender is gone.
    ended: AtomicBool,
}

impl WorkerSlot {
    pub(crate) fn new(commit: Arc<CommitSlot>) -> Self {
        let exchange = Exchange::new(Buffer::stub());
        let shared = SlotExchange { exchange, oldest: AtomicU64::new(NONE), ended: AtomicBool::new(false) };
        Self { shared: CachePadded::new(shared), commit }
    }

    /// Epoch that the worker's commit is bound to (c_w); `None` if no commit is bound.
    pub(crate) fn bound_epoch(&self) -> Option<Epoch> {
        self.commit.bound_epoch()
    }

    /// The worker takes its buffer. The logger holds the buffer for a few instructions at most, and the call comes
    /// before the commit binds, so waiting is allowed (E1).
    #[inline]
    pub(crate) fn take(&self) -> Box<Buffer> {
        if let Some(buffer) = self.shared.exchange.take() {
            return buffer;
        }
        self.take_slowly()
    }

    /// Takes the buffer after the bind, without waiting: `None` while the logger holds the buffer. Later loads of the
    /// worker come after the bind: this call is the commit's fence (E1).
    #[inline]
    pub(crate) fn take_bound(&self) -> Option<Box<Buffer>> {
        let taken = self.shared.exchange.take();
        // Always behind an exchange. The bind comes before the load of E, or the scan that moves E sees the bind;
        // partners: the fences in `Epochs::try_advance` and in the loggers' claim (L1).
        fence_after_exchange();
        taken
    }

    #[cold]
    fn take_slowly(&self) -> Box<Buffer> {
        let mut backoff = Backoff::new();
        loop {
            if let Some(buffer) = self.shared.exchange.take() {
                return buffer;
            }
            backoff.wait();
        }
    }

    /// The owner of the slot puts this buffer back.
    #[inline]
    pub(crate) fn put(&self, buffer: Box<Buffer>) {
        self.shared.exchange.put(buffer);
    }

    /// The worker notes the epoch of its buffer's first entry.
    #[inline]
    pub(crate) fn note_oldest(&self, epoch: Epoch) {
        debug_assert!(epoch > Epoch::ZERO && epoch.number() != NONE, "an entry of epoch {epoch}");
        debug_assert!(self.oldest().is_none(), "the first entry of a buffer that has one");
        // Release, and before the commit's `unbind`: a logger that reads c_w idle reads this epoch (partner: `oldest`).
        self.shared.oldest.store(epoch.number(), Ordering::Release);
    }

    /// The owner of the slot notes that the buffer's entries stand where the logger reads next.
    pub(crate) fn clear_oldest(&self) {
        // Release: a logger that reads "none" sees the entries at their new place (partner: `oldest`).
        self.shared.oldest.store(NONE, Ordering::Release);
    }

    fn oldest(&self) -> Option<Epoch> {
        // Acquire: partners are the Release stores of `note_oldest` and `clear_oldest`.
        match self.shared.oldest.load(Ordering::Acquire) {
            NONE => None,
            number => Some(Epoch::new(number)),
        }
    }

    /// Takes the buffer if it has entries of epochs up to `claim`. The logger has read c_w before (L1). `fresh` gives a
    /// replacement; without one, a stub stands in the slot. `patience` is the number of further attempts while the
    /// worker holds the buffer.
    pub(crate) fn find(
        &self,
        claim: Epoch,
        fresh: &mut impl FnMut() -> Option<Box<Buffer>>,
        patience: u32,
    ) -> SlotScan {
        let mut backoff = Backoff::new();
        for _ in 0..=patience {
            let Some(oldest) = self.oldest().filter(|oldest| *oldest <= claim) else {
                return SlotScan::Nothing;
            };
            let Some(buffer) = self.shared.exchange.take() else {
                // The worker is between reserve and release, a short time without waits.
                backoff.wait();
                if patience == 0 {
                    return SlotScan::Owned(oldest);
                }
                continue;
            };
            if buffer.is_empty() {
                // The worker sealed a full buffer in the meantime: the entries are in the queue.
                debug_assert!(self.oldest().is_none(), "an empty buffer with an oldest entry");
                self.put(buffer);
                return SlotScan::Nothing;
            }
            debug_assert_eq!(self.oldest(), Some(buffer.epochs().0), "the oldest entry is the first (L1)");
            self.clear_oldest();
            self.put(fresh().unwrap_or_else(Buffer::stub));
            return SlotScan::Taken(buffer);
        }
        self.oldest().filter(|oldest| *oldest <= claim).map_or(SlotScan::Nothing, SlotScan::Owned)
    }

    /// The buffer of an ended worker: no other thread takes the buffer any more.
    pub(crate) fn reclaim(&self) -> Option<Box<Buffer>> {
        debug_assert!(self.is_finished(), "its worker may still append");
        self.shared.exchange.take()
    }

    /// Ends the slot: the worker's appender is gone, and no entry follows.
    pub(crate) fn end(&self) {
        // Release: after the last append (partner: `is_finished`).
        self.shared.ended.store(true, Ordering::Release);
    }

    /// True if the worker has ended, with no entry left in its buffer (L2).
    pub(crate) fn is_finished(&self) -> bool {
        // Acquire: the last append's `note_oldest` is visible (partner: `end`).
        self.shared.ended.load(Ordering::Acquire) && self.oldest().is_none()
    }
}
