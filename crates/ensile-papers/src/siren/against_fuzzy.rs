//! Pictures against SiloR's fuzzy checkpoints: transactions a second while a full checkpoint is always under way (§5,
//! figure 9). Both logs are redo only.
//!
//! The sides take turns, and begin in turns: each round has a run of every strategy, each with a fresh database.
//!
//! [`ensile_bench::driver::over_time`] runs the load of [`super::updates`]. [`super::fig9`] makes the same runs with
//! other clients.

use std::sync::Arc;

use ensile::Database;
use ensile::checkpoint::CheckpointHandle;
use ensile::stats::Stats;
use ensile_base::clock::Clock;
use ensile_bench::driver::{self, Pace, Plan, Slice, Subject};
use ensile_bench::figure::{Figure, Place, Row};
use ensile_bench::machine::{processor_nanos, processor_nanos_of};
use ensile_bench::number::{counted, grouped};
use ensile_bench::progress::Progress;
use ensile_bench::system::fresh_folder;
use ensile_bench::tally::{SAMPLE_EVERY, Step, epoch_to_wait_for};
use ensile_bench::timeline::{Part, STEP_NANOS};
use ensile_bench::verdict::Verdict;
use ensile_bench::{Failure, Result};

use super::arguments::SirenArguments;
use super::results::Made;
use super::run::{FOLDER, Setup, must_fit, options, slow_disk};
use super::slow_disk::SlowDisk;
use super::strategy::Strategy;
use super::updates::{Benchmark, Choice, ROWS_PER_TRANSACTION};
use crate::comparison::Comparison;

const THROUGHPUT: (&str, &str) = ("throughput", "txn/s");
const CLIENTS: (&str, &str) = ("processor time of clients", "us a transaction");
const PENDING_REMOVE: (&str, &str) = ("processor time of clients, more than fuzzy", "ns a displaced version");
/// Bytes of a row in a checkpoint besides the value: TID and length, and a key with its length.
const ROW_FRAME_BYTES: u64 = 12 + 2 + 8;
/// Number of steps at the beginning of the timeline that averages leave out.
const LEAD_IN_STEPS: usize = 10;
/// Maximum length of a run without a whole checkpoint, as a multiple of the asked length.
const LONGER_MAX: f64 = 20.0;
/// Minimum share of a run's time within a checkpoint.
pub(super) const WITHIN_MIN: f64 = 0.95;
/// Default number of rounds.
pub(super) const ROUNDS: usize = 3;

/// Transactions at full speed: the next transaction begins after a commit or, if strict, after a durable result.
struct FreeUpdates<'b> {
    benchmark: &'b Benchmark,
    read_percent: u64,
    /// True if each client waits until the transaction is durable.
    is_strict: bool,
    /// True if a commit counts at once: a strict client has waited, and without a log no client waits.
    counts_at_once: bool,
}

impl Subject for FreeUpdates<'_> {
    fn name(&self) -> &'static str {
        "siren"
    }

    fn durable_epoch(&self) -> Option<u64> {
        (!self.counts_at_once).then(|| self.benchmark.db.durable_epoch().number())
    }

    fn work(&self, slice: &mut Slice<'_>) -> Result<()> {
        let Self { benchmark, read_percent, is_strict, counts_at_once } = self;
        let durable = || benchmark.db.durable_epoch();
        slice.repeat(
            || durable().number(),
            |random| {
                let rows = benchmark.draw(Choice::Uniform, random);
                let reads = random.percent(*read_percent);
                let (conflicts, receipt) =
                    if reads { benchmark.read(rows)? } else { benchmark.update(rows)? };
                let epoch = receipt.epoch();
                if *is_strict {
                    receipt.durable()?;
                }
                let epoch = if *counts_at_once { 0 } else { epoch_to_wait_for(epoch, durable()) };
                Ok(Step { committed: 1, conflicts, epoch })
            },
        )
    }
}

/// Requests a checkpoint, and the next checkpoint once the last has ended and `every` commits were made since the last
/// request.
struct Repeated<'b> {
    db: &'b Database,
    /// Minimum number of commits between two requests.
    every: u64,
    running: Option<CheckpointHandle>,
    /// Time of each request, in nanoseconds of the run, and number of commits by then.
    demands: Vec<(u64, u64)>,
    ended: u64,
    seconds: f64,
    entries: u64,
    displaced: u64,
    bytes_written: u64,
    looks: (u64, u64),
}

