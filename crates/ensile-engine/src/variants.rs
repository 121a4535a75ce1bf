//! Variants of the engine for experiments, which measure the worth of each choice (Silo §5).
//!
//! Invariants:
//! - Without the feature `experiments` every method of [`Switches`] is a constant: the ordinary build has no cost.
//! - Every variant is serializable and frees no memory early. Only the logged data and late releases may differ.
//!
//! Neighbours: `builder` takes the choice. Commit, worker and memory use the switches.

#[cfg(feature = "experiments")]
pub(crate) use chosen::Switches;
#[cfg(feature = "experiments")]
pub use chosen::{LogRecords, Variants};
#[cfg(not(feature = "experiments"))]
pub(crate) use shipped::Switches;

/// The shipped engine.
#[cfg(not(feature = "experiments"))]
mod shipped {
    use ensile_base::{Epoch, Tid};
    use ensile_durability::LogConfig;
    use ensile_memory::MemoryConfig;

    #[derive(Clone, Default)]
    pub(crate) struct Switches(());

    impl Switches {
        #[inline(always)]
        pub(crate) const fn overwrites(&self) -> bool {
            true
        }

        #[inline(always)]
        pub(crate) const fn collects(&self) -> bool {
            true
        }

        #[inline(always)]
        pub(crate) const fn logs_data(&self) -> bool {
            true
        }

        #[inline(always)]
        pub(crate) const fn shared_tid(&self, _epoch: Epoch, _above: Tid) -> Option<Tid> {
            None
        }

        pub(crate) const fn apply_to_memory(&self, _config: &mut MemoryConfig) {}

        pub(crate) const fn apply_to_log(&self, _config: &mut LogConfig) {}
    }
}

/// The engine in the variant of an experiment.
#[cfg(feature = "experiments")]
mod chosen {
    use std::sync::Arc;

    use crossbeam_utils::CachePadded;
    use ensile_base::limits::{SEQUENCE_BITS, STATUS_BITS};
    use ensile_base::sync::{AtomicU64, Ordering};
    use ensile_base::{Epoch, Tid};
    use ensile_durability::LogConfig;
    use ensile_memory::MemoryConfig;

    /// Contents of a commit's log entry.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
    pub enum LogRecords {
        /// TID and length only: the minimum cost of any logging (Silo §5.7, `+SmallRecs`). The log recovers no data.
        Small,
        /// All writes.
        #[default]
        Full,
    }

    /// Variants of parts of the engine. The default is the shipped engine.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Variants {
        /// True if TIDs come from a counter shared by all workers (Silo §5.2, `MemSilo+GlobalTID`).
        pub global_tid: bool,
        /// True if values are overwritten in place where they fit; false if each write makes a new record
        /// (`+Overwrites`).
        pub overwrite: bool,
        /// True if garbage is collected; false if garbage stays until the close of the database (`+NoGC`).
        pub collect: bool,
        /// True if memory comes from slabs on huge pages; false if memory comes from the process's allocator
        /// (`+Allocator`). Without slabs, memory held at the close is never released.
        pub slabs: bool,
        /// Contents of log entries, in a database with a log.
        pub log_records: LogRecords,
        /// Limit of the tombstones in bytes for a replay from the newest parts of the log; above the limit the oldest
        /// parts come first. 0 is oldest first, [`u64::MAX`] is SiloR's order (§5.2).
        pub replay_waiting_bytes_max: u64,
        /// True if the first change of a page leaves a copy of all its rows, and not of a single row, during a picture
        /// with lists (SIREN §4.1, copy-on-update of pages).
        pub copy_pages: bool,
    }

    impl Default for Variants {
        fn default() -> Self {
            Self {
                global_tid: false,
                overwrite: true,
                collect: true,
                slabs: true,
                log_records: LogRecords::Full,
                replay_waiting_bytes_max: ensile_base::limits::REPLAY_WAITING_BYTES_MAX,
                copy_pages: false,
            }
        }
    }

    #[derive(Clone, Default)]
    pub(crate) struct Switches {
        pub(crate) variants: Variants,
        drawn: Arc<CachePadded<AtomicU64>>,
    }

    impl Switches {
        #[inline]
        pub(crate) fn overwrites(&self) -> bool {
            self.variants.overwrite
        }

        #[inline]
        pub(crate) fn collects(&self) -> bool {
            self.variants.collect
        }

        #[inline]
        pub(crate) fn copies_pages(&self) -> bool {
            self.variants.copy_pages
        }

        #[inline]
        pub(crate) fn logs_data(&self) -> bool {
            self.variants.log_records != LogRecords::Small
        }

        /// A TID of `epoch` from the shared counter, if the variant is on and the TID is above the commit's TIDs. A
        /// counter that has just wrapped around gives no such TID; the commit then takes its own TID as usual (E5).
        #[inline]
        pub(crate) fn shared_tid(&self, epoch: Epoch, above: Tid) -> Option<Tid> {
            if !self.variants.global_tid {
                return None;
            }
            // Relaxed: numbers only; the records' locks order the commits.
            let number = self.drawn.fetch_add(1, Ordering::Relaxed) & ((1 << SEQUENCE_BITS) - 1);
            let tid = Tid::from_word(Tid::first_of(epoch).bits() | number << STATUS_BITS);
            (tid > above).then_some(tid)
        }

        pub(crate) fn apply_to_memory(&self, config: &mut MemoryConfig) {
            config.general = !self.variants.slabs;
        }

        pub(crate) fn apply_to_log(&self, config: &mut LogConfig) {
            config.replay_waiting_bytes_max = self.variants.replay_waiting_bytes_max;
        }
    }
}
