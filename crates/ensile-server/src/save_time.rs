//! The time of the last checkpoint, for `LASTSAVE` and `INFO`.
//!
//! Neighbours: the sweeper looks once a second; [`crate::admin`] shows the time.

use ensile::stats::Stats;
use ensile_base::clock::unix_seconds;
use ensile_base::sync::{AtomicU64, Ordering};

/// Time of the last checkpoint, as far as somebody has looked.
#[derive(Debug)]
pub(crate) struct SaveTime {
    /// Number of checkpoints at the last look.
    installed: AtomicU64,
    /// Time in seconds since 1970 at which the number was first seen; at first the time of the start.
    seconds: AtomicU64,
}

impl SaveTime {
    pub(crate) fn new() -> Self {
        Self { installed: AtomicU64::new(0), seconds: AtomicU64::new(unix_seconds()) }
    }

    /// Notes the time if there is a new checkpoint.
    pub(crate) fn look(&self, stats: &Stats) {
        let installed = stats.checkpoints.as_ref().map_or(0, |checkpoints| checkpoints.installed);
        // Relaxed, both: figures for people.
        if self.installed.swap(installed, Ordering::Relaxed) != installed {
            self.seconds.store(unix_seconds(), Ordering::Relaxed);
        }
    }

    /// Time of the last checkpoint in seconds since 1970; of the start without a checkpoint since.
    pub(crate) fn seconds(&self) -> u64 {
        // Relaxed: a figure for people.
        self.seconds.load(Ordering::Relaxed)
    }
}
