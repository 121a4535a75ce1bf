//! One picture beside updates at a held rate, sampled every ten milliseconds.
//!
//! Each run has a fresh database, so the picture is a full one. The updates hold the rate for a second before the
//! demand for the picture, and until its installation.
//!
//! Invariant: each figure of a run is measured between the demand for the picture and its installation.
//!
//! Neighbours: [`super::updates`] is the load; [`super::table3`] makes figures of runs.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ensile::checkpoint::{CheckpointReport, Schedule};
use ensile::{Database, Tuning};
use ensile_base::clock::Clock;
use ensile_base::sync::{Ordering, fence, sleep};
use ensile_bench::machine::{available_bytes, resident_bytes};
use ensile_bench::system::{Options, fresh_folder};
use ensile_bench::{Failure, Result};
use ensile_disk::RealDisk;
use ensile_durability::DurabilityError;

use super::arguments::SirenArguments;
use super::formulas::Rates;
use super::slow_disk::{SlowDisk, SlowFiles, Speed};
use super::strategy::Strategy;
use super::updates::{Benchmark, Choice, HeldUpdates};

/// Time between two samples.
const LOOK: Duration = Duration::from_millis(10);
/// Time of the held rate before the demand for a picture.
const LEAD_IN: Duration = Duration::from_secs(1);
/// The folder of the database, within the folder of all data.
pub(super) const FOLDER: &str = "siren";
/// Number of equal parts of the picture's time; the rate is checked in every part.
const TENTHS: usize = 10;
/// Limit of a picture's time: a multiple of the device's time for the rows, plus seconds. A longer picture is given up.
const LONGER_MAX: f64 = 5.0;
const LONGER_SECONDS: f64 = 30.0;

/// Configuration of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setup {
    pub(super) strategy: Strategy,
    /// True if the device slows the picture down; otherwise the picture's walk is paced.
    pub(super) on_slow_device: bool,
    pub(super) choice: Choice,
    pub(super) updates_per_s: u64,
    pub(super) seed: u64,
}

/// Measurements of one moment.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sample {
    second: f64,
    displaced_bytes: u64,
    resident_bytes: u64,
    /// Updates since the start of the load.
    updates: u64,
    /// Rows updated since the start of the load.
    touched: u64,
    /// Entries that the picture has written.
    written: u64,
}

impl Sample {
    fn of(clock: &Clock, updates: &HeldUpdates<'_>, db: &Database, written: u64) -> Self {
        let stats = db.stats();
        // Acquire: partner is a fence of the commits whose displaced versions were counted. The commits marked their
        // rows before the fence, so `touched` below counts those rows.
        fence(Ordering::Acquire);
        Self {
            second: clock.nanos() as f64 / 1e9,
            displaced_bytes: stats.displaced_bytes,
            resident_bytes: resident_bytes(),
            updates: updates.done(),
            touched: updates.touched(),
            written,
        }
    }
}

/// Progress of a picture and of the updates beside it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Done {
    pub(super) second: f64,
    /// Share of the picture's entries.
    pub(super) written: f64,
    pub(super) updates: f64,
    pub(super) displaced_bytes: u64,
}

/// The measurements of one run.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) setup: Setup,
    pub(super) rows: u64,
    /// Samples from just before the demand for the picture until its installation.
    pub(super) samples: Vec<Sample>,
    /// Memory of rows and index before the picture, in bytes.
    pub(super) memory_bytes: u64,
    /// Peak memory of displaced versions, in bytes.
    pub(super) displaced_peak: u64,
    /// Report of the picture; `None` if the run gave the picture up.
    pub(super) report: Option<CheckpointReport>,
}

/// Makes a run: opens and fills a database, takes the picture, and removes the folder.
pub(super) fn run(arguments: &SirenArguments, setup: Setup) -> Result<Run> {
    must_fit(arguments)?;
    let path = fresh_folder(&arguments.data, FOLDER)?;
    let clock = Clock::machine();
    let (mut builder, mut slow) = (setup.strategy.builder(&path), None);
    if setup.on_slow_device {
        let disk = slow_disk(&path, (arguments.device, arguments.speed()), &clock)?;
        builder = builder.disk(Arc::<SlowDisk>::clone(&disk));
        slow = Some(disk);
    }
    let db = options(arguments, &setup).open(builder)?;
    let benchmark =
        Benchmark::load(db, (arguments.rows, arguments.row_bytes), arguments.workers() as u64, true)?;
    let slow_down = |is_slow| slow.iter().for_each(|disk| disk.slow_down(is_slow));
    slow_down(true);
    let made = beside_updates(arguments, setup, &benchmark, &clock);
    // The remaining writes are not measured.
    slow_down(false);
    benchmark.db.close()?;
    std::fs::remove_dir_all(&path).map_err(Failure::io(format!("removing {}", path.display())))?;
    made
}

