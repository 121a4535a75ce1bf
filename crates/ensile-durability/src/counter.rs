//! A number that is reported to people: nothing else depends on the number.
//!
//! Neighbours: log, leases and checkpoints count; the engine's statistics read the numbers.

use ensile_base::sync::{AtomicU64, Ordering};

/// A number for people. The number orders nothing.
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
