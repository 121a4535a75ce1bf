//! The engine's side of a picture. Tables are cut into pages, and changed pages are taken page by page beside their
//! writers (SIREN, §3.1).
//!
//! Invariants, from `docs/internals/protocols/pictures.md`:
//! - N1: Maps are published before the announcement of the freeze. Once E is two above the epoch read after the
//!   publication, no commit has an older map.
//! - N5: Pages are settled once E is above the freeze. From then on a page gets no mark *before*, and an unmarked page
//!   is unchanged since the previous picture.
//! - N7: Marks are carried over after the last commit with an older map has ended, and before the freeze.
//! - N8: A page is closed at the end of its walk, and versions left by commits until the close are merged in. In
//!   semi-fuzzy mode the versions are in the lists of workers, and are taken after the close (N9).
//! - N13: A late caller takes, closes and ends nothing of a later attempt.
//! - K3: A picture gives way if its commits displace more than the limit. The heartbeat checks the limit, and
//!   checkpointers check between pages. The thread that ends the picture closes its pages at once.
//! - A walk holds no pin from page to page, and no pin for more than some thousand keys, or a MiB of rows and a further
//!   row.
//!
//! Neighbours: `row_counts` returns the bounds of pages, `walk` copies rows, `shared_state::displaced_versions` frees
//! versions. `pictures` has maps, lists and marks. Commits leave versions and mark pages (`commit::pending_removes`).
//! The durability crate's checkpointers are the callers.

use std::collections::HashMap;
use std::ops::{Bound, ControlFlow, Range as Run};

use ensile_base::Epoch;
use ensile_base::sync::{Arc, Ordering, fence};
use ensile_durability::{
    DisplacedBlock, PageContents, Pages, PagesEnded, PictureAttempt, PublishedPages, Slice, TakenPage,
    WantedPages,
};
use ensile_epoch::Pinned;
use ensile_index::Range;

use super::walk::{SLICES_PER_PART, copy_rows};
use crate::formats::checkpoint_entry;
use crate::pictures::attempts::PictureAttempts;
use crate::pictures::page_bounds::PageBounds;
use crate::pictures::page_map::PageMap;
use crate::pictures::page_space::PageSpace;
use crate::pictures::pending_removes::{PageMarks, PendingList, PendingRemove};
use crate::pictures::picture_state::Pictures;
use crate::record::Scratch;
use crate::shared_state::SharedState;
use crate::tables::logged_tables::LoggedTable;

impl Pages for SharedState {
    fn publish_pages(&self, page_bytes: usize, wanted: WantedPages) -> PublishedPages {
        let pictures = self.own_pictures();
        let (attempt, carried) = {
            let mut attempts = pictures.attempts.lock();
            if let Some(ended) = attempts.end() {
                self.close_pages(&attempts, ended);
            }
            self.catch_up(&mut attempts);
            (attempts.begin(wanted), attempts.marks_to_carry())
        };
        // From here on only this attempt is published, or a newer attempt.
        self.collect_after_pictures();
        // Versions of the last picture do not count against this picture.
        self.free_ended();
        let tables = self.tables.logged.all_tables();
        let cut = tables.iter().map(|(id, table)| (*id, self.cut(table, page_bytes, carried)));
        let bounds: HashMap<u32, PageBounds> = cut.collect();
        {
            let mut attempts = pictures.attempts.lock();
            if attempts.may_publish(attempt) {
                pictures.begin();
                let is_carried_over = carried.is_some();
                let since = self.tables.logged.publish_pages(attempt, bounds, is_carried_over, &self.epochs);
                pictures.allow_takes(attempt, since);
            }
        }
        // SeqCst: the maps are published before E is read (N7); partner: a commit's fence after the read of its epoch
        // (C1).
        fence(Ordering::SeqCst);
        let epoch = self.epochs.now();
        pictures.attempts.lock().note_published(attempt, epoch);
        PublishedPages { attempt, epoch }
    }

    fn carry_marks(&self, attempt: PictureAttempt) -> Result<(), PagesEnded> {
        let pictures = self.own_pictures();
        let mut attempts = pictures.attempts.lock();
        if !attempts.goes_on(attempt) {
            return Err(attempts.why_ended(attempt));
        }
        let Some(marks) = attempts.marks_to_carry() else { return Ok(()) };
        self.carry_over(marks);
        attempts.note_carried_over(attempt);
        Ok(())
    }

