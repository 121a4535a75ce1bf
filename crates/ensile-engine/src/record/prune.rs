//! Versions that no snapshot can show any more leave their chain (V1).
//!
//! Invariants:
//! - A thread changes a chain under the lock of the key's latest record, and before it publishes the next latest one.
//! - A link of a version below the lowest boundary that can be shown is not followed: it may lead to freed memory (E3).
//! - An unlinked version keeps its own link: a reader that stands on it goes on.
//! - A version is marked once nothing leads to it: from then on its owner may retire it.
//!
//! Neighbours: `commit::install` asks when it has kept a version; `garbage` finds the marks.

use ensile_base::Epoch;
use ensile_base::sync::Ordering;
use ensile_epoch::ShownBoundaries;

use super::{PAGED, Record, UNLINKED};

impl Record<'_> {
    /// Unlinks each version behind this one that no boundary of `shown` shows. This one is of `epoch`. The caller holds
    /// the lock of the key's latest record, and has read `shown` while it is bound.
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

    /// Says that no chain and no tree leads here any more. The caller changed the last link; nobody else writes this
    /// record's chain word.
    pub(crate) fn mark_unlinked(self) {
        debug_assert!(!self.word().is_latest(), "a tree leads to its keys' latest records (C2)");
        // Relaxed: its last writer was this thread, or held the lock before.
        let chain = self.at_word(1).load(Ordering::Relaxed);
        // Release: the link was changed before; partner: Acquire in `chain`, behind which the owner reads the tag (E3).
        self.at_word(1).store(chain | UNLINKED, Ordering::Release);
    }

    /// Whether no chain and no tree leads here any more. It may say no for long.
    #[inline]
    pub(crate) fn is_unlinked(self) -> bool {
        self.chain() & UNLINKED != 0
    }

    /// Whether it lies in a page of versions, which is freed as a whole.
    #[inline]
    pub(crate) fn is_paged(self) -> bool {
        debug_assert!(!self.word().is_latest(), "pages hold versions");
        self.chain() & PAGED != 0
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
