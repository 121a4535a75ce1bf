//! Conditions for a commit to take effect, checked under the locks and before any change.
//!
//! Neighbours: [`Commit::take_effect`](super::Commit) calls the checks in order; `install` takes the locks over.

use ensile_base::{Epoch, Tid};

use super::{Commit, before_images};
use crate::commit_gate::TurnedAway;
use crate::error::{Error, Result};
use crate::record::Handle;
use crate::record::tid_word::Word;
use crate::sets::write_set::{Expect, OldVersion, WriteKind};
use crate::sets::{Read, Sets};
use crate::shared_state::SharedState;

/// A commit that holds the locks of the whole write-set. The drop releases each lock and restores the word before the
/// lock. `install` takes the value over and releases each lock at the record's install.
pub(super) struct Locked<'l, 'c, 'p> {
    pub(super) commit: &'l mut Commit<'c, 'p>,
}

impl<'c, 'p> Commit<'c, 'p> {
    /// Phase 1: locks the write-set in order, and checks the conditions of the write-set (C2).
    #[inline]
    pub(super) fn lock<'l>(&'l mut self) -> Result<Locked<'l, 'c, 'p>> {
        let Sets { reads, writes, order, .. } = &mut *self.sets;
        for (locked, lock) in order.iter().enumerate() {
            let write = &mut writes.entries[lock.at as usize];
            debug_assert_eq!(write.record, Some(lock.record), "the order is that of the entries' records");
            debug_assert!(
                write.read.is_none_or(|at| (at as usize) < reads.len()),
                "the read-set has the read"
            );
            let record = write.record_at(self.pinned);
            let before = record.lock();
            debug_assert!(
                !before.is_locked() && record.word().is_locked(),
                "a lock is taken over a free word"
            );
            write.before = before;
            let expected = write.expect == Expect::Anything || before.is_absent();
            if !(before.is_latest() && expected) {
                self.unlock(locked + 1);
                return Err(Error::Conflict);
            }
            // The validation expects this commit's lock on a record that was read and is written.
            if let Some(read) = write.read.and_then(|at| reads.get_mut(at as usize))
                && *read == (Read { record: lock.record, word: before })
            {
                read.word = before.with_lock_bit();
            }
        }
        debug_assert!(
            writes.entries.iter().all(|write| write.record.is_none() || write.before.is_latest()),
            "every locked record is its key's latest (C2)"
        );
        Ok(Locked { commit: self })
    }

    /// Restores the words of the first `locked` records in lock order.
    fn unlock(&self, locked: usize) {
        debug_assert!(locked <= self.sets.order.len(), "no more is unlocked than was locked");
        for lock in &self.sets.order[..locked] {
            let write = &self.sets.writes.entries[lock.at as usize];
            let record = write.record_at(self.pinned);
            debug_assert!(
                record.word().is_locked() && !write.before.is_locked(),
                "a lock gives back the word that it took"
            );
            record.unlock_with(write.before);
        }
    }
}

impl Drop for Locked<'_, '_, '_> {
    fn drop(&mut self) {
        self.commit.unlock(self.commit.sets.order.len());
    }
}

impl<'p> Locked<'_, '_, 'p> {
    /// True if the commit holds any lock: deletes of missing keys take no locks.
    #[inline]
    pub(super) fn has_records(&self) -> bool {
        !self.commit.sets.order.is_empty()
    }

    /// Refuses a commit into a closed database, and a commit during another thread's turn. The latter runs again after
    /// the turn (P1).
    #[inline]
    pub(super) fn look_at_gate(&mut self) -> Result<()> {
        debug_assert!(
            self.commit.worker.commit.slot().bound_epoch().is_some(),
            "`close` waits for bound workers (E2)"
        );
        match self.commit.shared.life.gate.look() {
            Ok(()) => Ok(()),
            Err(TurnedAway::Closed) => Err(Error::Closed),
            Err(TurnedAway::NotMyTurn) if self.commit.is_of_catalogue() => Ok(()),
            Err(TurnedAway::NotMyTurn) => {
                self.commit.worker.is_turned_away = true;
                Err(Error::Conflict)
            }
        }
    }