    fn page_slices(&self, attempt: PictureAttempt, parts: usize) -> Result<Vec<Vec<Slice>>, PagesEnded> {
        let tables = self.tables.logged.all_tables();
        self.settle(attempt, &tables)?;
        let mut pin = self.epochs.register_pin();
        let call = pin.begin(self.epochs.now());
        let maps = tables.iter().map(|(section, table)| {
            let map = self.map_of(attempt, table, call.pin_token())?;
            Ok((*section, map, marked_runs(map)))
        });
        let maps: Vec<_> = maps.collect::<Result<_, _>>()?;
        let pages: usize = maps.iter().flat_map(|(_, _, runs)| runs).map(ExactSizeIterator::len).sum();
        let mut result = vec![Vec::new(); parts];
        // A slice ends at the end of its share of all pages, and at the end of its run.
        let shares = parts * SLICES_PER_PART;
        let (mut share, mut first) = (0, 0);
        for (section, map, runs) in maps {
            for mut run in runs {
                while !run.is_empty() {
                    while (share + 1) * pages / shares <= first {
                        share += 1;
                    }
                    let dealt = ((share + 1) * pages / shares - first).min(run.len());
                    debug_assert!(dealt > 0 && share < shares, "a slice has pages");
                    let end = run.start + dealt;
                    let from = map.bounds().lower(run.start).into();
                    let to = map.bounds().upper(end - 1).map(Into::into);
                    result[share / SLICES_PER_PART].push(Slice { section, from, to });
                    (run.start, first) = (end, first + dealt);
                }
            }
        }
        Ok(result)
    }

    fn take_page(
        &self,
        attempt: PictureAttempt,
        slice: &Slice,
        resume: &mut Vec<u8>,
        freeze: Epoch,
        page: &mut PageContents,
    ) -> Result<TakenPage, PagesEnded> {
        page.clear();
        self.bound_displaced();
        let Some(table) = self.tables.logged.get(slice.section) else { unreachable!("tables stay") };
        let first: &[u8] = if resume.is_empty() { &slice.from } else { resume };
        let mut space = self.own_pictures().page_space();
        let walked = self.walk_page(attempt, freeze, &table, first, page, &mut space.scratch);
        let (upper, list) = match walked {
            Ok(walked) => walked,
            Err(ended) => {
                page.clear();
                return Err(ended);
            }
        };
        space.left.extend(list);
        if !space.left.is_empty() {
            merge(page, &mut space, freeze);
            self.free_displaced(space.left.drain(..));
        }
        self.own_pictures().keep_page_space(space);
        match upper {
            Some(next) if slice.to.as_deref() != Some(&next) => {
                *resume = next;
                Ok(TakenPage::More)
            }
            _ => Ok(TakenPage::Last),
        }
    }

    fn take_displaced(
        &self,
        attempt: PictureAttempt,
        freeze: Epoch,
        block: &mut DisplacedBlock<'_>,
    ) -> Result<bool, PagesEnded> {
        self.bound_displaced();
        self.take_displaced_until(attempt, |version| {
            let (key, value) = (version.key(), version.value());
            debug_assert!(version.tid().epoch() < freeze, "what is left is older than the freeze (N4)");
            let has_room = block.has_room(checkpoint_entry::bytes(key.len(), value.len()));
            if has_room {
                block.push(version.place().table, version.tid(), |body| {
                    checkpoint_entry::encode(body, key, value);
                });
            }
            has_room
        })
    }

    fn end_pages(&self, attempt: PictureAttempt) {
        {
            let mut attempts = self.own_pictures().attempts.lock();
            if let Some(ended) = attempts.end_if_newest(attempt) {
                self.close_pages(&attempts, ended);
            }
        }
        // Versions may also remain of an attempt that gave way.
        self.free_ended();
    }

    fn picture_installed(&self, attempt: PictureAttempt) {
        self.own_pictures().attempts.lock().note_installed(attempt);
    }
}

impl SharedState {
    /// Carries these marks of all tables' maps over to the published maps.
    fn carry_over(&self, marks: PageMarks) {
        for (_, table) in self.tables.logged.all_tables() {
            let mut pin = self.epochs.register_pin();
            let call = pin.begin(self.epochs.now());
            table.pages.carry_over(marks, &self.epochs, call.pin_token());
        }
        // The previous maps now wait for pins.
        self.own_pictures().expect_remains();
    }

