//! Watches a database while it is under load: memory, garbage and epochs, sampled by a thread of its own.
//!
//! Neighbours: [`crate::snapshots`] and [`crate::open_transaction`] run the load beside it.

use std::time::Duration;

use ensile::Database;
use ensile_base::clock::Clock;
use ensile_base::sync::{AtomicBool, Ordering};

use crate::machine::resident_bytes;

/// Time between two looks at the epoch.
const LOOK: Duration = Duration::from_millis(2);
/// Looks at the epoch for one at the memory, which is dearer.
const LOOKS_PER_SAMPLE: u32 = 10;

/// What was seen.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Seen {
    pub(crate) resident_bytes_max: u64,
    pub(crate) version_bytes_max: u64,
    pub(crate) pinned_bytes_max: u64,
    pub(crate) epochs: u64,
    /// The longest time between two steps of the epoch, to about [`LOOK`].
    pub(crate) epoch_gap_nanos_max: u64,
    pub(crate) nanos: u64,
}

impl Seen {
    /// How fast epochs went by.
    pub(crate) fn epochs_per_s(&self) -> f64 {
        self.epochs as f64 / (self.nanos.max(1) as f64 / 1e9)
    }
}

/// Runs `load` with somebody watching.
pub(crate) fn during<R>(db: &Database, load: impl FnOnce() -> R) -> (R, Seen) {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let watcher = scope.spawn(|| watch(db, &over));
        let result = load();
        // Relaxed: only ends the watching.
        over.store(true, Ordering::Relaxed);
        (result, watcher.join().expect("watching does not panic"))
    })
}

fn watch(db: &Database, over: &AtomicBool) -> Seen {
    let clock = Clock::machine();
    let first = db.epoch().number();
    let (mut epoch, mut stepped) = (first, 0);
    let mut seen = Seen::default();
    let mut looks = 0;
    // Relaxed: see `during`.
    while !over.load(Ordering::Relaxed) {
        let (now, current) = (clock.nanos(), db.epoch().number());
        if current != epoch {
            seen.epoch_gap_nanos_max = seen.epoch_gap_nanos_max.max(now - stepped);
            (epoch, stepped) = (current, now);
        }
        if looks % LOOKS_PER_SAMPLE == 0 {
            let stats = db.stats();
            seen.resident_bytes_max = seen.resident_bytes_max.max(resident_bytes());
            seen.version_bytes_max = seen.version_bytes_max.max(stats.garbage_version_bytes);
            seen.pinned_bytes_max = seen.pinned_bytes_max.max(stats.garbage_pinned_bytes);
        }
        looks += 1;
        std::thread::sleep(LOOK);
    }
    let now = clock.nanos();
    seen.epoch_gap_nanos_max = seen.epoch_gap_nanos_max.max(now - stepped);
    Seen { epochs: epoch - first, nanos: now, ..seen }
}