    /// Phase 2: checks that read-set and node-set are unchanged, and that no other transaction changes a member now.
    #[inline]
    pub(super) fn validate(&mut self) -> Result<()> {
        let Commit { shared, worker, sets, pinned, .. } = &mut *self.commit;
        let own = |record: Handle<'p>| {
            if let [only] = sets.order.as_slice() {
                return only.record == record;
            }
            sets.order.binary_search_by_key(&record, |lock| lock.record).is_ok()
        };
        for Read { record, word } in &sets.reads {
            let now = record.resolve(*pinned).word();
            // This commit holds the lock of a record that a scan has read and the commit writes.
            if !(now == *word || now.without_lock_bit() == *word && own(*record)) {
                worker.is_behind_a_lock = is_only_locked(shared, now, *word);
                return Err(Error::Conflict);
            }
        }
        if sets.nodes.holds(*pinned) { Ok(()) } else { Err(Error::Conflict) }
    }

    /// Checks that the room from `reserve` suffices for the state that the locks found. If the room is too small, the
    /// commit fails with a conflict, and the transaction runs again.
    #[inline]
    pub(super) fn check_room(&self, boundary: Epoch) -> Result<()> {
        let Commit { sets, pinned, .. } = &*self.commit;
        for lock in &sets.order {
            let write = &sets.writes.entries[lock.at as usize];
            debug_assert!(write.before.is_latest(), "what is locked is its key's latest record (C2)");
            if write.replacement.is_some() || write.before.is_absent() && write.kind == WriteKind::Delete {
                continue;
            }
            debug_assert!(
                write.kind == WriteKind::Delete || write.record_at(*pinned).fits(write.value_bytes()),
                "a record that is too small is replaced, and its size is fixed for its life"
            );
            let in_place = write.kind == WriteKind::Delete || write.may_overwrite(write.before);
            if !in_place || write.must_preserve(boundary) && matches!(write.old_version, OldVersion::NoRoom) {
                return Err(Error::Conflict);
            }
        }
        Ok(())
    }

    /// Checks the conditions of databases with pictures or before-images: copies of versions for a picture, and log
    /// space for replaced values.
    #[inline]
    pub(super) fn check_beside(&mut self, epoch: Epoch) -> Result<()> {
        debug_assert!(!self.commit.shared.settings.commits_plainly, "the others do not ask");
        self.check_displaced(epoch)?;
        if self.commit.shared.settings.before_images { self.check_images() } else { Ok(()) }
    }

    /// Checks that the log space from `reserve` suffices for the values that the locks found.
    #[inline]
    pub(super) fn check_images(&mut self) -> Result<()> {
        debug_assert!(
            self.commit.worker.commit.slot().bound_epoch().is_some(),
            "lengths are read under the locks"
        );
        before_images::check(self.commit)
    }

    /// The smallest TID of `epoch` above all TIDs read, overwritten, or chosen before by this worker (§4.2). If the
    /// epoch has no such TID, returns a conflict: the next attempt needs a later epoch (E5).
    #[inline]
    pub(super) fn choose_tid(&mut self, epoch: Epoch) -> Result<Tid> {
        let Commit { shared, worker, sets, .. } = &mut *self.commit;
        debug_assert!(
            epoch > Epoch::ZERO && worker.last_tid.epoch() <= epoch,
            "a worker's epochs only grow (E2)"
        );
        let mut largest = worker.last_tid;
        for read in &sets.reads {
            largest = largest.max(read.word.tid());
        }
        let mut seen = None;
        for write in &sets.writes.entries {
            largest = largest.max(write.before.tid());
            if write.before.is_placeholder() && seen != Some(write.table) {
                seen = Some(write.table);
                // The key may have a buried delete (U3).
                let buried = shared.tables.table(write.table).side.newest();
                if buried.epoch() > epoch {
                    // A delete of another key was buried since this commit has read E. The next attempt reads a later
                    // epoch.
                    return Err(Error::Conflict);
                }
                largest = largest.max(buried);
            }
        }
        debug_assert!(largest.epoch() <= epoch, "every commit that was seen read E before this one did");
        let own = if largest.epoch() < epoch { Some(Tid::first_of(epoch)) } else { largest.successor() };
        let Some(tid) = shared.settings.switches.shared_tid(epoch, largest).or(own) else {
            worker.sequence_is_full = true;
            return Err(Error::Conflict);
        };
        assert!(tid > largest && tid.epoch() == epoch, "TIDs grow, and hold the epoch of their commit (E5)");
        worker.last_tid = tid;
        Ok(tid)
    }
}

/// True if the record is unchanged since the read, but locked, and this thread has the turn. The lock's holder has not
/// checked the turn yet, and will release the lock (P1).
#[cold]
pub(super) fn is_only_locked(shared: &SharedState, now: Word, read: Word) -> bool {
    now.is_locked() && now.without_lock_bit() == read && shared.life.gate.is_mine()
}
