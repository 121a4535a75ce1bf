//! One run: a fresh database under load for a while, with measurements.
//!
//! Neighbours: every experiment of [`super`] is made of runs.

use std::time::Duration;

use ensile::checkpoint::Schedule;
use ensile::{Database, Tuning};
use ensile_bench::driver::{self, Pace, Plan, Subject};
use ensile_bench::number::{counted, grouped};
use ensile_bench::progress::Progress;
use ensile_bench::system::Options;
use ensile_bench::tpcc::flags::Flags;
use ensile_bench::tpcc::tables::Scale;
use ensile_bench::tpcc::{Business, Founding, LOG_FOLDER};
use ensile_bench::ycsb::engine::Engine;
use ensile_bench::ycsb::load::LoadPlan;
use ensile_bench::ycsb::mix::{Requests, Workload};
use ensile_bench::{Failure, Result};

use super::course::{self, Course, Look};
use super::setup::{Load, Otherwise, Setup, System};
use crate::arguments::ExperimentArguments;
use crate::silor::arguments::SilorArguments;

/// Bytes of a YCSB value.
const VALUE_BYTES: usize = 100;
/// Limit of a run that waits for checkpoints: the larger of a multiple of the requested time and a number of seconds.
const LONGER_MAX: f64 = 100.0;
const LONGER_SECONDS: f64 = 600.0;
/// The folder of YCSB's database, within the folder of all data.
const YCSB_FOLDER: &str = "ycsb-silo";

/// Runs, one after the other.
pub(super) struct Bench<'a> {
    pub(super) arguments: &'a SilorArguments,
    progress: Progress,
    runs: usize,
}

impl<'a> Bench<'a> {
    pub(super) fn new(arguments: &'a SilorArguments) -> Self {
        Self { arguments, progress: Progress::new(arguments.rounds), runs: 0 }
    }

    pub(super) fn finish(&mut self) {
        self.progress.clear();
    }

    /// Default number of workers: a core is left to loggers and checkpointers.
    pub(super) fn workers(&self) -> usize {
        self.arguments.workers.unwrap_or_else(|| cores().saturating_sub(1).max(1))
    }

    /// Configuration of a run of this system with the usual number of workers.
    pub(super) fn setup(&self, system: System, load: Load) -> Setup {
        Setup {
            system,
            load,
            workers: self.workers(),
            seed: self.arguments.common.seed,
            otherwise: Otherwise::No,
        }
    }

    /// Makes a run: opens, loads, runs, and removes the files on disk.
    pub(super) fn run(&mut self, setup: Setup) -> Result<Course> {
        let options = self.options_for(setup);
        let name = setup.system.name();
        self.runs += 1;
        let course = match setup.load {
            Load::Ycsb => {
                let records = self.arguments.records;
                self.say(&format!("loading {} records into {name}", grouped(records as f64)));
                let requests = Requests::new(Workload::Silor, records, None);
                let plan = LoadPlan::in_order(records, cores());
                let engine = Engine::<VALUE_BYTES>::load(setup.system.kind(), &options, requests, &plan)?;
                self.watched(setup, &engine, engine.database())?
            }
            Load::Tpcc => {
                self.say(&format!(
                    "loading {} into {name}",
                    counted(self.warehouses(setup).into(), "warehouse")
                ));
                let founding = self.founding(setup);
                let (business, _) = Business::load(setup.system.kind(), &options, &founding)?;
                self.watched(setup, &business, &business.tables.db)?
            }
        };
        let path = options.fresh_folder(folder_of(setup.load))?;
        std::fs::remove_dir(&path).map_err(Failure::io(format!("removing {}", path.display())))?;
        let rate = course.timeline.part(|_| true).rate();
        self.say(&format!(
            "run {}: {name}, {}: {} txn/s",
            self.runs,
            counted(setup.workers, "worker"),
            grouped(rate)
        ));
        Ok(course)
    }

    pub(super) fn say(&mut self, text: &str) {
        self.progress.say(text);
    }

