//! Removal of versions that no snapshot can show any more from their chain (V1).
//!
//! Invariants:
//! - A thread changes a chain under the lock of the key's latest record, and before publication of the next latest
//!   record.
//! - A link of a version below the lowest boundary that can be shown is not followed: the link may lead to freed memory
//!   (E3).
//! - An unlinked version keeps its own link: a reader that stands on the version can follow the chain further.
//! - A version is marked once nothing leads to the version: from then on the version's owner may retire the version.
//!
//! Neighbours: `commit::install` calls `prune` after it has kept a version; `garbage` finds the marks.

use ensile_base::Epoch;
use ensile_base::sync::Ordering;
use ensile_epoch::ShownBoundaries;

use super::layout::{BURIED, PAGED, UNLINKED};
use super::reference::Record;

impl Record<'_> {
    /// Unlinks each version behind `self` that no boundary of `shown` shows. `self` is of `epoch`. The caller holds the
    /// lock of the key's latest record, and has read `shown` while bound.
    pub(crate) fn prune(self, epoch: Epoch, shown: &ShownBoundaries) {
        let (mut newer, mut superseded) = (self, epoch);
        while superseded >= shown.lowest() {
            let Some(version) = newer.previous() else { return };
            let epoch = version.word().epoch();
            debug_assert!(epoch < superseded, "a boundary lies between a version and the next (S1)");
            if shown.show(epoch, superseded) {
                (newer, superseded) = (version, epoch);
            } else {
                debug_assert!(epoch >= shown.lowest(), "what it leads to has not been freed");
                newer.link(version.previous_address());
                version.mark_unlinked();
            }
        }
    }

    /// Marks a record that no chain and no tree leads to any more. The caller changed the last link; no other thread
    /// writes this record's chain word.
    pub(crate) fn mark_unlinked(self) {
        debug_assert!(!self.word().is_latest(), "a tree leads to its keys' latest records (C2)");
        // Relaxed: the last writer of the word was this thread, or held the lock before.
        let chain = self.at_word(1).load(Ordering::Relaxed);
        // Release: the link was changed before; partner: Acquire in `chain`, behind which the owner reads the tag (E3).
        self.at_word(1).store(chain | UNLINKED, Ordering::Release);
    }

    /// True if no chain and no tree leads to the record any more. The answer may stay false for long.
    #[inline]
    pub(crate) fn is_unlinked(self) -> bool {
        self.chain() & UNLINKED != 0
    }

    /// Marks a deleted record that is about to leave its table's tree for the side index. The caller holds the record's
    /// lock (U3).
    pub(crate) fn mark_buried(self) {
        debug_assert!(
            self.word().is_absent() && self.word().is_latest(),
            "a record is buried while it is absent and the latest of its key"
        );
        // Relaxed: the last writer of the word was this thread, or held the lock before.
        let chain = self.at_word(1).load(Ordering::Relaxed);
        // Release: partner: Acquire in `chain`. A snapshot that misses the record in the tree has read the leaf's
        // version, and so sees the mark (C4).
        self.at_word(1).store(chain | BURIED, Ordering::Release);
    }

    /// True if a burial has marked the record. A record that a newer record superseded before its burial has no mark.
    #[inline]
    pub(crate) fn is_buried(self) -> bool {
        debug_assert!(self.word().is_absent(), "side indexes hold deletes");
        self.chain() & BURIED != 0
    }

    /// True if the record leads to no version.
    pub(crate) fn is_without_versions(self) -> bool {
        debug_assert!(self.is_buried(), "the chain of a record in a tree may change");
        self.previous().is_none()
    }

    /// True if the version lies in a page of versions, which is freed as a whole.
    #[inline]
    pub(crate) fn is_paged(self) -> bool {
        debug_assert!(!self.word().is_latest(), "pages hold versions");
        self.chain() & PAGED != 0
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
