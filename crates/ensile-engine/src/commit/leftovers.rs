//! After unbinding: what a commit leaves behind (§4.5, §4.8).
//!
//! Neighbours: `garbage` keeps it until it may go.

use ensile_base::sync::{Ordering, fence};
use ensile_epoch::Epochs;

use super::{Commit, Committed};
use crate::garbage::{Garbage, Unhook};
use crate::record::Record;
use crate::record::version_page::VersionPage;
use crate::record::word::Word;
use crate::sets::write_set::WriteEffect;

impl Commit<'_> {
    /// Registers what the commit replaced, and gives back what it reserved and did not use (§4.8).
    pub(super) fn register_garbage(&mut self, done: Committed) {
        let Self { shared, worker, sets, pinned, .. } = self;
        debug_assert!(worker.commit.slot().bound().is_none(), "garbage is registered after unbinding (E1)");
        worker.retire_full_pages(done.epoch);
        let (entries, arena) = sets.writes.parts();
        for write in entries.iter_mut() {
            let preserved = matches!(
                write.effect,
                WriteEffect::InPlace { preserved: true } | WriteEffect::Deleted { preserved: true }
            );
            debug_assert!(!preserved || write.old_version.is_some(), "a version is preserved in a block");
            match write.old_version {
                Some(version) if preserved => {
                    if let Some(bytes) = worker.blocks.bytes_of_own_block(version) {
                        worker.garbage.version(done.epoch, version, bytes);
                    }
                }
                Some(unused) => worker.blocks.unused_version(unused),
                None => {}
            }
            match write.effect {
                WriteEffect::InPlace { .. } => continue,
                // An absent record is left to the commit that registered it for cleanup, so its address stays valid
                // until then (U1).
                WriteEffect::Replaced { .. } if write.before.is_absent() => continue,
                WriteEffect::Replaced { kept: true } => {
                    let record = write.record_at(*pinned);
                    worker.garbage.replaced(done.epoch, record.handle(), record.class().bytes());
                }
                WriteEffect::Replaced { kept: false } => {
                    retire(&mut worker.garbage, write.record_at(*pinned), &shared.epochs);
                }
                WriteEffect::Deleted { .. } => {
                    let (key, record) = (arena.key(write).into(), write.record_at(*pinned).handle());
                    let unhook = Unhook { table: write.table, key, record, word: Word::deleted(done.tid) };
                    worker.garbage.unhook(done.epoch, unhook, *pinned);
                }
                WriteEffect::Untouched => {
                    if let Some(unused) = write.replacement.take() {
                        worker.blocks.discard(unused);
                    }
                }
            }
        }
    }

    /// After a failed commit: reserved memory goes back, placeholders are registered for cleanup (§4.5).
    #[cold]
    pub(super) fn abandon(&mut self, page: VersionPage) {
        let Self { shared, worker, sets, pinned, .. } = self;
        debug_assert!(
            worker.commit.slot().bound().is_none(),
            "an epoch that waits for this worker would never end (E2)"
        );
        if std::mem::take(&mut worker.sequence_is_full) {
            // E5: the next attempt needs a new epoch, and does not wait for the heartbeat's tick.
            let _ = shared.epochs.try_advance(shared.clock.nanos());
        }
        let (entries, arena) = sets.writes.parts();
        for write in entries.iter_mut() {
            debug_assert!(write.effect == WriteEffect::Untouched, "a failed commit installs nothing");
            if let Some(unused) = write.replacement.take() {
                worker.blocks.discard(unused);
            }
            if let Some(unused) = write.old_version.take() {
                worker.blocks.unused_version(unused);
            }
            debug_assert!(!write.placed || write.record.is_some(), "a placed entry has its placeholder");
            if let (true, Some(record)) = (write.placed, write.record) {
                let key = arena.key(write).into();
                let unhook = Unhook { table: write.table, key, record, word: Word::PLACEHOLDER };
                worker.garbage.unhook(shared.epochs.now(), unhook, *pinned);
            }
        }
        worker.blocks.rewind(page);
    }
}

/// Retires a replaced record that no snapshot needs.
#[cold]
fn retire(garbage: &mut Garbage, record: Record<'_>, epochs: &Epochs) {
    let bytes = record.class().bytes();
    // SeqCst: the unlink comes before the tag's epoch is read (E3).
    fence(Ordering::SeqCst);
    garbage.record(epochs.now(), record.handle(), bytes);
}
