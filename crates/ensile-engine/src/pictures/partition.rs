//! Partition of a table into the pages of the next picture (SIREN, §2.1).
//!
//! Invariant, from `docs/internals/protocols/pictures.md`:
//! - N17: A page without a mark keeps its bounds; a later mark applies to the whole page. Runs of pages with a mark are
//!   cut again, so each new page is to be marked.
//!
//! Neighbours: `checkpoint::row_counts` counts the rows of runs; `page_map` has the bounds and the marks.

use ensile_durability::PageContents;

use super::page_map::PageMap;
use super::pending_removes::PageMarks;
use crate::formats::checkpoint_entry;

/// A piece of a table, from its lower bound on: a page with unchanged bounds, or a run of pages to cut again.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) from: Vec<u8>,
    /// End of the piece, exclusive; `None` is the table's end.
    pub(crate) to: Option<Vec<u8>>,
    pub(crate) is_cut: bool,
}

impl Piece {
    /// The whole of a table, to be cut.
    pub(crate) fn whole_table() -> Self {
        Self { from: Vec::new(), to: None, is_cut: true }
    }
}

/// The pieces of a table; pages with one of `marks` are to be cut.
pub(crate) fn pieces_of(map: &PageMap, marks: PageMarks) -> Vec<Piece> {
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

/// Receiver of the bytes of rows, in the order of their keys.
pub(crate) trait CountRows {
    /// Adds the next key, with the bytes of its value; `None` for a key without a row.
    fn add(&mut self, key: &[u8], value_bytes: Option<usize>);
}

/// Size of a row in a page, or in a block of a checkpoint, in bytes.
pub(crate) fn entry_bytes(key: &[u8], value_bytes: usize) -> usize {
    PageContents::FRAME_BYTES + checkpoint_entry::bytes(key.len(), value_bytes)
}

/// Bounds of pages, computed while the rows of a run are counted. A page has at most `page_bytes` plus a row. The last
/// page has at most half of `page_bytes` more.
pub(crate) struct PageCut {
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
    pub(crate) fn new(page_bytes: usize) -> Self {
        Self { page_bytes, bounds: Vec::new(), filled: 0 }
    }

    /// Ends the run, and returns the lower bounds of its pages without the first. Rows of less than half a page at the
    /// end stay with the page before. Otherwise each run with a little growth would get a small page.
    pub(crate) fn end(mut self) -> Vec<Vec<u8>> {
        if self.filled < self.page_bytes / 2 {
            self.bounds.pop();
        }
        self.bounds
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