impl<'b> Repeated<'b> {
    fn begin(db: &'b Database, every: u64) -> Result<Self> {
        let (ended, seconds, entries, displaced) = (0, 0.0, 0, 0);
        let mut made = Self {
            db,
            every,
            running: None,
            demands: Vec::new(),
            ended,
            seconds,
            entries,
            displaced,
            bytes_written: 0,
            looks: (0, 0),
        };
        made.demand(0, db.stats().commits)?;
        Ok(made)
    }

    fn demand(&mut self, nanos: u64, commits: u64) -> Result<()> {
        self.running = Some(self.db.checkpoint()?);
        self.demands.push((nanos, commits));
        Ok(())
    }

    fn look(&mut self, nanos: u64) -> Result<()> {
        let stats = self.db.stats();
        let is_running = stats.checkpoints.is_some_and(|stats| stats.running.is_some());
        self.looks = (self.looks.0 + u64::from(is_running), self.looks.1 + 1);
        if let Some(outcome) = self.running.as_ref().and_then(CheckpointHandle::outcome) {
            let report = outcome?;
            self.running = None;
            self.ended += 1;
            self.seconds += report.elapsed.as_secs_f64();
            self.entries += report.entries;
            self.displaced += report.displaced;
            self.bytes_written += report.bytes_written;
        }
        let last = self.demands.last().map_or(0, |(_, commits)| *commits);
        if self.running.is_none() && stats.commits >= last + self.every {
            self.demand(nanos, stats.commits)?;
        }
        Ok(())
    }

    /// Begin and end of the whole turns, from the first request to the last, and number of commits in between. `None`
    /// without a whole turn.
    fn turns(&self) -> Option<((u64, u64), u64)> {
        let ((begun, before), (ended, after)) = (*self.demands.first()?, *self.demands.last()?);
        (self.demands.len() > 1).then_some(((begun, ended), after - before))
    }
}

/// The parameters of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    pub(super) strategy: Strategy,
    pub(super) clients: usize,
    pub(super) is_strict: bool,
    /// True if all files are on the slow device.
    pub(super) is_slow: bool,
    /// Bandwidth of checkpoints on a device that is not slow, in bytes a second. `None`: full speed of the device.
    pub(super) pace: Option<u64>,
    /// Updates between two requests of checkpoints. `None`: a checkpoint is requested when the last has ended.
    pub(super) every_updates: Option<u64>,
    pub(super) seed: u64,
}

/// The figures of a run.
pub(super) struct Course {
    pub(super) part: Part,
    pub(super) checkpoints: u64,
    /// Mean length of a checkpoint, in seconds.
    seconds: f64,
    /// Mean number of entries of a checkpoint.
    entries: f64,
    /// Mean number of displaced versions among the entries.
    displaced: f64,
    /// Bytes that ended checkpoints wrote, per second of checkpoint time.
    written_per_s: f64,
    /// Displaced versions per transaction, and per write, of the ended checkpoints.
    displaced_a_transaction: f64,
    pub(super) displaced_a_write: f64,
    /// Shares of the bytes of log and ended checkpoints: displaced versions beside pages, and checkpoint bytes besides
    /// rows. Free tails of pages are most of the second share.
    pub(super) beside_pages: f64,
    pub(super) without_rows: f64,
    /// Bytes of log per transaction.
    pub(super) log_bytes: f64,
    /// Microseconds of processor time per transaction: of the process, and of the threads outside the database.
    pub(super) processor_us: f64,
    pub(super) clients_us: f64,
    /// Share of looks with a checkpoint under way.
    pub(super) within: f64,
    displaced_peak: u64,
}

/// Runs every strategy, in turns.
pub(super) fn run(arguments: &SirenArguments) -> Result<Made> {
    must_fit(arguments)?;
    let rounds = arguments.rounds.unwrap_or(ROUNDS);
    let mut progress = Progress::new(rounds);
    let mut strategies = vec![Strategy::Fuzzy];
    strategies.extend(arguments.strategies());
    let mut courses: Vec<Vec<Course>> = strategies.iter().map(|_| Vec::new()).collect();
    for round in 0..rounds {
        for turn in 0..strategies.len() {
            let index = (round + turn) % strategies.len();
            let asked = Asked {
                strategy: strategies[index],
                clients: arguments.workers(),
                is_strict: false,
                is_slow: false,
                pace: arguments.pace(),
                every_updates: None,
                seed: arguments.seed + round as u64,
            };
            let course = one(arguments, asked)?;
            progress.round(round, strategies[index].name(), course.part.rate());
            courses[index].push(course);
        }
    }
    progress.clear();
    Ok(made(arguments, &strategies, &courses))
}

