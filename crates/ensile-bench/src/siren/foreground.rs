//! `siren foreground` and `siren hang`: what commits feel of a full picture beside them.
//!
//! YCSB, 80 % reads and 20 % read-modify-writes, runs for a while without a picture and then within one, in the same
//! run on the same database. Each commit is timed. For `foreground` the picture writes a stated number of bytes a
//! second (`--picture-mb`). For `hang` every write and every sync of its files takes seconds: it comes to no end while
//! it is looked at, and no commit may wait for it.
//!
//! Neighbours: [`crate::driver::over_time`] runs [`crate::ycsb::engine`]; [`super::slow_disk`] is the device that
//! hangs.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ensile::checkpoint::{CheckpointHandle, CheckpointReport};
use ensile::{Database, Durability};
use ensile_base::clock::Clock;
use ensile_base::sync::{AtomicU32, Mutex, Ordering};
use hdrhistogram::Histogram;

use super::Made;
use super::arguments::SirenArguments;
use super::run::{FOLDER, Setup, must_fit, options, slow_disk};
use super::slow_disk::{SlowDisk, SlowFiles, Speed};
use super::strategy::Strategy;
use super::updates::Choice;
use crate::driver::{self, Pace, Plan, Slice, Subject};
use crate::failure::{Failure, Result};
use crate::figure::{Figure, Place, Row};
use crate::number::{grouped, median};
use crate::progress::Progress;
use crate::system::{SystemKind, fresh_folder};
use crate::tally::new_histogram;
use crate::timeline::{Part, STEP_NANOS};
use crate::ycsb::engine::Engine;
use crate::ycsb::load::LoadPlan;
use crate::ycsb::mix::{Requests, Workload};

/// Bytes of a value, with a key of eight.
const VALUE_BYTES: usize = 100;
const KEY_BYTES: usize = 8;
/// Rounds unless something else is asked for.
pub(super) const FOREGROUND_ROUNDS: usize = 9;
pub(super) const HANG_ROUNDS: usize = 5;
/// What is asked for: throughput within a picture against without, how much longer p99.9 may be, and how much later the
/// longest commit beside a device that hangs, in milliseconds.
const THROUGHPUT_MIN: f64 = 0.95;
const TAIL_MAX: f64 = 2.5;
const LATER_MS_MAX: f64 = 2.0;
/// A picture that takes so many times the time that it is given at first is given up.
const LONGER_MAX: f64 = 20.0;

const THROUGHPUT: (&str, &str) = ("throughput", "txn/s");
const RELAXED: (&str, &str) = ("relaxed commit, p99.9", "ms");
const STRICT: (&str, &str) = ("latency until durable, p99.9", "ms");
const LONGEST: (&str, &str) = ("longest relaxed commit", "ms");
const LATER: (&str, &str) = ("longest relaxed commit, later", "ms");

/// Which part of a run it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Caches fill.
    LeadIn,
    Without,
    Within,
    Over,
}

impl Phase {
    const ALL: [Self; 4] = [Self::LeadIn, Self::Without, Self::Within, Self::Over];

    /// To which side a commit belongs that began in this phase and ended in `after`: within, if any of it was.
    fn side(self, after: Self) -> Option<usize> {
        match (self, after) {
            (Self::Within, _) | (_, Self::Within) => Some(WITHIN),
            (Self::Without, _) => Some(WITHOUT),
            _ => None,
        }
    }
}

/// The sides of a run.
const WITHOUT: usize = 0;
const WITHIN: usize = 1;

/// YCSB, each commit timed.
struct Timed<'e> {
    engine: &'e Engine<VALUE_BYTES>,
    clock: Clock,
    phase: AtomicU32,
    /// Nanoseconds of commits, of each side.
    commits: Mutex<[Histogram<u64>; 2]>,
}

impl<'e> Timed<'e> {
    fn new(engine: &'e Engine<VALUE_BYTES>) -> Self {
        let commits = Mutex::new([new_histogram(), new_histogram()]);
        Self { engine, clock: Clock::machine(), phase: AtomicU32::new(Phase::LeadIn as u32), commits }
    }

    fn phase(&self) -> Phase {
        // Relaxed: a commit at the edge of two phases belongs to either.
        Phase::ALL[self.phase.load(Ordering::Relaxed) as usize]
    }

    fn begin(&self, phase: Phase) {
        // Relaxed: see `phase`.
        self.phase.store(phase as u32, Ordering::Relaxed);
    }
}

