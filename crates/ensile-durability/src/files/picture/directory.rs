//! The directory of a picture: the places of the picture's pages, in parts of 16 KiB, cut above 32. A picture writes
//! the parts with a changed place, and keeps the remaining parts in place.
//!
//! Invariants: N17, over all parts. The pages that a picture has taken cover whole pages of the picture before. A page
//! that keeps its range keeps its number.
//!
//! Neighbours: [`super::page`] has a page's place, [`super::root`] a part's place. The writer of a picture makes the
//! next directory from the last directory and the taken pages; `backup::pages` makes that of a copy.

use super::location::{PageBound, PlaceBytes};
use super::page::PagePlace;
use super::root::DirectoryPlace;

/// Approximate bytes of a part that is cut off a larger part.
const PART_BYTES: usize = 16 << 10;
/// Most bytes of a part; a larger part is cut.
const PART_BYTES_MAX: usize = 2 * PART_BYTES;

/// Reads the pages of a part. `pages` is the count in the part's header. `None`: no version writes such pages.
pub(crate) fn decode_part(payload: &[u8], pages: u32) -> Option<Vec<PagePlace>> {
    let mut from = PlaceBytes(payload);
    let mut found: Vec<PagePlace> = Vec::new();
    for _ in 0..pages {
        let page = PagePlace::decode(&mut from)?;
        if found.last().is_some_and(|before| !page.bound.follows(Some(&before.bound))) {
            return None;
        }
        found.push(page);
    }
    debug_assert_eq!(found.len(), pages as usize);
    from.is_empty().then_some(found)
}

/// The payload of a part with these pages.
pub(crate) fn encode_part(pages: &[PagePlace]) -> Vec<u8> {
    let mut out = Vec::new();
    pages.iter().for_each(|page| page.encode(&mut out));
    debug_assert!(decode_part(&out, pages.len() as u32).is_some_and(|read| read == pages), "it reads back");
    out
}

/// True if these pages are the part at `place`, which comes before `next` (N17).
pub(crate) fn is_part(pages: &[PagePlace], place: &DirectoryPlace, next: Option<&DirectoryPlace>) -> bool {
    let (Some(first), Some(last)) = (pages.first(), pages.last()) else { return false };
    let bytes: u64 = pages.iter().map(PagePlace::bytes).sum();
    // No page is newer than the part that names the page.
    first.bound == place.bound
        && (pages.len() as u64, bytes) == (u64::from(place.pages), place.bytes)
        && pages.iter().all(|page| page.checkpoint <= place.checkpoint)
        && next.is_none_or(|next| next.bound.follows(Some(&last.bound)))
}

/// A part of the directory of a finished picture, or of the picture under way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DirectoryPart {
    pub(crate) pages: Vec<PagePlace>,
    /// Place of the part; `None` if the part is still to be written.
    pub(crate) place: Option<DirectoryPlace>,
}

impl DirectoryPart {
    fn to_write(pages: Vec<PagePlace>) -> Self {
        Self { pages, place: None }
    }

    /// Bytes of the part's payload.
    fn place_bytes(&self) -> usize {
        self.pages.iter().map(PagePlace::place_bytes).sum()
    }

    fn bound(&self) -> &PageBound {
        &self.pages.first().expect("a part has a page").bound
    }
}

/// A page that a picture has taken, with the end of the page's range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TakenRange {
    pub(crate) page: PagePlace,
    /// First key of the next page; `None` at the section's end.
    pub(crate) to: Option<Box<[u8]>>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PageDirectory {
    pub(crate) parts: Vec<DirectoryPart>,
}

impl PageDirectory {
    pub(crate) fn pages(&self) -> impl Iterator<Item = &PagePlace> {
        self.parts.iter().flat_map(|part| &part.pages)
    }

    /// The number of the page with exactly this range, if such a page exists.
    pub(crate) fn number_of(&self, from: &PageBound, to: Option<&[u8]>) -> Option<u64> {
        debug_assert!(to.is_none_or(|to| *from.first_key < *to), "a page has a range");
        let part = self.parts.partition_point(|part| part.bound() <= from).checked_sub(1)?;
        let pages = &self.parts[part].pages;
        let at = pages.binary_search_by(|page| page.bound.cmp(from)).ok()?;
        let next = pages.get(at + 1).or_else(|| self.parts.get(part + 1).map(|part| &part.pages[0]));
        let end = next.filter(|next| next.bound.section == from.section).map(|next| &*next.bound.first_key);
        (end == to).then(|| pages[at].number)
    }

