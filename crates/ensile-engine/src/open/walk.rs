//! The engine's side of a checkpoint: tables are walked beside their writers, a block at a time (SiloR §4.1).
//!
//! A section is a logged table's id, its bounds are keys, and an entry is a row (`formats::checkpoint_entry`).
//!
//! Invariants:
//! - K1: a record is written if it is its key's latest, present, and of an epoch below e_l. A change that ends one of
//!   these after the walk began is of an epoch that the log has.
//! - Nothing is held between blocks: the pin ends with the step, and the next one descends again from the key where
//!   this one stopped.
//! - Records are read as transactions read them (C5), and no shared line is written.
//!
//! Neighbours: `tables::logged_tables` has the tables; `threads` steps the checkpointers; `replay` loads what they
//! write.

use std::ops::{Bound, ControlFlow};

use ensile_base::{Epoch, Tid};
use ensile_durability::{CheckpointBlock, PageContents, Pages, Slice, Walk};
use ensile_epoch::Pinned;
use ensile_index::{Direction, Range};

use crate::formats::checkpoint_entry;
use crate::record::tree::{RecordTree, RecordVisitor};
use crate::record::{HEADER_BYTES, LeafWitness, Record, Scratch};
use crate::shared::SharedState;

/// Slices of a part: progress is measured in them.
pub(super) const SLICES_PER_PART: usize = 16;
/// Entries whose records are asked for before the first of them is read: a leaf or two.
const BATCH: usize = 32;
/// Bytes of a record that are asked for ahead, at most: beyond these the processor sees the pattern by itself.
const PREFETCHED_BYTES_MAX: usize = 512;
/// Keys that are looked at under one pin while a picture cuts a table into pages, or walks a page. Few under shuttle,
/// so that its short runs walk a page under several pins.
pub(super) const KEYS_PER_PIN: usize = if cfg!(shuttle) { 2 } else { 4096 };

impl Walk for SharedState {
    fn slices(&self, parts: usize) -> Vec<Vec<Slice>> {
        let mut result = vec![Vec::new(); parts];
        let mut pin = self.epochs.register_pin();
        for (section, table) in self.logged_tables.all() {
            let call = pin.begin(self.epochs.now());
            let separators = table.tree.separators(parts * SLICES_PER_PART, call.pinned());
            drop(call);
            let count = separators.len() + 1;
            let mut bounds = separators.into_iter().map(Vec::into_boxed_slice);
            let mut from = Box::default();
            for at in 0..count {
                let to = bounds.next();
                let next = to.clone();
                // Small tables, which are one slice, are dealt out among the parts.
                let part = (at * parts / count + section as usize) % parts;
                result[part].push(Slice { section, from, to });
                from = next.unwrap_or_default();
            }
        }
        result
    }

    fn walk(&self, slice: &Slice, resume: &mut Vec<u8>, low: Epoch, block: &mut CheckpointBlock) -> bool {
        let Some(table) = self.logged_tables.get(slice.section) else { return false };
        let mut pin = self.epochs.register_pin();
        let call = pin.begin(self.epochs.now());
        let from: &[u8] = if resume.is_empty() { &slice.from } else { resume };
        let upper = slice.to.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        let range = Range { lower: Bound::Included(from), upper };
        // The block's room bounds what is copied under this pin.
        let copying = Copying { target: block, scratch: &mut Scratch::default(), keys_max: usize::MAX };
        match copy_rows(&table.tree, range, low, copying, call.pinned()) {
            Some(key) => {
                *resume = key;
                true
            }
            None => false,
        }
    }

    fn changed_bytes(&self) -> u64 {
        self.sum(|worker| &worker.changed_bytes)
    }

    fn pages(&self) -> Option<&dyn Pages> {
        self.pictures.as_ref().map(|_| self as &dyn Pages)
    }
}

/// Where rows are copied to.
pub(super) trait RowTarget {
    /// Whether there is room for an entry with a body of `body_bytes`. If not, the walk stops there.
    fn has_room(&mut self, body_bytes: usize) -> bool;

    /// Adds a row.
    fn add(&mut self, tid: Tid, key: &[u8], value: &[u8]);
}

impl RowTarget for CheckpointBlock {
    #[inline]
    fn has_room(&mut self, body_bytes: usize) -> bool {
        Self::has_room(self, body_bytes)
    }

    #[inline]
    fn add(&mut self, tid: Tid, key: &[u8], value: &[u8]) {
        self.push(tid, |body| checkpoint_entry::encode(body, key, value));
    }
}

impl RowTarget for PageContents {
    #[inline]
    fn has_room(&mut self, _body_bytes: usize) -> bool {
        true
    }

    #[inline]
    fn add(&mut self, tid: Tid, key: &[u8], value: &[u8]) {
        self.push(tid, |body| checkpoint_entry::encode(body, key, value));
    }
}

