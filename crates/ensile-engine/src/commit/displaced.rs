//! Versions that a commit displaces and a picture under way needs: they are left to it (SIREN, §3.1).
//!
//! Invariants, from `docs/protocols/pictures.md`:
//! - E1: versions are copied before binding, whatever their size, and behind every wait: a copy that is kept while a
//!   commit waits may be of a version, or of a picture, that is over by then. Under the locks there is one exchange for
//!   each, and no page is searched for whose state was known.
//! - N3: a version is left before anything of its record is changed.
//! - N4: it is left if it is present, older than the freeze of the commit's epoch, and of a picture under way. So at
//!   most one of a key is left to a picture.
//!
//! Neighbours: `prepare` comes before and `locked` asks; `install` leaves; `record::pending` has the lists, and
//! `record::page_map` says which page's state decides.

use ensile_base::Epoch;
use ensile_epoch::Pinned;

use super::Commit;
use super::locked::Locked;
use crate::error::{Error, Result};
use crate::record::page_map::PageMap;
use crate::record::pending::RemovePlace;
use crate::record::word::Word;
use crate::sets::Sets;
use crate::shared::SharedState;
use crate::tables::is_logged;
use crate::worker::{PreparedRemove, PreparedRemoves, Worker};

/// The picture's map for the table, if this version is to be left to it (N4): unless its page is closed.
#[inline]
fn map_for<'m>(
    shared: &'m SharedState,
    table: u32,
    (version, freeze): (Word, Epoch),
    pinned: Pinned<'m>,
) -> Option<&'m PageMap> {
    if version.is_absent() || version.epoch() >= freeze || !is_logged(table) {
        return None;
    }
    shared.table(table).pages.load(pinned).filter(|map| freeze > map.since())
}

impl Commit<'_, '_> {
    /// Copies the versions that a picture under way will need, if the commit is of the newest freeze's picture.
    #[inline]
    pub(super) fn prepare_displaced(&mut self) {
        if self.shared.has_picture_under_way() {
            prepare(self);
        }
    }

    /// Gives back what was copied and not left: when the commit has ended, and before it waits.
    #[inline]
    pub(super) fn give_back_displaced(&mut self) {
        if !self.worker.displaced.is_empty() {
            debug_assert!(self.worker.commit.slot().bound().is_none(), "memory is given back unbound (E1)");
            self.worker.displaced.give_back(&mut self.worker.blocks);
        }
    }
}

#[cold]
#[inline(never)]
fn prepare(commit: &mut Commit<'_, '_>) {
    let Commit { shared, worker, sets, pinned, .. } = commit;
    let Sets { writes, order, .. } = &mut **sets;
    let (entries, arena) = writes.parts();
    let Worker { blocks, displaced: PreparedRemoves { removes, scratch }, .. } = &mut **worker;
    debug_assert!(removes.is_empty(), "the commit before has given back what it did not leave");
    // If another freeze is announced before the locks are taken, they find that out.
    let freeze = shared.epochs.newest_freeze();
    for lock in order.iter() {
        let write = &entries[lock.at as usize];
        let record = lock.record.at(*pinned);
        let Some(map) = map_for(shared, write.table, (record.word(), freeze), *pinned) else { continue };
        let key = arena.key(write);
        let page = map.bounds().page_of(key);
        if map.page(page).is_closed() {
            // No page is opened again (N13): the locks need not search for it.
            removes.push(PreparedRemove::of_closed_page(lock.at, (map, page)));
            continue;
        }
        let Some(word) = record.read_older(freeze, scratch) else { continue };
        let place = RemovePlace { table: write.table, since: map.since() };
        let version = blocks.pending_remove((place, word.tid()), key, scratch.bytes());
        removes.push(PreparedRemove::new(lock.at, (map, page), version));
    }
}

impl Locked<'_, '_, '_> {
    /// Checks that every version that is to be left was copied. If one was not, the commit runs again.
    #[inline]
    pub(super) fn check_displaced(&mut self, epoch: Epoch) -> Result<()> {
        let Commit { shared, worker, .. } = &*self.commit;
        if worker.displaced.is_empty() && !shared.has_picture_under_way() {
            return Ok(());
        }
        check(self.commit, epoch)
    }
}

#[cold]
#[inline(never)]
fn check(commit: &mut Commit<'_, '_>, epoch: Epoch) -> Result<()> {
    let Commit { shared, worker, sets, pinned, .. } = commit;
    debug_assert!(worker.commit.slot().bound().is_some(), "freezes are looked at under the locks (N1)");
    let freeze = shared.epochs.freeze_at(epoch);
    let Sets { writes, order, .. } = &mut **sets;
    let (entries, arena) = writes.parts();
    let removes = &mut worker.displaced.removes;
    removes.iter_mut().for_each(|prepared| prepared.is_needed = false);
    let mut removes = removes.iter_mut().peekable();
    for lock in order.iter() {
        let write = &entries[lock.at as usize];
        let prepared = removes.next_if(|prepared| prepared.at == lock.at);
        let Some(map) = map_for(shared, write.table, (write.before, freeze), *pinned) else { continue };
        match prepared {
            Some(prepared) if prepared.is_of(map, write.before.tid()) => prepared.is_needed = true,
            // Found closed, and so it stays.
            Some(prepared) if prepared.is_of_closed_page(map) => {
                debug_assert!(map.page(map.bounds().page_of(arena.key(write))).is_closed());
            }
            // Copied too early, or for another map: unless the page is closed, the commit runs again.
            _ if map.page(map.bounds().page_of(arena.key(write))).is_closed() => {}
            _ => return Err(Error::Conflict),
        }
    }
    debug_assert!(removes.peek().is_none(), "versions are copied in the order of locks");
    Ok(())
}