    /// Common options of the databases.
    pub(super) fn options(&self) -> Options {
        Options {
            data: self.arguments.common.data.clone(),
            epoch_interval: Duration::from_millis(self.arguments.common.epoch_ms),
            loggers: self.arguments.common.loggers,
            ..Options::default()
        }
    }

    fn warehouses(&self, setup: Setup) -> u16 {
        self.arguments.warehouses.unwrap_or(u16::try_from(setup.workers).unwrap_or(u16::MAX))
    }

    fn founding(&self, setup: Setup) -> Founding {
        let ExperimentArguments { items, customers, .. } = self.arguments.common;
        let scale = Scale { warehouses: self.warehouses(setup), items, customers };
        Founding { scale, split: false, flags: Flags::default(), seed: setup.seed, threads: cores() }
    }

    /// Options of the database of a run.
    fn options_for(&self, setup: Setup) -> Options {
        let SilorArguments { checkpointers, checkpoint_seconds, checkpoint_mib, .. } = *self.arguments;
        let interval = Duration::from_secs_f64(checkpoint_seconds);
        let mut tuning = Tuning {
            checkpointers: Some(checkpointers),
            checkpoint_files: 1,
            checkpoint_bandwidth: Some(checkpoint_mib << 20),
            ..Tuning::default()
        };
        match setup.otherwise {
            Otherwise::No | Otherwise::BeforeImages => {}
            Otherwise::OneSync => {
                (tuning.checkpoint_sync_bytes, tuning.checkpoint_bandwidth) = (u64::MAX, None);
            }
            Otherwise::Sleeps(bandwidth) => {
                (tuning.checkpoint_sync_bytes, tuning.checkpoint_bandwidth) = (u64::MAX, Some(bandwidth));
            }
        }
        Options {
            checkpoints: match setup.system {
                System::Silor => Schedule::default().interval(interval),
                _ => Schedule::on_demand(),
            },
            tuning,
            before_images: setup.otherwise == Otherwise::BeforeImages,
            workers_own: self.workers_own(setup),
            ..self.options()
        }
    }

    /// Number of cores reserved for workers, if there are more cores than workers. The paper reserves cores for loggers
    /// and checkpointers (§6.1), so that loggers and checkpointers do not take the workers' cores.
    fn workers_own(&self, setup: Setup) -> usize {
        if self.arguments.no_pin || setup.workers >= cores() { 0 } else { setup.workers }
    }

    /// Runs the load and measures.
    fn watched(&self, setup: Setup, subject: &dyn Subject, db: &Database) -> Result<Course> {
        let SilorArguments { seconds, least_checkpoints, .. } = *self.arguments;
        let least = if setup.system == System::Silor { least_checkpoints } else { 0 };
        let plan = Plan {
            threads: setup.workers,
            batch: 1,
            pace: Pace::Timed(seconds),
            rounds: 1,
            seed: setup.seed,
            pin: (self.workers_own(setup) > 0).then_some(0),
        };
        let most = (self.arguments.resident_max_gb * 1e9) as u64;
        let folder = self.arguments.common.data.join(folder_of(setup.load));
        let mut looks = Vec::new();
        let timeline = driver::over_time(subject, &plan, |nanos| {
            let look = Look::at(nanos, db, &folder, looks.last());
            let (second, resident) = (look.second, look.resident);
            looks.push(look);
            let is_long_enough = second >= seconds
                && (least == 0
                    || second >= LONGER_SECONDS.max(seconds * LONGER_MAX)
                    || course::seen_whole(&looks) >= least);
            !is_long_enough && resident < most
        })?;
        let too_large = looks.last().is_some_and(|look| look.resident >= most);
        Ok(Course { setup, timeline, looks, too_large })
    }
}

fn folder_of(load: Load) -> &'static str {
    match load {
        Load::Ycsb => YCSB_FOLDER,
        Load::Tpcc => LOG_FOLDER,
    }
}

/// Number of cores that this process may use.
pub(super) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}
