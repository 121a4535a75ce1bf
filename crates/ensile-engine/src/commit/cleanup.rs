//! Registers the leftovers of a commit as garbage, after unbinding (§4.5, §4.8).
//!
//! Neighbours: `garbage` keeps the leftovers until no thread can reach them.

use super::{Commit, Committed};
use crate::record::blocks::VersionPlace;
use crate::record::tid_word::Word;
use crate::sets::write_set::{OldVersion, WriteEffect};
use crate::worker::Worker;

impl Commit<'_, '_> {
    /// Registers everything that the commit replaced or deleted, and gives unused reservations back (§4.8).
    pub(super) fn register_garbage(&mut self, done: Committed) {
        let Self { shared, worker, sets, pinned, .. } = self;
        debug_assert!(
            worker.commit.slot().bound_epoch().is_none(),
            "garbage is registered after unbinding (E1)"
        );
        let Worker { shared: own, blocks, .. } = &mut **worker;
        // Most commits leave nothing behind, and take no lock.
        let mut garbage = None;
        while let Some(page) = blocks.full_page() {
            garbage.get_or_insert_with(|| own.lock_garbage()).add_page(done.epoch, page);
        }
        let (entries, arena) = sets.writes.parts();
        for write in entries.iter_mut() {
            if !matches!(write.old_version, OldVersion::NoRoom) {
                match std::mem::take(&mut write.old_version) {
                    OldVersion::NoRoom => {}
                    OldVersion::Room(unused) => blocks.unused_version(unused),
                    OldVersion::Preserved(version) => {
                        if let Some(version) = version.own_block() {
                            garbage
                                .get_or_insert_with(|| own.lock_garbage())
                                .add_version(done.epoch, version);
                        }
                    }
                    OldVersion::Replaced(old) => {
                        let garbage = garbage.get_or_insert_with(|| own.lock_garbage());
                        garbage.add_replaced(done.epoch, old, &shared.epochs);
                    }
                }
            }
            if matches!(write.effect, WriteEffect::Written) {
                continue;
            }
            match std::mem::take(&mut write.effect) {
                WriteEffect::Written => {}
                WriteEffect::Deleted(absent) => {
                    let (key, word) = (arena.key(write), Word::for_delete(done.tid));
                    let garbage = garbage.get_or_insert_with(|| own.lock_garbage());
                    garbage.add_unhook(done.epoch, write.table, key, absent, word, *pinned);
                }
                WriteEffect::Untouched => {
                    if let Some(unused) = write.replacement.take() {
                        blocks.discard(unused);
                    }
                }
            }
        }
        if garbage.is_some_and(|garbage| garbage.has_burials()) {
            worker.must_collect();
        }
    }

    /// Gives back the reserved memory of a failed commit, and registers its placeholders for cleanup (§4.5). `versions`
    /// is the place in the worker's page of versions before the commit.
    #[cold]
    pub(super) fn abandon(&mut self, versions: VersionPlace) {
        let Self { shared, worker, sets, pinned, turned } = self;
        debug_assert!(
            worker.commit.slot().bound_epoch().is_none(),
            "an epoch that waits for this worker would never end (E2)"
        );
        if std::mem::take(&mut worker.sequence_is_full) {
            // E5: the next attempt needs a new epoch, and does not wait for the heartbeat's tick.
            let _ = shared.epochs.try_advance_early(shared.clock.nanos());
        }
        let (entries, arena) = sets.writes.parts();
        for write in entries.iter_mut() {
            debug_assert!(matches!(write.effect, WriteEffect::Untouched), "a failed commit installs nothing");
            if let Some(unused) = write.replacement.take() {
                worker.blocks.discard(unused);
            }
            if let OldVersion::Room(unused) = std::mem::take(&mut write.old_version) {
                worker.blocks.unused_version(unused);
            }
            debug_assert!(
                write.placed.is_none() || write.record.is_some(),
                "a placed entry has its placeholder"
            );
            if let Some(placeholder) = write.placed.take() {
                let (key, word) = (arena.key(write), Word::PLACEHOLDER);
                let mut garbage = worker.shared.lock_garbage();
                garbage.add_unhook(shared.epochs.now(), write.table, key, placeholder, word, *pinned);
            }
        }
        worker.blocks.rewind(versions);
        if let Some(task) = &turned.task {
            sets.forget_preparation(task.has_witnesses);
        }
    }
}
