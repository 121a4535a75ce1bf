//! `siren foreground` and `siren hang`: commits beside a full picture.
//!
//! YCSB, 80 % reads and 20 % read-modify-writes, runs for a while without a picture and then within a picture, in the
//! same run on the same database. Each commit is timed. For `foreground` the picture writes a stated number of bytes a
//! second (`--picture-mb`), and there are runs with relaxed and runs with strict transactions. The client of a strict
//! transaction waits until the transaction is durable, and only strict transactions that write are timed. For `hang`
//! every write and every sync of the picture's files takes seconds: the picture does not end within the run, and no
//! commit may wait for the picture.
//!
//! [`ensile_bench::driver::over_time`] runs [`ensile_bench::ycsb::engine`]. [`super::slow_disk`] is the device that
//! hangs. [`super::backup`] has a backup in place of the picture.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ensile::checkpoint::{CheckpointHandle, CheckpointReport};
use ensile::{Database, Durability};
use ensile_base::clock::Clock;
use ensile_base::sync::{AtomicU32, Mutex, Ordering};
use ensile_bench::driver::{self, Pace, Plan, Slice, Subject};
use ensile_bench::figure::{Figure, Place, Row};
use ensile_bench::number::{counted, grouped, median};
use ensile_bench::progress::Progress;
use ensile_bench::system::{Options, SystemKind, fresh_folder};
use ensile_bench::tally::new_histogram;
use ensile_bench::timeline::{Part, STEP_NANOS};
use ensile_bench::ycsb::engine::Engine;
use ensile_bench::ycsb::load::LoadPlan;
use ensile_bench::ycsb::mix::{Requests, Workload};
use ensile_bench::{Failure, Result};
use hdrhistogram::Histogram;

use super::arguments::SirenArguments;
use super::own_time::OwnTime;
use super::results::Made;
use super::run::{FOLDER, Setup, must_fit, options, slow_disk};
use super::slow_disk::{SlowDisk, SlowFiles, Speed};
use super::strategy::Strategy;
use super::updates::Choice;
use crate::comparison::Comparison;

/// Bytes of a value, with a key of eight.
pub(super) const VALUE_BYTES: usize = 100;
pub(super) const KEY_BYTES: usize = 8;
/// Default number of rounds.
pub(super) const FOREGROUND_ROUNDS: usize = 9;
pub(super) const HANG_ROUNDS: usize = 5;
/// Limits within a picture against without: minimum ratio of throughput, maximum ratio of p99.9, and maximum delay of
/// the longest commit beside a device that hangs, in milliseconds.
const THROUGHPUT_MIN: f64 = 0.95;
const TAIL_MAX: f64 = 2.5;
const LATER_MS_MAX: f64 = 2.0;
/// Minimum number of samples for p99.9. With fewer commits p99.9 is the longest commit.
const TAIL_SAMPLES_MIN: u64 = 1_000;
/// Maximum length of a part of a run, as a multiple of the time first given.
const LONGER_MAX: f64 = 20.0;

pub(super) const THROUGHPUT: (&str, &str) = ("throughput", "txn/s");
const RELAXED: (&str, &str) = ("relaxed commit, p99.9", "ms");
const STRICT: (&str, &str) = ("strict commit, p99.9", "ms");
const UNTIL_DURABLE: (&str, &str) = ("relaxed, until durable, p99.9", "ms");
const LONGEST: (&str, &str) = ("longest relaxed commit", "ms");
const LONGEST_STRICT: (&str, &str) = ("longest strict commit", "ms");
const TIMED: (&str, &str) = ("commits that were timed", "1");
const LONGEST_OWN: (&str, &str) = ("the same less waits for a processor", "ms");
const LATER: (&str, &str) = ("longest relaxed commit, later", "ms");

/// The parts of a run.
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

    /// The side of a commit that began in this phase and ended in `after`: within, if any part of the commit was
    /// within.
    fn side(self, after: Self) -> Option<usize> {
        match (self, after) {
            (Self::Within, _) | (_, Self::Within) => Some(WITHIN),
            (Self::Without, _) => Some(WITHOUT),
            _ => None,
        }
    }
}