/// Refuses a table whose doubled size exceeds the free memory. Displaced versions, index and log need as much memory as
/// the rows.
pub(super) fn must_fit(arguments: &SirenArguments) -> Result<()> {
    let (bytes, most) = (2 * arguments.rows * arguments.row_bytes as u64, available_bytes());
    if bytes <= most {
        return Ok(());
    }
    let most = most / 2 / arguments.row_bytes as u64;
    let words = format!("{} rows do not fit into the memory that is free: --rows {most}", arguments.rows);
    Err(Failure::Usage(words))
}

/// The slow device over the disk of this machine.
pub(super) fn slow_disk(
    path: &Path,
    (files, speed): (SlowFiles, Speed),
    clock: &Clock,
) -> Result<Arc<SlowDisk>> {
    let real = RealDisk::open_existing(path).map_err(failed)?;
    Ok(Arc::new(SlowDisk::over(Box::new(real), files, speed, clock.clone())))
}

/// Failure for an error of the disk.
pub(super) fn failed(error: ensile_disk::DiskError) -> Failure {
    Failure::Database(DurabilityError::from(error).into())
}

/// Options of the run's database.
pub(super) fn options(arguments: &SirenArguments, setup: &Setup) -> Options {
    let mut tuning = Tuning {
        checkpointers: Some(1),
        checkpoint_files: 1,
        checkpoint_page_bytes: arguments.page_bytes,
        checkpoint_bandwidth: (!setup.on_slow_device).then(|| arguments.speed().bytes_per_s),
        ..Tuning::default()
    };
    setup.strategy.tune(&mut tuning);
    Options {
        data: arguments.data.clone(),
        snapshots: arguments.snapshots,
        checkpoints: Schedule::on_demand(),
        loggers: usize::from(setup.strategy.has_log()),
        before_images: setup.strategy == Strategy::UndoRedo,
        tuning,
        ..Options::default()
    }
}

/// Holds the rate, takes a picture meanwhile, and samples.
fn beside_updates(
    arguments: &SirenArguments,
    setup: Setup,
    benchmark: &Benchmark,
    clock: &Clock,
) -> Result<Run> {
    let updates = HeldUpdates::new(benchmark, setup.choice, setup.updates_per_s as f64);
    let workers = arguments.workers();
    std::thread::scope(|scope| {
        let updates = &updates;
        let working: Vec<_> = (0..workers as u64)
            .map(|worker| {
                scope.spawn(move || updates.work(workers, setup.seed ^ ((worker + 1) << 32), clock))
            })
            .collect();
        sleep(LEAD_IN);
        let is_working = || !working.iter().any(std::thread::ScopedJoinHandle::is_finished);
        let made = taken(arguments, setup, benchmark, (updates, clock), &is_working);
        updates.end();
        // A worker's error takes precedence over the picture's result: an early end of a worker ends the picture.
        working.into_iter().try_for_each(|worker| worker.join().expect("updating does not panic"))?;
        made
    })
}