impl Subject for Timed<'_> {
    fn name(&self) -> &'static str {
        "ycsb"
    }

    fn durable_epoch(&self) -> Option<u64> {
        Some(self.engine.database().durable_epoch().number())
    }

    fn work(&self, slice: &mut Slice<'_>) -> Result<()> {
        let mut commits = [new_histogram(), new_histogram()];
        let durable = || self.engine.database().durable_epoch().number();
        let outcome = slice.repeat(durable, |random| {
            let (before, began) = (self.phase(), self.clock.nanos());
            let step = self.engine.step(random)?;
            if let Some(side) = before.side(self.phase()) {
                commits[side].saturating_record(self.clock.nanos().saturating_sub(began));
            }
            Ok(step)
        });
        for (all, own) in self.commits.lock().iter_mut().zip(&commits) {
            all.add(own).expect("histograms of the same bounds");
        }
        outcome
    }
}

/// What one side of a run came to.
struct Side {
    /// By what became durable.
    part: Part,
    commits: Histogram<u64>,
}

impl Side {
    fn milliseconds(&self, quantile: f64) -> f64 {
        self.commits.value_at_quantile(quantile) as f64 / 1e6
    }

    fn longest_ms(&self) -> f64 {
        self.commits.max() as f64 / 1e6
    }
}

/// A run that was made.
struct Course {
    without: Side,
    within: Side,
    /// `None` if the picture did not end within the run.
    report: Option<CheckpointReport>,
    /// The most that displaced versions took at once.
    displaced_peak: u64,
}

/// One of a run's sides.
type OneSide = fn(&Course) -> &Side;
/// How long a device hangs at each call, if it does.
type Hang = Option<Duration>;

/// A full picture beside YCSB.
pub(super) fn foreground(arguments: &SirenArguments) -> Result<Made> {
    let rounds = arguments.rounds.unwrap_or(FOREGROUND_ROUNDS);
    let (strategies, courses) = courses(arguments, rounds, None)?;
    let (mut rows, mut said, mut is_as_asked) = (Vec::new(), String::new(), true);
    let gigabytes = arguments.rows as f64 * (KEY_BYTES + VALUE_BYTES) as f64 / 1e9;
    for (strategy, courses) in strategies.iter().zip(&courses) {
        let name = strategy.name();
        rows.extend(rows_of(name, courses));
        let ratio = |metric: (&str, &str), of: &dyn Fn(&Side) -> Option<f64>| {
            let side = |side: OneSide| -> Vec<f64> {
                courses.iter().map(|course| of(side(course)).unwrap_or(f64::NAN)).collect()
            };
            let (within, without) = (side(|course| &course.within), side(|course| &course.without));
            Row::ratio(
                ("within", &within),
                ("without", &without),
                Place::Bar(format!("{name}, {}", metric.0)),
            )
        };
        let ratios = [
            ratio(THROUGHPUT, &|side| Some(side.part.rate())),
            ratio(RELAXED, &|side| Some(side.milliseconds(0.999))),
            ratio(STRICT, &|side| side.part.quantile_ms(0.999)),
        ];
        for (ratio, asked) in ratios.iter().zip([
            format!(">= {THROUGHPUT_MIN}"),
            format!("<= {TAIL_MAX}"),
            format!("<= {TAIL_MAX}"),
        ]) {
            said += &format!(
                "  {}: {:.3} ({:.3} .. {:.3}), asked {asked}\n",
                ratio.place, ratio.median, ratio.min, ratio.max
            );
        }
        rows.extend(ratios);
        let seconds: Vec<f64> =
            courses.iter().filter_map(|course| Some(course.report.as_ref()?.elapsed.as_secs_f64())).collect();
        let is_whole = seconds.len() == courses.len()
            && courses
                .iter()
                .all(|course| course.report.as_ref().is_some_and(|report| report.entries >= arguments.rows));
        is_as_asked &= is_whole;
        if !seconds.is_empty() {
            said += &format!(
                "  {name}: a picture takes {:.2} s a GB of rows\n",
                median(seconds.clone()) / gigabytes
            );
            rows.push(Row::new(name, Place::Bar("within".to_owned()), ("a picture", "s"), seconds));
        }
        if !is_whole {
            said += &format!("  {name}: asked: a full picture in each run: NOT HELD\n");
        }
    }
    let title = format!(
        "YCSB 80/20 while a full picture is written: {} rows of {VALUE_BYTES} bytes",
        grouped(arguments.rows as f64)
    );
    let figure = Figure { name: "foreground", title, drawn: THROUGHPUT, rows, ..Figure::default() };
    Ok(Made(vec![figure], is_as_asked, said))
}

