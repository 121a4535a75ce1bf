//! Figure 9 of the paper: throughput with pictures and a redo log against fuzzy checkpoints and a log for undo and
//! redo, relaxed and strict, by the number of clients (§5). A full checkpoint is always under way.
//!
//! Neighbours: [`super::against_fuzzy`] makes the runs.

use super::Made;
use super::against_fuzzy::{Asked, Course, WITHIN_MIN, one};
use super::arguments::SirenArguments;
use super::run::must_fit;
use super::strategy::Strategy;
use crate::failure::Result;
use crate::figure::{Figure, Place, Row};
use crate::number::{counted, grouped};
use crate::progress::Progress;

const THROUGHPUT: (&str, &str) = ("throughput", "txn/s");
/// The paper's: pictures, semi-fuzzy, with redo alone; and what it is compared with.
const STRATEGIES: [Strategy; 2] = [Strategy::SemiFuzzy, Strategy::UndoRedo];

/// Runs of one strategy with one number of clients, a round each.
struct Rounds {
    strategy: Strategy,
    is_strict: bool,
    clients: usize,
    courses: Vec<Course>,
}

impl Rounds {
    fn system(&self) -> String {
        format!("{}, {}", self.strategy.name(), if self.is_strict { "strict" } else { "relaxed" })
    }

    fn rates(&self) -> Vec<f64> {
        self.courses.iter().map(|course| course.part.rate()).collect()
    }

    /// Images of rows that are written for each update: in the log the new one, or both, and in pictures what was
    /// displaced.
    fn images(&self) -> Vec<f64> {
        let of_log = if self.strategy == Strategy::UndoRedo { 2.0 } else { 1.0 };
        self.courses.iter().map(|course| of_log + course.displaced_a_write).collect()
    }
}

/// All runs.
pub(super) fn run(arguments: &SirenArguments) -> Result<Made> {
    must_fit(arguments)?;
    let rounds = arguments.rounds.unwrap_or(1);
    let mut progress = Progress::new(rounds);
    let mut all = Vec::new();
    for is_strict in [false, true] {
        for &clients in &arguments.clients {
            let mut courses = STRATEGIES.map(|_| Vec::new());
            for round in 0..rounds {
                for turn in 0..STRATEGIES.len() {
                    let at = (round + turn) % STRATEGIES.len();
                    let seed = arguments.seed + round as u64;
                    let asked =
                        Asked { strategy: STRATEGIES[at], clients, is_strict, is_slow: arguments.slow, seed };
                    let course = one(arguments, asked)?;
                    let clients = counted(clients, "client");
                    progress.round(
                        round,
                        &format!("{}, {clients}", STRATEGIES[at].name()),
                        course.part.rate(),
                    );
                    courses[at].push(course);
                }
            }
            let rounds = STRATEGIES.into_iter().zip(courses);
            all.push(
                rounds.map(|(strategy, courses)| Rounds { strategy, is_strict, clients, courses }).collect(),
            );
        }
    }
    progress.clear();
    Ok(made(arguments, &all))
}

/// The rows; the ratio of each pair of runs, and whether each was within a checkpoint.
fn made(arguments: &SirenArguments, all: &[Vec<Rounds>]) -> Made {
    let (mut rows, mut said, mut is_as_asked) = (Vec::new(), String::new(), true);
    for pair in all {
        for rounds in pair {
            let place = || Place::At(rounds.clients as f64);
            let courses = &rounds.courses;
            let mut row = |metric, values: Vec<f64>| {
                if !values.is_empty() {
                    rows.push(Row::new(&rounds.system(), place(), metric, values));
                }
            };
            let of = |of: fn(&Course) -> Option<f64>| courses.iter().filter_map(of).collect::<Vec<f64>>();
            row(THROUGHPUT, rounds.rates());
            row(("latency until durable, mean", "ms"), of(|course| course.part.mean_ms()));
            row(("images written", "an update"), rounds.images());
            row(("log", "bytes a transaction"), of(|course| Some(course.log_bytes)));
            row(("within a checkpoint", "% of the time"), of(|course| Some(course.within * 100.0)));
            let is_always =
                courses.iter().all(|course| course.within >= WITHIN_MIN && course.checkpoints > 0);
            is_as_asked &= is_always;
            if !is_always {
                said += &format!(
                    "  {}, {}: asked: always within a full checkpoint: NOT HELD\n",
                    rounds.system(),
                    counted(rounds.clients, "client")
                );
            }
        }
        if let [pictures, undo] = &pair[..] {
            let names = (pictures.system(), undo.system());
            let place = Place::At(pictures.clients as f64);
            let ratio = Row::ratio((&names.0, &pictures.rates()), (&names.1, &undo.rates()), place);
            said += &format!(
                "  {}, {}: {:.3} ({:.3} .. {:.3})\n",
                ratio.system,
                counted(pictures.clients, "client"),
                ratio.median,
                ratio.min,
                ratio.max
            );
            rows.push(ratio);
        }
    }
    rows.sort_by(|a, b| a.system.cmp(&b.system));
    let device = if arguments.slow {
        format!("{} MB/s, {} ms a sync", arguments.disk_mb, arguments.sync_ms)
    } else {
        "this machine's disk".to_owned()
    };
    let title = format!(
        "Five updates a transaction within full checkpoints: {} rows of {} bytes, {device}",
        grouped(arguments.rows as f64),
        arguments.row_bytes
    );
    let figure =
        Figure { name: "fig9", title, horizontal: "clients", drawn: THROUGHPUT, rows, ..Figure::default() };
    Made(vec![figure], is_as_asked, said)
}
