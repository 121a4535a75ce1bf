//! Figure 9 of the paper: throughput with pictures and a redo log against fuzzy checkpoints and a log for undo and
//! redo, relaxed and strict, and without a log, by the number of clients (§5).
//!
//! A full checkpoint is always under way, or begins whenever enough rows were updated since the last checkpoint
//! (`--checkpoint-updates`): then whole turns of a checkpoint and its pause are compared. `fig9` has the device of this
//! machine. `fig9-one-disk` has log and checkpoints together on one slow disk, as the paper had.
//!
//! Neighbours: [`super::against_fuzzy`] makes the runs.

use ensile_bench::Result;
use ensile_bench::figure::{Figure, Place, Row};
use ensile_bench::number::{counted, grouped};
use ensile_bench::progress::Progress;

use super::against_fuzzy::{Asked, Course, WITHIN_MIN, one, same_work};
use super::arguments::SirenArguments;
use super::results::Made;
use super::run::must_fit;
use super::slow_disk::Speed;
use super::strategy::Strategy;

const THROUGHPUT: (&str, &str) = ("throughput", "txn/s");
/// The paper's systems: pictures, semi-fuzzy, with redo alone; undo and redo for comparison; and pictures alone.
const RELAXED: &[Strategy] = &[Strategy::SemiFuzzy, Strategy::UndoRedo, Strategy::NoLog];
/// Strict strategies: strict results need a log.
const STRICT: &[Strategy] = &[Strategy::SemiFuzzy, Strategy::UndoRedo];
/// Number of clients in the strict runs that the paper compares.
const STRICT_CLIENTS: usize = 20;

/// Default number of rounds.
pub(super) const ROUNDS: usize = 3;
/// Updates between two checkpoints in the paper, milliseconds of a sync of the one disk, and the length of a run on the
/// one disk, as a multiple of `--seconds`.
const PAPERS_UPDATES: u64 = 2_000_000;
const ONE_DISK_SYNC_MS: u64 = 1;
const ONE_DISK_LONGER: f64 = 10.0;

/// Place of log and checkpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum On {
    /// The device of this machine.
    Device,
    /// One slow disk.
    OneDisk,
}

/// Limits of pictures against undo and redo.
struct Limits {
    relaxed: f64,
    strict: f64,
    /// Processor time of a relaxed transaction.
    processor: f64,
    /// Images written per update.
    images: f64,
}

const FULL_SPEED: Limits = Limits { relaxed: 1.15, strict: 1.0, processor: 0.88, images: f64::INFINITY };
const SLOW_DISK: Limits = Limits { relaxed: 1.25, strict: 1.30, processor: f64::INFINITY, images: 1.5 };

/// Runs of one strategy with one number of clients, a round each.
struct Rounds {
    strategy: Strategy,
    is_strict: bool,
    clients: usize,
    courses: Vec<Course>,
}

impl Rounds {
    fn system(&self) -> String {
        match (self.strategy, self.is_strict) {
            (Strategy::NoLog, _) => self.strategy.name().to_owned(),
            (_, true) => format!("{}, strict", self.strategy.name()),
            (_, false) => format!("{}, relaxed", self.strategy.name()),
        }
    }

    fn rates(&self) -> Vec<f64> {
        self.courses.iter().map(|course| course.part.rate()).collect()
    }

    fn processor(&self) -> Vec<f64> {
        self.courses.iter().map(|course| course.processor_us).collect()
    }

    /// Images of rows written per update: up to two in the log, and the displaced versions in pictures.
    fn images(&self) -> Vec<f64> {
        let of_log = match self.strategy {
            Strategy::UndoRedo => 2.0,
            Strategy::NoLog => 0.0,
            _ => 1.0,
        };
        self.courses.iter().map(|course| of_log + course.displaced_a_write).collect()
    }
}

/// Figure 9 on the device of this machine.
pub(super) fn on_device(arguments: &SirenArguments) -> Result<Made> {
    run(arguments, On::Device)
}

/// Figure 9 on one slow disk.
pub(super) fn on_one_disk(arguments: &SirenArguments) -> Result<Made> {
    run(&with_one_disk(arguments), On::OneDisk)
}

