//! Counts of the bytes of rows beside their writers: for the bounds of a picture's pages (SIREN, §2.1), and for the
//! ranges of a cycling checkpoint (SiloR §8).
//!
//! Invariants:
//! - N17: Pages are cut before their freeze (`pictures::partition`).
//! - A pin lasts for some thousand keys at most.
//!
//! Neighbours: `pages` publishes the bounds; `pictures::partition` cuts the pages; `walk` has the batch of records.

use std::ops::{Bound, ControlFlow};

use ensile_durability::RangeCut;
use ensile_index::{Direction, Range};

use super::walk::{KEYS_PER_PIN, RecordBatch};
use crate::pictures::page_bounds::PageBounds;
use crate::pictures::partition::{CountRows, PageCut, Piece, entry_bytes, pieces_of};
use crate::pictures::pending_removes::PageMarks;
use crate::record::tree::{RecordTree, RecordVisitor};
use crate::record::{HEADER_BYTES, LeafWitness, Record};
use crate::shared_state::SharedState;
use crate::tables::logged_tables::LoggedTable;

impl SharedState {
    /// Bounds of pages of about `page_bytes` in the current table. With carried marks, only runs of pages with a
    /// carried mark are cut.
    pub(super) fn cut(
        &self,
        table: &LoggedTable,
        page_bytes: usize,
        carried: Option<PageMarks>,
    ) -> PageBounds {
        let mut pin = self.epochs.register_pin();
        let pieces = {
            let call = pin.begin(self.epochs.now());
            let kept = carried.and_then(|marks| Some(pieces_of(table.pages.load(call.pin_token())?, marks)));
            kept.unwrap_or_else(|| vec![Piece::whole_table()])
        };
        pin.end();
        let mut bounds = Vec::with_capacity(pieces.len());
        for piece in pieces {
            let inner = if piece.is_cut { self.cut_run(&table.tree, &piece, page_bytes) } else { Vec::new() };
            // The table's first page begins with the empty key, and no map stores this key.
            bounds.extend((!piece.from.is_empty()).then_some(piece.from));
            bounds.extend(inner);
        }
        PageBounds::new(&bounds)
    }

    /// Lower bounds of the pages of a run, without the first.
    fn cut_run(&self, tree: &RecordTree, run: &Piece, page_bytes: usize) -> Vec<Vec<u8>> {
        let mut cut = PageCut::new(page_bytes);
        self.count_rows(tree, run, &mut cut);
        cut.end()
    }

    /// Adds the bytes of all rows of all logged tables to `cut`, which divides the tables into ranges (SiloR §8).
    pub(super) fn measure_tables(&self, cut: &mut RangeCut) {
        let whole = Piece::whole_table();
        for (section, table) in self.tables.logged.all_tables() {
            self.count_rows(&table.tree, &whole, &mut TableRows { section, cut });
        }
    }

    /// Counts the rows of a run, in rounds. Each round has its own pin.
    fn count_rows(&self, tree: &RecordTree, run: &Piece, count: &mut impl CountRows) {
        let mut pin = self.epochs.register_pin();
        let mut from = Some(run.from.clone());
        while let Some(key) = from {
            let call = pin.begin(self.epochs.now());
            let (batch, left) = (RecordBatch::new(), KEYS_PER_PIN);
            let mut counter = RowCounter { count: &mut *count, batch, left, stopped_at: None };
            let upper = run.to.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
            let range = Range { lower: Bound::Included(&key), upper };
            tree.scan(range, Direction::Forward, &mut counter, call.pin_token());
            counter.flush();
            from = counter.stopped_at;
        }
    }
}

/// Rows of a table, for the ranges of a checkpoint.
struct TableRows<'c> {
    section: u32,
    cut: &'c mut RangeCut,
}

impl CountRows for TableRows<'_> {
    fn add(&mut self, key: &[u8], value_bytes: Option<usize>) {
        if let Some(bytes) = value_bytes {
            self.cut.add(self.section, key, entry_bytes(key, bytes) as u64);
        }
    }
}

/// A scan that counts the bytes of rows. The scan copies no value.
struct RowCounter<'p, 'c, C> {
    count: &'c mut C,
    batch: RecordBatch<'p>,
    /// Keys left under this pin.
    left: usize,
    /// First uncounted key.
    stopped_at: Option<Vec<u8>>,
}

impl<C: CountRows> RowCounter<'_, '_, C> {
    /// Counts the prefetched records of the batch.
    fn flush(&mut self) {
        for (key, record) in self.batch.iter() {
            // Presence and length may change until the freeze: a page that grows in the meantime is overfull.
            let bytes = (!record.word().is_absent()).then(|| record.length());
            self.count.add(key, bytes);
        }
        self.batch.clear();
    }
}

impl<'p, C: CountRows> RecordVisitor<'p> for RowCounter<'p, '_, C> {
    fn witness(&mut self, _witness: LeafWitness<'p>) {}

    #[inline]
    fn entry(&mut self, key: &[u8], record: Record<'p>) -> ControlFlow<()> {
        if self.left == 0 {
            self.stopped_at = Some(key.to_vec());
            return ControlFlow::Break(());
        }
        self.left -= 1;
        if self.batch.add(key, record, HEADER_BYTES) {
            self.flush();
        }
        ControlFlow::Continue(())
    }
}