    /// The directory of the next picture, which has taken these pages and keeps the remaining pages (N17). Also returns
    /// the dropped pages of this directory.
    pub(crate) fn next(&self, mut taken: Vec<TakenRange>) -> (Self, Vec<PagePlace>) {
        taken.sort_unstable_by(|a, b| a.page.bound.cmp(&b.page.bound));
        self.check_taken(&taken);
        let count = taken.len();
        let (mut taken, mut dropped, mut parts) = (taken.into_iter().peekable(), Vec::new(), Vec::new());
        // The end of the last taken range: old pages before the end are replaced.
        let mut covered: Option<(u32, Option<Box<[u8]>>)> = None;
        for (at, part) in self.parts.iter().enumerate() {
            let end = self.parts.get(at + 1).map(DirectoryPart::bound);
            let is_here = |taken: &TakenRange| end.is_none_or(|end| taken.page.bound < *end);
            let (mut pages, mut has_changed, mut old) = (Vec::new(), false, part.pages.iter().peekable());
            loop {
                let next = old.peek().map(|old| &old.bound);
                let is_next = |new: &TakenRange| next.is_none_or(|next| new.page.bound <= *next);
                if let Some(new) = taken.next_if(|new| is_here(new) && is_next(new)) {
                    covered = Some((new.page.bound.section, new.to));
                    pages.push(new.page);
                    has_changed = true;
                } else if let Some(page) = old.next() {
                    if is_before(&page.bound, covered.as_ref()) {
                        dropped.push(page.clone());
                        has_changed = true;
                    } else {
                        pages.push(page.clone());
                    }
                } else {
                    break;
                }
            }
            if has_changed {
                add_changed(&mut parts, pages);
            } else {
                parts.push(part.clone());
            }
        }
        add_changed(&mut parts, taken.map(|taken| taken.page).collect());
        let next = Self { parts };
        debug_assert_eq!(next.pages().count() + dropped.len(), self.pages().count() + count);
        next.check();
        (next, dropped)
    }

    /// Checks N17: a taken range begins and ends at the bounds of pages of this directory, or meets the neighbouring
    /// taken range without a gap.
    fn check_taken(&self, taken: &[TakenRange]) {
        for (at, TakenRange { page, to }) in taken.iter().enumerate() {
            let section = page.bound.section;
            let before = at.checked_sub(1).map(|before| &taken[before]);
            let is_continued = before.is_some_and(|before| {
                before.page.bound.section == section && before.to.as_deref() == Some(&page.bound.first_key)
            });
            assert!(is_continued || self.may_cut(&page.bound), "N17: {:?} begins within a page", page.bound);
            if let Some(to) = to {
                assert!(*page.bound.first_key < **to, "N17: {:?} ends before it begins", page.bound);
                let end = PageBound { section, first_key: to.clone() };
                let next = taken.get(at + 1).map(|next| &next.page.bound);
                assert!(next.is_none_or(|next| *next >= end), "N17: {next:?} is taken twice");
                let goes_on = next == Some(&end) || self.may_cut(&end);
                assert!(goes_on, "N17: {:?} ends within a page", page.bound);
            } else {
                let next = taken.get(at + 1).map(|next| next.page.bound.section);
                assert!(next.is_none_or(|next| next > section), "N17: section {section} ends twice");
            }
        }
    }

    /// True if a taken range may begin or end at `bound`: a page begins there, or this directory does not have the
    /// section.
    fn may_cut(&self, bound: &PageBound) -> bool {
        let part = self.parts.partition_point(|part| part.bound() <= bound);
        let has_page = |pages: &[PagePlace]| pages.binary_search_by(|page| page.bound.cmp(bound)).is_ok();
        bound.first_key.is_empty() || part.checked_sub(1).is_some_and(|at| has_page(&self.parts[at].pages))
    }

    /// Asserts, for a directory that is about to be written, that no part is empty, and that pages follow each other
    /// without a gap (N17). `decode_part` judges a directory that was read.
    pub(crate) fn check(&self) {
        let mut before: Option<&PageBound> = None;
        for page in self.pages() {
            assert!(page.bound.follows(before), "N17: {:?} behind {before:?}", page.bound);
            before = Some(&page.bound);
        }
        assert!(self.parts.iter().all(|part| !part.pages.is_empty()), "a part has a page");
    }
}

/// True if the page begins within the range taken last.
fn is_before(bound: &PageBound, covered: Option<&(u32, Option<Box<[u8]>>)>) -> bool {
    covered.is_some_and(|(section, to)| {
        bound.section == *section && to.as_ref().is_none_or(|to| bound.first_key < *to)
    })
}

/// Adds pages to write, in parts of a good size. A small part before the pages that is still to be written is joined
/// with the pages. Pages of a large part are cut.
fn add_changed(parts: &mut Vec<DirectoryPart>, mut pages: Vec<PagePlace>) {
    if pages.is_empty() {
        return;
    }
    let bytes: usize = pages.iter().map(PagePlace::place_bytes).sum();
    let is_joined =
        |before: &DirectoryPart| before.place.is_none() && before.place_bytes() + bytes <= PART_BYTES;
    if parts.last().is_some_and(is_joined) {
        let before = parts.pop().expect("it is joined");
        pages.splice(..0, before.pages);
    }
    if bytes <= PART_BYTES_MAX {
        parts.push(DirectoryPart::to_write(pages));
        return;
    }
    assert!(!pages.is_empty(), "there is a page to write");
    let (mut part, mut part_bytes) = (Vec::new(), 0);
    for page in pages {
        let more = page.place_bytes();
        if part_bytes > 0 && part_bytes + more > PART_BYTES {
            parts.push(DirectoryPart::to_write(std::mem::take(&mut part)));
            part_bytes = 0;
        }
        part_bytes += more;
        part.push(page);
    }
    parts.push(DirectoryPart::to_write(part));
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
