//! Phase 3: the commit takes effect, and its entry goes to the log. Nothing fails any more (E1).
//!
//! Invariant (V1): A row that is too large for a page of versions is not copied. A new record takes the row's place,
//! absent if the row is deleted, and the old record is the old version.
//!
//! Invariant (N3): A commit leaves a version that a picture needs to the picture before any change of the version's
//! record.
//!
//! Neighbours: `validation` has checked every condition; `cleanup` registers the replaced records and versions.

use std::mem::ManuallyDrop;

use ensile_base::{Epoch, Tid};
use ensile_epoch::Pinned;

use super::validation::Locked;
use super::{Commit, before_images};
use crate::formats::log_entry::{self, Image};
use crate::pictures::prepared_pages::{PreparedPage, PreparedPages};
use crate::record::Record;
use crate::record::tid_word::Word;
use crate::record::tree::Successor;
use crate::sets::write_set::{Arena, OldVersion, Write, WriteEffect, WriteKind};
use crate::sets::{LockOrder, Sets};
use crate::shared_state::SharedState;
use crate::tables::is_logged;
use crate::worker::{Worker, WorkerCounters, WorkerShared};

impl Locked<'_, '_, '_> {
    /// Installs every write, releases its lock, and appends the log entry. Before-images are read before any of them is
    /// overwritten. At the process-safe level the append comes before the first release of a lock (B1).
    #[inline]
    pub(super) fn install_and_append(self, tid: Tid, boundary: Epoch) {
        // Each lock is released at the install of its record.
        debug_assert!(boundary <= tid.epoch().next(), "no boundary lies ahead of the commit's epoch (S1)");
        let mut locked = ManuallyDrop::new(self);
        let commit = &mut *locked.commit;
        let settings = &commit.shared.settings;
        let is_beside =
            settings.before_images || settings.process_safe || commit.worker.prepared_pages.is_any_needed;
        if !settings.commits_plainly && is_beside {
            return commit.install_beside(tid, boundary);
        }
        debug_assert!(
            !commit.worker.prepared_pages.is_any_needed,
            "nothing is left where there are no pictures"
        );
        commit.install(tid, boundary);
        commit.append(tid, has_taken_effect);
    }
}

impl Commit<'_, '_> {
    /// As [`Locked::install_and_append`], for log entries with before-images, a process-safe log, or a version that is
    /// left to a picture.
    #[inline(never)]
    fn install_beside(&mut self, tid: Tid, boundary: Epoch) {
        let has_images = self.shared.settings.before_images;
        let is_appended = has_images || self.shared.settings.process_safe;
        if has_images {
            before_images::append(self, tid);
        } else if is_appended {
            self.append(tid, |write| write.kind == WriteKind::Put || !write.before.is_absent());
        }
        if self.worker.prepared_pages.is_any_needed {
            self.leave_and_install(tid, boundary);
        } else {
            self.install(tid, boundary);
        }
        if !is_appended {
            self.append(tid, has_taken_effect);
        }
    }

    /// Leaves the needed versions to the picture under way, and installs.
    fn leave_and_install(&mut self, tid: Tid, boundary: Epoch) {
        let Sets { writes, order, .. } = &mut *self.sets;
        let (entries, arena) = writes.parts();
        let installing = Installing { shared: self.shared, arena, pinned: self.pinned, tid, boundary };
        let Worker { prepared_pages, shared: own, .. } = &mut *self.worker;
        installing.leave_and_install(entries, order, prepared_pages, own);
    }

    /// Installs every write in lock order, and releases the lock of each record. No picture needs a version of these
    /// records.
    #[inline(always)]
    fn install(&mut self, tid: Tid, boundary: Epoch) {
        let Sets { writes, order, .. } = &mut *self.sets;
        let (entries, arena) = writes.parts();
        let installing = Installing { shared: self.shared, arena, pinned: self.pinned, tid, boundary };
        for lock in order.iter() {
            let write = &mut entries[lock.at as usize];
            write.effect = installing.install(write);
        }
    }

