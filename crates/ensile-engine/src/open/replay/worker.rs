//! Worker of a replaying thread. It applies writes to records, removes tombstones, and frees the replaced memory.
//!
//! Invariants:
//! - The larger TID wins, under the record's lock.
//! - N14: In a database with pictures, the page of each write is marked before the comparison of versions.
//! - U1: A tombstone is removed under its record's lock, and only if the record still has the delete's word. Another
//!   thread with a newer value finds the record superseded, then the key missing, and inserts the key.
//! - E3: Records and nodes removed from the index are freed after the end of all blocks that began before.
//!
//! Neighbours: [`super::Replay`] lends a worker to each call. `tombstones` has the tombstones to remove.

use ensile_base::Tid;
use ensile_base::sync::{Ordering, fence};
use ensile_epoch::{Epochs, Pinned};
use ensile_index::NodeChanges;
use ensile_memory::Cache;

use super::ReplayedTable;
use super::tombstones::BlockDeletes;
use crate::formats::log_entry::LoggedWrite;
use crate::garbage::ReplayGarbage;
use crate::pictures::loaded_pages::LoadedTablePages;
use crate::record::blocks::{Blocks, NodeBlocks};
use crate::record::tid_word::Word;
use crate::record::tree::{RecordGap, RecordInsert, RecordLookup, RecordPlace, RecordProbe, RecordTree};
use crate::record::{HEADER_BYTES, Record};

/// Number of writes looked up together. Large enough for overlapping descents, and small enough that the prefetched
/// memory stays in the caches until its use.
pub(super) const GROUP: usize = 64;
/// Largest number of bytes prefetched of a record. Beyond these the processor detects the pattern.
const PREFETCHED_BYTES_MAX: usize = 768;

/// Tables known to a worker, found without a shared lock.
pub(super) type MetTables = [(u32, ReplayedTable)];

/// Memory and garbage of a replaying thread.
pub(super) struct ReplayWorker {
    pub(super) blocks: Blocks,
    pub(super) garbage: ReplayGarbage,
    pub(super) changes: NodeChanges,
    /// Deletes of the block under replay.
    pub(super) deletes: BlockDeletes,
}

/// A write that waits for its group.
pub(super) struct PendingWrite<'b> {
    /// Position of the table among the worker's tables.
    pub(super) table: usize,
    pub(super) write: LoggedWrite<'b>,
    pub(super) tid: Tid,
}

impl PendingWrite<'_> {
    /// Size of the record for this write, in bytes.
    fn record_bytes(&self) -> usize {
        HEADER_BYTES + self.write.value.map_or(0, <[u8]>::len)
    }
}

/// Marks the page of a write (N14): the write's log may go with the next picture.
#[inline]
fn mark(pages: &LoadedTablePages, pending: &PendingWrite<'_>, place: &RecordPlace<'_, '_>) {
    let found = match place {
        RecordPlace::Found(record) => Some(record.word().epoch()),
        RecordPlace::Gap(_) => None,
    };
    pages.mark_replayed(pending.write.key, found);
}

/// Outcome of a write to a record.
enum Renewed {
    /// The write is applied, or was not newer.
    Done,
    /// The record is no longer its key's latest.
    Superseded,
}

impl ReplayWorker {
    pub(super) fn new(cache: Cache) -> Self {
        Self {
            blocks: Blocks::new(cache),
            garbage: ReplayGarbage::default(),
            changes: NodeChanges::new(),
            deletes: BlockDeletes::default(),
        }
    }