/// Runs one strategy once, with a fresh database.
pub(super) fn one(arguments: &SirenArguments, asked: Asked) -> Result<Course> {
    let path = fresh_folder(&arguments.data, FOLDER)?;
    let Asked { strategy, is_slow, seed, .. } = asked;
    let setup =
        Setup { strategy, on_slow_device: is_slow, choice: Choice::Uniform, updates_per_s: u64::MAX, seed };
    let mut builder = strategy.builder(&path);
    let slow = if is_slow {
        Some(slow_disk(&path, (arguments.device, arguments.speed()), &Clock::machine())?)
    } else {
        None
    };
    if let Some(disk) = &slow {
        builder = builder.disk(Arc::<SlowDisk>::clone(disk));
    }
    let mut options = options(arguments, &setup);
    options.tuning.checkpoint_bandwidth = asked.pace.filter(|_| !is_slow);
    let db = options.open(builder)?;
    let threads = arguments.workers() as u64;
    let benchmark = Benchmark::load(db, (arguments.rows, arguments.row_bytes), threads, strategy.has_log())?;
    let slow_down = |is_slow| slow.iter().for_each(|disk| disk.slow_down(is_slow));
    slow_down(true);
    let course = within_checkpoints(arguments, asked, &benchmark);
    // The rest of the writing is not measured.
    slow_down(false);
    if strategy.has_log() {
        benchmark.db.close()?;
    } else {
        benchmark.db.close_without_picture()?;
    }
    std::fs::remove_dir_all(&path).map_err(Failure::io(format!("removing {}", path.display())))?;
    course
}

/// Runs the clients within checkpoints: without pauses, or with a pause until enough rows were updated.
fn within_checkpoints(arguments: &SirenArguments, asked: Asked, benchmark: &Benchmark) -> Result<Course> {
    let Asked { strategy, clients, is_strict, seed, every_updates, .. } = asked;
    let pace = Pace::Timed(arguments.seconds);
    // A client that waits for the log does little, so each transaction is a sample.
    let batch = if is_strict { SAMPLE_EVERY as usize } else { 1 };
    let plan = Plan { threads: clients, batch, pace, rounds: 1, seed, pin: None };
    let counts_at_once = is_strict || !strategy.has_log();
    let read_percent = arguments.read_percent;
    let subject = FreeUpdates { benchmark, read_percent, is_strict, counts_at_once };
    let db = &benchmark.db;
    let share = 1.0 - read_percent as f64 / 100.0;
    let updates_a_commit = share * ROWS_PER_TRANSACTION as f64;
    let every = every_updates.map_or(0, |updates| (updates as f64 / updates_a_commit.max(0.01)) as u64);
    let mut repeated = Repeated::begin(db, every)?;
    let log_bytes = |stats: &Stats| stats.log.as_ref().map_or(0, |log| log.bytes);
    let (before, processor) = (db.stats(), ProcessorTime::now());
    let mut failed = None;
    let timeline = driver::over_time(&subject, &plan, |nanos| {
        failed = repeated.look(nanos).err();
        let second = nanos as f64 / 1e9;
        let is_long = second >= arguments.seconds;
        let is_enough = is_long && (repeated.turns().is_some() || second >= arguments.seconds * LONGER_MAX);
        failed.is_none() && !is_enough
    })?;
    failed.map_or(Ok(()), Err)?;
    let (after, processor) = (db.stats(), processor.until_now());
    let transactions = (after.commits - before.commits).max(1) as f64;
    let turns = repeated.turns();
    let commits = turns.map_or(0, |(_, commits)| commits) as f64;
    let per = |displaced: f64, all: f64| if all > 0.0 { displaced / all } else { 0.0 };
    let lead_in = LEAD_IN_STEPS.min(timeline.step_count() / 4);
    // With pauses only whole turns count. Each turn has a checkpoint and a pause.
    let whole = turns.filter(|_| every > 0).map(|(times, _)| times);
    let is_in = |step: usize| {
        let begin = step as u64 * STEP_NANOS;
        whole.map_or(step >= lead_in, |(from, to)| from <= begin && begin + STEP_NANOS <= to)
    };
    let part = timeline.part(is_in);
    let Repeated { ended, seconds, entries, displaced, bytes_written, looks, .. } = repeated;
    // The log still lacks the last epochs. One more transaction, which counts too, is durable behind them.
    if strategy.has_log() {
        benchmark.update(std::array::from_fn(|row| row as u32))?.1.durable()?;
    }
    let all_logged = db.stats();
    let logged = log_bytes(&all_logged) - log_bytes(&before);
    let all_bytes = (bytes_written + logged).max(1) as f64;
    let rows_of = |rows: u64| rows * (arguments.row_bytes as u64 + ROW_FRAME_BYTES);
    Ok(Course {
        part,
        checkpoints: ended,
        seconds: seconds / ended.max(1) as f64,
        entries: entries as f64 / ended.max(1) as f64,
        displaced: displaced as f64 / ended.max(1) as f64,
        written_per_s: bytes_written as f64 / seconds.max(f64::MIN_POSITIVE),
        displaced_a_transaction: per(displaced as f64, commits),
        displaced_a_write: per(displaced as f64, commits * updates_a_commit),
        beside_pages: rows_of(displaced) as f64 / all_bytes,
        without_rows: bytes_written.saturating_sub(rows_of(entries)) as f64 / all_bytes,
        log_bytes: logged as f64 / (all_logged.commits - before.commits).max(1) as f64,
        processor_us: processor.all as f64 / 1e3 / transactions,
        clients_us: (processor.all - processor.databases) as f64 / 1e3 / transactions,
        within: looks.0 as f64 / looks.1.max(1) as f64,
        displaced_peak: after.displaced_bytes_peak,
    })
}

