//! The engine's side of a picture: tables are cut into pages, and taken page by page beside their writers (SIREN,
//! §3.1).
//!
//! Invariants, from `docs/protocols/pictures.md`:
//! - N1: maps are published before the freeze is announced. Once E is two above what is read behind that, no commit has
//!   an older map.
//! - N8: a page is closed behind its walk, and what commits have left of it until then is merged in; semi-fuzzy, it is
//!   found in their workers' lists behind that (N9).
//! - N13: who is late takes, closes and ends nothing of a later attempt.
//! - N17: pages are cut before their freeze.
//! - K3: a picture whose commits displace more than may wait gives way. The heartbeat notices, and checkpointers do
//!   between pages. Its pages are closed some at a time, by the heartbeat and by the checkpointer that ends
//!   it.
//! - No pin stands from one page to the next, or for more than some thousand keys, while tables are cut and while pages
//!   are walked; while these are walked, for no more than a MiB of rows and one row.
//!
//! Neighbours: `walk` copies rows; `record::page_map` has maps, `record::pending` lists; commits leave versions
//! (`commit::displaced`); the durability crate's checkpointers call.

use std::collections::HashMap;
use std::ops::{Bound, ControlFlow};

use ensile_base::Epoch;
use ensile_base::sync::{Ordering, fence};
use ensile_durability::{
    DisplacedBlock, PageContents, Pages, PagesEnded, PictureAttempt, PublishedPages, Slice, TakenPage,
};
use ensile_epoch::Pinned;
use ensile_index::{Direction, Range};

use super::walk::{KEYS_PER_PIN, RecordBatch, SLICES_PER_PART, copy_rows};
use crate::formats::checkpoint_entry;
use crate::record::page_map::{PageBounds, PageMap};
use crate::record::pending::{PendingList, PendingRemove};
use crate::record::tree::{RecordTree, RecordVisitor};
use crate::record::{HEADER_BYTES, LeafWitness, Record, Scratch};
use crate::shared::SharedState;
use crate::shared::pictures::{CLOSED_PER_STEP, EndingMaps, PageSpace, PictureAttempts, Pictures};
use crate::tables::logged_tables::LoggedTable;

impl Pages for SharedState {
    fn publish_pages(&self, page_bytes: usize) -> PublishedPages {
        let pictures = self.own_pictures();
        let attempt = {
            let mut attempts = pictures.attempts.lock();
            if let Some(ended) = attempts.end() {
                self.begin_to_take_back(&mut attempts, ended);
            }
            attempts.begin()
        };
        // From here on none but this one is published, or a newer one instead.
        while self.take_back_step() {}
        self.collect_after_pictures();
        // What the last one has left does not count against this one.
        self.free_ended();
        let tables = self.logged_tables.all();
        let cut = tables.iter().map(|(id, table)| (*id, self.cut(&table.tree, page_bytes)));
        let bounds: HashMap<u32, PageBounds> = cut.collect();
        {
            let mut attempts = pictures.attempts.lock();
            if attempts.may_publish(attempt) {
                pictures.begin();
                let since = self.logged_tables.publish_pages(attempt, bounds, &self.epochs);
                pictures.may_take(attempt, since);
            }
        }
        // SeqCst: the maps come before E is read (N7); partner: a commit's fence behind its epoch (C1).
        fence(Ordering::SeqCst);
        PublishedPages { attempt, epoch: self.epochs.now() }
    }

