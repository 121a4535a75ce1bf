//! Open of a database: from the settings to a recovered, running database.
//!
//! Neighbours: `builder` has the settings. `replay` applies the recovered entries of the durability crate. `threads`
//! runs the database.

use std::sync::Arc as StdArc;
use std::time::Duration;

use ensile_base::Epoch;
use ensile_base::limits::{DISPLACED_BYTES_LEAST, MEMORY_BYTES_LEAST, PREFAULT_BYTES_MAX};
use ensile_base::sync::{Arc, Mutex};
use ensile_disk::{Disk, Process, RealDisk};
use ensile_durability::{
    Checkpoints, DurabilityError, Finished, Log, LogScan, OpenStore, Opening, Phase, Recovered,
    RecoveryWatch, Shipper, Strategy, UserCode, check_shipping,
};
use ensile_epoch::{EpochConfig, Epochs};
use ensile_memory::{Memory, MemoryConfig};

use super::builder::Builder;
use super::catalogue;
use super::replay::{RecoveredTables, Replay};
use super::threads::{self, in_parallel};
use crate::database::threads::Threads;
use crate::database::{Database, OpenDatabase};
use crate::error::{Error, Result};
use crate::shared_state::{Durability, DurableStorage, SharedParts, SharedState};
use crate::tables::catalog::Catalog;
use crate::worker::pinning::Cores;

/// Part of the limit of the memory that garbage may take, before readers are ended: one of so many.
const GARBAGE_PART: u64 = 2;

/// Running parts of an open store.
type Running = (StdArc<Log>, (StdArc<Checkpoints>, Option<StdArc<Shipper>>));

impl Builder {
    /// The disk of the folder; `None` for a database in memory.
    fn disk_for(&self, opening: Opening) -> Result<Option<StdArc<dyn Disk>>> {
        if let Some(disk) = &self.disk {
            return Ok(Some(StdArc::clone(disk)));
        }
        let Some(path) = &self.path else {
            return match opening {
                Opening::Existing => {
                    Err(Error::Misuse("a database in memory is always a new one".to_owned()))
                }
                _ => Ok(None),
            };
        };
        let disk = match opening {
            Opening::Existing => match RealDisk::open_existing(path) {
                Err(error) if error.is_not_found() => {
                    return Err(DurabilityError::NoDatabase { folder: path.clone() }.into());
                }
                disk => disk,
            },
            _ => RealDisk::open(path),
        };
        Ok(Some(StdArc::new(disk.map_err(DurabilityError::from)?)))
    }

    /// Refuses settings outside their bounds.
    fn check_bounds(&self) -> Result<()> {
        if self.settings.epoch_interval < Duration::from_millis(1) {
            return Err(Error::Misuse("epoch_interval is below 1 ms".to_owned()));
        }
        if self.tuning.prefault_bytes > PREFAULT_BYTES_MAX {
            return Err(Error::Misuse(format!("prefault_bytes is above {PREFAULT_BYTES_MAX}")));
        }
        if self.memory_bytes_max.is_some_and(|bytes| bytes < MEMORY_BYTES_LEAST) {
            return Err(Error::Misuse(format!("memory_bytes_max is below {MEMORY_BYTES_LEAST}")));
        }
        if self.memory_bytes_max.is_some_and(|bytes| bytes < self.tuning.prefault_bytes as u64) {
            return Err(Error::Misuse("prefault_bytes is above memory_bytes_max".to_owned()));
        }
        if self.tuning.displaced_bytes_max < DISPLACED_BYTES_LEAST {
            return Err(Error::Misuse(format!("displaced_bytes_max is below {DISPLACED_BYTES_LEAST}")));
        }
        Ok(())
    }