    /// Memory for changes of a tree, and the list of changed nodes, which replay does not need.
    pub(super) fn nodes<'w>(&'w mut self, epochs: &'w Epochs) -> (NodeBlocks<'w>, &'w mut NodeChanges) {
        (self.garbage.node_memory(&mut self.blocks, epochs), &mut self.changes)
    }

    /// Applies each write of a group that is newer than the version of its key.
    pub(super) fn apply(
        &mut self,
        tables: &MetTables,
        group: &[PendingWrite<'_>],
        epochs: &Epochs,
        pinned: Pinned<'_>,
    ) {
        if group.is_empty() {
            return;
        }
        let probes = group.iter().enumerate().map(|(at, pending)| RecordProbe {
            tree: &tables[pending.table].1.tree,
            key: pending.write.key,
            label: at,
        });
        let mut places = [None; GROUP];
        RecordTree::place_batch(probes, pinned, &mut |at, place| {
            if let RecordPlace::Found(record) = place {
                let bytes = group[at].record_bytes().min(PREFETCHED_BYTES_MAX);
                record.address().prefetch_exactly(bytes);
            }
            places[at] = Some(place);
        });
        for (pending, place) in group.iter().zip(places.into_iter().flatten()) {
            let ReplayedTable { tree, pages } = &tables[pending.table].1;
            if let Some(pages) = pages {
                mark(pages, pending, &place);
            }
            let record = match place {
                RecordPlace::Found(record) => Some(record),
                RecordPlace::Gap(gap) => self.insert(tree, Some(&gap), pending, epochs, pinned),
            };
            if let Some(record) = record {
                self.renew(tree, record, pending, epochs, pinned);
            }
        }
    }

    /// Inserts the record of a missing key, at its place if `gap` is known. Returns the existing record if another
    /// thread has inserted the key.
    fn insert<'p>(
        &mut self,
        tree: &RecordTree,
        gap: Option<&RecordGap<'p, 'p>>,
        pending: &PendingWrite<'_>,
        epochs: &Epochs,
        pinned: Pinned<'p>,
    ) -> Option<Record<'p>> {
        let word = match pending.write.value {
            Some(_) => Word::for_write(pending.tid),
            None => Word::for_delete(pending.tid),
        };
        let record = self.blocks.create_record(pending.write.value.unwrap_or_default(), word);
        let (mut nodes, changes) = self.nodes(epochs);
        changes.clear();
        let inserted = match gap {
            Some(gap) => gap.insert(record, &mut nodes, changes, pinned),
            None => tree.insert_if_absent(pending.write.key, record, &mut nodes, changes, pinned),
        };
        match inserted {
            RecordInsert::Inserted(record) => {
                if pending.write.value.is_none() {
                    self.note_delete(pending, record);
                }
                None
            }
            RecordInsert::Exists(found, record) => {
                self.blocks.discard(record);
                Some(found)
            }
        }
    }

    /// Applies a newer write to the record of its key.
    fn renew<'p>(
        &mut self,
        tree: &RecordTree,
        found: Record<'p>,
        pending: &PendingWrite<'_>,
        epochs: &Epochs,
        pinned: Pinned<'p>,
    ) {
        let mut found = Some(found);
        while let Some(record) = found {
            found = match self.renew_record(tree, record, pending, epochs, pinned) {
                Renewed::Done => None,
                Renewed::Superseded => match tree.get(pending.write.key, pinned) {
                    RecordLookup::Found(record) => Some(record),
                    // Another thread has just removed the tombstone.
                    RecordLookup::Missing(_) => self.insert(tree, None, pending, epochs, pinned),
                },
            };
        }
    }

    /// A try of [`Self::renew`] on one record, under the record's lock: the larger TID wins.
    fn renew_record(
        &mut self,
        tree: &RecordTree,
        record: Record<'_>,
        pending: &PendingWrite<'_>,
        epochs: &Epochs,
        pinned: Pinned<'_>,
    ) -> Renewed {
        let &PendingWrite { write, tid, .. } = pending;
        // TIDs only grow, and a larger TID supersedes a record: older versions end here, without a lock.
        if tid <= record.word().tid() {
            return Renewed::Done;
        }
        let before = record.lock();
        if !before.is_latest() {
            record.unlock_with(before);
            return Renewed::Superseded;
        }
        if tid <= before.tid() {
            record.unlock_with(before);
            return Renewed::Done;
        }
        // Release: the lock is seen before the data stores that follow (C5); partner: the readers' Acquire fence.
        fence(Ordering::Release);
        match write.value {
            None => {
                record.unlock_with(Word::for_delete(tid));
                self.note_delete(pending, record);
            }
            Some(value) if record.fits(value.len()) => {
                record.overwrite(value);
                record.unlock_with(Word::for_write(tid));
            }
            Some(value) => {
                let new = self.blocks.create_record(value, Word::for_write(tid));
                let old = tree.replace(write.key, record, new, pinned);
                record.unlock_with(before.to_superseded());
                self.garbage.retire(old, epochs);
            }
        }
        Renewed::Done
    }

    /// Notes a replayed delete, for the later removal of its tombstone.
    fn note_delete(&mut self, pending: &PendingWrite<'_>, record: Record<'_>) {
        // The record keeps the capacity of its former value.
        let bytes = HEADER_BYTES + record.capacity();
        self.deletes.note(pending.write.table, pending.write.key, pending.tid, bytes);
    }

    /// Removes each tombstone of a batch that is still the record of its key. `trees` has the tree of each tombstone,
    /// in the order of the batch.
    pub(super) fn remove(
        &mut self,
        batch: &BlockDeletes,
        trees: &[&RecordTree],
        epochs: &Epochs,
        pinned: Pinned<'_>,
    ) {
        let mut all = batch.iter().zip(trees);
        loop {
            let group: [_; GROUP] = std::array::from_fn(|_| all.next());
            let probes = group.iter().flatten().enumerate();
            let probes = probes.map(|(at, (noted, tree))| RecordProbe { tree, key: noted.key, label: at });
            let mut found = [None; GROUP];
            RecordTree::get_batch(probes, pinned, &mut |at, lookup| {
                if let RecordLookup::Found(record) = lookup {
                    record.address().prefetch(HEADER_BYTES);
                    found[at] = Some(record);
                }
            });
            for ((noted, tree), found) in group.iter().flatten().zip(found) {
                if let Some(record) = found {
                    self.remove_one(tree, noted.key, Word::for_delete(noted.tid), record, epochs, pinned);
                }
            }
            if group[GROUP - 1].is_none() {
                return;
            }
        }
    }

    /// Removes a key from its tree if its record is still the tombstone with this word (U1).
    fn remove_one(
        &mut self,
        tree: &RecordTree,
        key: &[u8],
        tombstone: Word,
        found: Record<'_>,
        epochs: &Epochs,
        pinned: Pinned<'_>,
    ) {
        if found.word().without_lock_bit() != tombstone {
            return;
        }
        let before = found.lock();
        if before != tombstone {
            // Another thread has written a newer value.
            found.unlock_with(before);
            return;
        }
        let (unlinked, removed) = tree.take_out(key, found, pinned);
        found.unlock_with(before.to_superseded());
        let (mut nodes, _) = self.nodes(epochs);
        tree.remove_emptied_leaf(key, removed, &mut nodes, pinned);
        self.garbage.retire(unlinked, epochs);
    }
}
