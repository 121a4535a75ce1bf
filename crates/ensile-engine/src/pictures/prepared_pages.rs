//! Pages of a commit's writes, and the versions that the commit may leave to a picture: found before the commit binds.
//!
//! Invariant:
//! - E1: Under the locks of a commit nothing is copied. A page is searched for only if it was not found before.
//!
//! Neighbours: a worker has the pages; `commit::pending_removes` fills and uses the pages.

use ensile_base::Tid;
use ensile_base::limits::KEEP_BYTES_MAX;

use super::page_map::{MapAddress, PageMap};
use super::pending_removes::{PageState, PendingRemove};
use crate::record::Scratch;
use crate::record::blocks::Blocks;

/// The page of a write, and the version that the commit may leave to the page. A commit finds both before it binds
/// (E1).
#[derive(Debug)]
pub(crate) struct PreparedPage {
    /// The write's position in the order of locks.
    pub(crate) lock: u32,
    page: u32,
    map: MapAddress,
    /// A copy of the version, if a picture under way may need the version. `None` once the version was left.
    pub(crate) version: Option<PendingRemove>,
    /// True if the locks have shown that the commit must leave the version.
    pub(crate) is_needed: bool,
}

impl PreparedPage {
    #[inline]
    pub(crate) fn new(lock: u32, map: &PageMap, page: usize) -> Self {
        debug_assert!(page < map.bounds().len() && page <= u32::MAX as usize, "a page is one of its map's");
        Self { lock, page: page as u32, map: map.address(), version: None, is_needed: false }
    }

    /// The page, if `map` still is the map of the preparation.
    #[inline]
    pub(crate) fn page_in<'m>(&self, map: &'m PageMap) -> Option<&'m PageState> {
        (self.map == map.address()).then(|| map.page(self.page as usize))
    }

    /// True if the entry has the version `tid`, for this map.
    pub(crate) fn has_version(&self, map: &PageMap, tid: Tid) -> bool {
        self.map == map.address() && self.version.as_ref().is_some_and(|version| version.tid() == tid)
    }
}

/// Pages of a commit's writes, in the order of its locks.
#[derive(Debug, Default)]
pub(crate) struct PreparedPages {
    pub(crate) pages: Vec<PreparedPage>,
    /// Number of pages in front of the last requested position.
    next: usize,
    /// True if a page has a version.
    pub(crate) has_versions: bool,
    /// True if a page has a version that the commit must leave.
    pub(crate) is_any_needed: bool,
    /// True if the commit failed because a version to leave was not copied.
    pub(crate) fell_short: bool,
    /// Target of the reads of records.
    pub(crate) scratch: Scratch,
}

impl PreparedPages {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        debug_assert!(!self.pages.is_empty() || !self.has_versions, "a version is of a page");
        self.pages.is_empty()
    }

    /// The prepared page of the write at position `lock` in the order of locks. Calls come in this order, so all calls
    /// of a commit together visit each page once.
    #[cold]
    pub(crate) fn page_for_lock(&mut self, lock: u32) -> Option<&mut PreparedPage> {
        debug_assert!(
            self.pages.is_sorted_by_key(|prepared| prepared.lock),
            "pages are in the order of locks"
        );
        let passed = self.pages[self.next..].iter().take_while(|prepared| prepared.lock < lock).count();
        self.next += passed;
        self.pages.get_mut(self.next).filter(|prepared| prepared.lock == lock)
    }

    /// True if the failed commit lacked a copy. The call clears the flag.
    #[inline]
    pub(crate) fn fell_short(&mut self) -> bool {
        std::mem::take(&mut self.fell_short)
    }

    /// Frees the versions that a commit has not left, and the space that a huge transaction grew.
    #[inline]
    pub(crate) fn give_back(&mut self, blocks: &mut Blocks) {
        const PAGES_MAX: usize = KEEP_BYTES_MAX / size_of::<PreparedPage>();
        if self.has_versions || self.pages.capacity() > PAGES_MAX {
            self.give_versions_back(blocks);
        }
        self.pages.clear();
        self.next = 0;
    }

    /// As [`PreparedPages::give_back`], for pages with versions, or with more space than a worker keeps.
    #[cold]
    #[inline(never)]
    fn give_versions_back(&mut self, blocks: &mut Blocks) {
        for version in self.pages.drain(..).filter_map(|prepared| prepared.version) {
            blocks.free_pending(version);
        }
        (self.has_versions, self.is_any_needed) = (false, false);
        let kept_bytes = self.pages.capacity() * size_of::<PreparedPage>() + self.scratch.kept_bytes();
        if kept_bytes > KEEP_BYTES_MAX {
            *self = Self::default();
        }
    }
}
