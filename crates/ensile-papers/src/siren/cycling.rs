//! `siren cycling`: the log that a recovery would replay. Compares checkpoints that go round by ranges of keys with
//! whole checkpoints that write as many bytes a second (SiloR §8).
//!
//! ```text
//! each round, for each strategy: fill -> checkpoint -> updates at a held rate, checkpoint behind checkpoint -> close
//!                                -> open once
//! ```
//! Writes are paced, so checkpoints of both kinds write the same bytes a second. A look every ten milliseconds notes
//! the epoch and the bytes of log. A recovery would replay the bytes since the epoch from which the installed
//! checkpoint needs the log.
//!
//! Invariant: looks count once whole checkpoints would have gone round twice: from then on the log has its full length.
//!
//! Neighbours: [`super::updates`] is the load; [`super::run`] has the options.

use std::time::Duration;

use ensile::checkpoint::{CheckpointReport, Schedule, Strategy};
use ensile::{Database, Durability};
use ensile_base::clock::Clock;
use ensile_base::sync::sleep;
use ensile_bench::figure::{Figure, Place, Row};
use ensile_bench::number::grouped;
use ensile_bench::progress::Progress;
use ensile_bench::system::fresh_folder;
use ensile_bench::{Failure, Result};

use super::arguments::SirenArguments;
use super::results::Made;
use super::run::{FOLDER, Setup, must_fit, options};
use super::strategy;
use super::updates::{Benchmark, Choice, HeldUpdates};

/// Default number of rounds.
const ROUNDS: usize = 3;
/// Time between two looks.
const LOOK: Duration = Duration::from_millis(10);
/// Least time of the looks, and time before the looks count; the unit is the time of a whole checkpoint.
const CHECKPOINTS_MIN: f64 = 5.0;
const CHECKPOINTS_BEFORE: f64 = 2.0;
/// Limit of the updates' deviation from the requested rate, in percent.
const OFF_MAX: f64 = 5.0;
const STRATEGIES: [Strategy; 2] = [Strategy::Fuzzy, Strategy::Cycling];
const REPLAYED: (&str, &str) = ("log that a recovery replays, mean", "MB");
const MB: f64 = 1e6;

fn name(strategy: Strategy) -> &'static str {
    if strategy == Strategy::Cycling { "cycling" } else { "whole" }
}

/// Measurements of one moment.
#[derive(Clone, Copy, Debug)]
struct Look {
    second: f64,
    epoch: u64,
    /// Bytes of log written, and bytes of log still present.
    written: u64,
    kept: u64,
    /// First epoch whose log is needed.
    low: u64,
    checkpoint_bytes: u64,
}

impl Look {
    fn of(db: &Database, clock: &Clock, low: u64) -> Self {
        let stats = db.stats();
        let log = stats.log.unwrap_or_default();
        let checkpoints = stats.checkpoints.unwrap_or_default();
        Self {
            second: clock.nanos() as f64 / 1e9,
            epoch: db.epoch().number(),
            written: log.bytes,
            kept: log.bytes - log.bytes_removed.min(log.bytes),
            low: checkpoints.last.map_or(low, |last| last.low.number()),
            checkpoint_bytes: checkpoints.bytes,
        }
    }
}

/// The measurements of one run.
struct Course {
    /// For every counted look, in order: bytes that a recovery would replay, and bytes of log present.
    replayed: Vec<f64>,
    kept: Vec<f64>,
    /// Number of ended checkpoints, or of ended rounds of turns.
    ended: f64,
    updates_per_s: f64,
    checkpoint_mb_per_s: f64,
    /// Seconds of the final open, and bytes of log replayed by the open.
    open_seconds: f64,
    open_replayed: f64,
}

/// Bytes of log since the epoch from which each look needs the log. Earlier looks give the bytes at the epoch.
fn replayed(looks: &[Look]) -> Vec<f64> {
    let mut from = 0;
    let mut replayed = Vec::with_capacity(looks.len());
    for look in looks {
        while looks[from].epoch < look.low && from + 1 < looks.len() {
            from += 1;
        }
        replayed.push(look.written.saturating_sub(looks[from].written) as f64);
    }
    replayed
}