/// The sides of a run.
pub(super) const WITHOUT: usize = 0;
pub(super) const WITHIN: usize = 1;

/// The strategy of pictures, and the durability of transactions beside them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Manner {
    strategy: Strategy,
    durability: Durability,
}

impl Manner {
    fn is_strict(self) -> bool {
        self.durability == Durability::Strict
    }

    fn name(self) -> String {
        let strategy = self.strategy.name();
        if self.is_strict() { format!("{strategy}, strict") } else { strategy.to_owned() }
    }
}

/// YCSB with timed commits. Of strict transactions only writing transactions are timed, as a read has nothing to wait
/// for.
struct Timed<'e> {
    engine: &'e Engine<VALUE_BYTES>,
    /// The core of the first worker; `None` if workers are not pinned.
    pin: Option<usize>,
    clock: Clock,
    phase: AtomicU32,
    /// Nanoseconds of commits, by side.
    commits: Mutex<[Histogram<u64>; 2]>,
    /// Nanoseconds of the longest commit of each side, less waits for a processor; `None` if waits are not read.
    own: Option<Mutex<[u64; 2]>>,
}

impl<'e> Timed<'e> {
    fn new(engine: &'e Engine<VALUE_BYTES>, looks_at_own: bool, pin: Option<usize>) -> Self {
        let commits = Mutex::new([new_histogram(), new_histogram()]);
        let own = looks_at_own.then(|| Mutex::new([0; 2]));
        let phase = AtomicU32::new(Phase::LeadIn as u32);
        Self { engine, pin, clock: Clock::machine(), phase, commits, own }
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
        self.engine.durable_epoch()
    }

    fn work(&self, slice: &mut Slice<'_>) -> Result<()> {
        let mut commits = [new_histogram(), new_histogram()];
        let mut longest = [0; 2];
        let own = self.own.as_ref().map(|_| OwnTime::of_this_thread(self.clock.nanos()));
        let mut own = own.transpose()?;
        let durable = || self.engine.database().durable_epoch().number();
        let outcome = slice.repeat(durable, |random| {
            let (before, began) = (self.phase(), self.clock.nanos());
            own.as_mut().map_or(Ok(()), |own| own.begin(began))?;
            let (step, is_timed) = match self.engine.is_strict() {
                true => self.engine.step_strict(random)?,
                false => (self.engine.step(random)?, true),
            };
            let now = self.clock.nanos();
            let nanos = now.saturating_sub(began);
            let own = own.as_mut().map_or(Ok(nanos), |own| own.of_step(nanos, now))?;
            if let Some(side) = before.side(self.phase()).filter(|_| is_timed) {
                commits[side].saturating_record(nanos);
                longest[side] = own.max(longest[side]);
            }
            Ok(step)
        });
        if let Some(own) = &self.own {
            own.lock().iter_mut().zip(longest).for_each(|(all, own)| *all = own.max(*all));
        }
        for (all, own) in self.commits.lock().iter_mut().zip(&commits) {
            all.add(own).expect("histograms of the same bounds");
        }
        outcome
    }
}

/// The figures of one side of a run.
pub(super) struct Side {
    /// Durable transactions, or in memory committed transactions.
    pub(super) part: Part,
    /// True if the transactions were strict.
    is_strict: bool,
    commits: Histogram<u64>,
    /// Nanoseconds of the longest commit less waits for a processor; `None` if waits were not read.
    longest_own: Option<u64>,
}

impl Side {
    fn milliseconds(&self, quantile: f64) -> f64 {
        self.commits.value_at_quantile(quantile) as f64 / 1e6
    }

    fn longest_ms(&self) -> f64 {
        self.commits.max() as f64 / 1e6
    }

    fn longest_own_ms(&self) -> Option<f64> {
        self.longest_own.map(|nanos| nanos as f64 / 1e6)
    }
}

