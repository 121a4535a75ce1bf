//! Tombstones that wait until every log has passed their epoch, in the order of epochs.
//!
//! A replayed delete leaves an absent record, which beats older puts of its key by its TID. Once all entries up to its
//! epoch are replayed, no older put can come, and the record may go (L8).
//!
//! Each thread notes the deletes of one log block in a [`BlockDeletes`] of its own and hands it over when the block is
//! done. Any thread takes a batch that is due. So the lock is taken once a block, and removal is work for all threads.
//!
//! Neighbours: `worker` fills batches and removes what is due; [`super::Replay`] hears how far replay is.

use std::collections::BTreeMap;

use ensile_base::sync::Mutex;
use ensile_base::{Epoch, Tid};

/// A delete's key, and the TID that its record had.
#[derive(Clone, Copy, Debug)]
struct Tombstone {
    tid: Tid,
    table: u32,
    key_at: u32,
    key_bytes: u16,
}

const _: () = assert!(ensile_base::limits::KEY_BYTES_MAX <= u16::MAX as usize);

/// Bytes of its leaf that a key takes: of 320 for fifteen keys, two thirds of them used.
const LEAF_BYTES: usize = 32;

/// Bytes that a tombstone takes until it is removed: note, record, and place in the tree. A vector of notes that grows
/// has room for as many again; the key stands in the note and in the tree.
fn bytes_kept(key_bytes: usize, record_bytes: usize) -> u64 {
    (2 * size_of::<Tombstone>() + 2 * key_bytes + record_bytes + LEAF_BYTES) as u64
}

/// The tombstones of a log block.
#[derive(Debug, Default)]
pub(super) struct BlockDeletes {
    newest: Epoch,
    tombstones: Vec<Tombstone>,
    /// Their keys, one behind the other.
    keys: Vec<u8>,
    /// Bytes that they take until they are removed.
    bytes: u64,
}

/// A tombstone as it is read from its batch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Noted<'b> {
    pub(super) table: u32,
    pub(super) key: &'b [u8],
    pub(super) tid: Tid,
}

impl BlockDeletes {
    /// Notes a delete, whose record has a block of `record_bytes`.
    pub(super) fn note(&mut self, table: u32, key: &[u8], tid: Tid, record_bytes: usize) {
        // A block's entries are fewer bytes than that, and its keys are among them.
        let key_at = u32::try_from(self.keys.len()).expect("the keys of a block fit 32 bits");
        self.newest = self.newest.max(tid.epoch());
        self.bytes += bytes_kept(key.len(), record_bytes);
        self.keys.extend_from_slice(key);
        self.tombstones.push(Tombstone { tid, table, key_at, key_bytes: key.len() as u16 });
    }

    pub(super) fn len(&self) -> usize {
        self.tombstones.len()
    }

    pub(super) fn iter(&self) -> impl ExactSizeIterator<Item = Noted<'_>> {
        self.tombstones.iter().map(|&Tombstone { tid, table, key_at, key_bytes }| {
            let key = &self.keys[key_at as usize..][..usize::from(key_bytes)];
            Noted { table, key, tid }
        })
    }
}

#[derive(Debug)]
struct Waiting {
    /// All entries of smaller epochs are replayed.
    passed: Epoch,
    /// By the newest epoch in each; the number tells batches of one epoch apart.
    batches: BTreeMap<(Epoch, u64), BlockDeletes>,
    given: u64,
    /// Bytes that all of them take.
    bytes: u64,
}

/// All threads' tombstones.
#[derive(Debug)]
pub(super) struct Tombstones(Mutex<Waiting>);

impl Tombstones {
    pub(super) fn new() -> Self {
        let waiting = Waiting { passed: Epoch::ZERO, batches: BTreeMap::new(), given: 0, bytes: 0 };
        Self(Mutex::new(waiting))
    }

    fn lock(&self) -> ensile_base::sync::MutexGuard<'_, Waiting> {
        // Whole batches go in and out.
        self.0.lock()
    }

    /// Takes a batch over.
    pub(super) fn give(&self, batch: BlockDeletes) {
        let mut waiting = self.lock();
        waiting.given += 1;
        waiting.bytes += batch.bytes;
        let place = (batch.newest, waiting.given);
        waiting.batches.insert(place, batch);
    }

    /// All entries of smaller epochs are replayed. Threads may say so out of order.
    pub(super) fn pass(&self, epoch: Epoch) {
        let mut waiting = self.lock();
        waiting.passed = waiting.passed.max(epoch);
    }

    /// A batch of which all epochs have passed.
    pub(super) fn take_due(&self) -> Option<BlockDeletes> {
        let mut waiting = self.lock();
        let first = waiting.batches.first_key_value()?.0.0;
        if first >= waiting.passed {
            return None;
        }
        let (_, batch) = waiting.batches.pop_first()?;
        waiting.bytes -= batch.bytes;
        Some(batch)
    }

    /// Bytes that the waiting tombstones take.
    pub(super) fn bytes(&self) -> u64 {
        self.lock().bytes
    }

    /// How many wait.
    #[cfg(all(test, not(any(loom, shuttle))))]
    pub(super) fn count(&self) -> usize {
        self.lock().batches.values().map(BlockDeletes::len).sum()
    }
}