/// Takes a picture and samples until its end.
fn taken(
    arguments: &SirenArguments,
    setup: Setup,
    benchmark: &Benchmark,
    (updates, clock): (&HeldUpdates<'_>, &Clock),
    is_working: &dyn Fn() -> bool,
) -> Result<Run> {
    let db = &benchmark.db;
    let memory = db.stats().memory;
    let memory_bytes = memory.chunk_bytes + memory.large_bytes;
    let mut samples = vec![Sample::of(clock, updates, db, 0)];
    let limit = samples[0].second + longest(arguments);
    let picture = db.checkpoint()?;
    let report = loop {
        let outcome = picture.outcome();
        samples.push(Sample::of(clock, updates, db, picture.progress().entries));
        let second = samples[samples.len() - 1].second;
        match outcome {
            Some(outcome) => break Some(outcome?),
            None if second > limit || !is_working() => break None,
            None => sleep(LOOK),
        }
    };
    let displaced_peak = db.stats().displaced_bytes_peak;
    Ok(Run { setup, rows: benchmark.rows, samples, memory_bytes, displaced_peak, report })
}

/// Limit of a picture's time, in seconds.
fn longest(arguments: &SirenArguments) -> f64 {
    let bytes = arguments.rows as f64 * arguments.row_bytes as f64;
    bytes / arguments.speed().bytes_per_s as f64 * LONGER_MAX + LONGER_SECONDS
}

impl Run {
    fn ends(&self) -> (Sample, Sample) {
        (self.samples[0], self.samples[self.samples.len() - 1])
    }

    /// Seconds from the demand for the picture until its installation, or until the run gave the picture up.
    pub(super) fn seconds(&self) -> f64 {
        let (first, last) = self.ends();
        last.second - first.second
    }

    /// Ru: measured updates a second.
    pub(super) fn updates_per_s(&self) -> f64 {
        let (first, last) = self.ends();
        (last.updates - first.updates) as f64 / self.seconds()
    }

    /// Deviation from the requested rate, in percent.
    pub(super) fn off_percent(&self) -> f64 {
        (self.updates_per_s() / self.setup.updates_per_s as f64 - 1.0) * 100.0
    }

    /// Largest deviation from the requested rate in a tenth of the time, in percent.
    pub(super) fn off_percent_at_worst(&self) -> f64 {
        let (first, last) = self.ends();
        let mut worst = 0.0_f64;
        let mut before = first;
        for tenth in 1..=TENTHS {
            let end = first.second + self.seconds() * tenth as f64 / TENTHS as f64;
            let after = *self.samples.iter().find(|sample| sample.second >= end).unwrap_or(&last);
            let rate = (after.updates - before.updates) as f64 / (after.second - before.second);
            let off = (rate / self.setup.updates_per_s as f64 - 1.0) * 100.0;
            if off.abs() > worst.abs() {
                worst = off;
            }
            before = after;
        }
        worst
    }

    /// Number of updates of the run.
    pub(super) fn updates(&self) -> u64 {
        let (first, last) = self.ends();
        last.updates - first.updates
    }

    /// Rows updated at least once, before the demand for the picture or during the picture.
    pub(super) fn touched(&self) -> u64 {
        self.ends().1.touched
    }

    /// The first and the last sample of the time in which the picture was written.
    fn walk(&self) -> Option<(Sample, Sample)> {
        let begun = self.samples.iter().position(|sample| sample.written > 0)?;
        let most = self.ends().1.written;
        let ended = self.samples.iter().position(|sample| sample.written == most)?;
        (ended > begun).then(|| (self.samples[begun], self.samples[ended]))
    }

    /// Progress at each sample since the first written rows. Empty if the run gave the picture up.
    pub(super) fn course(&self) -> Vec<Done> {
        let Some((first, last)) = self.walk().filter(|_| self.report.is_some()) else { return Vec::new() };
        let samples = self.samples.iter().filter(|sample| sample.second >= first.second);
        samples
            .map(|sample| Done {
                second: sample.second - first.second,
                written: sample.written as f64 / last.written as f64,
                updates: (sample.updates - first.updates) as f64,
                displaced_bytes: sample.displaced_bytes,
            })
            .collect()
    }

    /// Measured Rc and the other rates of the formulas. `None` if the picture was too short, or was given up.
    ///
    /// A semi-fuzzy picture also writes displaced versions beside its pages. Displaced versions are no rows of the
    /// walk. So the picture's rate is the rate of all rows over the time of the walk.
    pub(super) fn rates(&self) -> Option<Rates> {
        let (first, last) = self.walk().filter(|_| self.report.is_some())?;
        let share = (last.written - first.written) as f64 / last.written as f64;
        let written_per_s = self.rows as f64 * share / (last.second - first.second);
        Some(Rates { tuples: self.rows as f64, written_per_s, updated_per_s: self.updates_per_s() })
    }

    /// Bytes of one displaced version: the greatest common divisor of all readings, since all rows have one length.
    /// `None` if the readings are too few.
    pub(super) fn version_bytes(&self) -> Option<u64> {
        let mut seen: Vec<u64> = self.samples.iter().map(|sample| sample.displaced_bytes).collect();
        seen.push(self.displaced_peak);
        seen.sort_unstable();
        seen.dedup();
        (seen.len() >= READINGS_MIN).then(|| seen.into_iter().fold(0, greatest_common_divisor))
    }

    /// Peak resident memory above the resident memory of the first sample, in bytes.
    pub(super) fn resident_extra(&self) -> u64 {
        let most = self.samples.iter().map(|sample| sample.resident_bytes).max().unwrap_or_default();
        most.saturating_sub(self.samples[0].resident_bytes)
    }

    /// Number of displaced versions. For a semi-fuzzy picture, all versions that it wrote; for lists, the peak. `None`
    /// if the readings are too few.
    pub(super) fn versions(&self) -> Option<u64> {
        match (&self.report, self.setup.strategy) {
            (Some(report), Strategy::SemiFuzzy) => Some(report.displaced),
            _ => self.version_bytes().map(|bytes| self.displaced_peak / bytes),
        }
    }

    /// Mean number of rows of a page of the picture.
    pub(super) fn rows_per_page(&self) -> Option<f64> {
        let pages = self.report.as_ref()?.pages_written;
        // The catalogue has one page.
        (pages > 1).then(|| self.rows as f64 / (pages - 1) as f64)
    }

    /// True if displaced versions never outnumbered the updated rows. `None` if the readings are too few.
    pub(super) fn has_one_version_a_row(&self) -> Option<bool> {
        let all = self.versions()? <= self.touched();
        let samples = self.version_bytes().is_none_or(|bytes| {
            self.samples.iter().all(|sample| sample.displaced_bytes <= bytes * sample.touched)
        });
        Some(all && samples)
    }

    /// True if the picture has each row at least once, and the picture's pages have each row at most once.
    pub(super) fn has_each_row(&self) -> bool {
        self.report.as_ref().is_some_and(|report| {
            let most = self.rows + CATALOGUE_MAX;
            report.entries >= self.rows && report.entries - report.displaced <= most
        })
    }
}

/// Limit of a picture's entries that belong to the catalogue and not to the table.
const CATALOGUE_MAX: u64 = 16;

/// Number of different readings of displaced bytes that determine the bytes of one version. Another common divisor of
/// so many multiples has a probability below one in thousands.
const READINGS_MIN: usize = 12;

fn greatest_common_divisor(mut a: u64, mut b: u64) -> u64 {
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests;
