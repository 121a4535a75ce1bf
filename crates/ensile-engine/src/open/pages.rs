//! The engine's side of a picture: tables are cut into pages, and those that have changed are taken page by page beside
//! their writers (SIREN, §3.1).
//!
//! Invariants, from `docs/protocols/pictures.md`:
//! - N1: maps are published before the freeze is announced. Once E is two above what is read behind that, no commit has
//!   an older map.
//! - N5: pages are settled once E is above the freeze. Then a mark *before* that is not there never comes, and the page
//!   is what it was in the picture before.
//! - N7: marks are carried over once no commit has an older map, and before the freeze.
//! - N8: a page is closed behind its walk, and what commits have left of it until then is merged in; semi-fuzzy, it is
//!   found in their workers' lists behind that (N9).
//! - N13: who is late takes, closes and ends nothing of a later attempt.
//! - K3: a picture whose commits displace more than may wait gives way. The heartbeat notices, and checkpointers do
//!   between pages. Its pages are closed some at a time, by the heartbeat and by the checkpointer that ends it.
//! - No pin stands from one page to the next, or for more than some thousand keys, or a MiB of rows and one row, while
//!   pages are walked.
//!
//! Neighbours: `cut` says where pages begin, `walk` copies rows; `record::page_map` has maps, `record::pending` lists
//! and marks; commits leave versions and mark pages (`commit::displaced`); the durability crate's checkpointers call.

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
use crate::record::Scratch;
use crate::record::page_map::{PageBounds, PageMap};
use crate::record::pending::{PageMarks, PendingList, PendingRemove};
use crate::shared::SharedState;
use crate::shared::pictures::{CLOSED_PER_STEP, EndingMaps, PageSpace, PictureAttempts, Pictures};
use crate::tables::logged_tables::LoggedTable;

impl Pages for SharedState {
    fn publish_pages(&self, page_bytes: usize, wanted: WantedPages) -> PublishedPages {
        let pictures = self.own_pictures();
        let (attempt, carried) = {
            let mut attempts = pictures.attempts.lock();
            if let Some(ended) = attempts.end() {
                self.begin_to_close_pages(&mut attempts, ended);
            }
            self.catch_up(&mut attempts);
            (attempts.begin(wanted), attempts.carried())
        };
        // From here on none but this one is published, or a newer one instead.
        while self.close_pages_step() {}
        self.collect_after_pictures();
        // What the last one has left does not count against this one.
        self.free_ended();
        let tables = self.logged_tables.all();
        let cut = tables.iter().map(|(id, table)| (*id, self.cut(table, page_bytes, carried)));
        let bounds: HashMap<u32, PageBounds> = cut.collect();
        {
            let mut attempts = pictures.attempts.lock();
            if attempts.may_publish(attempt) {
                pictures.begin();
                let is_carried_over = carried.is_some();
                let since = self.logged_tables.publish_pages(attempt, bounds, is_carried_over, &self.epochs);
                pictures.may_take(attempt, since);
            }
        }
        // SeqCst: the maps come before E is read (N7); partner: a commit's fence behind its epoch (C1).
        fence(Ordering::SeqCst);
        let epoch = self.epochs.now();
        pictures.attempts.lock().was_published(attempt, epoch);
        PublishedPages { attempt, epoch }
    }

    fn carry_marks(&self, attempt: PictureAttempt) -> Result<(), PagesEnded> {
        let pictures = self.own_pictures();
        let mut attempts = pictures.attempts.lock();
        if !attempts.goes_on(attempt) {
            return Err(attempts.why_ended(attempt));
        }
        let Some(marks) = attempts.carried() else { return Ok(()) };
        self.carry_over(marks);
        attempts.has_carried_over(attempt);
        Ok(())
    }

    fn page_slices(&self, attempt: PictureAttempt, parts: usize) -> Result<Vec<Vec<Slice>>, PagesEnded> {
        let tables = self.logged_tables.all();
        self.settle(attempt, &tables)?;
        let mut pin = self.epochs.register_pin();
        let call = pin.begin(self.epochs.now());
        let maps = tables.iter().map(|(section, table)| {
            let map = self.map_of(attempt, table, call.pinned())?;
            Ok((*section, map, marked_runs(map)))
        });
        let maps: Vec<_> = maps.collect::<Result<_, _>>()?;
        let pages: usize = maps.iter().flat_map(|(_, _, runs)| runs).map(ExactSizeIterator::len).sum();
        let mut result = vec![Vec::new(); parts];
        // A slice ends where its share of all pages ends, and where its run does.
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
        let Some(table) = self.logged_tables.get(slice.section) else { unreachable!("tables stay") };
        let first: &[u8] = if resume.is_empty() { &slice.from } else { resume };
        let mut space = self.own_pictures().page_space();
        let walked = self.walk_page((attempt, freeze), &table, first, (page, &mut space.scratch));
        let (upper, list) = match walked {
            Ok(walked) => walked,
            Err(ended) => {
                page.clear();
                return Err(ended);
            }
        };
        space.left.extend(list);
        #[cfg(feature = "experiments")]
        self.free_displaced(left_twice(&mut space.left));
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
                self.begin_to_close_pages(&mut attempts, ended);
            }
        }
        while self.close_pages_step() {}
        // Also what one has left that gave way.
        self.free_ended();
    }

    fn picture_installed(&self, attempt: PictureAttempt) {
        self.own_pictures().attempts.lock().installed(attempt);
    }
}

