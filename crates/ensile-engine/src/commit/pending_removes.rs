//! Pages of a commit's changes: the commit marks the pages, and leaves versions to a picture under way that needs the
//! versions (SIREN, §3.1).
//!
//! Invariants, from `docs/internals/protocols/pictures.md`:
//! - E1: Versions of any size are copied, and their pages are searched for, before binding and behind every wait: a
//!   copy kept during a wait may be of a version, or of a picture, that is over by then. Under the locks a version
//!   costs one exchange, and each first change a search of some twenty instructions. The search waits for nothing, and
//!   comes once a key and picture, so the search holds no contended lock. While no picture is under way nothing is
//!   copied, and pages are searched for under the locks alone.
//! - N3: A version is left before any change of its record.
//! - N4: A version is left if it is present, older than the freeze of the commit's epoch, and of a picture under way.
//!   So at most one version of a key is left to a picture.
//! - N6: A key's first change since the freeze marks the key's page, for inserts and deletes too: in the map published
//!   behind the commit's last fence, with the mark that the commit's epoch selects, and while the commit is bound.
//!
//! Neighbours: [`Commit::run`](super::Commit) prepares, `validation` checks, and `install` leaves the versions;
//! `pictures` has the lists, the marks, the maps and the prepared pages.

use ensile_base::Epoch;
use ensile_epoch::Pinned;

use super::Commit;
use super::validation::Locked;
use crate::error::{Error, Result};
use crate::pictures::page_map::PageMap;
use crate::pictures::pending_removes::{PageMarks, RemovePlace};
use crate::pictures::prepared_pages::{PreparedPage, PreparedPages};
use crate::record::tid_word::Word;
use crate::sets::Sets;
use crate::sets::write_set::{Write, WriteKind};
use crate::shared_state::SharedState;
use crate::tables::is_logged;
use crate::worker::Worker;

/// True if a write that finds `version` may be its key's first change since the freeze, and changes anything. The key
/// may have no row, or only a delete from before the freeze.
#[inline]
fn is_first_change(write: &Write<'_>, version: Word, freeze: Epoch) -> bool {
    let changes = write.kind == WriteKind::Put || !version.is_absent();
    version.epoch() < freeze && changes && is_logged(write.table)
}

/// The map of the write's table, if a picture has begun since the open.
#[inline]
fn map_of<'m>(shared: &'m SharedState, write: &Write<'_>, pinned: Pinned<'m>) -> Option<&'m PageMap> {
    shared.tables.table(write.table).pages.load(pinned)
}

/// The map of a table, and the newest freeze of the commit that finds the map.
#[derive(Clone, Copy)]
struct MapAtFreeze<'m> {
    map: &'m PageMap,
    freeze: Epoch,
}

impl MapAtFreeze<'_> {
    /// True if the version must be left to an open page of the map: the map's picture is of this freeze (N4).
    #[inline]
    fn is_left(self, version: Word) -> bool {
        !version.is_absent() && self.freeze > self.map.publication_freeze()
    }

    /// The mark of a change by a commit with this newest freeze (N6).
    #[inline(always)]
    fn mark(self) -> PageMarks {
        if self.freeze > self.map.publication_freeze() { PageMarks::AFTER } else { PageMarks::BEFORE }
    }
}

impl Commit<'_, '_> {
    /// Finds the pages of the commit's changes. Copies the versions that a picture under way will need, if the commit
    /// is of the newest freeze's picture.
    #[inline]
    pub(super) fn prepare_displaced(&mut self) {
        if self.shared.has_picture_under_way() {
            prepare(self);
        }
    }

    /// Frees the copies that were not left: at the end of the commit, and before a wait.
    #[inline]
    pub(super) fn give_back_displaced(&mut self) {
        if !self.worker.prepared_pages.is_empty() {
            debug_assert!(
                self.worker.commit.slot().bound_epoch().is_none(),
                "memory is given back unbound (E1)"
            );
            self.worker.prepared_pages.give_back(&mut self.worker.blocks);
        }
    }
}

/// As [`Commit::prepare_displaced`], while a picture is under way.
#[cold]
#[inline(never)]
fn prepare(commit: &mut Commit<'_, '_>) {
    let Commit { shared, worker, sets, pinned, .. } = commit;
    let Sets { writes, order, .. } = &mut **sets;
    let (entries, arena) = writes.parts();
    debug_assert!(worker.prepared_pages.is_empty(), "the commit before has given back what it did not leave");
    // If another freeze is announced before the locks are taken, the check under the locks finds the freeze.
    let freeze = shared.epochs.newest_freeze();
    for (at, lock) in (0..).zip(order.iter()) {
        let write = &entries[lock.at as usize];
        let version = lock.record.resolve(*pinned).word();
        if !is_first_change(write, version, freeze) {
            continue;
        }
        let Some(map) = map_of(shared, write, *pinned) else { continue };
        let key = arena.key(write);
        let page = map.bounds().page_of(key);
        worker.prepared_pages.pages.push(PreparedPage::new(at, map, page));
        // No page is opened again (N13), so a closed page needs no copy.
        let found = MapAtFreeze { map, freeze };
        if found.is_left(version) && !map.page(page).is_closed() {
            copy_version(worker, write, key, found, *pinned);
        }
    }
}