impl Course {
    /// Cost of pictures for clients, in nanoseconds per displaced version: a pending remove with its consequences.
    /// `None` if no displaced version was counted: versions in lists are not counted.
    fn pending_remove_nanos(&self, fuzzy: &Self) -> Option<f64> {
        pending_remove_nanos((self.clients_us, fuzzy.clients_us), self.displaced_a_transaction)
    }
}

/// Nanoseconds that clients need more with pictures than with fuzzy checkpoints, per displaced version. The arguments
/// are the microseconds of a transaction on either side, and the mean number of versions displaced by a transaction.
fn pending_remove_nanos((pictures_us, fuzzy_us): (f64, f64), displaced: f64) -> Option<f64> {
    (displaced > 0.0).then(|| (pictures_us - fuzzy_us) * 1e3 / displaced)
}

/// Nanoseconds of processor time.
#[derive(Clone, Copy)]
struct ProcessorTime {
    /// Processor time of this process.
    all: u64,
    /// Processor time of the database's own threads: loggers, checkpointers, heartbeat.
    databases: u64,
}

impl ProcessorTime {
    fn now() -> Self {
        Self { all: processor_nanos(), databases: processor_nanos_of("ensile-") }
    }

    fn until_now(self) -> Self {
        let now = Self::now();
        let databases = now.databases - self.databases;
        Self { all: (now.all - self.all).max(databases), databases }
    }
}

/// A comparison of sides within full checkpoints: one ended in each run and, without pauses, one was always under way.
pub(super) fn same_work<'n>(names: [&'n str; 2], courses: [&[Course]; 2], is_always: bool) -> Comparison<'n> {
    let least =
        |of: fn(&Course) -> f64| courses.map(|courses| courses.iter().map(of).fold(f64::INFINITY, f64::min));
    let sides = Comparison::of(names).each_at_least(
        "checkpoints that ended in a run",
        least(|course| course.checkpoints as f64),
        1.0,
    );
    let within = least(|course| course.within * 100.0);
    if is_always {
        sides.each_at_least("% of the time within a checkpoint", within, WITHIN_MIN * 100.0)
    } else {
        sides
    }
}

