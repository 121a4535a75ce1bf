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

use ensile_base::Epoch;
use ensile_durability::{CheckpointBlock, Slice, Walk};
use ensile_index::{Direction, Range};

use crate::formats::checkpoint_entry;
use crate::record::tree::RecordVisitor;
use crate::record::{HEADER_BYTES, LeafWitness, Record, Scratch};
use crate::shared::SharedState;

/// Slices of a part: progress is measured in them.
const SLICES_PER_PART: usize = 16;
/// Entries whose records are asked for before the first of them is read: a leaf or two.
const BATCH: usize = 32;
/// Bytes of a record that are asked for ahead, at most: beyond these the processor sees the pattern by itself.
const PREFETCHED_BYTES_MAX: usize = 512;

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
        let pinned = call.pinned();
        let mut visit = RowCopier {
            low,
            block,
            scratch: Scratch::default(),
            keys: Vec::new(),
            batch: Vec::with_capacity(BATCH),
            record_bytes: HEADER_BYTES,
            full_at: None,
        };
        let from: &[u8] = if resume.is_empty() { &slice.from } else { resume };
        let upper = slice.to.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        let range = Range { lower: Bound::Included(from), upper };
        table.tree.scan(range, Direction::Forward, &mut visit, pinned);
        if visit.full_at.is_none() {
            let _ = visit.flush();
        }
        match visit.full_at {
            Some(key) => {
                *resume = key;
                true
            }
            None => false,
        }
    }
}

/// A scan that copies old enough records into a block.
struct RowCopier<'w> {
    low: Epoch,
    block: &'w mut CheckpointBlock,
    scratch: Scratch,
    /// Keys of the batch, one behind the other, each with its end and its record.
    keys: Vec<u8>,
    batch: Vec<(usize, Record<'w>)>,
    /// Bytes of the last record: the next ones are taken to be as large.
    record_bytes: usize,
    /// The key that found no room.
    full_at: Option<Vec<u8>>,
}

impl<'w> RowCopier<'w> {
    /// Copies the records of the batch, which have been asked for.
    fn flush(&mut self) -> ControlFlow<()> {
        let (mut keys, mut batch) = (std::mem::take(&mut self.keys), std::mem::take(&mut self.batch));
        let mut from = 0;
        for &(to, record) in &batch {
            let key = &keys[from..to];
            from = to;
            if !self.copy(key, record) {
                self.full_at = Some(key.to_vec());
                return ControlFlow::Break(());
            }
        }
        keys.clear();
        batch.clear();
        (self.keys, self.batch) = (keys, batch);
        ControlFlow::Continue(())
    }

    /// Adds a record to the block if it belongs there; false if there is no room.
    fn copy(&mut self, key: &[u8], record: Record<'w>) -> bool {
        if record.word().epoch() >= self.low {
            return true;
        }
        // A change from here on is of an epoch >= e_l (K1), and then the record is left out: so if it is read, this was
        // its length.
        let length = record.length();
        if !self.block.has_room(checkpoint_entry::bytes(key.len(), length)) {
            return false;
        }
        let Some(word) = record.read_older(self.low, &mut self.scratch) else { return true };
        let value = self.scratch.bytes();
        debug_assert_eq!(value.len(), length, "a record of an epoch below e_l has changed (K1)");
        if value.len() > length && !self.block.has_room(checkpoint_entry::bytes(key.len(), value.len())) {
            return false;
        }
        self.record_bytes = (HEADER_BYTES + length).min(PREFETCHED_BYTES_MAX);
        self.block.push(word.tid(), |body| checkpoint_entry::encode(body, key, value));
        true
    }
}

impl<'w> RecordVisitor<'w> for RowCopier<'w> {
    fn witness(&mut self, _witness: LeafWitness<'w>) {}

    #[inline]
    fn entry(&mut self, key: &[u8], record: Record<'w>) -> ControlFlow<()> {
        record.address().prefetch_exactly(self.record_bytes);
        self.keys.extend_from_slice(key);
        self.batch.push((self.keys.len(), record));
        if self.batch.len() < BATCH { ControlFlow::Continue(()) } else { self.flush() }
    }
}
