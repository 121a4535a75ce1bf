//! A counter for statistics: no decision depends on its value.
//!
//! Neighbours: log, leases, archive and checkpoints count; the statistics of engine and objects read the counters.

use ensile_base::sync::{AtomicU64, Ordering};

/// Counter for statistics, which orders no other memory.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, count: u64) {
        // Relaxed: orders nothing, no partner.
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    pub(crate) fn read(&self) -> u64 {
        // Relaxed: orders nothing, no partner.
        self.0.load(Ordering::Relaxed)
    }
}