/// YCSB beside a picture whose files hang.
pub(super) fn hang(arguments: &SirenArguments) -> Result<Made> {
    let rounds = arguments.rounds.unwrap_or(HANG_ROUNDS);
    let hang = Duration::from_secs_f64(arguments.hang);
    let (strategies, courses) = courses(arguments, rounds, Some(hang))?;
    let (mut rows, mut said, mut is_as_asked) = (Vec::new(), String::new(), true);
    for (strategy, courses) in strategies.iter().zip(&courses) {
        let name = strategy.name();
        rows.extend(rows_of(name, courses));
        let longest =
            |side: OneSide| courses.iter().map(|course| side(course).longest_ms()).fold(0.0, f64::max);
        let (without, within) = (longest(|course| &course.without), longest(|course| &course.within));
        let later = within - without;
        rows.push(Row::new(name, Place::Bar("within - without".to_owned()), LATER, vec![later]));
        // Commits have something to do for the picture, and it does not end.
        let is_held = courses.iter().all(|course| course.report.is_none() && course.displaced_peak > 0);
        is_as_asked &= is_held;
        said += &format!(
            "  {name}: longest relaxed commit of all runs {within:.3} ms within and {without:.3} ms without, {later:+.3} \
             ms; asked <= {LATER_MS_MAX} ms; asked: the device hangs all the time, and commits displace versions{}\n",
            if is_held { "" } else { ": NOT HELD" }
        );
    }
    let title = format!(
        "YCSB 80/20 beside a picture each of whose writes and syncs takes {} s: {} rows of {VALUE_BYTES} bytes",
        arguments.hang,
        grouped(arguments.rows as f64)
    );
    let figure = Figure { name: "hang", title, drawn: LONGEST, rows, ..Figure::default() };
    Ok(Made(vec![figure], is_as_asked, said))
}

/// What both figures have of one way of taking pictures.
fn rows_of(name: &str, courses: &[Course]) -> Vec<Row> {
    let sides: [(&str, OneSide); 2] =
        [("without", |course| &course.without), ("within", |course| &course.within)];
    let mut rows = Vec::new();
    for (place, side) in sides {
        let mut row = |metric, of: &dyn Fn(&Side) -> Option<f64>| {
            let values: Vec<f64> = courses.iter().filter_map(|course| of(side(course))).collect();
            if !values.is_empty() {
                rows.push(Row::new(name, Place::Bar(place.to_owned()), metric, values));
            }
        };
        row(THROUGHPUT, &|side| Some(side.part.rate()));
        row(RELAXED, &|side| Some(side.milliseconds(0.999)));
        row(LONGEST, &|side| Some(side.longest_ms()));
        row(STRICT, &|side| side.part.quantile_ms(0.999));
    }
    let displaced = courses.iter().map(|course| course.displaced_peak as f64 / 1e6).collect();
    rows.push(Row::new(name, Place::Bar("within".to_owned()), ("displaced at the peak", "MB"), displaced));
    rows
}

/// All ways of taking pictures, in turns.
fn courses(
    arguments: &SirenArguments,
    rounds: usize,
    hang: Hang,
) -> Result<(Vec<Strategy>, Vec<Vec<Course>>)> {
    must_fit(arguments)?;
    let strategies = arguments.strategies();
    let mut progress = Progress::new(rounds);
    let mut courses: Vec<Vec<Course>> = strategies.iter().map(|_| Vec::new()).collect();
    for round in 0..rounds {
        for turn in 0..strategies.len() {
            let index = (round + turn) % strategies.len();
            let course = one(arguments, strategies[index], arguments.seed + round as u64, hang)?;
            progress.round(round, strategies[index].name(), course.within.part.rate());
            courses[index].push(course);
        }
    }
    progress.clear();
    Ok((strategies, courses))
}

/// One run of one way, with a fresh database.
fn one(arguments: &SirenArguments, strategy: Strategy, seed: u64, hang: Hang) -> Result<Course> {
    let path = fresh_folder(&arguments.data, FOLDER)?;
    let setup =
        Setup { strategy, on_slow_device: true, choice: Choice::Uniform, updates_per_s: u64::MAX, seed };
    let mut builder = Database::builder(&path).durability(Durability::Relaxed);
    let disk = hang.map(|hang| hanging_disk(&path, hang)).transpose()?;
    if let Some(disk) = &disk {
        builder = builder.disk(Arc::<SlowDisk>::clone(disk));
    }
    let mut options = options(arguments, &setup);
    if hang.is_none() {
        options.tuning.checkpoint_bandwidth = Some(arguments.picture_mb * 1_000_000);
    }
    let db = options.open(builder)?;
    let workers = arguments.workers();
    let requests = Requests::new(Workload::Silo, arguments.rows, None);
    let load = LoadPlan::in_order(arguments.rows, workers);
    let engine = Engine::<VALUE_BYTES>::over(SystemKind::Silo, db, requests, &load)?;
    let made = watched(arguments, &engine, (workers, seed), disk.as_deref());
    // What is left to write is not measured.
    disk.iter().for_each(|disk| disk.slow_down(false));
    engine.database().close()?;
    std::fs::remove_dir_all(&path).map_err(Failure::io(format!("removing {}", path.display())))?;
    made
}

