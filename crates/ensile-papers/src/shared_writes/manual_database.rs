//! A database that moves only on command.
//!
//! The clock is a manual one and the database has no threads: between two transactions the conductor beats. So a run
//! has the same result each time, except for the places of blocks in memory.
//!
//! Neighbours: [`super::counting`] opens a database for each case; the workloads beat.

use std::path::Path;
use std::time::Duration;

use ensile::{Database, Durability, Tuning};
use ensile_base::clock::Clock;
use ensile_base::sync::{AtomicBool, Ordering};
use ensile_bench::Result;
use ensile_bench::system::fresh_folder;

use super::choices::Setup;

/// Length of a beat on the manual clock; no epoch is shorter.
const BEAT: Duration = Duration::from_millis(1);
/// Beats between two snapshot boundaries, so that some writes meet a boundary and most do not.
const BEATS_PER_BOUNDARY: u32 = 4;

/// Number of beats after the load: garbage of the load is freed, and snapshots show the rows.
const BEATS_AFTER_LOAD: usize = 20;

/// A database that moves only on command.
pub(super) struct Driven {
    pub(super) db: Database,
    pub(super) has_log: bool,
    clock: Clock,
}

impl Driven {
    pub(super) fn open(data: &Path, setup: Setup) -> Result<Self> {
        let clock = Clock::manual();
        let builder = if setup == Setup::Logged {
            Database::builder(fresh_folder(data, "shared-writes")?)
        } else {
            Database::builder_in_memory()
        };
        let builder = builder.variants(ensile::Variants {
            global_tid: setup == Setup::GlobalTid,
            ..ensile::Variants::default()
        });
        let db = builder
            .durability(Durability::Relaxed)
            .tuning(Tuning { snapshot_interval: BEAT * BEATS_PER_BOUNDARY, ..Tuning::default() })
            .manual_clock(clock.clone())
            .without_threads()
            .open()?;
        Ok(Self { db, has_log: setup == Setup::Logged, clock })
    }

    /// Moves the epoch on, with everything that depends on the epoch.
    pub(super) fn beat(&self) {
        self.clock.advance(BEAT);
        self.db.heartbeat_step();
        self.db.logger_step(0);
    }

    /// Moves the logger on. The logger closes an epoch only if a strict result waits for the epoch.
    pub(super) fn log(&self) {
        self.clock.advance(BEAT);
        self.db.logger_step(0);
    }

    /// Settles after a load: snapshots show the rows, and garbage can go.
    pub(super) fn settle(&self) {
        (0..BEATS_AFTER_LOAD).for_each(|_| self.beat());
    }

    /// Runs `f`, which may wait for epochs, while another thread beats.
    pub(super) fn while_beating<R: Send>(&self, f: impl FnOnce() -> R + Send) -> R {
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let running = scope.spawn(|| {
                let result = f();
                // Relaxed: the flag says only that the wait is over.
                over.store(true, Ordering::Relaxed);
                result
            });
            // Relaxed: only ends the loop; the join hands the result over. A panic ends the wait too.
            while !over.load(Ordering::Relaxed) && !running.is_finished() {
                self.beat();
                std::thread::yield_now();
            }
            running.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }
}
