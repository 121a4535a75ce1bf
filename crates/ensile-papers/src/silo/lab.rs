//! The common parts of the experiments: settings, opened databases, and measurements.
//!
//! Neighbours: [`super::run`] makes a lab for each experiment; systems come from [`ensile_bench::system`] and
//! [`ensile_bench::ycsb`].

use std::ops::Range;
use std::path::Path;
use std::time::Duration;

use ensile_bench::driver::{self, Pace, Plan, Round, Subject};
use ensile_bench::machine::Machine;
use ensile_bench::number::counted;
use ensile_bench::progress::Progress;
use ensile_bench::system::{Options, SystemKind};
use ensile_bench::tpcc::flags::Flags;
use ensile_bench::tpcc::tables::Scale;
use ensile_bench::tpcc::{Business, Founding};
use ensile_bench::{Failure, Result};

use crate::arguments::ExperimentArguments;
use crate::silo::arguments::SiloArguments;

/// A variant that differs from the shipped engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Variant {
    /// TIDs from one shared counter.
    GlobalTid,
    /// Memory from the process's allocator.
    NoSlabs,
    /// A new record for each write.
    NoOverwrites,
    /// Garbage stays.
    NoCollection,
    /// Log entries without data.
    SmallRecords,
    /// Rows without concurrency control.
    Exclusive,
    /// Index and records without transactions.
    KeyValue,
}

/// Load of the databases of an experiment, from which their memory is computed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Course {
    /// Number of databases open at a time.
    pub(crate) databases: usize,
    pub(crate) warehouses: u16,
    pub(crate) workers: usize,
    /// Maximum number of slices of one database.
    pub(crate) slices: usize,
    /// Growth of a database per worker, in MiB a second.
    pub(crate) mib_per_s: usize,
}

impl Course {
    /// Growth of new-orders only, of the whole mix, and of new-orders and stock-levels by halves, in MiB a second. A
    /// new-order leaves a kilobyte behind.
    pub(crate) const NEW_ORDERS: usize = 128;
    pub(crate) const MIX: usize = 64;
    pub(crate) const HALF_NEW_ORDERS: usize = 48;
}

/// Memory of a warehouse and its share of the catalogue, once loaded, in MiB.
const LOADED_MIB: usize = 192;
/// Running time over measured time.
const LEAD_IN: f64 = 1.25;

/// Command that builds a binary with the variants.
const REBUILD: &str = "cargo build --release -p ensile-papers --features laboratory";

/// The bench of one experiment.
pub(crate) struct Lab<'a> {
    pub(crate) arguments: &'a SiloArguments,
    pub(crate) progress: Progress,
    /// Length of a slice, in seconds, unless `--seconds` is given.
    pub(crate) seconds: f64,
    left_out: Vec<&'static str>,
}

/// Default length of a slice, in seconds.
const SECONDS: f64 = 2.0;

impl<'a> Lab<'a> {
    pub(crate) fn new(arguments: &'a SiloArguments) -> Self {
        Self { arguments, progress: Progress::new(arguments.rounds), seconds: SECONDS, left_out: Vec::new() }
    }

    /// Prints the systems left out.
    pub(crate) fn finish(&mut self) {
        self.progress.clear();
        if !self.left_out.is_empty() {
            let names = self.left_out.join(", ");
            eprintln!(
                "left out, because this binary has the engine as it ships only: {names}; for them: {REBUILD}"
            );
        }
    }

    pub(crate) fn say(&mut self, text: &str) {
        self.progress.say(text);
    }

    /// Maximum number of workers: `--workers`, or the number of cores.
    pub(crate) fn workers_max(&self) -> usize {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        self.arguments.workers.unwrap_or(cores)
    }

    /// Counts of workers to measure.
    pub(crate) fn workers(&self) -> std::ops::RangeInclusive<usize> {
        1..=self.workers_max()
    }

    /// Options of databases with their folders in `data`.
    fn options_in(&self, data: &Path) -> Options {
        Options {
            data: data.to_owned(),
            epoch_interval: Duration::from_millis(self.arguments.common.epoch_ms),
            snapshot_interval: Duration::from_millis(self.arguments.snapshot_ms),
            loggers: self.arguments.common.loggers,
            ..Options::default()
        }
    }

    /// Options of databases.
    pub(crate) fn options(&self) -> Options {
        self.options_in(&self.arguments.common.data)
    }