/// The arguments of a run on one slow disk: the paper's values in place of missing options, and longer runs.
pub(super) fn with_one_disk(arguments: &SirenArguments) -> SirenArguments {
    SirenArguments {
        sync_ms: arguments.sync_ms.or(Some(ONE_DISK_SYNC_MS)),
        checkpoint_updates: arguments.checkpoint_updates.or(Some(PAPERS_UPDATES)),
        seconds: arguments.seconds * ONE_DISK_LONGER,
        ..arguments.clone()
    }
}

/// Makes the runs, and the figure.
fn run(arguments: &SirenArguments, on: On) -> Result<Made> {
    must_fit(arguments)?;
    let rounds = arguments.rounds.unwrap_or(ROUNDS);
    let mut progress = Progress::new(rounds);
    let mut all = Vec::new();
    for (is_strict, strategies) in [(false, RELAXED), (true, STRICT)] {
        for &clients in &arguments.clients {
            let mut courses: Vec<Vec<Course>> = strategies.iter().map(|_| Vec::new()).collect();
            for round in 0..rounds {
                for turn in 0..strategies.len() {
                    let at = (round + turn) % strategies.len();
                    let asked = Asked {
                        strategy: strategies[at],
                        clients,
                        is_strict,
                        is_slow: on == On::OneDisk,
                        pace: arguments.pace(),
                        every_updates: arguments.checkpoint_updates,
                        seed: arguments.seed + round as u64,
                    };
                    let course = one(arguments, asked)?;
                    let clients = counted(clients, "client");
                    progress.round(
                        round,
                        &format!("{}, {clients}", strategies[at].name()),
                        course.part.rate(),
                    );
                    courses[at].push(course);
                }
            }
            let rounds = strategies.iter().zip(courses);
            let rounds = rounds.map(|(&strategy, courses)| Rounds { strategy, is_strict, clients, courses });
            all.push(rounds.collect());
        }
    }
    progress.clear();
    Ok(made(arguments, on, &all))
}

/// Number of runs in one round.
pub(super) fn runs(arguments: &SirenArguments) -> usize {
    arguments.clients.len() * (RELAXED.len() + STRICT.len())
}

/// The rows; the ratios of each group of runs; and true if each run was within a checkpoint, and each ratio is held.
fn made(arguments: &SirenArguments, on: On, all: &[Vec<Rounds>]) -> Made {
    let (mut rows, mut said, mut is_as_asked) = (Vec::new(), String::new(), true);
    for group in all {
        for rounds in group {
            rows.extend(rows_of(rounds));
            let is_within = |course: &Course| {
                course.checkpoints > 0
                    && (arguments.checkpoint_updates.is_some() || course.within >= WITHIN_MIN)
            };
            if !rounds.courses.iter().all(is_within) {
                is_as_asked = false;
                let asked = arguments.checkpoint_updates.map_or_else(
                    || "always within a full checkpoint".to_owned(),
                    |updates| format!("a checkpoint every {} updates", grouped(updates as f64)),
                );
                said += &format!(
                    "  {}, {}: asked: {asked}: NOT HELD\n",
                    rounds.system(),
                    counted(rounds.clients, "client")
                );
            }
        }
        let limits = if on == On::OneDisk { &SLOW_DISK } else { &FULL_SPEED };
        let (ratios, words, holds) = compared(group, limits, arguments.checkpoint_updates.is_none());
        rows.extend(ratios);
        said += &words;
        is_as_asked &= holds;
    }
    rows.sort_by(|a, b| a.system.cmp(&b.system));
    let (name, device) = match on {
        On::OneDisk => {
            let Speed { bytes_per_s, sync, .. } = arguments.speed();
            (
                "fig9-one-disk",
                format!("one disk of {} MB/s, {} ms a sync", bytes_per_s / 1_000_000, sync.as_millis()),
            )
        }
        On::Device => ("fig9", format!("checkpoints {}", arguments.pace_words())),
    };
    let checkpoints = arguments.checkpoint_updates.map_or_else(
        || "within full checkpoints".to_owned(),
        |updates| format!("a checkpoint every {}", grouped(updates as f64)),
    );
    let title = format!(
        "Five updates a transaction, {checkpoints}: {} rows of {} bytes, {device}",
        grouped(arguments.rows as f64),
        arguments.row_bytes
    );
    let figure = Figure { name, title, horizontal: "clients", drawn: THROUGHPUT, rows, ..Figure::default() };
    Made(vec![figure], is_as_asked, said)
}

