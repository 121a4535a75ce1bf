//! A database's memory, looked at every millisecond while something runs.
//!
//! Neighbours: [`super::held`] and [`super::versions`]; [`crate::watch`] looks at epochs.

use std::time::Duration;

use ensile::Database;
use ensile_base::clock::Clock;
use ensile_base::sync::{AtomicBool, Ordering};

use crate::machine::resident_bytes;

/// Time between two looks.
const LOOK: Duration = Duration::from_millis(1);

/// The most that was seen.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Most {
    /// What `Stats` counts as garbage: pinned and old versions.
    pub(super) garbage_bytes: u64,
    /// Of it old versions, and deleted rows that wait.
    pub(super) version_bytes: u64,
    /// Memory that the database has taken for records and nodes.
    pub(super) taken_bytes: u64,
    pub(super) resident_bytes: u64,
    /// When more garbage than the bound was seen last, since the beginning; 0 if never.
    pub(super) last_above_nanos: u64,
}

/// Runs `work`, and says what was seen beside it; `bound` is on garbage.
pub(super) fn during<R>(db: &Database, bound: u64, work: impl FnOnce() -> R) -> (R, Most) {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let looking = scope.spawn(|| look(db, bound, &over));
        let done = work();
        // Relaxed: it ends a loop; what was seen comes by joining the thread.
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
