//! The pages of one picture after the other, as files keep them: those that a picture has not written stay as the one
//! before has left them. So a page whose mark is missing shows old rows (N5 to N7, N10, N13, N17).
//!
//! Neighbours: `pictures` and `shuttle_pictures` compare what is in it with what a picture is to show.

use std::collections::BTreeMap;

use ensile_base::Tid;
use ensile_durability::{PageContents, Slice, TakenPage};

/// Rows of a picture: by section and key, each with its TID.
pub(crate) type Taken = BTreeMap<(u32, Vec<u8>), (Tid, Vec<u8>)>;

/// A page: where it ends, and its rows by key.
#[derive(Clone, Debug)]
struct Page {
    to: Option<Vec<u8>>,
    rows: BTreeMap<Vec<u8>, (Tid, Vec<u8>)>,
}

/// Pages by section and first key.
#[derive(Clone, Debug, Default)]
pub(crate) struct PageDirectory {
    pages: BTreeMap<(u32, Vec<u8>), Page>,
}

/// Key and value of an entry's body.
pub(crate) fn row_of(body: &[u8]) -> (&[u8], &[u8]) {
    let (length, row) = body.split_first_chunk().expect("a length");
    row.split_at(u16::from_le_bytes(*length).into())
}

/// The pages that a picture has written, and what commits have left beside them.
#[derive(Debug, Default)]
pub(crate) struct Written {
    pages: PageDirectory,
    pub(crate) displaced: Taken,
}

impl Written {
    /// Adds a page of this slice that was taken at `from` (empty: the slice's beginning), `resume` being where the next
    /// one begins.
    pub(crate) fn add(
        &mut self,
        slice: &Slice,
        (from, resume): (&[u8], &[u8]),
        taken: TakenPage,
        page: &PageContents,
    ) {
        let from = if from.is_empty() { &slice.from } else { from };
        let to = if taken == TakenPage::More {
            Some(resume.to_vec())
        } else {
            slice.to.as_ref().map(|to| to.to_vec())
        };
        let mut rows = BTreeMap::new();
        for (tid, body) in page.iter() {
            let (key, value) = row_of(body);
            let last = rows.last_key_value().map(|(key, _): (&Vec<u8>, _)| key.as_slice());
            assert!(last < Some(key) && from <= key, "in key order, and in the page");
            assert!(to.as_deref().is_none_or(|to| key < to), "a page ends where the next one begins");
            rows.insert(key.to_vec(), (tid, value.to_vec()));
        }
        let before = self.pages.pages.insert((slice.section, from.to_vec()), Page { to, rows });
        assert!(before.is_none(), "a page is taken once");
    }

    /// How many pages were written.
    pub(crate) fn count(&self) -> usize {
        self.counts().values().sum()
    }

    /// The same of each section.
    pub(crate) fn counts(&self) -> BTreeMap<u32, usize> {
        let mut counts = BTreeMap::new();
        self.pages.pages.keys().for_each(|(section, _)| *counts.entry(*section).or_default() += 1);
        counts
    }

    /// The directory behind this picture, where `before` was the one before it.
    pub(crate) fn over(&self, before: &PageDirectory) -> PageDirectory {
        let mut next = before.clone();
        for ((section, from), page) in &self.pages.pages {
            let replaced = next.pages.range((*section, from.clone())..);
            let replaced = replaced.take_while(|((of, first), _)| {
                of == section && page.to.as_deref().is_none_or(|to| first.as_slice() < to)
            });
            let replaced: Vec<_> = replaced.map(|(place, _)| place.clone()).collect();
            replaced.iter().for_each(|place| drop(next.pages.remove(place)));
        }
        next.pages.extend(self.pages.pages.clone());
        next.check();
        next
    }

    /// What this picture shows, with these pages.
    pub(crate) fn rows(&self, pages: &PageDirectory) -> Taken {
        let mut rows = Taken::new();
        for ((section, _), page) in &pages.pages {
            rows.extend(page.rows.iter().map(|(key, row)| ((*section, key.clone()), row.clone())));
        }
        for (key, displaced) in &self.displaced {
            let row = rows.entry(key.clone()).or_insert_with(|| displaced.clone());
            assert_eq!(row, displaced, "a row has one TID, wherever it comes from (N11)");
        }
        rows
    }
}

impl PageDirectory {
    /// Pages tile each section: what was cut anew covers old pages as a whole (N17).
    fn check(&self) {
        let mut last: Option<(u32, Option<&[u8]>)> = None;
        for ((section, from), page) in &self.pages {
            match last {
                Some((of, to)) if of == *section => assert_eq!(to, Some(&from[..]), "section {of} has a gap"),
                _ => assert!(from.is_empty() && last.is_none_or(|(_, to)| to.is_none()), "section {section}"),
            }
            last = Some((*section, page.to.as_deref()));
        }
        assert!(last.is_none_or(|(_, to)| to.is_none()), "the last section has an end");
    }

    /// How many pages there are.
    pub(crate) fn count(&self) -> usize {
        self.pages.len()
    }
}
