//! The sets and buffers of an open transaction, without its pin. Transactions reuse a context in turn.
//!
//! Neighbours: `session` keeps idle contexts; transactions and snapshots fill a context; a commit uses the context up.

use ensile_base::Epoch;
use ensile_base::sync::Arc;

use super::dead_ranges::DeadRanges;
use super::entry_keys::EntryKeys;
use super::multi_get::Descents;
use super::node_set::NodeSet;
use super::rows::RowBatch;
use super::write_set::WriteSet;
use super::{KEEP_BYTES_MAX, Read, Sets};
use crate::record::Scratch;
use crate::record::pin_scope::{Family, Kept, KeptSnapshot, Resting, forgets};
use crate::shared_state::{CommitWaits, SharedState};
use crate::worker::idle_workers::IdleWorkers;

/// An open transaction's state, and an idle one's allocations.
pub(crate) struct Context<'p> {
    /// Number of the context's database, and the place where the session's worker goes in the end.
    pub(crate) database: u64,
    pub(crate) idle_workers: Arc<IdleWorkers>,
    pub(crate) sets: Sets<'p>,
    pub(crate) scratch: Scratch,
    /// Results of common descents.
    pub(crate) descents: Descents,
    /// Rows that a scan or a multi-get has copied.
    pub(crate) rows: RowBatch,
    /// A scan's present key.
    pub(crate) scan_key: Vec<u8>,
    /// A value being encoded.
    pub(crate) value: Vec<u8>,
    /// The keys of the index entries of a row being written.
    pub(crate) entry_keys: EntryKeys,
    /// Waits of a commit that was busy. While the commit waits, its session has no worker.
    pub(crate) waits: CommitWaits,
}

forgets!(
    Context: emptied [],
    forgotten [sets],
    free [database, idle_workers, scratch, descents, rows, scan_key, value, entry_keys, waits]
);

/// The family of data kept under a transaction's pin.
pub(crate) struct Contexts;

impl Family for Contexts {
    type Under<'p> = Context<'p>;
}

/// An idle transaction's pin and context.
pub(crate) type RestingContext = Resting<Contexts>;
/// An open transaction's pin and context.
pub(crate) type KeptContext = Kept<Contexts>;
/// An open snapshot's registration and context.
pub(crate) type SnapshotContext = KeptSnapshot<Contexts>;

impl RestingContext {
    /// The pin and context for the first transaction of a session.
    pub(crate) fn for_new_session(shared: &SharedState) -> Self {
        Self::new(shared.register_pin(), Context::new(shared))
    }
}

impl Context<'_> {
    fn new(shared: &SharedState) -> Self {
        Self {
            database: shared.life.id,
            idle_workers: Arc::clone(&shared.workers.idle),
            sets: Sets::default(),
            scratch: Scratch::default(),
            descents: Descents::default(),
            rows: RowBatch::default(),
            scan_key: Vec::new(),
            value: Vec::new(),
            entry_keys: EntryKeys::default(),
            waits: CommitWaits::default(),
        }
    }

    /// Empties the sets for the next transaction. The space of sets and buffers is kept, unless a huge transaction grew
    /// the space. The smallest transactions, with one read of a small row, do not check the space.
    #[inline(always)]
    pub(crate) fn clear(&mut self) {
        #[cfg(debug_assertions)]
        self.sets.check();
        let looks = self.sets.reads.len() + self.sets.nodes.len() + self.scratch.large_as_reads() > 1;
        self.sets.clear();
        // Announced keys of a batch are kept until the end of the batch.
        if looks && self.sets.writes.keys.is_empty() && self.kept_bytes() > KEEP_BYTES_MAX {
            self.give_back();
        }
    }

    /// Ends the transaction and its batch: a batch may end by a panic. The end of the pin forgets the reads.
    #[inline(always)]
    pub(crate) fn end(&mut self) {
        #[cfg(debug_assertions)]
        self.sets.check();
        let looks = self.sets.reads.len() + self.sets.nodes.len() + self.scratch.large_as_reads() > 1;
        self.sets.writes.end();
        self.sets.dead.clear();
        self.sets.buried = Epoch::ZERO;
        if looks && self.kept_bytes() > KEEP_BYTES_MAX {
            self.give_back();
        }
    }

    /// Memory that reads and values have grown, in bytes. Descents limit their own space.
    #[inline]
    pub(crate) fn kept_bytes(&self) -> usize {
        let Self { sets, scratch, rows, scan_key, value, entry_keys, .. } = self;
        let seen = sets.reads.capacity() * size_of::<Read<'_>>() + sets.nodes.kept_bytes();
        let keys = scan_key.capacity() + entry_keys.kept_bytes();
        let buffers = scratch.kept_bytes() + value.capacity() + keys;
        seen + sets.dead.kept_bytes() + sets.writes.kept_bytes() + rows.kept_bytes() + buffers
    }

    /// Shows the copied rows. Space that huge rows have grown is given back at the end of the transaction or snapshot.
    #[inline]
    pub(crate) fn show_rows<R>(&mut self, read: impl FnOnce(&RowBatch) -> R) -> R {
        if self.rows.kept_bytes() > KEEP_BYTES_MAX {
            self.scratch.note_large(true);
        }
        read(&self.rows)
    }

    /// Shows the copied rows once, and keeps their space unless huge rows grew the space.
    #[inline]
    pub(crate) fn show_rows_once<R>(&mut self, read: impl FnOnce(&RowBatch) -> R) -> R {
        let shown = read(&self.rows);
        if self.rows.kept_bytes() > KEEP_BYTES_MAX {
            self.rows = RowBatch::default();
            self.scratch.note_large(false);
        }
        shown
    }

    /// Takes the buffer for values back, unless a huge value grew the buffer.
    #[inline]
    pub(crate) fn keep_value(&mut self, value: Vec<u8>) {
        if value.capacity() <= KEEP_BYTES_MAX {
            self.value = value;
        }
    }

    /// Frees the space that a huge transaction has grown.
    #[cold]
    fn give_back(&mut self) {
        self.sets.reads = Vec::new();
        self.sets.nodes = NodeSet::default();
        self.sets.writes = WriteSet::default();
        self.sets.dead = DeadRanges::default();
        (self.scratch, self.rows) = (Scratch::default(), RowBatch::default());
        (self.value, self.scan_key, self.entry_keys) = (Vec::new(), Vec::new(), EntryKeys::default());
        debug_assert!(self.kept_bytes() <= KEEP_BYTES_MAX, "what a huge transaction took is given back");
    }
}
