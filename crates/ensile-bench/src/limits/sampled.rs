//! Maxima of a database's memory, sampled every millisecond during a piece of work.
//!
//! Neighbours: [`super::held`] and [`super::versions`] sample the memory; [`crate::watch`] samples epochs.

use std::time::Duration;

use ensile::Database;
use ensile_base::clock::Clock;
use ensile_base::sync::{AtomicBool, Ordering};

use crate::machine::resident_bytes;

/// Time between two samples.
const LOOK: Duration = Duration::from_millis(1);

/// Maxima over the samples.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Most {
    /// Garbage of `Stats`: pinned and old versions.
    pub(super) garbage_bytes: u64,
    /// Old versions, and deleted rows before their release: a part of `garbage_bytes`.
    pub(super) version_bytes: u64,
    /// Memory of the database for records and nodes.
    pub(super) taken_bytes: u64,
    pub(super) resident_bytes: u64,
    /// Time of the last sample above the garbage bound, since the beginning; 0 without a sample above the bound.
    pub(super) last_above_nanos: u64,
}

/// Runs `work`, and returns its result and the maxima during `work`. `bound` is the bound on garbage in bytes.
pub(super) fn during<R>(db: &Database, bound: u64, work: impl FnOnce() -> R) -> (R, Most) {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let looking = scope.spawn(|| look(db, bound, &over));
        let done = work();
        // Relaxed: the flag only ends a loop; the join of the thread synchronizes the maxima.
        over.store(true, Ordering::Relaxed);
        (done, looking.join().expect("looking does not panic"))
    })
}

fn look(db: &Database, bound: u64, over: &AtomicBool) -> Most {
    let clock = Clock::machine();
    let begun = clock.nanos();
    let mut most = Most::default();
    loop {
        let stats = db.stats();
        let garbage = stats.garbage_pinned_bytes + stats.garbage_version_bytes;
        most.garbage_bytes = most.garbage_bytes.max(garbage);
        most.version_bytes = most.version_bytes.max(stats.garbage_version_bytes);
        most.taken_bytes = most.taken_bytes.max(stats.memory.chunk_bytes + stats.memory.large_bytes);
        most.resident_bytes = most.resident_bytes.max(resident_bytes());
        if garbage > bound {
            most.last_above_nanos = clock.nanos() - begun;
        }
        // Relaxed: see `during`.
        if over.load(Ordering::Relaxed) {
            return most;
        }
        std::thread::sleep(LOOK);
    }
}
