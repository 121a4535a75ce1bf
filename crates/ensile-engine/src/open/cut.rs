//! Where a picture's pages begin: tables are cut into pages beside their writers (SIREN, §2.1). And the bytes of rows,
//! by which a cycling checkpoint cuts tables into ranges (SiloR §8).
//!
//! Invariants, from `docs/protocols/pictures.md`:
//! - N17: pages are cut before their freeze. A page that has no mark keeps its bounds; if it is marked later, it is
//!   marked as a whole. Runs of pages that have one are cut anew, so each of the new ones is to be marked.
//! - No pin stands for more than some thousand keys.
//!
//! Neighbours: `pages` publishes what is cut here; `record::page_map` has the bounds and the marks.

use std::ops::{Bound, ControlFlow};

use ensile_durability::{PageContents, RangeCut};
use ensile_index::{Direction, Range};

use super::walk::{KEYS_PER_PIN, RecordBatch};
use crate::formats::checkpoint_entry;
use crate::record::page_map::{PageBounds, PageMap};
use crate::record::pending::PageMarks;
use crate::record::tree::{RecordTree, RecordVisitor};
use crate::record::{HEADER_BYTES, LeafWitness, Record};
use crate::shared::SharedState;
use crate::tables::logged_tables::LoggedTable;

/// A piece of a table, from its lower bound on: one page that stays as it is, or a run of pages that is cut anew.
#[derive(Debug, PartialEq, Eq)]
struct Piece {
    from: Vec<u8>,
    /// Where the run ends, this bound left out; `None` is the table's end.
    to: Option<Vec<u8>>,
    is_cut: bool,
}

impl SharedState {
    /// Where pages of about `page_bytes` begin in a table, as it is now. If marks are carried over, only runs of pages
    /// that have one of them are cut.
    pub(super) fn cut(
        &self,
        table: &LoggedTable,
        page_bytes: usize,
        carried: Option<PageMarks>,
    ) -> PageBounds {
        let mut pin = self.epochs.register_pin();
        let pieces = {
            let call = pin.begin(self.epochs.now());
            let kept = carried.and_then(|marks| Some(pieces_of(table.pages.load(call.pinned())?, marks)));
            kept.unwrap_or_else(|| vec![Piece { from: Vec::new(), to: None, is_cut: true }])
        };
        pin.end();
        let mut bounds = Vec::with_capacity(pieces.len());
        for piece in pieces {
            let inner = if piece.is_cut { self.cut_run(&table.tree, &piece, page_bytes) } else { Vec::new() };
            // The table's first page begins with the empty key, which no map stores.
            bounds.extend((!piece.from.is_empty()).then_some(piece.from));
            bounds.extend(inner);
        }
        PageBounds::new(&bounds)
    }

    /// Where the pages of a run begin, but for the first.
    fn cut_run(&self, tree: &RecordTree, run: &Piece, page_bytes: usize) -> Vec<Vec<u8>> {
        let mut cut = PageCut { page_bytes, bounds: Vec::new(), filled: 0 };
        self.count_rows(tree, run, &mut cut);
        cut.end()
    }

    /// Says the bytes of all rows of all logged tables, by which a checkpoint cuts them into ranges (SiloR §8).
    pub(super) fn measure_tables(&self, cut: &mut RangeCut) {
        let whole = Piece { from: Vec::new(), to: None, is_cut: true };
        for (section, table) in self.logged_tables.all() {
            self.count_rows(&table.tree, &whole, &mut TableRows { section, cut });
        }
    }

    /// Counts the rows of a run, in rounds, each under a pin of its own.
    fn count_rows(&self, tree: &RecordTree, run: &Piece, count: &mut impl CountRows) {
        let mut pin = self.epochs.register_pin();
        let mut from = Some(run.from.clone());
        while let Some(key) = from {
            let call = pin.begin(self.epochs.now());
            let (batch, left) = (RecordBatch::new(), KEYS_PER_PIN);
            let mut counter = RowCounter { count: &mut *count, batch, left, stopped_at: None };
            let upper = run.to.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
            let range = Range { lower: Bound::Included(&key), upper };
            tree.scan(range, Direction::Forward, &mut counter, call.pinned());
            counter.flush();
            from = counter.stopped_at;
        }
    }
}

/// Takes rows' bytes, in the order of their keys.
trait CountRows {
    /// The next key, and the bytes of its value if it has a row.
    fn add(&mut self, key: &[u8], value_bytes: Option<usize>);
}

/// Bytes that a row takes in a page, or in a block of a checkpoint.
fn entry_bytes(key: &[u8], value_bytes: usize) -> usize {
    PageContents::FRAME_BYTES + checkpoint_entry::bytes(key.len(), value_bytes)
}

/// The rows of a table, as a checkpoint cuts them into ranges.
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

/// The pieces of a table whose pages were marked so.
fn pieces_of(map: &PageMap, marks: PageMarks) -> Vec<Piece> {
    let mut pieces: Vec<Piece> = Vec::new();
    for (page, state) in map.pages().iter().enumerate() {
        let (is_cut, to) = (state.has_any(marks), map.bounds().upper(page).map(<[u8]>::to_vec));
        match pieces.last_mut() {
            Some(run) if run.is_cut && is_cut => run.to = to,
            _ => pieces.push(Piece { from: map.bounds().lower(page).to_vec(), to, is_cut }),
        }
    }
    debug_assert!(pieces.first().is_some_and(|first| first.from.is_empty()), "pieces tile the table");
    pieces
}

/// Where pages begin, as the rows of a run are counted one after the other. A page has `page_bytes` and one row at
/// most, and the last one half of that more.
struct PageCut {
    page_bytes: usize,
    bounds: Vec<Vec<u8>>,
    /// Bytes of the page so far.
    filled: usize,
}

impl CountRows for PageCut {
    fn add(&mut self, key: &[u8], value_bytes: Option<usize>) {
        if self.filled >= self.page_bytes {
            self.bounds.push(key.to_vec());
            self.filled = 0;
        }
        if let Some(bytes) = value_bytes {
            self.filled += entry_bytes(key, bytes);
        }
    }
}

impl PageCut {
    /// The run has ended. What fills less than half a page stays with the page before: if not, each run that grows a
    /// little would leave such a page.
    fn end(mut self) -> Vec<Vec<u8>> {
        if self.filled < self.page_bytes / 2 {
            self.bounds.pop();
        }
        self.bounds
    }
}

/// A scan that counts rows' bytes. No value is copied.
struct RowCounter<'p, 'c, C> {
    count: &'c mut C,
    batch: RecordBatch<'p>,
    /// Keys that are still looked at under this pin.
    left: usize,
    /// The first key that was not.
    stopped_at: Option<Vec<u8>>,
}

impl<C: CountRows> RowCounter<'_, '_, C> {
    /// Counts the batch, whose records have been asked for.
    fn flush(&mut self) {
        for (key, record) in self.batch.iter() {
            // Both may change until the freeze: a page that grows meanwhile is overfull.
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

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
