//! The engine's side of a picture: tables are cut into pages, and taken page by page beside their writers (SIREN,
//! §3.1).
//!
//! Invariants, from `docs/protocols/pictures.md`:
//! - N1: maps are published before the freeze is announced. Once E is two above what is read behind that, no commit has
//!   an older map.
//! - N8: a page is closed behind its walk, and what commits have left of it until then is merged in; semi-fuzzy, it is
//!   found in their workers' lists behind that (N9).
//! - N13: who is late closes no page of a later picture, and takes none of its versions.
//! - N17: pages are cut before their freeze.
//! - No pin stands from one page to the next, or for more than some thousand keys while tables are cut.
//!
//! Neighbours: `walk` copies rows; `record::page_map` has maps, `record::pending` lists; commits leave versions
//! (`commit::displaced`); the durability crate's checkpointers call.

use std::collections::HashMap;
use std::ops::{Bound, ControlFlow};

use ensile_base::Epoch;
use ensile_base::sync::{Ordering, fence};
use ensile_durability::{DisplacedBlock, PageContents, Pages, Slice};
use ensile_index::{Direction, Range};

use super::walk::{SLICES_PER_PART, copy_rows};
use crate::formats::checkpoint_entry;
use crate::record::page_map::PageBounds;
use crate::record::pending::PendingRemove;
use crate::record::tree::{RecordTree, RecordVisitor};
use crate::record::{LeafWitness, Record};
use crate::shared::SharedState;

/// One record in so many is asked for its length.
const SAMPLED: usize = 16;
/// Keys that are looked at under one pin while a table is cut.
const KEYS_PER_PIN: usize = 4096;

impl Pages for SharedState {
    fn publish_pages(&self, page_bytes: usize) -> Epoch {
        let Some(pictures) = &self.pictures else { unreachable!("`Walk::pages` has handed this out") };
        // An attempt before that nobody has ended. What it was waiting for is freed by now.
        self.end_pages();
        self.collect_after_pictures();
        let tables = self.logged_tables.all();
        let cut = tables.iter().map(|(id, table)| (*id, self.cut(&table.tree, page_bytes)));
        let bounds: HashMap<u32, PageBounds> = cut.collect();
        pictures.begin();
        let since = self.logged_tables.publish_pages(bounds, &self.epochs);
        pictures.may_take_since(since);
        // SeqCst: the maps come before E is read (N7); partner: a commit's fence behind its epoch (C1).
        fence(Ordering::SeqCst);
        self.epochs.now()
    }

    fn page_slices(&self, parts: usize) -> Vec<Vec<Slice>> {
        let mut pin = self.epochs.register_pin();
        let call = pin.begin(self.epochs.now());
        let tables = self.logged_tables.all();
        let maps: Vec<_> = tables
            .iter()
            .filter_map(|(section, table)| Some((*section, table.pages.load(call.pinned())?.bounds())))
            .collect();
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
        result
    }

    fn take_page(&self, slice: &Slice, resume: &mut Vec<u8>, freeze: Epoch, page: &mut PageContents) -> bool {
        page.clear();
        let Some(table) = self.logged_tables.get(slice.section) else { return false };
        let mut pin = self.epochs.register_pin();
        let call = pin.begin(self.epochs.now());
        let pinned = call.pinned();
        // N13: a map of a later picture has this one's freeze as `since`, or a newer one.
        let Some(map) = table.pages.load(pinned).filter(|map| freeze > map.since()) else { return false };
        debug_assert!(
            self.epochs.is_installed_below(freeze),
            "no page is walked before its freeze is over (N2)"
        );
        let from: &[u8] = if resume.is_empty() { &slice.from } else { resume };
        let at = map.bounds().page_of(from);
        debug_assert_eq!(map.bounds().lower(at), from, "slices are made of whole pages");
        let upper = map.bounds().upper(at);
        let range =
            Range { lower: Bound::Included(from), upper: upper.map_or(Bound::Unbounded, Bound::Excluded) };
        let (stopped, list) =
            map.page(at).close_behind(|| copy_rows(&table.tree, range, freeze, page, pinned));
        debug_assert!(stopped.is_none(), "a page takes every row");
        let Some(list) = list else {
            // The picture has ended meanwhile.
            page.clear();
            return false;
        };
        let mut left: Vec<PendingRemove> = list.collect();
        if !left.is_empty() {
            merge(page, &mut left, freeze);
        }
        self.free_displaced(left);
        match upper {
            Some(next) if slice.to.as_deref() != Some(next) => {
                *resume = next.to_vec();
                true
            }
            _ => false,
        }
    }

