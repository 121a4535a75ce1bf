//! The engine's side of a checkpoint: a walk of tables beside their writers, block by block (SiloR §4.1).
//!
//! A section is a logged table's id, its bounds are keys, and an entry is a row (`formats::checkpoint_entry`).
//!
//! Invariants:
//! - K1: A record is written if the record is its key's latest version, present, and of an epoch below e_l. A change
//!   that ends one of these conditions after the begin of the walk has an epoch that the log covers.
//! - A walk holds no pin and no lock between blocks. A pin lasts for a round at most: some thousand keys, and a MiB of
//!   rows plus a row. The next round descends again from the key at the end of the round before.
//! - A walk reads records as transactions do (C5), and writes no shared line.
//!
//! Neighbours: `tables::logged_tables` has the tables. `open::threads` steps the checkpointers. `open::replay` loads
//! the written checkpoints.

use std::ops::{Bound, ControlFlow};

use ensile_base::{Epoch, Tid};
use ensile_durability::{CheckpointBlock, PageContents, Pages, RangeCut, Slice, Walk};
use ensile_epoch::Pinned;
use ensile_index::{Direction, Range};

use crate::formats::checkpoint_entry;
use crate::record::tree::{RecordTree, RecordVisitor};
use crate::record::{HEADER_BYTES, LeafWitness, Record, Scratch};
use crate::shared_state::SharedState;

/// Number of slices of a part. A slice is the unit of progress.
pub(super) const SLICES_PER_PART: usize = 16;
/// Number of records prefetched before the first is read: a leaf or two.
const BATCH: usize = 32;
/// Largest number of bytes prefetched of a record. Beyond these the processor detects the pattern.
const PREFETCHED_BYTES_MAX: usize = 512;
/// Number of keys visited under a pin, by a walk of a table and by the cut of a table into pages. Small under shuttle,
/// for walks of a page under several pins in short runs.
pub(super) const KEYS_PER_PIN: usize = if cfg!(shuttle) { 2 } else { 4096 };
/// Bytes of rows after which a pin ends. Small under shuttle: a round may end between any two rows.
const BYTES_PER_PIN: usize = if cfg!(shuttle) { 64 } else { 1 << 20 };

impl Walk for SharedState {
    fn slices(&self, parts: usize) -> Vec<Vec<Slice>> {
        let mut result = vec![Vec::new(); parts];
        let mut pin = self.epochs.register_pin();
        for (section, table) in self.tables.logged.all_tables() {
            let call = pin.begin(self.epochs.now());
            let separators = table.tree.separators(parts * SLICES_PER_PART, call.pin_token());
            drop(call);
            let count = separators.len() + 1;
            let mut bounds = separators.into_iter().map(Vec::into_boxed_slice);
            let mut from = Box::default();
            for at in 0..count {
                let to = bounds.next();
                let next = to.clone();
                // Small tables have a single slice, and are distributed over the parts.
                let part = (at * parts / count + section as usize) % parts;
                result[part].push(Slice { section, from, to });
                from = next.unwrap_or_default();
            }
        }
        result
    }

    fn walk(&self, slice: &Slice, resume: &mut Vec<u8>, low: Epoch, block: &mut CheckpointBlock) -> bool {
        let Some(table) = self.tables.logged.get(slice.section) else { return false };
        self.copy_rounds(&table.tree, slice, resume, low, block)
    }

    /// Called by durability's `checkpoint::manager` as a turn of a cycling checkpoint begins that takes every range.
    /// The counted bytes cut the ranges of the next turns (SiloR §8, K4). `row_counts` counts.
    fn measure(&self, cut: &mut RangeCut) {
        self.measure_tables(cut);
    }

    fn changed_bytes(&self) -> u64 {
        self.workers.sum(|worker| &worker.changed_bytes)
    }

    fn pages(&self) -> Option<&dyn Pages> {
        self.pictures.as_ref().map(|_| self as &dyn Pages)
    }
}

impl SharedState {
    /// Copies the rows of a slice with epochs below `low`, from `resume` on (empty: the begin of the slice). Each round
    /// has its own pin. True if the row at `resume` has no room.
    fn copy_rounds(
        &self,
        tree: &RecordTree,
        slice: &Slice,
        resume: &mut Vec<u8>,
        low: Epoch,
        target: &mut impl RowTarget,
    ) -> bool {
        let mut pin = self.epochs.register_pin();
        let scratch = &mut Scratch::default();
        let upper = slice.to.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        loop {
            let call = pin.begin(self.epochs.now());
            let from: &[u8] = if resume.is_empty() { &slice.from } else { resume };
            let range = Range { lower: Bound::Included(from), upper };
            let Some(stopped) = copy_rows(tree, range, low, target, scratch, call.pin_token()) else {
                return false;
            };
            *resume = stopped.at;
            if stopped.is_full {
                return true;
            }
        }
    }
}