    /// Options of databases of TPC-C that will run `course`. Their memory is touched beforehand, as in the paper
    /// (§5.1). A fresh page costs more time than the rows that fill the page, and a faster subject meets more fresh
    /// pages.
    pub(crate) fn business_options(&self, course: &Course) -> Options {
        let asked = self.arguments.prefault_mib.map(|mib| mib << 20);
        let prefault_bytes = asked.unwrap_or_else(|| {
            let seconds = self.arguments.seconds.unwrap_or(self.seconds) * LEAD_IN;
            let grown = seconds * (course.slices * course.workers * course.mib_per_s) as f64;
            let mib = (usize::from(course.warehouses) * LOADED_MIB).saturating_add(grown as usize);
            let share = Machine::look().memory_bytes as usize / 2 / course.databases;
            mib.saturating_mul(1 << 20).min(share)
        });
        Options { prefault_bytes, ..self.options() }
    }

    /// As [`Lab::business_options`], with folders in memory.
    pub(crate) fn tmpfs_options(&self, course: &Course) -> Options {
        Options { data: self.arguments.tmpfs.clone(), ..self.business_options(course) }
    }

    /// `options` with variants of the engine. `None` if this binary has no variants; then [`Lab::finish`] names
    /// `system`.
    pub(crate) fn variant(
        &mut self,
        system: &'static str,
        options: Options,
        variants: &[Variant],
    ) -> Option<Options> {
        let chosen = with_variants(options, variants);
        if chosen.is_none() && !self.left_out.contains(&system) {
            self.left_out.push(system);
        }
        chosen
    }

    /// Founds and loads a business.
    pub(crate) fn business(
        &mut self,
        name: &'static str,
        kind: SystemKind,
        options: &Options,
        (warehouses, split): (u16, bool),
        flags: Flags,
    ) -> Result<Business<'static>> {
        self.say(&format!("loading {} into {name}", counted(warehouses.into(), "warehouse")));
        let ExperimentArguments { items, customers, seed, .. } = self.arguments.common;
        let scale = Scale { warehouses, items, customers };
        let founding = Founding { scale, split, flags, seed, threads: self.workers_max() };
        Ok(Business::load(kind, options, &founding)?.0.named(name))
    }

    /// Runs every subject in every round with `workers` workers; returns one list of rounds per subject.
    pub(crate) fn measure(
        &mut self,
        subjects: &[&dyn Subject],
        workers: usize,
        after: impl FnMut(usize),
    ) -> Result<Vec<Vec<Round>>> {
        self.measure_some(subjects, workers, 0..self.arguments.rounds, after)
    }

    /// As [`Lab::measure`], for `rounds` only.
    pub(crate) fn measure_some(
        &mut self,
        subjects: &[&dyn Subject],
        workers: usize,
        rounds: Range<usize>,
        mut after: impl FnMut(usize),
    ) -> Result<Vec<Vec<Round>>> {
        let plan = Plan { rounds: rounds.len(), ..self.plan(workers) };
        let mut slice = 0;
        let progress = &mut self.progress;
        driver::run(subjects, &plan, |round, subject, done| {
            after(slice % subjects.len());
            slice += 1;
            let name = format!("{} ({})", subject.name(), counted(workers, "worker"));
            progress.round(rounds.start + round, &name, done.rate());
        })
    }

    /// The plan of a measurement with `workers` workers.
    pub(crate) fn plan(&self, workers: usize) -> Plan {
        Plan {
            threads: workers,
            batch: 1,
            pace: Pace::Timed(self.arguments.seconds.unwrap_or(self.seconds)),
            rounds: self.arguments.rounds,
            seed: self.arguments.common.seed,
            pin: self.arguments.pin.then_some(0),
        }
    }

    /// Removes a folder of logs that is no longer needed.
    pub(crate) fn remove(&self, options: &Options, folder: &str) -> Result<()> {
        let path = options.fresh_folder(folder)?;
        std::fs::remove_dir(&path).map_err(Failure::io(format!("removing {}", path.display())))
    }
}

/// Rates of rounds.
pub(crate) fn rates(rounds: &[Round]) -> Vec<f64> {
    rounds.iter().map(Round::rate).collect()
}

#[cfg(feature = "laboratory")]
fn with_variants(mut options: Options, variants: &[Variant]) -> Option<Options> {
    for variant in variants {
        match variant {
            Variant::GlobalTid => options.variants.global_tid = true,
            Variant::NoSlabs => options.variants.slabs = false,
            Variant::NoOverwrites => options.variants.overwrite = false,
            Variant::NoCollection => options.variants.collect = false,
            Variant::SmallRecords => options.variants.log_data = false,
            // These variants change the access to the rows, not the database.
            Variant::Exclusive | Variant::KeyValue => {}
        }
    }
    Some(options)
}

#[cfg(not(feature = "laboratory"))]
fn with_variants(options: Options, variants: &[Variant]) -> Option<Options> {
    variants.is_empty().then_some(options)
}
