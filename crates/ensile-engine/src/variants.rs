//! Variants of the engine, for measurements of the worth of each choice (Silo §5).
//!
//! Invariants:
//! - Without the feature `laboratory` each method of [`Switches`] returns a constant: the ordinary build has no cost.
//! - Every variant is serializable and frees no memory early. Only the logged data and late releases may differ.
//!
//! Neighbours: `laboratory` sets the variants. Commit, worker and memory use the switches.

use std::sync::Arc;

use crossbeam_utils::CachePadded;
use ensile_base::limits::{SEQUENCE_BITS, STATUS_BITS};
use ensile_base::sync::{AtomicU64, Ordering};
use ensile_base::{Epoch, Tid};
use ensile_memory::MemoryConfig;

use crate::IS_LABORATORY;

/// Variants of parts of the engine. The default is the shipped engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(feature = "laboratory"), expect(unreachable_pub, reason = "exported by `laboratory` only"))]
pub struct Variants {
    /// True if TIDs come from a counter shared by all workers (Silo §5.2, `MemSilo+GlobalTID`).
    pub global_tid: bool,
    /// True if values are overwritten in place where they fit; false if each write makes a new record (`+Overwrites`).
    pub overwrite: bool,
    /// True if garbage is collected; false if garbage stays until the close of the database (`+NoGC`).
    pub collect: bool,
    /// True if memory comes from slabs on huge pages; false if memory comes from the process's allocator
    /// (`+Allocator`). Without slabs, memory held at the close is never released.
    pub slabs: bool,
    /// True if log entries have all writes; false if they have TID and length only: the minimum cost of any logging
    /// (Silo §5.7, `+SmallRecs`). Such a log recovers no data.
    pub log_data: bool,
}

impl Default for Variants {
    fn default() -> Self {
        Self { global_tid: false, overwrite: true, collect: true, slabs: true, log_data: true }
    }
}

#[derive(Clone, Default)]
pub(crate) struct Switches {
    pub(crate) variants: Variants,
    drawn: Arc<CachePadded<AtomicU64>>,
}

impl Switches {
    /// True if a write overwrites a value in place where the new value fits.
    #[inline(always)]
    pub(crate) fn overwrites(&self) -> bool {
        !IS_LABORATORY || self.variants.overwrite
    }

    /// True if workers free garbage before the close of the database.
    #[inline(always)]
    pub(crate) fn collects(&self) -> bool {
        !IS_LABORATORY || self.variants.collect
    }

    /// True if log entries have the writes of their transactions.
    #[inline(always)]
    pub(crate) fn logs_data(&self) -> bool {
        !IS_LABORATORY || self.variants.log_data
    }

    /// A TID of `epoch` from the shared counter, if the variant is on and the TID is above the commit's TIDs. A counter
    /// that has just wrapped around gives no such TID; the commit then takes its own TID as usual (E5).
    #[inline(always)]
    pub(crate) fn shared_tid(&self, epoch: Epoch, above: Tid) -> Option<Tid> {
        if !IS_LABORATORY || !self.variants.global_tid {
            return None;
        }
        // Relaxed: numbers only; the records' locks order the commits.
        let number = self.drawn.fetch_add(1, Ordering::Relaxed) & ((1 << SEQUENCE_BITS) - 1);
        let tid = Tid::from_word(Tid::first_of(epoch).bits() | number << STATUS_BITS);
        (tid > above).then_some(tid)
    }

    /// Selects slabs or the process's allocator in the configuration of the memory.
    pub(crate) fn apply_to_memory(&self, config: &mut MemoryConfig) {
        config.general = !self.variants.slabs;
    }
}
