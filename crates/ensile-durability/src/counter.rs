//! A number that is reported to people, and that nothing else depends on.
//!
//! Neighbours: log, leases and checkpoints count with it; the engine's statistics read it.

use ensile_base::sync::{AtomicU64, Ordering};

/// A number for people: it orders nothing.
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