    /// Opens the database for the public functions of [`Builder`]: checks the settings, recovers the folder, and starts
    /// the threads. `opening` states if the database must exist, may exist, or must not exist.
    pub(super) fn open_as(self, opening: Opening) -> Result<Database> {
        UserCode::check_outside()?;
        self.check_bounds()?;
        self.check_log_settings()?;
        self.checkpoint_config().check()?;
        self.check_shipping(opening)?;
        let cores = if self.tuning.pin_workers { Some(Cores::of_this_thread()?) } else { None };
        let mut memory = MemoryConfig::with_prefault(self.tuning.prefault_bytes);
        memory.bytes_max = self.memory_bytes_max;
        self.settings.switches.apply_to_memory(&mut memory);
        let memory = Memory::new(&memory);
        let disk = self.disk_for(opening)?;
        let process = disk.as_ref().map_or_else(Process::current, |disk| disk.process());
        let replay = Replay::new(&memory, self.strategy() == Strategy::Pictures);
        let recovered =
            disk.map(|disk| self.load(disk, opening, &replay)).transpose().map_err(told_to_free_space)?;
        let (first, report) = match &recovered {
            None => (Epoch::FIRST, None),
            Some(Finished::Open(open)) => (open.report.first_epoch, Some(open.report.clone())),
            Some(Finished::ReadOnly(closed)) => (closed.report.first_epoch, Some(closed.report.clone())),
        };
        let snapshot_interval = self.tuning.snapshot_interval;
        let epochs = Arc::new(Epochs::new(&EpochConfig { first, snapshot_interval }));
        let (running, read_only) = match recovered {
            Some(Finished::Open(open)) => (Some(self.start(*open, &epochs)?), None),
            Some(Finished::ReadOnly(closed)) => (None, Some(*closed)),
            None => (None, None),
        };
        let (log, beside) = running.unzip();
        let (checkpoints, shipping) = beside.unzip();
        let RecoveredTables { trees, pages } = replay.finish();
        let catalog = Catalog::new(trees);
        let (clock, mut settings) = (self.clock.clone(), self.settings.clone());
        settings.pictures |= checkpoints.is_some() && self.strategy() == Strategy::Pictures;
        settings.is_without_log = self.is_without_log;
        if let Some(memory_bytes_max) = self.memory_bytes_max {
            // An idle reader must not keep the memory full for ever (M4).
            settings.garbage_bytes_max = settings.garbage_bytes_max.min(memory_bytes_max / GARBAGE_PART);
        }
        let usual = if self.is_without_log { Durability::Relaxed } else { Durability::Strict };
        settings.durability = self.durability.unwrap_or(usual);
        let parts = SharedParts {
            settings,
            epochs,
            storage: DurableStorage::new(log, read_only, checkpoints, shipping.flatten(), report),
            memory,
            catalog,
            loaded_pages: pages,
            clock,
            cores,
            process,
        };
        let shared = Arc::new(SharedState::new(parts));
        let open = OpenDatabase { shared, threads: Threads::new(), closed: Mutex::new(None) };
        let database = Database { open: Arc::new(open) };
        // From here on a failure closes the database, as the drop of any last handle does.
        let shared = &database.open.shared;
        shared.storage.checkpoints.as_ref().map_or(Ok(()), |checkpoints| checkpoints.check(&**shared))?;
        if self.own_threads {
            threads::start(&database.open.threads, shared)?;
        }
        catalogue::bootstrap(&database)?;
        Ok(database)
    }

    /// Refuses shipping for a database in memory, for pictures with a log, and for an invalid configuration.
    fn check_shipping(&self, opening: Opening) -> Result<()> {
        let Some(shipping) = &self.shipping else { return Ok(()) };
        if self.path.is_none() && self.disk.is_none() {
            return Err(Error::Misuse("a database in memory has no files to ship".to_owned()));
        }
        if self.strategy() == Strategy::Pictures && !self.is_without_log {
            let detail = "pictures are changed in place and cannot be shipped: use fuzzy or cycling checkpoints, or \
                          back it up";
            return Err(Error::Misuse(detail.to_owned()));
        }
        Ok(check_shipping(shipping, self.log_config(opening).loggers)?)
    }

    /// Starts the recovered store, its log, its checkpoints and its shipping.
    fn start(&self, recovered: Recovered, epochs: &Arc<Epochs>) -> Result<Running> {
        let config = self.checkpoint_config();
        let store = OpenStore::start(recovered.store, Arc::clone(epochs), self.clock.clone())?;
        let log = Log::start(recovered.log, &store);
        let checkpoints = Checkpoints::start(&store, &log, config, recovered.checkpoints)?;
        let shipping = Shipper::start_with(&store, &log, self.shipping.clone())?;
        Ok((log, (checkpoints, shipping)))
    }

    /// Recovers the folder into `replay`, in the phases scan, load, replay and finish, on the recovery threads.
    fn load(&self, disk: StdArc<dyn Disk>, opening: Opening, replay: &Replay) -> Result<Finished> {
        let config = self.log_config(opening);
        let threads = self.settings.recovery_threads;
        let mut phases = RecoveryWatch::new(&self.clock);
        let scan = LogScan::begin(disk, config)?;
        replay.check_estimate(scan.checkpoint_amount())?;
        in_parallel(threads, || scan.step(), |_| {})?;
        let recovery = scan.finish()?;
        phases.end(Phase::Scan, threads);
        let tell = |begun| {
            if let Some(progress) = &self.progress {
                progress(recovery.progress(Duration::from_nanos(self.clock.nanos()).saturating_sub(begun)));
            }
        };
        let begun = phases.phase_start();
        in_parallel(
            threads,
            || recovery.load_step(replay).map_err(|error| replay.reason_of(error)),
            |first| {
                if first {
                    tell(begun)
                }
            },
        )?;
        phases.end(Phase::Load, threads);
        let begun = phases.phase_start();
        in_parallel(
            threads,
            || recovery.replay_step(replay).map_err(|error| replay.reason_of(error)),
            |first| {
                if first {
                    tell(begun)
                }
            },
        )?;
        phases.end(Phase::Replay, threads);
        let mut finished = recovery.finish_or_read(replay)?;
        phases.end(Phase::Finish, 1);
        let report = match &mut finished {
            Finished::Open(open) => &mut open.report,
            Finished::ReadOnly(closed) => &mut closed.report,
        };
        report.phases = phases.reports(report);
        if let Finished::Open(open) = &mut finished {
            // The time to apply entries is not measured here, so 0: the rates use rows and their bytes.
            open.learn(0);
        }
        Ok(finished)
    }
}

/// Adds the remedy to the error of a full disk at open.
fn told_to_free_space(error: Error) -> Error {
    match error.cause() {
        Some(DurabilityError::Disk(disk)) if disk.is_full() => {
            DurabilityError::NoRoomToOpen(disk.to_string().into()).into()
        }
        _ => error,
    }
}
