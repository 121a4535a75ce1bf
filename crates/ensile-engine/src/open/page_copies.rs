//! An experiment: the first change of a page leaves all rows of the page to the picture under way, and not a single row
//! (SIREN §4.1, copy-on-update of pages).
//!
//! Invariants:
//! - Rows are left before the commit binds. By then the page has no change that the picture needs, except versions left
//!   by themselves (N3). The freeze is over, so the newest version below the freeze does not change.
//! - A row may be left twice, by itself and with its page, with the same TID: the checkpointer drops a copy.
//! - A page is marked as copied after its last row. A caller that finds the mark leaves no rows.
//!
//! Neighbours: `commit::displaced` calls; `pages` merges the left rows; `variants` has the switch.

use std::ops::Bound;

use ensile_base::{Epoch, Tid};
use ensile_epoch::Pinned;
use ensile_index::Range;

use super::walk::{RowTarget, copy_rows};
use crate::record::Scratch;
use crate::record::blocks::Blocks;
use crate::record::page_map::PageMap;
use crate::record::pending::{PendingRemove, RemovePlace};
use crate::shared::SharedState;
use crate::worker::{Worker, WorkerCounters};

/// Copied rows of a page.
struct Copies<'w> {
    blocks: &'w mut Blocks,
    place: RemovePlace,
    versions: Vec<PendingRemove>,
}

impl RowTarget for Copies<'_> {
    fn has_room(&mut self, _body_bytes: usize) -> bool {
        true
    }

    fn add(&mut self, tid: Tid, key: &[u8], value: &[u8]) {
        self.versions.push(self.blocks.pending_remove((self.place, tid), key, value));
    }
}

impl SharedState {
    /// Leaves all rows of the page, unless the page is already copied. False if pages are not copied, or the freeze is
    /// not over: until then rows are left one by one.
    pub(crate) fn leave_page_copy(
        &self,
        worker: &mut Worker,
        (table, freeze): (u32, Epoch),
        (map, page): (&PageMap, usize),
        pinned: Pinned<'_>,
    ) -> bool {
        if !self.settings.switches.copies_pages() || !self.epochs.is_installed_below(freeze) {
            return false;
        }
        let state = map.page(page);
        if state.is_copied() {
            return true;
        }
        let place = RemovePlace { table, since: map.since() };
        let Worker { blocks, shared: own, .. } = worker;
        let mut copies = Copies { blocks, place, versions: Vec::new() };
        let (mut from, scratch) = (map.bounds().lower(page).to_vec(), &mut Scratch::default());
        let upper = map.bounds().upper(page).map_or(Bound::Unbounded, Bound::Excluded);
        loop {
            let range = Range { lower: Bound::Included(&*from), upper };
            let stopped =
                copy_rows(&self.table(table).tree, range, freeze, (&mut copies, &mut *scratch), pinned);
            match stopped {
                Some(stopped) => from = stopped.at,
                None => break,
            }
        }
        let Copies { blocks, versions, .. } = copies;
        for version in versions {
            let bytes = version.bytes() as u64;
            match state.leave_before(version, || ()).0 {
                Ok(()) => WorkerCounters::add(&own.counters.displaced_bytes, bytes),
                Err(unused) => {
                    blocks.free_pending(unused);
                }
            }
        }
        state.has_copied();
        true
    }
}