fn rows_of(rounds: &Rounds) -> Vec<Row> {
    let place = || Place::At(rounds.clients as f64);
    let mut rows = Vec::new();
    let mut row = |metric, values: Vec<f64>| {
        if !values.is_empty() {
            rows.push(Row::new(&rounds.system(), place(), metric, values));
        }
    };
    let of = |of: fn(&Course) -> Option<f64>| rounds.courses.iter().filter_map(of).collect::<Vec<f64>>();
    row(THROUGHPUT, rounds.rates());
    row(("latency until durable, mean", "ms"), of(|course| course.part.mean_ms()));
    row(("processor time", "us a transaction"), rounds.processor());
    row(("processor time of clients", "us a transaction"), of(|course| Some(course.clients_us)));
    row(("images written", "an update"), rounds.images());
    if rounds.strategy != Strategy::UndoRedo {
        row(("rows beside pages", "% of all bytes"), of(|course| Some(course.beside_pages * 100.0)));
        row(("no row, in checkpoints", "% of all bytes"), of(|course| Some(course.without_rows * 100.0)));
    }
    row(("log", "bytes a transaction"), of(|course| Some(course.log_bytes)));
    row(("within a checkpoint", "% of the time"), of(|course| Some(course.within * 100.0)));
    row(("checkpoints that ended", "1"), of(|course| Some(course.checkpoints as f64)));
    rows
}

/// Compares pictures with undo and redo: throughput, and the other values with limits. False if a value is not held.
fn compared(group: &[Rounds], limits: &Limits, is_always: bool) -> (Vec<Row>, String, bool) {
    let (mut rows, mut said, mut holds) = (Vec::new(), String::new(), true);
    let [pictures, undo, others @ ..] = group else { return (rows, said, holds) };
    let place = || Place::At(pictures.clients as f64);
    let clients = counted(pictures.clients, "client");
    let verdict = |row: &Row, one: &Rounds, limit: Limit, holds: &mut bool| {
        let Some((asked, is_within)) = limit.of(row.median) else { return String::new() };
        let names = [one.system(), undo.system()];
        let courses = [one.courses.as_slice(), undo.courses.as_slice()];
        let sides = same_work(names.each_ref().map(String::as_str), courses, is_always);
        let verdict = sides.verdict(is_within);
        *holds &= verdict.is_held();
        format!(", asked {asked}: {verdict}")
    };
    let mut compare = |one: &Rounds, what: &str, of: fn(&Rounds) -> Vec<f64>, limit: Limit| {
        let names = [one, undo].map(|rounds| format!("{}{what}", rounds.system()));
        let ratio = Row::ratio((&names[0], &of(one)), (&names[1], &of(undo)), place());
        let asked = verdict(&ratio, one, limit, &mut holds);
        let Row { median, min, max, .. } = ratio;
        said += &format!("  {}, {clients}: {median:.3} ({min:.3} .. {max:.3}){asked}\n", ratio.system);
        rows.push(ratio);
    };
    let limit = match pictures.is_strict {
        false => Limit::Least(limits.relaxed),
        true if pictures.clients == STRICT_CLIENTS => Limit::Least(limits.strict),
        true => Limit::None,
    };
    compare(pictures, "", Rounds::rates, limit);
    if !pictures.is_strict {
        compare(pictures, ": processor time", Rounds::processor, Limit::Most(limits.processor));
    }
    for other in others {
        compare(other, "", Rounds::rates, Limit::None);
    }
    let images = Row::new(&pictures.system(), place(), ("images written", "an update"), pictures.images());
    let asked = verdict(&images, pictures, Limit::Most(limits.images), &mut holds);
    said += &format!(
        "  {}, {clients}: {:.3} images an update ({:.3} .. {:.3}) against 2{asked}\n",
        images.system, images.median, images.min, images.max
    );
    (rows, said, holds)
}

/// The limit of a value.
#[derive(Clone, Copy)]
enum Limit {
    None,
    Least(f64),
    /// Infinite for a value without a limit.
    Most(f64),
}

impl Limit {
    /// The limit in words, and true if the value keeps it. `None` if there is no limit.
    fn of(self, value: f64) -> Option<(String, bool)> {
        match self {
            Self::Least(least) => Some((format!(">= {least}"), value >= least)),
            Self::Most(most) if most.is_finite() => Some((format!("<= {most}"), value <= most)),
            Self::Most(_) | Self::None => None,
        }
    }
}
