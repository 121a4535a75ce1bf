//! The pages of a table in a loaded picture. Load and replay mark the pages that are incomplete in the picture;
//! afterwards the pages become the table's first map.
//!
//! Invariants, from `docs/internals/protocols/pictures.md`:
//! - N10: The page of a row that was left beside the pages is marked: the page on the disk lacks the row.
//! - N14: The page of each replayed write is marked, for losing versions and for deletes of missing keys too.
//!
//! Neighbours: `open::replay` marks; `shared_state` hands the maps over at the open; `tables::logged_tables` publishes
//! the maps.

use std::collections::HashMap;

use ensile_base::Epoch;
use ensile_base::sync::Arc;

use super::page_bounds::PageBounds;
use super::page_map::{PageMap, PictureOfMaps};
use super::pending_removes::{PageMarks, PageState};

/// A table's pages in a loaded picture.
#[derive(Debug)]
pub(crate) struct LoadedTablePages {
    bounds: PageBounds,
    states: Box<[PageState]>,
    /// Epoch e_c of the picture. Replayed writes are of later epochs.
    shown: Epoch,
}

impl LoadedTablePages {
    /// Pages with these first keys in a picture of the end of `shown`. The first of the keys is empty.
    pub(crate) fn new(first_keys: &[&[u8]], shown: Epoch) -> Self {
        let Some((first, bounds)) = first_keys.split_first() else { unreachable!("a section has a page") };
        assert!(first.is_empty(), "a table's first page begins with the empty key (N17)");
        let bounds = PageBounds::new(bounds);
        let states = (0..bounds.len()).map(|_| PageState::new_closed()).collect();
        Self { bounds, states, shown }
    }

    /// The pages of a table that the picture lacks: one page with a mark.
    fn of_added_table() -> Self {
        let pages = Self::new(&[&[]], Epoch::ZERO);
        debug_assert_eq!(pages.states.len(), 1, "a table that is added has one page");
        pages.mark(&[]);
        pages
    }

    /// Marks the page of this key, because the page on the disk is incomplete.
    pub(crate) fn mark(&self, key: &[u8]) {
        debug_assert_eq!(self.states.len(), self.bounds.len(), "each page has a state");
        self.states[self.bounds.page_of(key)].mark(PageMarks::BEFORE);
    }

    /// Marks the page of this key for a replayed write. `found` is the epoch of the version in the key's record; `None`
    /// if the key has no record. A replayed version has marked the page before.
    #[inline]
    pub(crate) fn mark_replayed(&self, key: &[u8], found: Option<Epoch>) {
        if found.is_none_or(|found| found <= self.shown) {
            self.mark(key);
        }
    }
}

/// The pages of all tables in a loaded picture, by the tables' numbers. The pages become the tables' first maps.
pub(crate) type LoadedMaps = HashMap<u32, LoadedTablePages>;

impl PageMap {
    /// A table's first map, between pictures; `pages` if the loaded picture has the table.
    pub(crate) fn of_loaded(picture: &Arc<PictureOfMaps>, pages: Option<LoadedTablePages>) -> Self {
        debug_assert!(picture.is_over(), "its pages are closed");
        let LoadedTablePages { bounds, states, .. } = pages.unwrap_or_else(LoadedTablePages::of_added_table);
        Self::with_states(picture, bounds, states)
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use ensile_base::Epoch;
    use ensile_base::sync::Arc;

    use super::{LoadedTablePages, PageMap};
    use crate::pictures::page_map::PictureOfMaps;
    use crate::pictures::pending_removes::PageMarks;

    fn mark_flags(pages: Option<LoadedTablePages>) -> Vec<bool> {
        let map = PageMap::of_loaded(&PictureOfMaps::of_loaded(Epoch::new(9)), pages);
        assert!(map.is_over() && map.pages().iter().all(|page| page.is_closed()));
        assert_eq!((map.publication_freeze(), Arc::strong_count(&map.picture)), (Epoch::new(9), 1));
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
            assert_eq!(mark_flags(Some(pages)), [false, is_marked, false], "{found:?}");
        }
    }

    #[test]
    fn a_table_that_the_picture_does_not_have_has_one_page_that_is_marked() {
        assert_eq!(mark_flags(None), [true]);
    }
}