impl SharedState {
    /// Carries these marks of all tables' maps over to those that are published.
    fn carry_over(&self, marks: PageMarks) {
        for (_, table) in self.logged_tables.all() {
            let mut pin = self.epochs.register_pin();
            let call = pin.begin(self.epochs.now());
            table.pages.carry_over(marks, &self.epochs, call.pinned());
        }
        // The maps before wait for pins now.
        self.own_pictures().expect_remains();
    }

    /// Carries over what an attempt has missed that ended before that: its maps are those that are published, and have
    /// whole marks then. If it is too early, the next one has all pages (N13).
    fn catch_up(&self, attempts: &mut PictureAttempts) {
        if let Some(marks) = attempts.marks_missed(self.epochs.now()) {
            self.carry_over(marks);
            attempts.has_caught_up();
        }
    }

    /// The table's map for this attempt. Each logged table has one until the attempt ends (N1).
    fn map_of<'m>(
        &self,
        attempt: PictureAttempt,
        table: &'m LoggedTable,
        pinned: Pinned<'m>,
    ) -> Result<&'m PageMap, PagesEnded> {
        // One that has ended has open pages until they are closed, and its map until the next one takes its place.
        let map = table.pages.load(pinned).filter(|map| map.attempt() == attempt && !map.is_over());
        map.ok_or_else(|| self.own_pictures().why_ended(attempt))
    }

    /// Closes the pages of which no row was changed below the freeze: they are what they were (N5). What commits have
    /// left of them while that was in doubt is freed.
    fn settle(&self, attempt: PictureAttempt, tables: &[(u32, Arc<LoggedTable>)]) -> Result<(), PagesEnded> {
        for (_, table) in tables {
            let mut lists = Vec::new();
            let mut pin = self.epochs.register_pin();
            let call = pin.begin(self.epochs.now());
            let map = self.map_of(attempt, table, call.pinned())?;
            // A newer freeze is a later attempt's, and this one was over before.
            debug_assert!(
                self.epochs.is_installed_below(self.epochs.newest_freeze()) || map.is_over(),
                "every commit below the freeze has ended, and has marked its pages (N5)"
            );
            for page in map.pages().iter().filter(|page| !page.has_any(PageMarks::BEFORE)) {
                let ((), list) = page.close_behind(|| ());
                lists.extend(list.filter(|list| !list.is_empty()));
            }
            // Before the next table: the attempt may end there, and nobody else has these.
            self.free_displaced(lists.into_iter().flatten());
        }
        Ok(())
    }

    /// Ends the picture under way if commits have displaced more than may wait for it (K3).
    pub(crate) fn bound_displaced(&self) {
        if self.displaced_too_much().is_none() {
            return;
        }
        let mut attempts = self.own_pictures().attempts.lock();
        // Once more: perhaps that one has ended meanwhile, and the next one is published.
        if let Some(why) = self.displaced_too_much() {
            self.give_way(&mut attempts, why);
        }
    }

    /// Ends the picture under way, if there is one, for this reason.
    pub(crate) fn give_way(&self, attempts: &mut PictureAttempts, why: PagesEnded) {
        if let Some(ended) = attempts.give_way(why) {
            self.begin_to_close_pages(attempts, ended);
        }
    }

    fn own_pictures(&self) -> &Pictures {
        let Some(pictures) = &self.pictures else { unreachable!("`Walk::pages` has handed this out") };
        pictures
    }

    /// Copies the rows of the page that begins with `first`, in rounds, and closes it behind the last of them (N8).
    /// Where it ends, and what was left of it; `page` is not whole if the attempt has ended.
    fn walk_page(
        &self,
        (attempt, freeze): (PictureAttempt, Epoch),
        table: &LoggedTable,
        first: &[u8],
        (page, scratch): (&mut PageContents, &mut Scratch),
    ) -> Result<(Option<Vec<u8>>, PendingList), PagesEnded> {
        let mut pin = self.epochs.register_pin();
        let mut stopped_at: Option<Vec<u8>> = None;
        loop {
            let call = pin.begin(self.epochs.now());
            let map = self.map_of(attempt, table, call.pinned())?;
            assert!(freeze > map.since(), "the freeze was announced behind the attempt's maps (N1)");
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
            let to = (&mut *page, &mut *scratch);
            let copy = || copy_rows(&table.tree, range, freeze, to, call.pinned());
            match map.page(at).close_behind_last(copy) {
                ControlFlow::Break(stopped) => {
                    debug_assert!(!stopped.is_full, "a page takes any row");
                    stopped_at = Some(stopped.at);
                }
                ControlFlow::Continue(Some(list)) => return Ok((upper.map(<[u8]>::to_vec), list)),
                // The attempt has ended meanwhile.
                ControlFlow::Continue(None) => return Err(self.own_pictures().why_ended(attempt)),
            }
        }
    }

    /// The attempt has ended: nothing is taken of it any more, and its pages are closed from here on. Its maps stay
    /// published, and go on collecting marks.
    fn begin_to_close_pages(&self, attempts: &mut PictureAttempts, attempt: PictureAttempt) {
        self.logged_tables.end_picture();
        self.own_pictures().take_no_more();
        // Those that are added behind this have no open page.
        let tables = self.logged_tables.all().into_iter().map(|(id, _)| id).collect();
        attempts.begin_to_close_pages(EndingMaps { attempt, tables, closed: 0 });
    }

    /// Closes some pages of the attempt that has ended. False if all of them are closed.
    pub(crate) fn close_pages_step(&self) -> bool {
        self.close_some_pages(&mut self.own_pictures().attempts.lock())
    }

    /// As [`SharedState::close_pages_step`], for the heartbeat: who has the lock does it instead, or publishes.
    pub(crate) fn try_close_pages_step(&self) -> bool {
        let attempts =
            self.pictures.as_ref().and_then(|pictures| pictures.attempts.try_lock_unless_panicked());
        attempts.is_some_and(|mut attempts| self.close_some_pages(&mut attempts))
    }

    /// Closes pages, and puts aside what is left to them. Nobody publishes other maps meanwhile: that waits for the
    /// lock, and for the last of these pages (N13).
    fn close_some_pages(&self, attempts: &mut PictureAttempts) -> bool {
        let Some(ending) = attempts.ending() else { return false };
        let (mut lists, mut left) = (Vec::new(), CLOSED_PER_STEP);
        while let Some(&table) = ending.tables.last()
            && left > 0
        {
            let Some(table) = self.logged_tables.get(table) else { unreachable!("tables stay") };
            left -= self.close_pages_of(&table, ending, left, &mut lists);
        }
        let has_more = !ending.tables.is_empty();
        self.own_pictures().put_aside(lists);
        if !has_more {
            attempts.were_closed();
            self.drop_displaced();
            self.own_pictures().end();
        }
        has_more
    }

    /// Closes up to `most` pages of the table. How much of a step that was.
    fn close_pages_of(
        &self,
        table: &LoggedTable,
        ending: &mut EndingMaps,
        most: usize,
        lists: &mut Vec<PendingList>,
    ) -> usize {
        let mut pin = self.epochs.register_pin();
        let call = pin.begin(self.epochs.now());
        let Some(map) = table.pages.load(call.pinned()) else {
            unreachable!("each table has a map while an attempt's pages are closed (N1)")
        };
        assert!(
            map.attempt() == ending.attempt && map.is_over(),
            "no page of a later attempt is closed (N13)"
        );
        let pages = &map.pages()[ending.closed..];
        let closed = pages.len().min(most);
        // Commits that have this map leave nothing more in these.
        let left = pages[..closed].iter().filter_map(|page| page.close_behind(|| ()).1);
        lists.extend(left.filter(|list| !list.is_empty()));
        ending.closed += closed;
        if closed == pages.len() {
            ending.tables.pop();
            ending.closed = 0;
        }
        closed.max(1)
    }
}

/// Runs of neighbours that the picture writes.
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

/// Takes out what was left by itself and with its page.
#[cfg(feature = "experiments")]
fn left_twice(left: &mut Vec<PendingRemove>) -> Vec<PendingRemove> {
    left.sort_unstable_by(|a, b| a.key().cmp(b.key()));
    let mut twice = Vec::new();
    let mut kept: Vec<PendingRemove> = Vec::with_capacity(left.len());
    for version in left.drain(..) {
        match kept.last() {
            Some(last) if (last.key(), last.tid()) == (version.key(), version.tid()) => twice.push(version),
            _ => kept.push(version),
        }
    }
    *left = kept;
    twice
}

/// Merges the versions that commits have left of a page into what the walk has found there. A key that comes from both
/// has one TID, and counts once (N4).
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