    fn take_displaced(&self, freeze: Epoch, block: &mut DisplacedBlock<'_>) -> bool {
        self.take_displaced_until(freeze, |version| {
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

    fn end_pages(&self) {
        let Some(pictures) = &self.pictures else { unreachable!("`Walk::pages` has handed this out") };
        if !pictures.is_under_way() {
            return;
        }
        self.logged_tables.no_more_maps();
        for (_, table) in self.logged_tables.all() {
            let mut pin = self.epochs.register_pin();
            let call = pin.begin(self.epochs.now());
            let Some(map) = table.pages.load(call.pinned()) else { continue };
            // Commits that have this map leave nothing more.
            for page in map.pages() {
                let ((), list) = page.close_behind(|| ());
                self.free_displaced(list.into_iter().flatten());
            }
            table.pages.unpublish(&self.epochs);
        }
        self.drop_displaced();
        pictures.end();
    }
}

impl SharedState {
    /// Where pages of about `page_bytes` begin in a table, as it is now.
    fn cut(&self, tree: &RecordTree, page_bytes: usize) -> PageBounds {
        let mut cutter = PageCutter {
            page_bytes,
            bounds: Vec::new(),
            filled: 0,
            value_bytes: 0,
            seen: 0,
            left: 0,
            stopped_at: None,
        };
        let mut pin = self.epochs.register_pin();
        let mut from = Some(Vec::new());
        while let Some(key) = from {
            let call = pin.begin(self.epochs.now());
            cutter.left = KEYS_PER_PIN;
            let range = Range { lower: Bound::Included(&key), upper: Bound::Unbounded };
            tree.scan(range, Direction::Forward, &mut cutter, call.pinned());
            drop(call);
            from = cutter.stopped_at.take();
        }
        PageBounds::new(&cutter.bounds)
    }
}

/// A scan that counts rows' bytes, and notes where a page is full.
struct PageCutter {
    page_bytes: usize,
    bounds: Vec<Vec<u8>>,
    /// Bytes of the page so far.
    filled: usize,
    /// Bytes of the value that was sampled last: the next ones are taken to be as long.
    value_bytes: usize,
    seen: usize,
    /// Keys that are still looked at under this pin.
    left: usize,
    /// The first key that was not.
    stopped_at: Option<Vec<u8>>,
}

impl<'p> RecordVisitor<'p> for PageCutter {
    fn witness(&mut self, _witness: LeafWitness<'p>) {}

    #[inline]
    fn entry(&mut self, key: &[u8], record: Record<'p>) -> ControlFlow<()> {
        if self.left == 0 {
            self.stopped_at = Some(key.to_vec());
            return ControlFlow::Break(());
        }
        self.left -= 1;
        if self.seen.is_multiple_of(SAMPLED) {
            self.value_bytes = record.length();
        }
        self.seen += 1;
        if self.filled >= self.page_bytes {
            self.bounds.push(key.to_vec());
            self.filled = 0;
        }
        self.filled += PageContents::FRAME_BYTES + checkpoint_entry::bytes(key.len(), self.value_bytes);
        ControlFlow::Continue(())
    }
}

/// Merges the versions that commits have left of a page into what the walk has found there. A key that comes from both
/// has one TID, and counts once (N4).
fn merge(page: &mut PageContents, left: &mut [PendingRemove], freeze: Epoch) {
    left.sort_unstable_by(|a, b| a.key().cmp(b.key()));
    assert!(left.is_sorted_by(|a, b| a.key() < b.key()), "one version of a key is left to a picture (N4)");
    assert!(
        left.iter().all(|left| left.tid().epoch() < freeze),
        "what is left is older than the freeze (N4)"
    );
    let walked = std::mem::take(page);
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
}
