//! The cases that are counted: a fresh database for each, whose epochs, garbage and log move only when told to.
//!
//! The clock is a manual one and the database has no threads: between two transactions the conductor beats. So a run
//! comes out the same each time, but for where the machine puts blocks in memory.
//!
//! Neighbours: [`super::alternation`] runs a case; [`super::keys`] and [`super::business`] are its workloads.

use std::path::Path;
use std::time::Duration;

use ensile::{Database, Durability};
use ensile_base::clock::Clock;
use ensile_base::sync::{AtomicBool, Ordering};
use serde::Serialize;

use super::account::Case;
use super::alternation::{self, Stage};
use super::{business, keys};
use crate::failure::Result;
use crate::system::fresh_folder;

/// Which keys the two workers draw.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Keys {
    Apart,
    Neighbouring,
    Same,
}

/// What they run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Workload {
    SingleKeys,
    Tpcc,
}

/// A beat's length, on the manual clock: no epoch is shorter.
const BEAT: Duration = Duration::from_millis(1);
/// Beats between two snapshot boundaries: so that some writes meet one and most do not.
const BEATS_PER_BOUNDARY: u32 = 4;

/// Beats after the load: what it left behind is freed, and snapshots show the rows.
const BEATS_AFTER_LOAD: usize = 20;

/// A database that moves only when it is told to.
pub(super) struct Driven {
    pub(super) db: Database,
    clock: Clock,
}

impl Driven {
    fn open(data: &Path, logged: bool) -> Result<Self> {
        let clock = Clock::manual();
        let builder = if logged {
            Database::builder(fresh_folder(data, "shared-writes")?)
        } else {
            Database::builder_in_memory()
        };
        let db = builder
            .durability(Durability::Relaxed)
            .snapshot_interval(BEAT * BEATS_PER_BOUNDARY)
            .manual_clock(clock.clone())
            .without_threads()
            .open()?;
        Ok(Self { db, clock })
    }

    /// Lets the epoch move on, and what hangs on it.
    pub(super) fn beat(&self) {
        self.clock.advance(BEAT);
        self.db.heartbeat_step();
        self.db.logger_step(0);
    }

    /// After a load: snapshots show it, and its garbage can go.
    pub(super) fn settle(&self) {
        (0..BEATS_AFTER_LOAD).for_each(|_| self.beat());
    }

    /// Runs `f`, which may wait for epochs, while another thread beats.
    pub(super) fn while_beating<R: Send>(&self, f: impl FnOnce() -> R + Send) -> R {
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let running = scope.spawn(|| {
                let result = f();
                // Relaxed: says only that nobody waits any more.
                over.store(true, Ordering::Relaxed);
                result
            });
            // Relaxed: as above. A panic ends the wait too.
            while !over.load(Ordering::Relaxed) && !running.is_finished() {
                self.beat();
                std::thread::yield_now();
            }
            running.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }
}

/// Counts one case.
pub(super) fn count(
    workload: Workload,
    keys: Keys,
    logged: bool,
    (data, rounds): (&Path, usize),
) -> Result<Case> {
    let driven = Driven::open(data, logged)?;
    let stage: Box<dyn Stage + '_> = match workload {
        Workload::SingleKeys => Box::new(keys::SingleKeys::load(&driven, keys)?),
        Workload::Tpcc => Box::new(business::Offices::load(&driven, keys)?),
    };
    let observed = alternation::run(&*stage, rounds)?;
    Ok(Case::new((workload, keys, logged), stage.kinds(), &observed))
}

/// Counts every case.
pub(super) fn count_all(data: &Path, rounds: usize) -> Result<Vec<Case>> {
    let mut cases = Vec::new();
    for workload in [Workload::SingleKeys, Workload::Tpcc] {
        for logged in [false, true] {
            for keys in [Keys::Apart, Keys::Neighbouring, Keys::Same] {
                cases.push(count(workload, keys, logged, (data, rounds))?);
            }
        }
    }
    Ok(cases)
}