/// Copies the version of the last found page, unless the version was changed meanwhile.
#[cold]
#[inline(never)]
fn copy_version<'p>(
    worker: &mut Worker,
    write: &Write<'p>,
    key: &[u8],
    MapAtFreeze { map, freeze }: MapAtFreeze<'_>,
    pinned: Pinned<'p>,
) {
    let Worker { blocks, prepared_pages: PreparedPages { pages, has_versions, scratch, .. }, .. } = worker;
    let Some(word) = write.record_at(pinned).read_older(freeze, scratch) else { return };
    let place = RemovePlace { table: write.table, since: map.publication_freeze() };
    let version = blocks.pending_remove(place, word.tid(), key, scratch.bytes());
    let Some(prepared) = pages.last_mut() else { unreachable!("its page was found") };
    let before = prepared.version.replace(version);
    debug_assert!(before.is_none(), "a version is copied once");
    *has_versions = true;
}

impl Locked<'_, '_, '_> {
    /// Marks the pages of the changes, and checks that every version to leave was copied. If a copy is missing, the
    /// commit releases its locks and prepares again. The mark of a commit that fails costs one needless write of the
    /// page.
    #[inline]
    pub(super) fn check_displaced(&mut self, epoch: Epoch) -> Result<()> {
        let Commit { shared, sets, pinned, .. } = &*self.commit;
        if !shared.settings.pictures {
            return Ok(());
        }
        let freeze = shared.epochs.freeze_at(epoch);
        let writes = &sets.writes;
        for (at, lock) in sets.order.iter().enumerate() {
            let write = &writes.entries[lock.at as usize];
            // Most writes are to records that were changed since the freeze, and most other writes to pages with such a
            // record.
            if write.before.epoch() < freeze
                && !is_done_with(shared, write.table, writes.key(write), freeze, *pinned)
            {
                return check(self.commit, freeze, at);
            }
        }
        Ok(())
    }
}

/// True if a first change of this key has nothing to mark and nothing to leave.
#[inline(always)]
fn is_done_with(shared: &SharedState, table: u32, key: &[u8], freeze: Epoch, pinned: Pinned<'_>) -> bool {
    // Without a map the table is an index's, or no picture was loaded or has begun since.
    let map = shared.tables.logged_table(table).and_then(|table| table.pages.load(pinned));
    map.is_none_or(|map| {
        map.page(map.bounds().page_of(key)).is_closed_with(MapAtFreeze { map, freeze }.mark())
    })
}

/// As [`Locked::check_displaced`], for the writes from position `first` on in lock order. The writes before have
/// nothing to mark or leave.
#[inline(never)]
fn check(commit: &mut Commit<'_, '_>, freeze: Epoch, first: usize) -> Result<()> {
    let Commit { shared, worker, sets, pinned, .. } = commit;
    debug_assert!(worker.commit.slot().bound_epoch().is_some(), "freezes are looked at under the locks (N1)");
    debug_assert!(
        !worker.prepared_pages.is_any_needed,
        "the commit before has given back what it did not leave"
    );
    let Sets { writes, order, .. } = &mut **sets;
    let (entries, arena) = writes.parts();
    for (at, lock) in (first as u32..).zip(&order[first..]) {
        let write = &entries[lock.at as usize];
        if is_first_change(write, write.before, freeze)
            && let Some(map) = map_of(shared, write, *pinned)
        {
            change(write, arena.key(write), MapAtFreeze { map, freeze }, &mut worker.prepared_pages, at)?;
        }
    }
    Ok(())
}

/// Marks the page of a first change. The page was found before binding, or is searched for now. If the version to leave
/// was not copied, notes the lack and returns a conflict.
#[inline]
fn change(
    write: &Write<'_>,
    key: &[u8],
    found: MapAtFreeze<'_>,
    prepared_pages: &mut PreparedPages,
    at: u32,
) -> Result<()> {
    let map = found.map;
    let prepared = if prepared_pages.is_empty() { None } else { prepared_pages.page_for_lock(at) };
    let page = prepared.as_ref().and_then(|prepared| prepared.page_in(map));
    let page = page.unwrap_or_else(|| map.page(map.bounds().page_of(key)));
    let mark = found.mark();
    if page.is_closed_with(mark) {
        return Ok(());
    }
    if found.is_left(write.before) && !page.is_closed() {
        match prepared {
            Some(prepared) if prepared.has_version(map, write.before.tid()) => {
                prepared.is_needed = true;
                prepared_pages.is_any_needed = true;
            }
            // The version was not copied, was copied too early, or for another map.
            _ => {
                prepared_pages.fell_short = true;
                return Err(Error::Conflict);
            }
        }
    }
    debug_assert!(
        mark == PageMarks::AFTER || page.has_any(mark) || !page.is_closed() || map.is_over(),
        "no page is settled before every commit below the freeze has ended (N5)"
    );
    page.mark(mark);
    Ok(())
}