    /// Carries over the missed marks of an attempt that ended too early. Its maps are the published maps, and get
    /// complete marks. If the call is too early, the next attempt has all pages (N13).
    fn catch_up(&self, attempts: &mut PictureAttempts) {
        if let Some(marks) = attempts.marks_missed(self.epochs.now()) {
            self.carry_over(marks);
            attempts.note_caught_up();
        }
    }

    /// The table's map for this attempt. Each logged table has such a map until the attempt ends (N1).
    fn map_of<'m>(
        &self,
        attempt: PictureAttempt,
        table: &'m LoggedTable,
        pinned: Pinned<'m>,
    ) -> Result<&'m PageMap, PagesEnded> {
        // An ended attempt has open pages until their close, and its map stays until the next attempt replaces the map.
        let map = table.pages.load(pinned).filter(|map| map.attempt() == attempt && !map.is_over());
        map.ok_or_else(|| self.own_pictures().why_ended(attempt))
    }

    /// Closes the pages without a changed row below the freeze: these pages are unchanged (N5). Versions that commits
    /// left for such pages in the meantime are freed.
    fn settle(&self, attempt: PictureAttempt, tables: &[(u32, Arc<LoggedTable>)]) -> Result<(), PagesEnded> {
        for (_, table) in tables {
            let mut lists = Vec::new();
            let mut pin = self.epochs.register_pin();
            let call = pin.begin(self.epochs.now());
            let map = self.map_of(attempt, table, call.pin_token())?;
            // A newer freeze belongs to a later attempt, and this attempt was over before.
            debug_assert!(
                self.epochs.is_installed_below(self.epochs.newest_freeze()) || map.is_over(),
                "every commit below the freeze has ended, and has marked its pages (N5)"
            );
            for page in map.pages().iter().filter(|page| !page.has_any(PageMarks::BEFORE)) {
                let ((), list) = page.close_behind(|| ());
                lists.extend(list.filter(|list| !list.is_empty()));
            }
            // The lists are freed before the next table: the attempt may end at that table, and only this function has
            // the lists.
            self.free_displaced(lists.into_iter().flatten());
        }
        Ok(())
    }

    /// Ends the picture under way if commits have displaced more than the limit (K3).
    pub(crate) fn bound_displaced(&self) {
        if self.displaced_too_much().is_none() {
            return;
        }
        // A thread that holds the lock ends or publishes a picture, perhaps at a low priority. The heartbeat does not
        // wait for the thread: the next tick, or the next page, looks again.
        let Some(mut attempts) = self.own_pictures().attempts.try_lock() else { return };
        // The second check is under the lock: the picture may have ended in the meantime, with the next picture
        // published.
        if let Some(why) = self.displaced_too_much() {
            self.abandon_picture(&mut attempts, why);
        }
    }

    /// Ends the picture under way for the reason `why`, and closes its pages. Does nothing without a picture under way.
    pub(crate) fn abandon_picture(&self, attempts: &mut PictureAttempts, why: PagesEnded) {
        if let Some(ended) = attempts.abandon_newest(why) {
            self.close_pages(attempts, ended);
        }
    }

    /// State of pictures. Callers hold an interface that only a database with pictures hands out.
    fn own_pictures(&self) -> &Pictures {
        let Some(pictures) = &self.pictures else { unreachable!("`Walk::pages` has handed this out") };
        pictures
    }

    /// Copies the rows of the page that begins with `first`, in rounds, and closes the page after the last round (N8).
    /// Returns the end of the page and its left versions. After an error `page` is incomplete.
    fn walk_page(
        &self,
        attempt: PictureAttempt,
        freeze: Epoch,
        table: &LoggedTable,
        first: &[u8],
        page: &mut PageContents,
        scratch: &mut Scratch,
    ) -> Result<(Option<Vec<u8>>, PendingList), PagesEnded> {
        let mut pin = self.epochs.register_pin();
        let mut stopped_at: Option<Vec<u8>> = None;
        loop {
            let call = pin.begin(self.epochs.now());
            let map = self.map_of(attempt, table, call.pin_token())?;
            assert!(
                freeze > map.publication_freeze(),
                "the freeze was announced behind the attempt's maps (N1)"
            );
            debug_assert!(
                self.epochs.is_installed_below(freeze),
                "no page is walked before its freeze is over (N2)"
            );
            let at = map.bounds().page_of(first);
            debug_assert_eq!(map.bounds().lower(at), first, "slices are made of whole pages");
            let upper = map.bounds().upper(at);
            let range = Range {
                lower: Bound::Included(stopped_at.as_deref().unwrap_or(first)),
                upper: upper.map_or(Bound::Unbounded, Bound::Excluded),
            };
            let copy = || copy_rows(&table.tree, range, freeze, &mut *page, &mut *scratch, call.pin_token());
            match map.page(at).close_behind_last(copy) {
                ControlFlow::Break(stopped) => {
                    debug_assert!(!stopped.is_full, "a page takes any row");
                    stopped_at = Some(stopped.at);
                }
                ControlFlow::Continue(Some(list)) => return Ok((upper.map(<[u8]>::to_vec), list)),
                // The attempt has ended in the meantime.
                ControlFlow::Continue(None) => return Err(self.own_pictures().why_ended(attempt)),
            }
        }
    }

    /// Ends the takes of an ended attempt, closes all of its pages, and puts their versions aside. Its maps stay
    /// published, and continue to collect marks. The caller holds the lock of the attempts, under which the attempt has
    /// ended, so no thread publishes maps beside open pages (N13).
    fn close_pages(&self, attempts: &PictureAttempts, ended: PictureAttempt) {
        debug_assert!(!attempts.goes_on(ended), "an attempt that goes on has open pages");
        let pictures = self.own_pictures();
        self.tables.logged.end_picture();
        pictures.forbid_takes();
        // Tables added after this have no open page.
        for (_, table) in self.tables.logged.all_tables() {
            let mut pin = self.epochs.register_pin();
            let call = pin.begin(self.epochs.now());
            let Some(map) = table.pages.load(call.pin_token()) else {
                unreachable!("each table has a map while an attempt's pages are closed (N1)")
            };
            assert!(map.attempt() == ended && map.is_over(), "no page of a later attempt is closed (N13)");
            // Commits with this map leave no more versions in these pages.
            let left = map.pages().iter().filter_map(|page| page.close_behind(|| ()).1);
            let lists: Vec<_> = left.filter(|list| !list.is_empty()).collect();
            pictures.put_aside(lists);
        }
        self.drop_displaced();
        pictures.end();
    }
}

