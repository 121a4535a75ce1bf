//! The scan of a logger's workers: the epoch that a mark may claim, and the buffers with the claimed entries (L1, L2).
//!
//! The order is the invariant. L1: E is read first, then a full fence, then, for each worker, c_w and then that
//! worker's buffer. The fence is the scanner's half of the Dekker pair with bind .. fence .. epoch load of a commit.
//! Either the commit reads an epoch above any claim made here, or the scan sees the commit bound.
//!
//! Neighbours: the logger calls the scan in each step, and drains its queue afterwards; `loom_tests` checks the scan;
//! `buffers` has the slots.

use ensile_base::Epoch;
use ensile_base::sync::{Arc, Ordering, fence};
use ensile_epoch::Epochs;

use crate::buffers::{Buffer, SlotScan, WorkerSlot};

/// Scans the slots of a logger's workers, and moves their buffers into `taken`. Returns the largest epoch d of which
/// every entry is in `taken` or in the logger's queue (L1). `fresh` gives replacement buffers; `patience` is the number
/// of further attempts to take a buffer that its worker owns.
///
/// The caller holds the lock of the list of slots. By this lock a worker that joins later reads an E at least as large
/// as the scan's, so the worker's entries are above the claim.
#[expect(clippy::vec_box, reason = "the slot hands boxes over by one exchange; here they only pass through")]
pub(super) fn scan_slots(
    epochs: &Epochs,
    slots: &[Arc<WorkerSlot>],
    fresh: &mut impl FnMut() -> Option<Box<Buffer>>,
    patience: u32,
    taken: &mut Vec<Box<Buffer>>,
) -> Epoch {
    let claim = epochs.now().previous();
    // SeqCst: between the load of E above and the loads of c_w below; partner: the commit's fence between its bind and
    // its epoch load (L1, C1).
    fence(Ordering::SeqCst);
    let mut claim = bounded_by_bindings(slots, claim);
    for slot in slots {
        match slot.find(claim, fresh, patience) {
            SlotScan::Nothing => {}
            SlotScan::Taken(buffer) => taken.push(buffer),
            SlotScan::Owned(oldest) => claim = claim.min(oldest.previous()),
        }
    }
    claim
}

/// The minimum of the claim and c_w - 1 of each bound worker (L1).
fn bounded_by_bindings(slots: &[Arc<WorkerSlot>], claim: Epoch) -> Epoch {
    let bindings = slots.iter().filter_map(|slot| slot.bound_epoch());
    bindings.fold(claim, |claim, bound| claim.min(bound.previous()))
}
