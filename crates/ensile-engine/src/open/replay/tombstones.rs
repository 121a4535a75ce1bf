//! Tombstones in the order of epochs, until every log has passed their epoch.
//!
//! A replayed delete leaves an absent record. Its TID wins over older puts of the key. After the replay of all entries
//! up to the delete's epoch no older put can come, and the record may be removed (L8).
//!
//! Each thread notes the deletes of a log block in its own [`BlockDeletes`], and hands the batch over at the end of the
//! block. Any thread takes a due batch. So the lock is taken once for a block, and all threads share the removal.
//!
//! Neighbours: `worker` fills batches and removes due tombstones. [`super::Replay`] reports the progress of the replay.

use std::collections::BTreeMap;

use ensile_base::sync::Mutex;
use ensile_base::{Epoch, Tid};

/// Key of a delete, and the TID of its record.
#[derive(Clone, Copy, Debug)]
struct Tombstone {
    tid: Tid,
    table: u32,
    key_at: u32,
    key_bytes: u16,
}

const _: () = assert!(ensile_base::limits::KEY_BYTES_MAX <= u16::MAX as usize);

/// Bytes that a key takes in its leaf: a leaf has 320 bytes for fifteen keys, and two thirds of the places are used.
const LEAF_BYTES: usize = 32;

/// Memory of a tombstone until its removal, in bytes: note, record, and place in the tree. A growing vector of notes
/// has room for the same number again. The key stands in the note and in the tree.
fn bytes_kept(key_bytes: usize, record_bytes: usize) -> u64 {
    (2 * size_of::<Tombstone>() + 2 * key_bytes + record_bytes + LEAF_BYTES) as u64
}

/// The tombstones of a log block.
#[derive(Debug, Default)]
pub(super) struct BlockDeletes {
    newest: Epoch,
    tombstones: Vec<Tombstone>,
    /// The concatenated keys.
    keys: Vec<u8>,
    /// Memory of the tombstones until their removal, in bytes.
    bytes: u64,
}

/// A delete of a batch, with its key.
#[derive(Clone, Copy, Debug)]
pub(super) struct Noted<'b> {
    pub(super) table: u32,
    pub(super) key: &'b [u8],
    pub(super) tid: Tid,
}

impl BlockDeletes {
    /// Notes a delete. `record_bytes` is the size of the record's block.
    pub(super) fn note(&mut self, table: u32, key: &[u8], tid: Tid, record_bytes: usize) {
        // The keys are a part of the block's entries, and these are below 4 GiB.
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
    /// Batches by their newest epoch. The number distinguishes batches with the same epoch.
    batches: BTreeMap<(Epoch, u64), BlockDeletes>,
    given: u64,
    /// Memory of all batches, in bytes.
    bytes: u64,
}

/// The tombstones of all threads.
#[derive(Debug)]
pub(super) struct Tombstones(Mutex<Waiting>);

impl Tombstones {
    pub(super) fn new() -> Self {
        let waiting = Waiting { passed: Epoch::ZERO, batches: BTreeMap::new(), given: 0, bytes: 0 };
        Self(Mutex::new(waiting))
    }

    fn lock(&self) -> ensile_base::sync::MutexGuard<'_, Waiting> {
        // A panic leaves no partial batch: whole batches go in and out.
        self.0.lock()
    }

    /// Adds the batch of a log block at the end of the block.
    pub(super) fn give(&self, batch: BlockDeletes) {
        let mut waiting = self.lock();
        waiting.given += 1;
        waiting.bytes += batch.bytes;
        let place = (batch.newest, waiting.given);
        waiting.batches.insert(place, batch);
    }

    /// Notes that all entries of smaller epochs are replayed. The calls of several threads may come out of order.
    pub(super) fn pass(&self, epoch: Epoch) {
        let mut waiting = self.lock();
        waiting.passed = waiting.passed.max(epoch);
    }

    /// Removes and returns a batch with passed epochs only, for the removal of its tombstones. `None` without a due
    /// batch.
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

    /// Memory of the waiting tombstones, in bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.lock().bytes
    }

    /// Number of waiting tombstones.
    #[cfg(all(test, not(any(loom, shuttle))))]
    pub(super) fn count(&self) -> usize {
        self.lock().batches.values().map(BlockDeletes::len).sum()
    }
}