/// Runs of adjacent pages that the picture writes.
fn marked_runs(map: &PageMap) -> Vec<Run<usize>> {
    let mut runs: Vec<Run<usize>> = Vec::new();
    for (page, _) in map.pages().iter().enumerate().filter(|(_, page)| page.has_any(PageMarks::BEFORE)) {
        match runs.last_mut() {
            Some(run) if run.end == page => run.end += 1,
            _ => runs.push(page..page + 1),
        }
    }
    runs
}

/// Merges the versions that commits left for a page into the rows of its walk. A key found in both has the same TID in
/// both, and counts once (N4).
fn merge(page: &mut PageContents, space: &mut PageSpace, freeze: Epoch) {
    let PageSpace { left, walked, .. } = space;
    left.sort_unstable_by(|a, b| a.key().cmp(b.key()));
    assert!(left.is_sorted_by(|a, b| a.key() < b.key()), "one version of a key is left to a picture (N4)");
    assert!(
        left.iter().all(|left| left.tid().epoch() < freeze),
        "what is left is older than the freeze (N4)"
    );
    debug_assert_eq!(walked.entries(), 0, "the page before was merged");
    std::mem::swap(page, walked);
    let add = |page: &mut PageContents, left: &PendingRemove| {
        page.push(left.tid(), |body| checkpoint_entry::encode(body, left.key(), left.value()));
    };
    let mut left = left.iter().peekable();
    for (tid, body) in walked.iter() {
        let Ok((key, _)) = checkpoint_entry::decode(body) else { unreachable!("the walk has encoded it") };
        while let Some(before) = left.next_if(|left| left.key() < key) {
            add(page, before);
        }
        if let Some(both) = left.next_if(|left| left.key() == key) {
            assert_eq!(both.tid(), tid, "a key has one version below the freeze (N4)");
        }
        page.push(tid, |out| out.extend_from_slice(body));
    }
    left.for_each(|behind| add(page, behind));
    walked.clear();
}