/// The figures of a run.
struct Course {
    sides: [Side; 2],
    /// `None` if the picture did not end within the run.
    report: Option<CheckpointReport>,
    /// Peak of displaced versions, in bytes.
    displaced_peak: u64,
}

/// A task beside the load on the side within.
pub(super) trait Beside {
    /// Begins the task.
    fn begin(&mut self) -> Result<()>;

    /// True if the task has ended.
    fn has_ended(&mut self) -> Result<bool>;
}

/// A picture beside the load.
struct Picturing<'p> {
    db: &'p Database,
    hanging: Option<&'p SlowDisk>,
    asked: Option<CheckpointHandle>,
    report: Option<CheckpointReport>,
}

impl Beside for Picturing<'_> {
    fn begin(&mut self) -> Result<()> {
        self.hanging.iter().for_each(|disk| disk.slow_down(true));
        self.asked = Some(self.db.checkpoint()?);
        Ok(())
    }

    fn has_ended(&mut self) -> Result<bool> {
        let Some(outcome) = self.asked.as_ref().and_then(CheckpointHandle::outcome) else { return Ok(false) };
        self.report = Some(outcome?);
        Ok(true)
    }
}

/// Time of each call of a device that hangs; `None` if the device does not hang.
type Hang = Option<Duration>;