/// A device that takes this long for each write and sync of checkpoints' files, once it is slowed down.
fn hanging_disk(path: &Path, hang: Duration) -> Result<Arc<SlowDisk>> {
    let speed = Speed { bytes_per_s: u64::MAX, sync: hang, write: hang };
    slow_disk(path, (SlowFiles::Checkpoints, speed), &Clock::machine())
}

/// Runs the load without a picture and then within one.
fn watched(
    arguments: &SirenArguments,
    engine: &Engine<VALUE_BYTES>,
    (workers, seed): (usize, u64),
    hanging: Option<&SlowDisk>,
) -> Result<Course> {
    let (lead_in, seconds) = ((arguments.seconds / 4.0).min(1.0), arguments.seconds);
    let plan = Plan { threads: workers, batch: 1, pace: Pace::Timed(seconds), rounds: 1, seed, pin: None };
    let (subject, db) = (Timed::new(engine), engine.database());
    let (mut picture, mut report, mut failed): (Option<CheckpointHandle>, _, _) = (None, None, None);
    // When the sides began and ended, in nanoseconds.
    let mut sides = [(0, u64::MAX); 2];
    let timeline = driver::over_time(&subject, &plan, |nanos| {
        let second = nanos as f64 / 1e9;
        match (subject.phase(), &picture) {
            (Phase::LeadIn, _) if second >= lead_in => {
                sides[WITHOUT].0 = nanos;
                subject.begin(Phase::Without);
            }
            (Phase::Without, _) if second >= lead_in + seconds => {
                (sides[WITHOUT].1, sides[WITHIN].0) = (nanos, nanos);
                hanging.iter().for_each(|disk| disk.slow_down(true));
                subject.begin(Phase::Within);
                match db.checkpoint() {
                    Ok(asked) => picture = Some(asked),
                    Err(error) => failed = Some(Failure::from(error)),
                }
            }
            (Phase::Within, Some(picture)) => {
                let within = (nanos - sides[WITHIN].0) as f64 / 1e9;
                let outcome = picture.outcome();
                let most = if hanging.is_some() { seconds } else { seconds * LONGER_MAX };
                if outcome.is_some() || within >= most {
                    sides[WITHIN].1 = nanos;
                    subject.begin(Phase::Over);
                }
                match outcome {
                    Some(Ok(done)) => report = Some(done),
                    Some(Err(error)) => failed = Some(Failure::from(ensile::Error::from(error))),
                    None => {}
                }
            }
            _ => {}
        }
        failed.is_none() && subject.phase() != Phase::Over
    })?;
    failed.map_or(Ok(()), Err)?;
    let [without, within] = subject.commits.into_inner();
    let side = |(from, to): (u64, u64), commits| {
        let is_in = |step: usize| {
            let begin = step as u64 * STEP_NANOS;
            from <= begin && begin + STEP_NANOS <= to
        };
        Side { part: timeline.part(is_in), commits }
    };
    let displaced_peak = db.stats().displaced_bytes_peak;
    let (without, within) = (side(sides[WITHOUT], without), side(sides[WITHIN], within));
    Ok(Course { without, within, report, displaced_peak })
}

#[cfg(test)]
mod tests {
    use super::{Phase, WITHIN, WITHOUT};

    #[test]
    fn a_commit_is_within_if_any_of_it_was() {
        use Phase::{LeadIn, Over, Within, Without};
        for (before, after, side) in [
            (LeadIn, LeadIn, None),
            (LeadIn, Without, None),
            (Without, Without, Some(WITHOUT)),
            (Without, Within, Some(WITHIN)),
            (Within, Within, Some(WITHIN)),
            (Within, Over, Some(WITHIN)),
            (Without, Over, Some(WITHOUT)),
            (Over, Over, None),
        ] {
            assert_eq!(before.side(after), side, "{before:?} {after:?}");
        }
    }
}
