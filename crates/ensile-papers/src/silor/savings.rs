//! Value of two choices: records of epochs >= e_l left out of a checkpoint, and before-images in the log.
//!
//! Neighbours: [`super::bench`] makes the runs.

use ensile_bench::Result;
use ensile_bench::figure::{Figure, Place, Row};
use ensile_bench::number::grouped;
use ensile_bench::timeline::Part;

use super::bench::Bench;
use super::course::Course;
use super::figures::{THROUGHPUT, WHOLE, latencies};
use super::results::Made;
use super::setup::{Load, Otherwise, Setup, System};
use super::table::row_of;

const LOG_BYTES: (&str, &str) = ("log", "bytes per transaction");

/// Text for runs that were too short.
const NONE_SEEN: &str = "  no checkpoint was installed in these runs: longer ones are due (--seconds)\n";

/// Measures the share of records omitted from checkpoints because the log has the records (SiloR §4.2: 20 %). Under
/// YCSB the number of records is constant, so a record missing in a checkpoint was omitted.
pub(super) fn skipped(bench: &mut Bench<'_>) -> Result<Made> {
    let setup = bench.setup(System::Silor, Load::Ycsb);
    let records = bench.arguments.records as f64;
    let (mut shares, mut seconds) = (Vec::new(), Vec::new());
    for round in 0..bench.arguments.rounds {
        let course = bench.run(Setup { seed: setup.seed + round as u64, ..setup })?;
        for checkpoint in course.checkpoints() {
            // A checkpoint that leaves nothing out also has the catalogue's rows.
            shares.push(((1.0 - checkpoint.entries as f64 / records) * 100.0).max(0.0));
            seconds.push(checkpoint.to - checkpoint.from);
        }
    }
    let place = || Place::Bar("records of epochs >= e_l".to_owned());
    let drawn = ("left out of a checkpoint", "% of the records");
    let name = System::Silor.name();
    let rows = [row_of(name, place(), drawn, shares), row_of(name, place(), ("checkpoint", "s"), seconds)];
    let rows = rows.into_iter().flatten().collect();
    let title = format!("YCSB 70/30, {} records: what checkpoints leave to the log", grouped(records));
    let figure = Figure { name: "skip", title, horizontal: "", drawn, rows, ..Figure::default() };
    let verdict = if figure.rows.is_empty() { NONE_SEEN.to_owned() } else { String::new() };
    Ok(Made::Rows(figure, true, verdict))
}

/// Compares logsilo without before-images and with before-images.
pub(super) fn before_images(bench: &mut Bench<'_>) -> Result<Made> {
    let plain = bench.setup(System::Logsilo, Load::Ycsb);
    let courses = in_turns(bench, &[plain, Setup { otherwise: Otherwise::BeforeImages, ..plain }])?;
    let rows = compared(&courses, || Place::Bar(WHOLE.to_owned()));
    let title = "YCSB 70/30: a log of new values, and of old ones beside them".to_owned();
    let figure =
        Figure { name: "before-images", title, horizontal: "", drawn: THROUGHPUT, rows, ..Figure::default() };
    Ok(Made::Rows(figure, true, String::new()))
}

/// Runs of each setup, one per round, in turns.
fn in_turns(bench: &mut Bench<'_>, setups: &[Setup]) -> Result<Vec<Vec<Course>>> {
    let mut courses: Vec<Vec<Course>> = setups.iter().map(|_| Vec::new()).collect();
    for round in 0..bench.arguments.rounds {
        for (setup, courses) in setups.iter().zip(&mut courses) {
            courses.push(bench.run(Setup { seed: setup.seed + round as u64, ..*setup })?);
        }
    }
    Ok(courses)
}

/// Rows of each kind of run. The first kind is the shipped one.
fn compared(courses: &[Vec<Course>], place: impl Fn() -> Place) -> Vec<Row> {
    let mut rows = Vec::new();
    let plain = Rates::of(&courses[0]);
    for (index, courses) in courses.iter().enumerate() {
        let Rates { name, rates, parts } = Rates::of(courses);
        rows.push(Row::new(&name, place(), THROUGHPUT, rates.clone()));
        rows.extend(latencies(&name, &place(), &parts));
        let log = courses.iter().map(Course::log_bytes_per_transaction);
        rows.push(Row::new(&name, place(), LOG_BYTES, log.collect()));
        if index > 0 {
            rows.push(Row::ratio((&name, &rates), (&plain.name, &plain.rates), place()));
        }
    }
    rows
}

/// Results of a kind of run.
struct Rates {
    name: String,
    /// Transactions a second, by round.
    rates: Vec<f64>,
    parts: Vec<Part>,
}

impl Rates {
    fn of(courses: &[Course]) -> Self {
        let parts: Vec<Part> = courses.iter().map(Course::whole).collect();
        let rates = parts.iter().map(Part::rate).collect();
        Self { name: courses[0].setup.otherwise.to_string(), rates, parts }
    }
}