/// A full picture beside YCSB.
pub(super) fn foreground(arguments: &SirenArguments) -> Result<Made> {
    let rounds = arguments.rounds.unwrap_or(FOREGROUND_ROUNDS);
    let both = [Durability::Relaxed, Durability::Strict];
    let (manners, courses) = courses(arguments, (rounds, &both), None)?;
    let (mut rows, mut said, mut is_as_asked) = (Vec::new(), String::new(), true);
    let gigabytes = arguments.rows as f64 * (KEY_BYTES + VALUE_BYTES) as f64 / 1e9;
    for (manner, courses) in manners.iter().zip(&courses) {
        let name = &manner.name();
        rows.extend(rows_of(name, courses));
        let ratio = |metric: (&str, &str), of: &dyn Fn(&Side) -> Option<f64>| {
            let side = |side: usize| -> Vec<f64> {
                courses.iter().map(|course| of(&course.sides[side]).unwrap_or(f64::NAN)).collect()
            };
            let (within, without) = (side(WITHIN), side(WITHOUT));
            Row::ratio(
                ("within", &within),
                ("without", &without),
                Place::Bar(format!("{name}, {}", metric.0)),
            )
        };
        let tail = |side: &Side| Some(side.milliseconds(0.999));
        let ratios = if manner.is_strict() {
            said += &strict_words(name, arguments.workers(), courses);
            vec![(ratio(STRICT, &tail), "<=", TAIL_MAX)]
        } else {
            vec![
                (ratio(THROUGHPUT, &|side| Some(side.part.rate())), ">=", THROUGHPUT_MIN),
                (ratio(RELAXED, &tail), "<=", TAIL_MAX),
                (ratio(UNTIL_DURABLE, &|side| side.part.quantile_ms(0.999)), "<=", TAIL_MAX),
            ]
        };
        for (ratio, sign, limit) in ratios {
            let is_within = if sign == ">=" { ratio.median >= limit } else { ratio.median <= limit };
            let verdict = same_work(courses, is_whole(courses, arguments)).verdict(is_within);
            said += &format!(
                "  {}: {:.3} ({:.3} .. {:.3}), asked {sign} {limit}: {verdict}\n",
                ratio.place, ratio.median, ratio.min, ratio.max
            );
            is_as_asked &= verdict.is_held();
            rows.push(ratio);
        }
        let seconds: Vec<f64> =
            courses.iter().filter_map(|course| Some(course.report.as_ref()?.elapsed.as_secs_f64())).collect();
        let is_whole = is_whole(courses, arguments);
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

/// True if each run had a picture of the whole table.
fn is_whole(courses: &[Course], arguments: &SirenArguments) -> bool {
    let has_all = |course: &Course| course.report.as_ref().is_some_and(|one| one.entries >= arguments.rows);
    courses.iter().all(has_all)
}

/// A comparison of sides with commits in each run, the side within beside a whole picture.
fn same_work(courses: &[Course], is_whole: bool) -> Comparison<'static> {
    let timed =
        |side: usize| courses.iter().map(|course| course.sides[side].commits.len()).min().unwrap_or(0);
    Comparison::of(["within", "without"])
        .each_at_least("timed commits in a run", [WITHIN, WITHOUT].map(|side| timed(side) as f64), 1.0)
        .only_if(is_whole, "a run had no full picture")
}

/// Numbers of the strict runs, in words.
fn strict_words(name: &str, clients: usize, courses: &[Course]) -> String {
    let timed =
        |side: usize| courses.iter().map(|course| course.sides[side].commits.len()).sum::<u64>() as f64;
    let fewest = courses.iter().flat_map(|course| &course.sides).map(|side| side.commits.len()).min();
    let is_longest = if fewest.unwrap_or(0) < TAIL_SAMPLES_MIN {
        ": of fewer than 1,000 in a run p99.9 is the longest"
    } else {
        ""
    };
    format!(
        "  {name}: runs of their own, {}, each of which waits until its transaction is durable; {} commits that wrote \
         were timed without a picture and {} within one{is_longest}\n",
        counted(clients, "client"),
        grouped(timed(WITHOUT)),
        grouped(timed(WITHIN))
    )
}

/// YCSB beside a picture whose files hang.
pub(super) fn hang(arguments: &SirenArguments) -> Result<Made> {
    let rounds = arguments.rounds.unwrap_or(HANG_ROUNDS);
    let hang = Duration::from_secs_f64(arguments.hang);
    let (manners, courses) = courses(arguments, (rounds, &[Durability::Relaxed]), Some(hang))?;
    let (mut rows, mut said, mut is_as_asked) = (Vec::new(), String::new(), true);
    for (manner, courses) in manners.iter().zip(&courses) {
        let name = &manner.name();
        rows.extend(rows_of(name, courses));
        let longest = |side: usize, of: &dyn Fn(&Side) -> f64| {
            courses.iter().map(|course| of(&course.sides[side])).fold(0.0, f64::max)
        };
        let [without, within] = [WITHOUT, WITHIN].map(|side| longest(side, &Side::longest_ms));
        let later = within - without;
        let own = |side: &Side| side.longest_own_ms().unwrap_or(f64::NAN);
        let [own_without, own_within] = [WITHOUT, WITHIN].map(|side| longest(side, &own));
        rows.push(Row::new(name, Place::Bar("within - without".to_owned()), LATER, vec![later]));
        // Commits have displaced versions for the picture, and the picture does not end.
        let is_held = courses.iter().all(|course| course.report.is_none() && course.displaced_peak > 0);
        is_as_asked &= is_held;
        said += &format!(
            "  {name}: longest relaxed commit of all runs {within:.3} ms within and {without:.3} ms without, {later:+.3} \
             ms; asked <= {LATER_MS_MAX} ms; less waits for a processor {own_within:.3} and {own_without:.3} ms; asked: \
             the device hangs all the time, and commits displace versions{}\n",
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

/// Rows of one manner, common to both figures.
fn rows_of(name: &str, courses: &[Course]) -> Vec<Row> {
    let sides: Vec<&[Side; 2]> = courses.iter().map(|course| &course.sides).collect();
    let mut rows = rows_of_sides(name, &sides);
    let displaced = courses.iter().map(|course| course.displaced_peak as f64 / 1e6).collect();
    rows.push(Row::new(name, Place::Bar("within".to_owned()), ("displaced at the peak", "MB"), displaced));
    rows
}

/// Rows of both sides of runs.
pub(super) fn rows_of_sides(name: &str, runs: &[&[Side; 2]]) -> Vec<Row> {
    let mut rows = Vec::new();
    for (place, side) in [("without", WITHOUT), ("within", WITHIN)] {
        let mut row = |metric, of: &dyn Fn(&Side) -> Option<f64>| {
            let values: Vec<f64> = runs.iter().filter_map(|sides| of(&sides[side])).collect();
            if !values.is_empty() {
                rows.push(Row::new(name, Place::Bar(place.to_owned()), metric, values));
            }
        };
        let is_strict = runs.iter().any(|sides| sides[side].is_strict);
        let (tail, longest) = if is_strict { (STRICT, LONGEST_STRICT) } else { (RELAXED, LONGEST) };
        row(THROUGHPUT, &|side| Some(side.part.rate()));
        row(tail, &|side| Some(side.milliseconds(0.999)));
        row(longest, &|side| Some(side.longest_ms()));
        row(LONGEST_OWN, &Side::longest_own_ms);
        row(UNTIL_DURABLE, &|side| side.part.quantile_ms(0.999));
        row(TIMED, &|side| Some(side.commits.len() as f64));
    }
    rows
}

/// All manners of pictures and commits, in turns.
fn courses(
    arguments: &SirenArguments,
    (rounds, durabilities): (usize, &[Durability]),
    hang: Hang,
) -> Result<(Vec<Manner>, Vec<Vec<Course>>)> {
    must_fit(arguments)?;
    let of = |strategy| durabilities.iter().map(move |&durability| Manner { strategy, durability });
    let manners: Vec<Manner> = arguments.strategies().into_iter().flat_map(of).collect();
    let mut progress = Progress::new(rounds);
    let mut courses: Vec<Vec<Course>> = manners.iter().map(|_| Vec::new()).collect();
    for round in 0..rounds {
        for turn in 0..manners.len() {
            let index = (round + turn) % manners.len();
            let course = one(arguments, manners[index], arguments.seed + round as u64, hang)?;
            progress.round(round, &manners[index].name(), course.sides[WITHIN].part.rate());
            courses[index].push(course);
        }
    }
    progress.clear();
    Ok((manners, courses))
}

/// Runs one manner once, with a fresh database.
fn one(arguments: &SirenArguments, manner: Manner, seed: u64, hang: Hang) -> Result<Course> {
    let path = fresh_folder(&arguments.data, FOLDER)?;
    let mut builder = Database::builder(&path).durability(manner.durability);
    let disk = hang.map(|hang| hanging_disk(&path, hang)).transpose()?;
    if let Some(disk) = &disk {
        builder = builder.disk(Arc::<SlowDisk>::clone(disk));
    }
    let mut options = paced_options(arguments, manner.strategy, seed);
    if hang.is_some() {
        options.tuning.checkpoint_bandwidth = None;
    }
    let engine = loaded(arguments, SystemKind::Silo, options.open(builder)?)?;
    let engine = if manner.is_strict() { engine.strict() } else { engine };
    let made = beside_a_picture(arguments, &engine, seed, disk.as_deref());
    // The rest of the writing is not measured.
    disk.iter().for_each(|disk| disk.slow_down(false));
    engine.database().close()?;
    std::fs::remove_dir_all(&path).map_err(Failure::io(format!("removing {}", path.display())))?;
    made
}

/// A device that takes `hang` for each write and sync of checkpoints' files, once slowed down.
fn hanging_disk(path: &Path, hang: Duration) -> Result<Arc<SlowDisk>> {
    let speed = Speed { bytes_per_s: u64::MAX, sync: hang, write: hang };
    slow_disk(path, (SlowFiles::Checkpoints, speed), &Clock::machine())
}

/// Options of a database whose pictures write `--picture-mb` a second.
pub(super) fn paced_options(arguments: &SirenArguments, strategy: Strategy, seed: u64) -> Options {
    let setup =
        Setup { strategy, on_slow_device: true, choice: Choice::Uniform, updates_per_s: u64::MAX, seed };
    let mut options = options(arguments, &setup);
    options.tuning.checkpoint_bandwidth = Some(arguments.picture_mb * 1_000_000);
    options
}

/// YCSB 80/20 on a fresh database, loaded.
pub(super) fn loaded(
    arguments: &SirenArguments,
    kind: SystemKind,
    db: Database,
) -> Result<Engine<VALUE_BYTES>> {
    let requests = Requests::new(Workload::Silo, arguments.rows, None);
    let load = LoadPlan::in_order(arguments.rows, arguments.workers());
    Engine::over(kind, db, requests, &load)
}

/// Runs the load without a picture and then within one.
fn beside_a_picture(
    arguments: &SirenArguments,
    engine: &Engine<VALUE_BYTES>,
    seed: u64,
    hanging: Option<&SlowDisk>,
) -> Result<Course> {
    let most = if hanging.is_some() { arguments.seconds } else { arguments.seconds * LONGER_MAX };
    let db = engine.database();
    let mut picturing = Picturing { db, hanging, asked: None, report: None };
    let subject = Timed::new(engine, hanging.is_some(), None);
    let sides = watched_subject(arguments, subject, (seed, most), &mut picturing)?;
    Ok(Course { sides, report: picturing.report, displaced_peak: db.stats().displaced_bytes_peak })
}

/// Runs the load without the task, and then beside the task until the task has ended, or for `most` seconds. The first
/// worker keeps to the core `pin`, if given, and the other workers to the cores behind `pin`.
pub(super) fn watched(
    arguments: &SirenArguments,
    engine: &Engine<VALUE_BYTES>,
    (seed, most, pin): (u64, f64, Option<usize>),
    beside: &mut dyn Beside,
) -> Result<[Side; 2]> {
    watched_subject(arguments, Timed::new(engine, false, pin), (seed, most), beside)
}

/// Runs as [`watched`] does, with the given timed load.
fn watched_subject(
    arguments: &SirenArguments,
    subject: Timed<'_>,
    (seed, most): (u64, f64),
    beside: &mut dyn Beside,
) -> Result<[Side; 2]> {
    let (lead_in, seconds) = ((arguments.seconds / 4.0).min(1.0), arguments.seconds);
    let threads = arguments.workers();
    let plan = Plan { threads, batch: 1, pace: Pace::Timed(seconds), rounds: 1, seed, pin: subject.pin };
    let mut failed = None;
    // Begin and end of the sides, in nanoseconds.
    let mut sides = [(0, u64::MAX); 2];
    let timeline = driver::over_time(&subject, &plan, |nanos| {
        let second = nanos as f64 / 1e9;
        match subject.phase() {
            Phase::LeadIn if second >= lead_in => {
                sides[WITHOUT].0 = nanos;
                subject.begin(Phase::Without);
            }
            Phase::Without if second >= lead_in + seconds => {
                (sides[WITHOUT].1, sides[WITHIN].0) = (nanos, nanos);
                subject.begin(Phase::Within);
                failed = beside.begin().err();
            }
            Phase::Within => {
                let within = (nanos - sides[WITHIN].0) as f64 / 1e9;
                let has_ended = beside.has_ended();
                if within >= most || !matches!(has_ended, Ok(false)) {
                    sides[WITHIN].1 = nanos;
                    subject.begin(Phase::Over);
                }
                failed = has_ended.err();
            }
            _ => {}
        }
        failed.is_none() && subject.phase() != Phase::Over
    })?;
    failed.map_or(Ok(()), Err)?;
    let [without, within] = subject.commits.into_inner();
    let own = subject.own.map(Mutex::into_inner);
    let is_strict = subject.engine.is_strict();
    let side = |side: usize, commits| {
        let (from, to) = sides[side];
        let is_in = |step: usize| {
            let begin = step as u64 * STEP_NANOS;
            from <= begin && begin + STEP_NANOS <= to
        };
        Side { part: timeline.part(is_in), is_strict, commits, longest_own: own.map(|own| own[side]) }
    };
    Ok([side(WITHOUT, without), side(WITHIN, within)])
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