/// Destination of copied rows.
pub(super) trait RowTarget {
    /// True if an entry with a body of `body_bytes` has room. If false, the walk stops.
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

/// Position at the end of a round of copies.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Stopped {
    /// Key of the row without room, or first unvisited key of the round.
    pub(super) at: Vec<u8>,
    /// True if the row had no room; false at the end of a round.
    pub(super) is_full: bool,
}

/// Copies a round of the present rows of a range with epochs below `low`: the rows for a single pin. Returns the
/// position of the stop, or `None` at the end of the range. Rows are read to the scratch.
pub(super) fn copy_rows(
    tree: &RecordTree,
    range: Range<'_>,
    low: Epoch,
    target: &mut impl RowTarget,
    scratch: &mut Scratch,
    pinned: Pinned<'_>,
) -> Option<Stopped> {
    let mut visit = RowCopier {
        low,
        target,
        scratch,
        batch: RecordBatch::new(),
        record_bytes: HEADER_BYTES,
        keys_left: KEYS_PER_PIN,
        bytes_left: BYTES_PER_PIN,
        stopped: None,
    };
    tree.scan(range, Direction::Forward, &mut visit, pinned);
    if visit.stopped.is_none() {
        let _ = visit.flush();
    }
    visit.stopped
}

/// Keys of a scan with their prefetched records. The records have arrived by the time the batch is full.
pub(super) struct RecordBatch<'w> {
    /// The concatenated keys.
    keys: Vec<u8>,
    /// End of each key, and its record.
    records: Vec<(usize, Record<'w>)>,
}

impl<'w> RecordBatch<'w> {
    pub(super) fn new() -> Self {
        Self { keys: Vec::new(), records: Vec::with_capacity(BATCH) }
    }

    /// Adds a key, and prefetches the first `record_bytes` of its record. True if the batch is full.
    #[inline]
    pub(super) fn add(&mut self, key: &[u8], record: Record<'w>, record_bytes: usize) -> bool {
        record.address().prefetch_exactly(record_bytes);
        self.keys.extend_from_slice(key);
        self.records.push((self.keys.len(), record));
        self.records.len() >= BATCH
    }

    /// The keys in order, with their records.
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
    /// Bytes of the last record, as an estimate for the next records.
    record_bytes: usize,
    /// Keys left in this round.
    keys_left: usize,
    /// Bytes of rows left in this round.
    bytes_left: usize,
    stopped: Option<Stopped>,
}

impl<'w, T: RowTarget> RowCopier<'w, '_, T> {
    /// Copies the prefetched records of the batch.
    fn flush(&mut self) -> ControlFlow<()> {
        let mut batch =
            std::mem::replace(&mut self.batch, RecordBatch { keys: Vec::new(), records: Vec::new() });
        for (key, record) in batch.iter() {
            if let ControlFlow::Break(is_full) = self.copy(key, record) {
                self.stopped = Some(Stopped { at: key.to_vec(), is_full });
                return ControlFlow::Break(());
            }
        }
        batch.clear();
        self.batch = batch;
        ControlFlow::Continue(())
    }

    /// Adds a record with a matching epoch. Breaks with true for a record without room, and with false at the end of
    /// the round.
    fn copy(&mut self, key: &[u8], record: Record<'w>) -> ControlFlow<bool> {
        if record.word().epoch() >= self.low {
            return ControlFlow::Continue(());
        }
        if self.bytes_left == 0 {
            return ControlFlow::Break(false);
        }
        // A later change has an epoch >= e_l (K1), and a changed record is left out. So a record read below had this
        // length.
        let length = record.length();
        if !self.target.has_room(checkpoint_entry::bytes(key.len(), length)) {
            return ControlFlow::Break(true);
        }
        let Some(word) = record.read_older(self.low, self.scratch) else { return ControlFlow::Continue(()) };
        let value = self.scratch.bytes();
        debug_assert_eq!(value.len(), length, "a record of an epoch below e_l has changed (K1)");
        let bytes = checkpoint_entry::bytes(key.len(), value.len());
        if value.len() > length && !self.target.has_room(bytes) {
            return ControlFlow::Break(true);
        }
        self.record_bytes = (HEADER_BYTES + length).min(PREFETCHED_BYTES_MAX);
        self.bytes_left = self.bytes_left.saturating_sub(bytes);
        self.target.add(word.tid(), key, value);
        ControlFlow::Continue(())
    }
}

impl<'w, T: RowTarget> RecordVisitor<'w> for RowCopier<'w, '_, T> {
    fn witness(&mut self, _witness: LeafWitness<'w>) {}

    #[inline]
    fn entry(&mut self, key: &[u8], record: Record<'w>) -> ControlFlow<()> {
        if self.keys_left == 0 {
            self.flush()?;
            self.stopped = Some(Stopped { at: key.to_vec(), is_full: false });
            return ControlFlow::Break(());
        }
        self.keys_left -= 1;
        let is_full = self.batch.add(key, record, self.record_bytes);
        if is_full { self.flush() } else { ControlFlow::Continue(()) }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