/// Both strategies, in turns.
pub(super) fn run(arguments: &SirenArguments) -> Result<Made> {
    must_fit(arguments)?;
    let rounds = arguments.rounds.unwrap_or(ROUNDS);
    let mut progress = Progress::new(rounds);
    let mut courses = STRATEGIES.map(|_| Vec::new());
    for round in 0..rounds {
        for turn in 0..STRATEGIES.len() {
            let at = (round + turn) % STRATEGIES.len();
            let course = one(arguments, STRATEGIES[at], arguments.seed + round as u64)?;
            progress.round(round, name(STRATEGIES[at]), course.updates_per_s);
            courses[at].push(course);
        }
    }
    progress.clear();
    Ok(made(arguments, &courses))
}

/// The held rate, in updates a second.
fn held(arguments: &SirenArguments) -> u64 {
    arguments.updates.iter().copied().min().unwrap_or(1)
}

/// Seconds of a whole checkpoint at its pace.
fn whole_seconds(arguments: &SirenArguments) -> f64 {
    arguments.rows as f64 * arguments.row_bytes as f64 / arguments.speed().bytes_per_s as f64
}

/// Seconds of the looks.
fn looked_seconds(arguments: &SirenArguments) -> f64 {
    (whole_seconds(arguments) * CHECKPOINTS_MIN).max(arguments.seconds)
}

/// Approximate seconds of the experiment. A run also has its first checkpoint.
pub(super) fn expected_seconds(arguments: &SirenArguments) -> f64 {
    let runs = arguments.rounds.unwrap_or(ROUNDS) * STRATEGIES.len();
    runs as f64 * (whole_seconds(arguments) + looked_seconds(arguments))
}

/// One run of one strategy, with a fresh database.
fn one(arguments: &SirenArguments, kind: Strategy, seed: u64) -> Result<Course> {
    let path = fresh_folder(&arguments.data, FOLDER)?;
    let (choice, updates_per_s) = (Choice::Uniform, held(arguments));
    let strategy = strategy::Strategy::Fuzzy;
    let setup = Setup { strategy, on_slow_device: false, choice, updates_per_s, seed };
    let mut options = options(arguments, &setup);
    options.tuning.checkpoint_strategy = Some(kind);
    options.tuning.checkpoint_ranges = arguments.ranges;
    // Covered log is removed in whole files, so the files are small beside a turn's share of the log.
    options.tuning.log_file_interval = Duration::from_millis(100);
    let db = options.open_at(&path, Durability::Relaxed)?;
    let threads = arguments.workers() as u64;
    let benchmark = Benchmark::load(db, (arguments.rows, arguments.row_bytes), threads, true)?;
    let mut course = beside_updates(arguments, &benchmark, seed)?;
    benchmark.db.close()?;
    drop(benchmark);
    let clock = Clock::machine();
    let before = clock.nanos();
    let db = options.open_at(&path, Durability::Relaxed)?;
    course.open_seconds = (clock.nanos() - before) as f64 / 1e9;
    course.open_replayed = db.recovery_report().map_or(0, |report| report.bytes) as f64;
    db.close()?;
    std::fs::remove_dir_all(&path).map_err(Failure::io(format!("removing {}", path.display())))?;
    Ok(course)
}

/// Holds the rate, lets checkpoint follow checkpoint, and looks.
fn beside_updates(arguments: &SirenArguments, benchmark: &Benchmark, seed: u64) -> Result<Course> {
    let first = benchmark.db.checkpoint()?.wait()?;
    // From here on a checkpoint is always under way.
    benchmark.db.reschedule_checkpoints(Schedule::on_demand().log_bytes(0))?;
    let (clock, workers) = (Clock::machine(), arguments.workers());
    let updates = HeldUpdates::new(benchmark, Choice::Uniform, held(arguments) as f64);
    std::thread::scope(|scope| {
        let (updates, clock) = (&updates, &clock);
        let working: Vec<_> = (0..workers as u64)
            .map(|worker| scope.spawn(move || updates.work(workers, seed ^ ((worker + 1) << 32), clock)))
            .collect();
        let course = looked_at(arguments, benchmark, (updates, clock), &first);
        updates.end();
        working.into_iter().try_for_each(|worker| worker.join().expect("updating does not panic"))?;
        course
    })
}

