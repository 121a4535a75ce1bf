//! Bounds of a picture's pages: tables are cut into pages beside their writers (SIREN, §2.1). Also the bytes of rows,
//! for the ranges of a cycling checkpoint (SiloR §8).
//!
//! Invariants, from `docs/internals/protocols/pictures.md`:
//! - N17: Pages are cut before their freeze. A page without a mark keeps its bounds; a later mark applies to the whole
//!   page. Runs of pages with a mark are cut again, so each new page is to be marked.
//! - A pin lasts for some thousand keys at most.
//!
//! Neighbours: `pages` publishes the bounds; `record::page_map` has the bounds and the marks.

use std::ops::{Bound, ControlFlow};

use ensile_durability::{PageContents, RangeCut};
use ensile_index::{Direction, Range};

use super::walk::{KEYS_PER_PIN, RecordBatch};
use crate::formats::checkpoint_entry;
use crate::record::page_map::{PageBounds, PageMap};
use crate::record::pending_removes::PageMarks;
use crate::record::tree::{RecordTree, RecordVisitor};
use crate::record::{HEADER_BYTES, LeafWitness, Record};
use crate::shared_state::SharedState;
use crate::tables::logged_tables::LoggedTable;

/// A piece of a table, from its lower bound on: a page with unchanged bounds, or a run of pages to cut again.
#[derive(Debug, PartialEq, Eq)]
struct Piece {
    from: Vec<u8>,
    /// End of the piece, exclusive; `None` is the table's end.
    to: Option<Vec<u8>>,
    is_cut: bool,
}

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
            kept.unwrap_or_else(|| vec![Piece { from: Vec::new(), to: None, is_cut: true }])
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
        let mut cut = PageCut { page_bytes, bounds: Vec::new(), filled: 0 };
        self.count_rows(tree, run, &mut cut);
        cut.end()
    }

    /// Adds the bytes of all rows of all logged tables to `cut`, which divides the tables into ranges (SiloR §8).
    pub(super) fn measure_tables(&self, cut: &mut RangeCut) {
        let whole = Piece { from: Vec::new(), to: None, is_cut: true };
        for (section, table) in self.logged_tables.all_tables() {
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

/// Receiver of the bytes of rows, in the order of their keys.
trait CountRows {
    /// Adds the next key, with the bytes of its value; `None` for a key without a row.
    fn add(&mut self, key: &[u8], value_bytes: Option<usize>);
}

/// Size of a row in a page, or in a block of a checkpoint, in bytes.
fn entry_bytes(key: &[u8], value_bytes: usize) -> usize {
    PageContents::FRAME_BYTES + checkpoint_entry::bytes(key.len(), value_bytes)
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

/// The pieces of a table; pages with one of `marks` are to be cut.
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

/// Bounds of pages, computed while the rows of a run are counted. A page has at most `page_bytes` plus a row. The last
/// page has at most half of `page_bytes` more.
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
    /// Ends the run, and returns the lower bounds of its pages without the first. Rows of less than half a page at the
    /// end stay with the page before. Otherwise each run with a little growth would get a small page.
    fn end(mut self) -> Vec<Vec<u8>> {
        if self.filled < self.page_bytes / 2 {
            self.bounds.pop();
        }
        self.bounds
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

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
