//! The pages of a table that is not there: what a commit does to find the page of a first change and to mark it, apart
//! from all else that a commit does.
//!
//! In builds with the feature `experiments` only. The search, the states and the marks are the engine's own. Only the
//! load of the table's map under a pin is missing, as there is no table.
//!
//! Neighbours: `ensile-bench siren marks` is its user; `record::page_map` has the map.

use ensile_base::Epoch;
use ensile_durability::PictureAttempt;

use crate::record::page_map::loaded::LoadedTablePages;
use crate::record::page_map::{LOADED, PageBounds, PageMap, PictureOfMaps};
use crate::record::pending::PageMarks;

/// Two maps of the same pages: one that collects marks between two pictures, and the next picture's.
#[derive(Debug)]
pub struct MarkedPages {
    between: PageMap,
    next: PageMap,
}

impl MarkedPages {
    /// Pages without marks that begin with these keys, of which the first is empty and the others grow.
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

    /// What a commit does at a key's first change between two pictures: a search, a load, and an exchange if the page
    /// has no mark.
    #[inline]
    pub fn change(&self, key: &[u8]) {
        self.change_page(self.page_of(key));
    }

    /// The same, by a page whose number is known.
    #[inline]
    pub fn change_page(&self, page: usize) {
        let page = self.between.page(page);
        if !page.is_closed_with(PageMarks::BEFORE) {
            page.mark(PageMarks::BEFORE);
        }
    }

    /// What the next picture does: marks are carried over to its map, and pages without one are closed. The numbers of
    /// those that it writes. To be called once, as no mark is ever taken away.
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

    /// Bytes of memory that one map takes.
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