fn looked_at(
    arguments: &SirenArguments,
    benchmark: &Benchmark,
    (updates, clock): (&HeldUpdates<'_>, &Clock),
    first: &CheckpointReport,
) -> Result<Course> {
    let db = &benchmark.db;
    let look = || Look::of(db, clock, first.low.number());
    let mut looks = vec![look()];
    let begun = looks[0].second;
    let counts = begun + whole_seconds(arguments) * CHECKPOINTS_BEFORE;
    let ends = begun + looked_seconds(arguments);
    while looks[looks.len() - 1].second < ends {
        sleep(LOOK);
        looks.push(look());
    }
    if let Some(error) = db.stats().checkpoints.and_then(|checkpoints| checkpoints.last_error) {
        return Err(Failure::Usage(format!("a checkpoint failed: {error}")));
    }
    let (first, last) = (looks[0], looks[looks.len() - 1]);
    let seconds = last.second - first.second;
    let installed = db.stats().checkpoints.map_or(0, |checkpoints| checkpoints.installed - 1);
    let turns = db.stats().checkpoints.and_then(|checkpoints| checkpoints.last?.turn);
    let replayed = replayed(&looks);
    let counted = looks.iter().position(|look| look.second >= counts).unwrap_or(0);
    Ok(Course {
        replayed: replayed[counted..].to_vec(),
        kept: looks[counted..].iter().map(|look| look.kept as f64).collect(),
        ended: installed as f64 / turns.map_or(1.0, |turn| turn.ranges as f64),
        updates_per_s: updates.done() as f64 / seconds,
        checkpoint_mb_per_s: (last.checkpoint_bytes - first.checkpoint_bytes) as f64 / seconds / MB,
        open_seconds: 0.0,
        open_replayed: 0.0,
    })
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

fn peak(values: &[f64]) -> f64 {
    values.iter().copied().fold(0.0, f64::max)
}

/// The rows, their ratios, and the result against the thresholds.
fn made(arguments: &SirenArguments, courses: &[Vec<Course>; 2]) -> Made {
    let asked = held(arguments);
    let place = || Place::Bar(format!("{} updates/s", grouped(asked as f64)));
    let (mut rows, mut said, mut is_as_asked) = (Vec::new(), String::new(), true);
    for (strategy, courses) in STRATEGIES.into_iter().zip(courses) {
        let mut row = |metric, of: &dyn Fn(&Course) -> f64| {
            rows.push(Row::new(name(strategy), place(), metric, courses.iter().map(of).collect()));
        };
        row(REPLAYED, &|course| mean(&course.replayed) / MB);
        row(("log that a recovery replays, peak", "MB"), &|course| peak(&course.replayed) / MB);
        row(("log on disk, mean", "MB"), &|course| mean(&course.kept) / MB);
        row(("log on disk, peak", "MB"), &|course| peak(&course.kept) / MB);
        row(("checkpoints write", "MB/s"), &|course| course.checkpoint_mb_per_s);
        row(("an open", "s"), &|course| course.open_seconds);
        row(("an open replays", "MB"), &|course| course.open_replayed / MB);
        row(("updates", "1/s"), &|course| course.updates_per_s);
        for course in courses {
            let off = (course.updates_per_s / asked as f64 - 1.0) * 100.0;
            let is_held = off.abs() <= OFF_MAX && course.ended >= CHECKPOINTS_BEFORE;
            is_as_asked &= is_held;
            said += &format!(
                "  {}: asked: {} updates/s, two rounds; held: {} updates/s, {:.1} rounds{}\n",
                name(strategy),
                grouped(asked as f64),
                grouped(course.updates_per_s),
                course.ended,
                if is_held { "" } else { ": NOT HELD" }
            );
        }
    }
    let of = |at: usize| courses[at].iter().map(|course| mean(&course.replayed)).collect::<Vec<f64>>();
    let names = STRATEGIES.map(name);
    let ratio = Row::ratio((names[1], &of(1)), (names[0], &of(0)), place());
    said += &format!("  {}: {:.3} ({:.3} .. {:.3})\n", ratio.system, ratio.median, ratio.min, ratio.max);
    rows.push(ratio);
    let title = format!(
        "Log that a recovery replays: {} rows of {} bytes, checkpoints of {} MB/s, {} ranges",
        grouped(arguments.rows as f64),
        arguments.row_bytes,
        arguments.slow_mb(),
        arguments.ranges
    );
    let figure = Figure { name: "cycling", title, drawn: REPLAYED, rows, ..Figure::default() };
    Made(vec![figure], is_as_asked, said)
}

#[cfg(test)]
mod tests;
