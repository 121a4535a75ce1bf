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
//!   between pages.
//! - No pin stands from one page to the next, or for more than some thousand keys, while pages are walked.
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

use super::walk::{Copying, KEYS_PER_PIN, SLICES_PER_PART, copy_rows};
use crate::formats::checkpoint_entry;
use crate::record::Scratch;
use crate::record::page_map::{PageBounds, PageMap};
use crate::record::pending::{PageMarks, PendingList, PendingRemove};
use crate::shared::SharedState;
use crate::shared::pictures::{PageSpace, Pictures};
use crate::tables::logged_tables::LoggedTable;

impl Pages for SharedState {
    fn publish_pages(&self, page_bytes: usize, wanted: WantedPages) -> PublishedPages {
        let pictures = self.own_pictures();
        let (attempt, carried) = {
            let mut attempts = pictures.attempts.lock();
            if attempts.end() {
                self.close_pages();
            }
            (attempts.begin(wanted), attempts.carried())
        };
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
        PublishedPages { attempt, epoch: self.epochs.now() }
    }

    fn carry_marks(&self, attempt: PictureAttempt) -> Result<(), PagesEnded> {
        let pictures = self.own_pictures();
        let mut attempts = pictures.attempts.lock();
        if !attempts.goes_on(attempt) {
            return Err(attempts.why_ended(attempt));
        }
        let Some(marks) = attempts.carried() else { return Ok(()) };
        for (_, table) in self.logged_tables.all() {
            let mut pin = self.epochs.register_pin();
            let call = pin.begin(self.epochs.now());
            table.pages.carry_over(marks, &self.epochs, call.pinned());
        }
        attempts.has_carried_over(attempt);
        // The maps before wait for pins now.
        pictures.expect_remains();
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
            if attempts.end_if_newest(attempt) {
                self.close_pages();
            }
        }
        // Also what one has left that gave way.
        self.free_ended();
    }

    fn picture_installed(&self, attempt: PictureAttempt) {
        self.own_pictures().attempts.lock().installed(attempt);
    }
}

impl SharedState {
    /// The table's map for this attempt. Each logged table has one until the attempt ends (N1).
    fn map_of<'m>(
        &self,
        attempt: PictureAttempt,
        table: &'m LoggedTable,
        pinned: Pinned<'m>,
    ) -> Result<&'m PageMap, PagesEnded> {
        let map = table.pages.load(pinned).filter(|map| map.attempt() == attempt && !map.is_over());
        map.ok_or_else(|| self.own_pictures().why_ended(attempt))
    }

    /// Closes the pages of which no row was changed below the freeze: they are what they were (N5). What commits have
    /// left of them while that was in doubt is freed.
    fn settle(&self, attempt: PictureAttempt, tables: &[(u32, Arc<LoggedTable>)]) -> Result<(), PagesEnded> {
        debug_assert!(
            self.epochs.is_installed_below(self.epochs.newest_freeze()),
            "every commit below the freeze has ended, and has marked its pages (N5)"
        );
        let mut lists = Vec::new();
        for (_, table) in tables {
            let mut pin = self.epochs.register_pin();
            let call = pin.begin(self.epochs.now());
            let map = self.map_of(attempt, table, call.pinned())?;
            for page in map.pages().iter().filter(|page| !page.has_any(PageMarks::BEFORE)) {
                let ((), list) = page.close_behind(|| ());
                lists.extend(list.filter(|list| !list.is_empty()));
            }
        }
        self.free_displaced(lists.into_iter().flatten());
        Ok(())
    }

    /// Ends the picture under way if commits have displaced more than may wait for it (K3).
    pub(crate) fn bound_displaced(&self) {
        if self.displaced_too_much().is_none() {
            return;
        }
        let mut attempts = self.own_pictures().attempts.lock();
        // Once more: perhaps that one has ended meanwhile, and the next one is published.
        if let Some(why) = self.displaced_too_much()
            && attempts.give_way(why)
        {
            self.close_pages();
        }
    }

    fn own_pictures(&self) -> &Pictures {
        let Some(pictures) = &self.pictures else { unreachable!("`Walk::pages` has handed this out") };
        pictures
    }

    /// Copies the rows of the page that begins with `first`, some thousand keys under one pin, and closes it behind the
    /// last of them (N8). Where it ends, and what was left of it; `page` is not whole if the attempt has ended.
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
            let (target, scratch, pinned) = (&mut *page, &mut *scratch, call.pinned());
            let copying = Copying { target, scratch, keys_max: KEYS_PER_PIN };
            let closed =
                map.page(at).close_behind_last(|| copy_rows(&table.tree, range, freeze, copying, pinned));
            match closed {
                ControlFlow::Break(next) => stopped_at = Some(next),
                ControlFlow::Continue(Some(list)) => return Ok((upper.map(<[u8]>::to_vec), list)),
                // The attempt has ended meanwhile.
                ControlFlow::Continue(None) => return Err(self.own_pictures().why_ended(attempt)),
            }
        }
    }

    /// The attempt has ended: closes the pages that are open, and puts aside what is left to them. Their maps go on
    /// collecting marks. The caller has the lock of the attempts, and nobody publishes others meanwhile (N13).
    fn close_pages(&self) {
        self.logged_tables.end_picture();
        let mut lists = Vec::new();
        for (_, table) in self.logged_tables.all() {
            let mut pin = self.epochs.register_pin();
            let call = pin.begin(self.epochs.now());
            let Some(map) = table.pages.load(call.pinned()) else { continue };
            // Commits that have this map leave nothing more.
            for page in map.pages() {
                let ((), list) = page.close_behind(|| ());
                lists.extend(list.filter(|list| !list.is_empty()));
            }
        }
        self.own_pictures().put_aside(lists);
        self.drop_displaced();
        self.own_pictures().end();
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