    /// Appends the log entry, built from the write-set and never re-read from records (E1). The entry holds the writes
    /// for which `changes` is true.
    #[inline(always)]
    fn append(&mut self, tid: Tid, changes: impl Fn(&Write<'_>) -> bool) {
        let Some(appender) = &mut self.worker.appender else { return self.count_changes() };
        let (entries, arena) = self.sets.writes.parts();
        let logged = |write: &&Write<'_>| changes(write) && is_logged(write.table);
        if !entries.iter().any(|write| logged(&write)) {
            return;
        }
        let logs_data = self.shared.settings.switches.logs_data();
        debug_assert!(
            self.worker.commit.slot().bound_epoch().is_some(),
            "the logger takes an entry of a bound epoch only behind it (E1)"
        );
        appender.append(tid, |out| {
            for write in entries.iter().filter(|write| logs_data && logged(write)) {
                let put = write.kind == WriteKind::Put;
                if let Some((key, both)) = put.then(|| arena.key_and_value(write)).flatten() {
                    log_entry::encode_together(out, write.table, key, both);
                    continue;
                }
                let value = put.then(|| arena.value(write));
                log_entry::encode(out, write.table, arena.key(write), value, Image::NotRecorded);
            }
        });
    }

    /// Counts the bytes that the commit has changed, in a database without a log: enough bytes begin a picture. The
    /// worker is bound, so bytes counted before a freeze is announced are of an epoch below the freeze (N18).
    #[cold]
    fn count_changes(&mut self) {
        if !self.shared.settings.is_without_log {
            return;
        }
        debug_assert!(self.worker.commit.slot().bound_epoch().is_some(), "a freeze counts what is installed");
        let (entries, _) = self.sets.writes.parts();
        let changed = entries
            .iter()
            .filter(|write| !matches!(write.effect, WriteEffect::Untouched) && is_logged(write.table));
        let bytes: usize =
            changed.map(|write| log_entry::bytes(write.key_bytes(), write.value_bytes())).sum();
        WorkerCounters::add(&self.worker.shared.counters.changed_bytes, bytes as u64);
    }
}

/// True if the install of this write has changed its key's record.
#[inline(always)]
fn has_taken_effect(write: &Write<'_>) -> bool {
    !matches!(write.effect, WriteEffect::Untouched)
}

/// Arguments of the install of an entry.
struct Installing<'i, 'p> {
    shared: &'i SharedState,
    arena: Arena<'i>,
    pinned: Pinned<'p>,
    tid: Tid,
    /// Snapshot boundary of the commit's epoch: older versions are kept for snapshots (S1).
    boundary: Epoch,
}

impl<'p> Installing<'_, 'p> {
    /// Installs a write under the lock of its record, and releases the lock. Returns the effect, for the log and for
    /// cleanup.
    #[inline(always)]
    fn install(&self, write: &mut Write<'p>) -> WriteEffect<'p> {
        debug_assert!(write.before.tid() < self.tid, "a record's TID grows");
        let record = write.record_at(self.pinned);
        debug_assert!(record.word().is_locked(), "a record is changed under its lock");
        match write.kind {
            WriteKind::Put if write.replacement.is_some() => self.replace(write),
            WriteKind::Put => {
                debug_assert!(
                    write.may_overwrite(write.before),
                    "another's absent record is not filled (U1)"
                );
                self.preserve(write);
                // The record is absent no more.
                write.placed = None;
                record.overwrite(self.arena.value(write));
                record.unlock_with(Word::for_write(self.tid));
                WriteEffect::Written
            }
            WriteKind::Delete if write.before.is_absent() => {
                record.unlock_with(write.before);
                WriteEffect::Untouched
            }
            WriteKind::Delete if write.replacement.is_some() => self.replace(write),
            WriteKind::Delete => {
                self.preserve(write);
                WriteEffect::Deleted(record.delete(self.tid))
            }
        }
    }

    /// The loop over [`Self::install`], with versions to leave to a picture under way.
    #[cold]
    #[inline(never)]
    fn leave_and_install(
        &self,
        entries: &mut [Write<'p>],
        order: &[LockOrder<'p>],
        prepared_pages: &mut PreparedPages,
        own: &WorkerShared,
    ) {
        let mut leaving = prepared_pages.pages.iter_mut().filter(|prepared| prepared.is_needed).peekable();
        for (at, lock) in (0..).zip(order) {
            let write = &mut entries[lock.at as usize];
            write.effect = match leaving.next_if(|prepared| prepared.lock == at) {
                None => self.install(write),
                Some(prepared) => self.leave_before_installing(write, prepared, own),
            };
        }
        debug_assert!(leaving.peek().is_none(), "versions are copied in the order of locks");
    }

    /// Leaves the present version to the picture under way, and then installs (N3). If another picture's map has come
    /// since the check of the version, or the page is closed, the version stays with the worker.
    fn leave_before_installing(
        &self,
        write: &mut Write<'p>,
        prepared: &mut PreparedPage,
        own: &WorkerShared,
    ) -> WriteEffect<'p> {
        let map = self.shared.tables.table(write.table).pages.load(self.pinned);
        let Some(page) = map.and_then(|map| prepared.page_in(map)) else { return self.install(write) };
        let Some(version) = prepared.version.take() else { unreachable!("it is left once") };
        debug_assert_eq!(version.tid(), write.before.tid(), "the version that is displaced is left (N4)");
        let bytes = version.bytes();
        let (left, effect) = if self.shared.has_semi_fuzzy_pictures() {
            page.leave_beside_before(&own.displaced, version, || self.install(write))
        } else {
            page.leave_before(version, || self.install(write))
        };
        match left {
            Ok(()) => WorkerCounters::add(&own.counters.displaced_bytes, bytes as u64),
            Err(unused) => prepared.version = Some(unused),
        }
        effect
    }

    /// Keeps the present version if a snapshot needs the version (§4.9, K3). Most versions are newer than the boundary,
    /// and are overwritten without a copy.
    #[inline(always)]
    fn preserve(&self, write: &mut Write<'p>) {
        if write.must_preserve(self.boundary) {
            self.copy_version(write);
        }
    }

    /// Copies the present version into the reserved room.
    #[inline(never)]
    fn copy_version(&self, write: &mut Write<'p>) {
        debug_assert!(write.before.is_latest(), "the latest version is preserved (C2)");
        let OldVersion::Room(room) = std::mem::take(&mut write.old_version) else {
            unreachable!("check_room saw to it")
        };
        let record = write.record_at(self.pinned);
        write.old_version = OldVersion::Preserved(record.preserve(write.before, room));
        if self.shared.epochs.has_reader_below(self.boundary) {
            self.prune(record, self.tid.epoch());
        }
    }

    /// Unlinks the versions behind a record of this epoch that no snapshot can show (V1). While another thread
    /// publishes the set of boundaries, nothing is unlinked. A later commit then unlinks the versions.
    #[cold]
    #[inline(never)]
    fn prune(&self, record: Record<'p>, epoch: Epoch) {
        if let Some(shown) = self.shared.epochs.shown_boundaries() {
            record.prune(epoch, &shown);
        }
    }

    /// Publishes a new record in the place of the old record, which becomes a version or garbage (§4.5). For a delete
    /// the new record is absent.
    fn replace(&self, write: &mut Write<'p>) -> WriteEffect<'p> {
        let Some(new) = write.replacement.take() else { unreachable!("asked by the caller") };
        debug_assert!(write.placed.is_none(), "a placeholder is filled where it stands");
        debug_assert!(
            matches!(write.old_version, OldVersion::NoRoom),
            "a record that is replaced is not copied"
        );
        let old = write.record_at(self.pinned);
        let kept = write.must_preserve(self.boundary);
        let (tree, key) = (&self.shared.tables.table(write.table).tree, self.arena.key(write));
        if kept && self.shared.epochs.has_reader_below(self.boundary) {
            // Prunes before the new record is published: the next commit locks the new record, and may walk the same
            // chain.
            self.prune(old, write.before.epoch());
        }
        let (unlinked, effect) = match write.kind {
            WriteKind::Put => {
                let new = Successor { record: new, word: Word::for_write(self.tid), keeps_old: kept };
                (tree.supersede(key, old, new, self.pinned), WriteEffect::Written)
            }
            WriteKind::Delete => {
                let new = Successor { record: new, word: Word::for_delete(self.tid), keeps_old: kept };
                let (unlinked, absent) = tree.supersede_by_absent(key, old, new, self.pinned);
                (unlinked, WriteEffect::Deleted(absent))
            }
        };
        old.unlock_with(write.before.to_superseded());
        if !kept && write.before.is_absent() {
            // No chain leads to the old record: the worker that registered the record need not wait for snapshots (U1).
            old.mark_unlinked();
        }
        write.old_version = OldVersion::Replaced(unlinked);
        effect
    }
}
