//! The pages of a table as a picture has them that was loaded. Load and replay mark those that the picture lacks
//! something of; behind them they are the table's first map.
//!
//! Invariants, from `docs/protocols/pictures.md`:
//! - N10: the page of a row that was left beside the pages is marked: on the disk it lacks the row.
//! - N14: the page of each write that is replayed is marked, whichever version wins, deletes of missing keys too.
//!
//! Neighbours: `open::replay` marks; `tables::logged_tables` publishes the maps.

use std::collections::HashMap;

use ensile_base::Epoch;
use ensile_base::sync::Arc;

use super::{PageBounds, PageMap, PictureOfMaps};
use crate::record::pending::{PageMarks, PageState};

/// A table's pages in a picture that is loaded.
#[derive(Debug)]
pub(crate) struct LoadedTablePages {
    bounds: PageBounds,
    states: Box<[PageState]>,
    /// e_c: what is replayed is of later epochs.
    shown: Epoch,
}

impl LoadedTablePages {
    /// Pages that begin with these keys, the first of which is empty, in a picture of the end of `shown`.
    pub(crate) fn new(first_keys: &[&[u8]], shown: Epoch) -> Self {
        let Some((first, bounds)) = first_keys.split_first() else { unreachable!("a section has a page") };
        assert!(first.is_empty(), "a table's first page begins with the empty key (N17)");
        let bounds = PageBounds::new(bounds);
        let states = (0..bounds.len()).map(|_| PageState::closed()).collect();
        Self { bounds, states, shown }
    }

    /// Of a table that the picture does not have: one page, which is marked.
    fn of_added_table() -> Self {
        let pages = Self::new(&[&[]], Epoch::ZERO);
        pages.mark(&[]);
        pages
    }

    /// The page of this key lacks something on the disk.
    pub(crate) fn mark(&self, key: &[u8]) {
        debug_assert_eq!(self.states.len(), self.bounds.len(), "each page has a state");
        self.states[self.bounds.page_of(key)].mark(PageMarks::BEFORE);
    }

    /// A write of this key is replayed, whose record has a version of the epoch `found`; `None` if it has no record. A
    /// version that was replayed itself has marked the page.
    #[inline]
    pub(crate) fn mark_replayed(&self, key: &[u8], found: Option<Epoch>) {
        if found.is_none_or(|found| found <= self.shown) {
            self.mark(key);
        }
    }
}

/// The pages of all tables in a picture that was loaded, which become their first maps.
pub(crate) type LoadedMaps = HashMap<u32, LoadedTablePages>;

impl PageMap {
    /// A table's first map, between pictures; `pages` if the picture that was loaded has the table.
    pub(crate) fn of_loaded(picture: &Arc<PictureOfMaps>, pages: Option<LoadedTablePages>) -> Self {
        debug_assert!(picture.is_over(), "its pages are closed");
        let LoadedTablePages { bounds, states, .. } = pages.unwrap_or_else(LoadedTablePages::of_added_table);
        Self { picture: Arc::clone(picture), since: picture.since, bounds, states }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use ensile_base::Epoch;
    use ensile_base::sync::Arc;

    use super::{LoadedTablePages, PageMap};
    use crate::record::page_map::PictureOfMaps;
    use crate::record::pending::PageMarks;

    fn marked(pages: Option<LoadedTablePages>) -> Vec<bool> {
        let map = PageMap::of_loaded(&PictureOfMaps::of_loaded(Epoch::new(9)), pages);
        assert!(map.is_over() && map.pages().iter().all(|page| page.is_closed()));
        assert_eq!((map.since(), Arc::strong_count(&map.picture)), (Epoch::new(9), 1));
        map.pages().iter().map(|page| page.has_any(PageMarks::BOTH)).collect()
    }

    #[test]
    fn n14_a_write_marks_its_page_unless_its_record_was_replayed() {
        let shown = Epoch::new(7);
        for (found, is_marked) in
            [(None, true), (Some(Epoch::new(3)), true), (Some(shown), true), (Some(shown.next()), false)]
        {
            let pages = LoadedTablePages::new(&[b"", b"f", b"m"], shown);
            pages.mark_replayed(b"gone", found);
            assert_eq!(marked(Some(pages)), [false, is_marked, false], "{found:?}");
        }
    }

    #[test]
    fn a_table_that_the_picture_does_not_have_has_one_page_that_is_marked() {
        assert_eq!(marked(None), [true]);
    }
}