/// What copying rows needs.
pub(super) struct Copying<'t, T> {
    pub(super) target: &'t mut T,
    /// Where a row is read to.
    pub(super) scratch: &'t mut Scratch,
    /// Keys that are looked at, at most.
    pub(super) keys_max: usize,
}

/// Copies the rows of a range that are present and of epochs below `low`. Where it stopped: the key that found no room,
/// or the first one that was not looked at.
pub(super) fn copy_rows(
    tree: &RecordTree,
    range: Range<'_>,
    low: Epoch,
    Copying { target, scratch, keys_max }: Copying<'_, impl RowTarget>,
    pinned: Pinned<'_>,
) -> Option<Vec<u8>> {
    let mut visit = RowCopier {
        low,
        target,
        scratch,
        batch: RecordBatch::new(),
        record_bytes: HEADER_BYTES,
        left: keys_max,
        stopped_at: None,
    };
    tree.scan(range, Direction::Forward, &mut visit, pinned);
    if visit.stopped_at.is_none() {
        let _ = visit.flush();
    }
    visit.stopped_at
}

/// Keys of a scan, each with its record, which was asked for: by the time the batch is full they have come.
pub(super) struct RecordBatch<'w> {
    /// The keys, one behind the other.
    keys: Vec<u8>,
    /// Where each key ends, and its record.
    records: Vec<(usize, Record<'w>)>,
}

impl<'w> RecordBatch<'w> {
    pub(super) fn new() -> Self {
        Self { keys: Vec::new(), records: Vec::with_capacity(BATCH) }
    }

    /// Adds a key, and asks for the first `record_bytes` of its record. True if the batch is full.
    #[inline]
    pub(super) fn add(&mut self, key: &[u8], record: Record<'w>, record_bytes: usize) -> bool {
        record.address().prefetch_exactly(record_bytes);
        self.keys.extend_from_slice(key);
        self.records.push((self.keys.len(), record));
        self.records.len() >= BATCH
    }

    /// Its keys, in order, each with its record.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&[u8], Record<'w>)> {
        let begins = std::iter::once(0).chain(self.records.iter().map(|(end, _)| *end));
        begins.zip(&self.records).map(|(from, &(to, record))| (&self.keys[from..to], record))
    }

    pub(super) fn clear(&mut self) {
        self.keys.clear();
        self.records.clear();
    }
}

/// A scan that copies old enough records.
struct RowCopier<'w, 't, T> {
    low: Epoch,
    target: &'t mut T,
    scratch: &'t mut Scratch,
    batch: RecordBatch<'w>,
    /// Bytes of the last record: the next ones are taken to be as large.
    record_bytes: usize,
    /// Keys that are still looked at.
    left: usize,
    /// The key that found no room, or the first one that was not looked at.
    stopped_at: Option<Vec<u8>>,
}

impl<'w, T: RowTarget> RowCopier<'w, '_, T> {
    /// Copies the records of the batch, which have been asked for.
    fn flush(&mut self) -> ControlFlow<()> {
        let mut batch =
            std::mem::replace(&mut self.batch, RecordBatch { keys: Vec::new(), records: Vec::new() });
        for (key, record) in batch.iter() {
            if !self.copy(key, record) {
                self.stopped_at = Some(key.to_vec());
                return ControlFlow::Break(());
            }
        }
        batch.clear();
        self.batch = batch;
        ControlFlow::Continue(())
    }

    /// Adds a record if it belongs there; false if there is no room.
    fn copy(&mut self, key: &[u8], record: Record<'w>) -> bool {
        if record.word().epoch() >= self.low {
            return true;
        }
        // A change from here on is of an epoch >= e_l (K1), and then the record is left out: so if it is read, this was
        // its length.
        let length = record.length();
        if !self.target.has_room(checkpoint_entry::bytes(key.len(), length)) {
            return false;
        }
        let Some(word) = record.read_older(self.low, self.scratch) else { return true };
        let value = self.scratch.bytes();
        debug_assert_eq!(value.len(), length, "a record of an epoch below e_l has changed (K1)");
        if value.len() > length && !self.target.has_room(checkpoint_entry::bytes(key.len(), value.len())) {
            return false;
        }
        self.record_bytes = (HEADER_BYTES + length).min(PREFETCHED_BYTES_MAX);
        self.target.add(word.tid(), key, value);
        true
    }
}

impl<'w, T: RowTarget> RecordVisitor<'w> for RowCopier<'w, '_, T> {
    fn witness(&mut self, _witness: LeafWitness<'w>) {}

    #[inline]
    fn entry(&mut self, key: &[u8], record: Record<'w>) -> ControlFlow<()> {
        if self.left == 0 {
            self.flush()?;
            self.stopped_at = Some(key.to_vec());
            return ControlFlow::Break(());
        }
        self.left -= 1;
        let is_full = self.batch.add(key, record, self.record_bytes);
        if is_full { self.flush() } else { ControlFlow::Continue(()) }
    }
}
