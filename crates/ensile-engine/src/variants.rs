//! Where the engine can run otherwise than it ships, so that experiments measure what each choice is worth (Silo §5).
//!
//! Invariants:
//! - Without the feature `experiments` every answer of [`Switches`] is a constant: the ordinary build pays nothing.
//! - Every variant is serializable, and frees nothing early; only what is logged and what is freed late may differ.
//!
//! Neighbours: `builder` takes the choice; commit, worker and memory ask.

#[cfg(feature = "experiments")]
pub(crate) use chosen::Switches;
#[cfg(feature = "experiments")]
pub use chosen::{LogRecords, Variants};
#[cfg(not(feature = "experiments"))]
pub(crate) use shipped::Switches;

/// The engine as it ships.
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

/// The engine as an experiment wants it.
#[cfg(feature = "experiments")]
mod chosen {
    use std::sync::Arc;

    use crossbeam_utils::CachePadded;
    use ensile_base::limits::{SEQUENCE_BITS, STATUS_BITS};
    use ensile_base::sync::{AtomicU64, Ordering};
    use ensile_base::{Epoch, Tid};
    use ensile_durability::LogConfig;
    use ensile_memory::MemoryConfig;

    /// What a commit's log entry holds.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
    pub enum LogRecords {
        /// Its TID and length and nothing else: what any logging costs at least (Silo §5.7, `+SmallRecs`). The log
        /// recovers nothing.
        Small,
        /// Everything written.
        #[default]
        Full,
    }

    /// Which parts of the engine run otherwise than they ship. The default is how they ship.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Variants {
        /// TIDs are drawn from one counter that all workers share (Silo §5.2, `MemSilo+GlobalTID`).
        pub global_tid: bool,
        /// Values are overwritten in place where they fit; otherwise each write makes a new record (`+Overwrites`).
        pub overwrite: bool,
        /// Garbage is collected; otherwise it stays until the database is closed (`+NoGC`).
        pub collect: bool,
        /// Memory comes from slabs on huge pages; otherwise from the process's allocator (`+Allocator`), and what
        /// the database still holds when it is closed is never given back.
        pub slabs: bool,
        /// What is logged, where there is a log.
        pub log_records: LogRecords,
        /// Recovery replays the newest parts of the log first while tombstones take fewer bytes, then the oldest: 0 is
        /// oldest first, [`u64::MAX`] SiloR's order (§5.2).
        pub replay_waiting_bytes_max: u64,
        /// While a picture is taken with lists, the first change of a page leaves a copy of all its rows, and not of
        /// one (SIREN §4.1, copy-on-update of pages).
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

        /// A TID of `epoch` from the shared counter, if there is to be one and it is above what the commit saw. It
        /// is not when the counter has just gone round; a commit then takes a TID of its own as usual (E5).
        #[inline]
        pub(crate) fn shared_tid(&self, epoch: Epoch, above: Tid) -> Option<Tid> {
            if !self.variants.global_tid {
                return None;
            }
            // Relaxed: numbers only; what they order is ordered by the records' locks.
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