/// The rows, their ratios, and true if each run was within a checkpoint.
fn made(arguments: &SirenArguments, strategies: &[Strategy], courses: &[Vec<Course>]) -> Made {
    let place = || Place::Bar(format!("{} % reads", arguments.read_percent));
    let rates = |courses: &[Course]| courses.iter().map(|course| course.part.rate()).collect::<Vec<f64>>();
    let (mut rows, mut said, mut is_as_asked) = (Vec::new(), String::new(), true);
    for (strategy, courses) in strategies.iter().zip(courses) {
        let name = strategy.name();
        let mut row = |metric, of: &dyn Fn(&Course) -> Option<f64>| {
            let values: Vec<f64> = courses.iter().filter_map(of).collect();
            if !values.is_empty() {
                rows.push(Row::new(name, place(), metric, values));
            }
        };
        row(THROUGHPUT, &|course| Some(course.part.rate()));
        row(("latency until durable, mean", "ms"), &|course| course.part.mean_ms());
        row(("latency until durable, p99.9", "ms"), &|course| course.part.quantile_ms(0.999));
        row(("a checkpoint", "s"), &|course| (course.checkpoints > 0).then_some(course.seconds));
        row(("entries of a checkpoint", "1"), &|course| (course.checkpoints > 0).then_some(course.entries));
        row(("displaced versions in a checkpoint", "1"), &|course| {
            (course.checkpoints > 0).then_some(course.displaced)
        });
        row(("checkpoints write", "MB/s"), &|course| {
            (course.checkpoints > 0).then_some(course.written_per_s / 1e6)
        });
        row(CLIENTS, &|course| Some(course.clients_us));
        row(("within a checkpoint", "% of the time"), &|course| Some(course.within * 100.0));
        row(("displaced at the peak", "MB"), &|course| Some(course.displaced_peak as f64 / 1e6));
        for course in courses {
            let is_always = course.within >= WITHIN_MIN && course.checkpoints > 0;
            is_as_asked &= is_always;
            said += &format!(
                "  {name}: asked: always within a full checkpoint; held: {:.1} % of the time, {} ended{}\n",
                course.within * 100.0,
                counted(course.checkpoints as usize, "checkpoint"),
                if is_always { "" } else { ": NOT HELD" }
            );
        }
    }
    let fuzzy_courses = &courses[0];
    let fuzzy = rates(fuzzy_courses);
    for (strategy, courses) in strategies.iter().zip(courses).skip(1) {
        let ratio = Row::ratio((strategy.name(), &rates(courses)), (strategies[0].name(), &fuzzy), place());
        let names = [strategy.name(), strategies[0].name()];
        let reason = match same_work(names, [courses, fuzzy_courses], true).verdict(true) {
            Verdict::NotComparable(reason) => format!(": NOT COMPARABLE: {reason}"),
            Verdict::Held | Verdict::NotHeld => String::new(),
        };
        let Row { system, median, min, max, .. } = &ratio;
        said += &format!("  {system}: {median:.3} ({min:.3} .. {max:.3}){reason}\n");
        rows.push(ratio);
        let costs = courses.iter().zip(fuzzy_courses);
        let costs: Vec<f64> =
            costs.filter_map(|(pictures, fuzzy)| pictures.pending_remove_nanos(fuzzy)).collect();
        if !costs.is_empty() {
            let cost = Row::new(strategy.name(), place(), PENDING_REMOVE, costs);
            said += &format!(
                "  {}: {}: {:.0} ns ({:.0} .. {:.0})\n",
                cost.system, cost.metric, cost.median, cost.min, cost.max
            );
            rows.push(cost);
        }
    }
    said += &format!("  checkpoints are written {}\n", arguments.pace_words());
    let title = title(arguments);
    let figure = Figure { name: "against-fuzzy", title, drawn: THROUGHPUT, rows, ..Figure::default() };
    Made(vec![figure], is_as_asked, said)
}

fn title(arguments: &SirenArguments) -> String {
    format!(
        "Five {} a transaction while a full checkpoint is written {}: {} rows of {} bytes",
        if arguments.read_percent == 0 { "updates" } else { "updates or reads" },
        arguments.pace_words(),
        grouped(arguments.rows as f64),
        arguments.row_bytes
    )
}

#[cfg(test)]
mod tests {
    use super::pending_remove_nanos;

    #[test]
    fn a_pending_remove_costs_what_clients_need_more_by_the_versions_they_displace() {
        // Five updates a transaction, a tenth of them first changes: 0.5 versions for 0.25 us.
        assert_eq!(pending_remove_nanos((3.25, 3.0), 0.5), Some(500.0));
        assert_eq!(pending_remove_nanos((3.0, 3.25), 0.5), Some(-500.0), "noise is not hidden");
        assert_eq!(pending_remove_nanos((3.25, 3.0), 0.0), None);
    }
}
