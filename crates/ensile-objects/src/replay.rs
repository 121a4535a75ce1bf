//! Operations that wait until all earlier operations are read, in windows of epochs.
//!
//! Several threads read the log, in pieces, the oldest piece first. An operation waits here until every entry of its
//! epoch is read. Then the waiting operations of the epoch are applied, object by object, in the order of TIDs (O4):
//! all operations of an object are in the same lane, and one thread at a time drains a lane. Only the operations of the
//! pieces that are being read, and of the same epochs, wait (L8).
//!
//! Objects of successive operations lie anywhere in memory. The places of later operations' objects are prefetched in
//! two steps, so that their cache misses overlap.
//!
//! Neighbours: `collection` and `application` fill the lanes in `replay`, and drain them in `advance_watermark`.

use std::mem;

use ensile_base::sync::Mutex;
use ensile_base::{Epoch, Tid};

/// Number of lanes: more than the threads that replay, so that threads seldom meet.
pub(crate) const LANES: usize = if cfg!(shuttle) { 2 } else { 64 };

/// Distance in operations between the two prefetch steps of an operation, and between the second step and the
/// application of the operation.
const AHEAD: usize = 8;

#[derive(Clone, Copy, Debug)]
pub(crate) enum PrefetchStep {
    /// The entry of the index that leads to the object.
    Entry,
    Object,
}

/// Operations of a lane's objects, in the order of reading.
type Lane<W> = Vec<(Tid, W)>;

/// Operations by lane, with the data to apply an operation.
#[derive(Debug)]
pub(crate) struct WaitingOperations<W> {
    lanes: Box<[Mutex<Lane<W>>]>,
}

impl<W> WaitingOperations<W> {
    pub(crate) fn new() -> Self {
        Self { lanes: (0..LANES).map(|_| Mutex::default()).collect() }
    }

    /// Keeps an operation of an object with this hash.
    pub(crate) fn keep(&self, hash: u64, tid: Tid, operation: W) {
        self.lanes[hash as usize % LANES].lock().push((tid, operation));
    }

    /// Applies all operations of epochs below `epoch`, object by object in the order of TIDs. Every operation of these
    /// epochs is here, or was here. Several threads may call at the same time, with different epochs. The function
    /// calls `prefetch` with operations that follow soon.
    pub(crate) fn apply_below(
        &self,
        epoch: Epoch,
        prefetch: impl Fn(PrefetchStep, &W),
        mut apply: impl FnMut(Tid, W),
    ) {
        for lane in &self.lanes {
            // Under the lock to the end: an operation that another thread takes out later has a larger TID.
            let mut waiting = lane.lock();
            let mut due = mem::take(&mut *waiting);
            let all = due.len();
            waiting.extend(due.extract_if(.., |(tid, _)| tid.epoch() >= epoch));
            debug_assert_eq!(waiting.len() + due.len(), all, "O4: an operation waits, or is due");
            due.sort_by_key(|(tid, _)| *tid);
            let mut operations = due.drain(..);
            while let Some((tid, operation)) = operations.next() {
                debug_assert!(tid.epoch() < epoch, "O4: earlier operations of the epoch may come");
                let later = operations.as_slice();
                debug_assert!(later.first().is_none_or(|(next, _)| tid <= *next), "O4: the order of TIDs");
                if let Some((_, later)) = later.get(2 * AHEAD) {
                    prefetch(PrefetchStep::Entry, later);
                }
                if let Some((_, later)) = later.get(AHEAD) {
                    prefetch(PrefetchStep::Object, later);
                }
                apply(tid, operation);
            }
            drop(operations);
            // The next operations take the same room.
            due.append(&mut waiting);
            *waiting = due;
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.lanes.iter().all(|lane| lane.lock().is_empty())
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::WaitingOperations;
    use ensile_base::{Epoch, Tid};

    #[test]
    fn o4_operations_wait_for_their_epoch_and_are_applied_in_the_order_of_tids() {
        let waiting = WaitingOperations::new();
        let tid = |epoch, sequence| {
            let mut tid = Tid::first_of(Epoch::new(epoch));
            (0..sequence).for_each(|_| tid = tid.successor().expect("few"));
            tid
        };
        let mut applied = Vec::new();
        waiting.keep(1, tid(4, 1), "second");
        waiting.keep(1, tid(5, 0), "third");
        waiting.apply_below(Epoch::new(4), |_, _| {}, |_, name| applied.push(name));
        assert!(applied.is_empty(), "an older one may come");
        waiting.keep(1, tid(4, 0), "first");
        waiting.apply_below(Epoch::new(5), |_, _| {}, |_, name| applied.push(name));
        assert_eq!(applied, ["first", "second"]);
        assert!(!waiting.is_empty());
        waiting.apply_below(Epoch::MAX, |_, _| {}, |_, name| applied.push(name));
        assert_eq!(applied, ["first", "second", "third"]);
        assert!(waiting.is_empty());
    }
}