    fn page_slices(&self, attempt: PictureAttempt, parts: usize) -> Result<Vec<Vec<Slice>>, PagesEnded> {
        let mut pin = self.epochs.register_pin();
        let call = pin.begin(self.epochs.now());
        let tables = self.logged_tables.all();
        let maps = tables.iter().map(|(section, table)| {
            let map = self.map_of(attempt, table, call.pinned())?;
            Ok((*section, map.bounds()))
        });
        let maps: Vec<_> = maps.collect::<Result<_, _>>()?;
        let pages: usize = maps.iter().map(|(_, bounds)| bounds.len()).sum();
        let mut result = vec![Vec::new(); parts];
        // A run ends where its share of all pages ends, and where its table does.
        let runs = parts * SLICES_PER_PART;
        let (mut run, mut first) = (0, 0);
        for (section, bounds) in maps {
            let mut page = 0;
            while page < bounds.len() {
                while (run + 1) * pages / runs <= first + page {
                    run += 1;
                }
                let end = ((run + 1) * pages / runs - first).min(bounds.len());
                debug_assert!(end > page && run < runs, "a run has pages");
                let (from, to) = (bounds.lower(page).into(), bounds.upper(end - 1).map(Into::into));
                result[run / SLICES_PER_PART].push(Slice { section, from, to });
                page = end;
            }
            first += bounds.len();
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
            if let Some(ended) = attempts.end_if_newest(attempt) {
                self.begin_to_take_back(&mut attempts, ended);
            }
        }
        while self.take_back_step() {}
        // Also what one has left that gave way.
        self.free_ended();
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
        let pictures = self.own_pictures();
        // One that has ended has its maps until they are taken back.
        let is_under_way = pictures.attempts.lock().is_under_way(attempt);
        let map = table.pages.load(pinned).filter(|map| is_under_way && map.attempt() == attempt);
        map.ok_or_else(|| pictures.why_ended(attempt))
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
            self.begin_to_take_back(attempts, ended);
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

    /// The attempt has ended: nothing is taken of it any more, and its maps are taken back from here on.
    fn begin_to_take_back(&self, attempts: &mut PictureAttempts, attempt: PictureAttempt) {
        self.logged_tables.no_more_maps();
        self.own_pictures().take_no_more();
        // Those that are added behind this have none.
        let tables = self.logged_tables.all().into_iter().map(|(id, _)| id).collect();
        attempts.begin_to_take_back(EndingMaps { attempt, tables, closed: 0 });
    }

    /// Closes some pages of the attempt that has ended. False if all of its maps are taken back.
    pub(crate) fn take_back_step(&self) -> bool {
        self.take_back_some(&mut self.own_pictures().attempts.lock())
    }

    /// As [`SharedState::take_back_step`], for the heartbeat: who has the lock does it instead, or publishes.
    pub(crate) fn try_take_back_step(&self) -> bool {
        let attempts =
            self.pictures.as_ref().and_then(|pictures| pictures.attempts.try_lock_unless_panicked());
        attempts.is_some_and(|mut attempts| self.take_back_some(&mut attempts))
    }

    /// Closes pages and puts aside what is left to them; a map whose pages are closed is taken back. Nobody publishes
    /// others meanwhile: that waits for the lock, and for the last of these (N13).
    fn take_back_some(&self, attempts: &mut PictureAttempts) -> bool {
        let Some(ending) = attempts.ending() else { return false };
        let (mut lists, mut left) = (Vec::new(), CLOSED_PER_STEP);
        while let Some(&table) = ending.tables.last()
            && left > 0
        {
            let Some(table) = self.logged_tables.get(table) else { unreachable!("tables stay") };
            left -= self.close_pages(&table, ending, left, &mut lists);
        }
        let has_more = !ending.tables.is_empty();
        self.own_pictures().put_aside(lists);
        if !has_more {
            attempts.were_taken_back();
            self.drop_displaced();
            self.own_pictures().end();
        }
        has_more
    }

    /// Closes up to `most` pages of the table, and takes its map back behind the last of them. How much of a step that
    /// was.
    fn close_pages(
        &self,
        table: &LoggedTable,
        ending: &mut EndingMaps,
        most: usize,
        lists: &mut Vec<PendingList>,
    ) -> usize {
        let mut pin = self.epochs.register_pin();
        let call = pin.begin(self.epochs.now());
        let map = table.pages.load(call.pinned());
        let pages = map.map_or(&[][..], |map| {
            debug_assert_eq!(map.attempt(), ending.attempt, "the next one's are not published yet (N13)");
            &map.pages()[ending.closed..]
        });
        let closed = pages.len().min(most);
        // Commits that have this map leave nothing more in these.
        let left = pages[..closed].iter().filter_map(|page| page.close_behind(|| ()).1);
        lists.extend(left.filter(|list| !list.is_empty()));
        ending.closed += closed;
        if closed == pages.len() {
            table.pages.unpublish(&self.epochs);
            ending.tables.pop();
            ending.closed = 0;
        }
        closed.max(1)
    }

    /// Where pages of about `page_bytes` begin in a table, as it is now.
    fn cut(&self, tree: &RecordTree, page_bytes: usize) -> PageBounds {
        let mut cut = PageCut { page_bytes, bounds: Vec::new(), filled: 0 };
        let mut pin = self.epochs.register_pin();
        let mut from = Some(Vec::new());
        while let Some(key) = from {
            let call = pin.begin(self.epochs.now());
            let (batch, left) = (RecordBatch::new(), KEYS_PER_PIN);
            let mut cutter = PageCutter { cut: &mut cut, batch, left, stopped_at: None };
            let range = Range { lower: Bound::Included(&key), upper: Bound::Unbounded };
            tree.scan(range, Direction::Forward, &mut cutter, call.pinned());
            cutter.flush();
            from = cutter.stopped_at;
        }
        PageBounds::new(&cut.bounds)
    }
}

/// Where pages begin, as a table's rows are counted one after the other. A page has `page_bytes` and one row at most.
struct PageCut {
    page_bytes: usize,
    bounds: Vec<Vec<u8>>,
    /// Bytes of the page so far.
    filled: usize,
}

impl PageCut {
    /// The next key, and the bytes of its value if it has a row.
    fn add(&mut self, key: &[u8], value_bytes: Option<usize>) {
        if self.filled >= self.page_bytes {
            self.bounds.push(key.to_vec());
            self.filled = 0;
        }
        if let Some(bytes) = value_bytes {
            self.filled += PageContents::FRAME_BYTES + checkpoint_entry::bytes(key.len(), bytes);
        }
    }
}

/// A scan that counts rows' bytes. No value is copied.
struct PageCutter<'p, 'c> {
    cut: &'c mut PageCut,
    batch: RecordBatch<'p>,
    /// Keys that are still looked at under this pin.
    left: usize,
    /// The first key that was not.
    stopped_at: Option<Vec<u8>>,
}

impl PageCutter<'_, '_> {
    /// Counts the batch, whose records have been asked for.
    fn flush(&mut self) {
        for (key, record) in self.batch.iter() {
            // Both may change until the freeze: a page that grows meanwhile is overfull.
            let bytes = (!record.word().is_absent()).then(|| record.length());
            self.cut.add(key, bytes);
        }
        self.batch.clear();
    }
}

impl<'p> RecordVisitor<'p> for PageCutter<'p, '_> {
    fn witness(&mut self, _witness: LeafWitness<'p>) {}

    #[inline]
    fn entry(&mut self, key: &[u8], record: Record<'p>) -> ControlFlow<()> {
        if self.left == 0 {
            self.stopped_at = Some(key.to_vec());
            return ControlFlow::Break(());
        }
        self.left -= 1;
        if self.batch.add(key, record, HEADER_BYTES) {
            self.flush();
        }
        ControlFlow::Continue(())
    }
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
