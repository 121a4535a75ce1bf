//! Map of a table's pages in one picture: the bounds of the pages, and the state of each page (SIREN, §2.1, §3.1).
//!
//! Invariants, from `docs/internals/protocols/pictures.md`:
//! - A map serves one picture. Only the states of its pages change, so a search in a map waits for nothing (E1).
//!   Between pictures the map continues to collect marks.
//! - N13: A map knows its attempt at a picture. Nothing of another attempt is taken or ended.
//! - N7: Marks of a map go to every overlapping page of the next map ([`PageMap::mark_from`]).
//!
//! Neighbours: `table_pages` publishes maps; `loaded_pages` has the first maps after a picture is loaded; commits find
//! a version's page (`commit::pending_removes`); `pending_removes` has a page's state.

use std::num::NonZeroUsize;
use std::ptr::NonNull;

use ensile_base::Epoch;
use ensile_base::sync::{Arc, AtomicBool, Ordering};
use ensile_durability::PictureAttempt;

use super::page_bounds::PageBounds;
use super::pending_removes::{PageMarks, PageState};

/// Attempt of the loaded picture. The attempts of this process follow.
pub(crate) const LOADED: PictureAttempt = PictureAttempt::new(1);

/// State of an attempt at a picture, shared by all maps of the attempt: under way, or over.
#[derive(Debug)]
pub(crate) struct PictureOfMaps {
    attempt: PictureAttempt,
    /// The newest freeze at the publication of the maps.
    since: Epoch,
    is_over: AtomicBool,
}

impl PictureOfMaps {
    /// An attempt at the picture behind the newest freeze, `since`.
    pub(crate) fn new(attempt: PictureAttempt, since: Epoch) -> Arc<Self> {
        Arc::new(Self { attempt, since, is_over: AtomicBool::new(false) })
    }

    /// The attempt of first maps after a load. The attempt is over, so commits leave nothing to the maps. `since` is
    /// the newest freeze.
    pub(crate) fn of_loaded(since: Epoch) -> Arc<Self> {
        Arc::new(Self { attempt: LOADED, since, is_over: AtomicBool::new(true) })
    }

    /// Ends the attempt. Maps made afterwards have no open page, and every open page is closed afterwards.
    pub(crate) fn end(&self) {
        // Relaxed: additions of tables and closes of pages happen under the locks that the caller of `end` holds. A
        // checkpointer that misses the store closes its own page, which is whole, and sees the store at its next page
        // (N13).
        self.is_over.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_over(&self) -> bool {
        // Relaxed: the reason in `end` holds.
        self.is_over.load(Ordering::Relaxed)
    }
}

/// A table's pages in one picture.
#[derive(Debug)]
pub(crate) struct PageMap {
    pub(super) picture: Arc<PictureOfMaps>,
    /// The picture's `since`, copied because commits read the epoch with each key.
    since: Epoch,
    bounds: PageBounds,
    states: Box<[PageState]>,
}

/// Identity of a map. Maps followed under one pin have different addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MapAddress(NonZeroUsize);

impl PageMap {
    /// A map for this attempt at a picture; all pages have the marks `marks`.
    pub(crate) fn new(picture: &Arc<PictureOfMaps>, bounds: PageBounds, marks: PageMarks) -> Self {
        let states = (0..bounds.len()).map(|_| PageState::new(marks)).collect();
        Self::with_states(picture, bounds, states)
    }

    /// A map for this attempt at a picture, with these states of its pages.
    pub(super) fn with_states(
        picture: &Arc<PictureOfMaps>,
        bounds: PageBounds,
        states: Box<[PageState]>,
    ) -> Self {
        debug_assert_eq!(states.len(), bounds.len(), "each page has a state");
        Self { picture: Arc::clone(picture), since: picture.since, bounds, states }
    }

    /// The map of an added table: one page, which is in no picture yet. So the first picture that deals out pages
    /// afterwards writes the page. If the attempt is over, the page is closed, as every other page.
    pub(crate) fn of_added_table(picture: &Arc<PictureOfMaps>) -> Self {
        let map = Self::new(picture, PageBounds::default(), PageMarks::BOTH);
        if picture.is_over() {
            let ((), list) = map.page(0).close_behind(|| ());
            debug_assert!(list.is_some_and(|list| list.is_empty()), "nobody has left anything there");
        }
        map
    }

    /// The newest freeze at the publication of the map. The freeze of the map's picture is later.
    #[inline]
    pub(crate) fn publication_freeze(&self) -> Epoch {
        self.since
    }

    /// The map's attempt at a picture.
    pub(crate) fn attempt(&self) -> PictureAttempt {
        self.picture.attempt
    }

    /// True if the map's attempt has ended. An attempt may end at any time.
    pub(crate) fn is_over(&self) -> bool {
        self.picture.is_over()
    }

    /// Bounds of the pages.
    #[inline]
    pub(crate) fn bounds(&self) -> &PageBounds {
        &self.bounds
    }

    #[inline]
    pub(crate) fn page(&self, page: usize) -> &PageState {
        debug_assert_eq!(self.states.len(), self.bounds.len(), "each page has a state");
        &self.states[page]
    }

    /// The states of all pages.
    pub(crate) fn pages(&self) -> &[PageState] {
        &self.states
    }

    /// Marks every page that overlaps a page of `before` with a mark in `marks`: the page's rows have changed below the
    /// freeze of this map's picture (N7).
    pub(crate) fn mark_from(&self, before: &Self, marks: PageMarks) {
        debug_assert!(before.attempt() < self.attempt(), "marks go to a later map");
        for (page, _) in before.states.iter().enumerate().filter(|(_, state)| state.has_any(marks)) {
            let upper = before.bounds.upper(page);
            let first = self.bounds.page_of(before.bounds.lower(page));
            let overlapping = (first..self.bounds.len())
                .take_while(|own| *own == first || upper.is_none_or(|upper| self.bounds.lower(*own) < upper));
            overlapping.for_each(|own| self.states[own].mark(PageMarks::BEFORE));
        }
    }

    /// Memory of the map in bytes.
    pub(super) fn bytes(&self) -> usize {
        size_of::<Self>() + self.bounds.heap_bytes() + size_of_val(&*self.states)
    }

    /// Identity of the map.
    #[inline]
    pub(crate) fn address(&self) -> MapAddress {
        MapAddress(NonNull::from(self).addr())
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
pub(super) mod tests;
