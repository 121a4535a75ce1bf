//! Loom on the shipped scan, slot, marks and epochs: L1 and L2 against a committing worker, the minimum of L3.
//!
//! `RUSTFLAGS="--cfg loom" cargo test --release -p ensile-durability --lib loom`
//!
//! Neighbours: the functions below repeat the steps of the engine's commit, in its order, on the shipped types.

use std::time::Duration;

use ensile_base::sync::{Arc, Mutex, Ordering, fence};
use ensile_base::{Epoch, Tid};
use ensile_epoch::{EpochConfig, Epochs};

use super::marks::{Frontier, MarkTable};
use super::worker_scan::scan_slots;
use crate::buffers::{Buffer, WorkerSlot};

fn epochs() -> Arc<Epochs> {
    Arc::new(Epochs::new(&EpochConfig { first: Epoch::new(1), snapshot_interval: Duration::from_secs(3600) }))
}

fn small_buffer() -> Box<Buffer> {
    Buffer::for_entry(64)
}

/// Appends one entry, with the steps of the engine's commit. Returns the entry's epoch.
fn commit(slot: &WorkerSlot, worker: &ensile_epoch::CommitHandle, epochs: &Epochs) -> Epoch {
    let mut buffer = slot.take();
    if !buffer.has_room(8) {
        buffer = small_buffer();
    }
    worker.bind(epochs.now());
    // SeqCst: the commit's fence after its locks; partner: the fence in `scan_slots` (C1, L1).
    fence(Ordering::SeqCst);
    let tid = Tid::first_of(epochs.now());
    if buffer.is_empty() {
        slot.note_oldest(tid.epoch());
    }
    buffer.push(tid, |_| {});
    slot.put(buffer);
    worker.unbind();
    tid.epoch()
}

/// As [`commit`], but takes the buffer behind the bind, as `append_at_once` does. If the logger has the buffer, the
/// commit begins anew without a binding.
fn commit_at_once(slot: &WorkerSlot, worker: &ensile_epoch::CommitHandle, epochs: &Epochs) -> Epoch {
    worker.bind(epochs.now());
    let Some(mut buffer) = slot.take_bound() else {
        worker.unbind();
        return commit(slot, worker, epochs);
    };
    let tid = Tid::first_of(epochs.now());
    // The first stub has no room, and the shipped commit reserves room before the bind.
    if !buffer.has_room(8) {
        buffer = small_buffer();
    }
    if buffer.is_empty() {
        slot.note_oldest(tid.epoch());
    }
    buffer.push_body(tid, &[]);
    slot.put(buffer);
    worker.unbind();
    tid.epoch()
}

/// Scans the slot once, as the logger does. Returns the claim, and adds the epochs of taken buffers to `taken`.
fn look_once(slot: &Arc<WorkerSlot>, epochs: &Epochs, taken: &mut Vec<Epoch>) -> Epoch {
    let mut buffers = Vec::new();
    let claim = scan_slots(epochs, std::slice::from_ref(slot), &mut || None, 0, &mut buffers);
    taken.extend(buffers.iter().map(|buffer| buffer.epochs().0));
    claim
}

fn check_l1(
    commit: impl Fn(&WorkerSlot, &ensile_epoch::CommitHandle, &Epochs) -> Epoch + Copy + Send + Sync + 'static,
) {
    loom::model(move || {
        let epochs = epochs();
        let worker = epochs.register_worker();
        let slot = Arc::new(WorkerSlot::new(Arc::clone(worker.slot())));
        let committed = Arc::new(Mutex::new(Epoch::ZERO));
        let thread = {
            let (slot, epochs, committed) = (Arc::clone(&slot), Arc::clone(&epochs), Arc::clone(&committed));
            loom::thread::spawn(move || {
                let epoch = commit(&slot, &worker, &epochs);
                *committed.lock() = epoch;
                worker
            })
        };
        let mut taken = Vec::new();
        epochs.try_advance(1_000_000);
        let claim = look_once(&slot, &epochs, &mut taken);
        let worker = thread.join().expect("no panic");
        let epoch = *committed.lock();
        assert!(epoch > claim || taken.contains(&epoch), "a claim of {claim} passed an entry of {epoch}");
        // L2: if the worker stays idle, two advances and a scan take everything.
        epochs.try_advance(2_000_000);
        epochs.try_advance(3_000_000);
        let claim = look_once(&slot, &epochs, &mut taken);
        assert!(claim >= epoch && taken.contains(&epoch), "the idle worker's entry is taken");
        drop(worker);
    });
}

#[test]
fn loom_l1_a_claim_never_passes_an_entry() {
    check_l1(commit);
}

#[test]
fn loom_l1_a_claim_never_passes_an_entry_whose_buffer_was_taken_behind_the_bind() {
    check_l1(commit_at_once);
}

#[test]
fn loom_l3_d_never_passes_an_entry_without_a_synced_mark() {
    loom::model(|| {
        let marks = Arc::new(MarkTable::new(2, Epoch::new(3)));
        let logger = {
            let marks = Arc::clone(&marks);
            loom::thread::spawn(move || {
                // Log 1 has an entry of epoch 4, a claim of 5, and no sync.
                marks.raise_high(1, Epoch::new(4));
                marks.advance(1, Frontier::Appended, Epoch::new(5));
            })
        };
        marks.advance(0, Frontier::Appended, Epoch::new(5));
        assert!(marks.announceable_epoch(Frontier::Synced) <= Epoch::new(3), "epoch 4 is in no synced mark");
        logger.join().expect("no panic");
        marks.advance(0, Frontier::Written, Epoch::new(5));
        marks.advance(0, Frontier::Synced, Epoch::new(5));
        assert_eq!(marks.announceable_epoch(Frontier::Synced), Epoch::new(3));
        marks.advance(1, Frontier::Written, Epoch::new(5));
        marks.advance(1, Frontier::Synced, Epoch::new(5));
        assert_eq!(marks.announceable_epoch(Frontier::Synced), Epoch::new(5));
    });
}
