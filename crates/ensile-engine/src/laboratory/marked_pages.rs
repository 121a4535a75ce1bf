//! Pages of a table that does not exist. A commit's search for the page of a first change, and its mark, run without
//! the rest of the commit.
//!
//! In builds with the feature `experiments` only. The search, the states and the marks are the engine's code. Only the
//! load of the table's map under a pin is missing, because no table exists.
//!
//! Neighbours: `ensile-bench siren marks` is the user; `record::page_map` has the map.

use ensile_base::Epoch;
use ensile_durability::PictureAttempt;

use crate::record::page_map::loaded::LoadedTablePages;
use crate::record::page_map::{LOADED, PageBounds, PageMap, PictureOfMaps};
use crate::record::pending::PageMarks;

/// Two maps of the same pages: a map that collects marks between two pictures, and the map of the next picture.
#[derive(Debug)]
pub struct MarkedPages {
    between: PageMap,
    next: PageMap,
}

impl MarkedPages {
    /// Pages without marks, with these first keys. The first key is empty, and the keys are ascending.
    #[must_use]
    pub fn new(first_keys: &[&[u8]]) -> Self {
        let since = Epoch::ZERO.next();
        let pages = LoadedTablePages::new(first_keys, Epoch::ZERO);
        let between = PageMap::of_loaded(&PictureOfMaps::of_loaded(since), Some(pages));
        let attempt = PictureOfMaps::new(PictureAttempt::new(LOADED.number() + 1), since);
        let next = PageMap::new(&attempt, PageBounds::new(&first_keys[1..]), PageMarks::NONE);
        Self { between, next }
    }

    /// The page of a key.
    #[inline]
    #[must_use]
    pub fn page_of(&self, key: &[u8]) -> usize {
        self.between.bounds().page_of(key)
    }

    /// The work of a commit for a key's first change between two pictures: a search, a load, and an exchange for a page
    /// without a mark.
    #[inline]
    pub fn change(&self, key: &[u8]) {
        self.change_page(self.page_of(key));
    }

    /// As [`change`](Self::change), for a known page number.
    #[inline]
    pub fn change_page(&self, page: usize) {
        let page = self.between.page(page);
        if !page.is_closed_with(PageMarks::BEFORE) {
            page.mark(PageMarks::BEFORE);
        }
    }

    /// The work of the next picture: carries the marks over to its map and closes pages without a mark. Returns the
    /// numbers of the written pages. Call it once, because no mark is ever removed.
    #[must_use]
    pub fn settle(&self) -> Vec<usize> {
        self.next.mark_from(&self.between, PageMarks::BEFORE);
        let mut marked = Vec::new();
        for (number, page) in self.next.pages().iter().enumerate() {
            if page.has_any(PageMarks::BEFORE) {
                marked.push(number);
            } else {
                let ((), list) = page.close_behind(|| ());
                debug_assert!(list.is_some_and(|list| list.is_empty()), "nobody has left anything there");
            }
        }
        marked
    }

    /// Memory of a map in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.between.bytes()
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::MarkedPages;

    #[test]
    fn a_page_of_which_a_key_has_changed_is_written_and_no_other() {
        let pages = MarkedPages::new(&[b"", b"d", b"m", b"t"]);
        for key in [b"a", b"n", b"n"] {
            pages.change(key);
        }
        pages.change_page(3);
        assert_eq!(pages.page_of(b"d"), 1);
        assert_eq!(pages.settle(), [0, 2, 3]);
    }
}
