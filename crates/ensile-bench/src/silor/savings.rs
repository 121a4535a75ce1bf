//! What choices are worth: records of epochs >= e_l left out of a checkpoint, blocks of the log compressed, before-images
//! in it.
//!
//! Neighbours: [`super::bench`] makes the runs.

use super::Made;
use super::bench::{Bench, Load, Otherwise, Setup, System};
use super::course::Course;
use super::figures::{THROUGHPUT, WHOLE, latencies};
use super::table::row_of;
use crate::failure::Result;
use crate::figure::{Figure, Place, Row};
use crate::report::grouped;
use crate::timeline::Part;

/// Said where no run was long enough.
const NONE_SEEN: &str = "  no checkpoint was installed in these runs: longer ones are due (--seconds)\n";

/// The share of records that checkpoints leave out since the log has them (SiloR §4.2: 20 %). Under YCSB the records are
/// as many as ever, so what a checkpoint lacks was left out.
pub(super) fn skipped(bench: &mut Bench<'_>) -> Result<Made> {
    let setup = bench.setup(System::Silor, Load::Ycsb);
    let records = bench.arguments.records as f64;
    let (mut shares, mut seconds) = (Vec::new(), Vec::new());
    for round in 0..bench.arguments.rounds {
        let course = bench.run(Setup { seed: setup.seed + round as u64, ..setup })?;
        for checkpoint in course.checkpoints() {
            shares.push((1.0 - checkpoint.entries as f64 / records) * 100.0);
            seconds.push(checkpoint.to - checkpoint.from);
        }
    }
    let place = || Place::Bar("records of epochs >= e_l".to_owned());
    let drawn = ("left out of a checkpoint", "% of the records");
    let name = System::Silor.name();
    let rows = [row_of(name, place(), drawn, shares), row_of(name, place(), ("checkpoint", "s"), seconds)];
    let title = format!("YCSB 70/30, {} records: what checkpoints leave to the log", grouped(records));
    let figure =
        Figure { name: "skip", title, horizontal: "", drawn, rows: rows.into_iter().flatten().collect() };
    let verdict = if figure.rows.is_empty() { NONE_SEEN.to_owned() } else { String::new() };
    Ok(Made::Rows(figure, true, verdict))
}

/// Logsilo with blocks of its log as they ship and compressed.
pub(super) fn compression(bench: &mut Bench<'_>) -> Result<Made> {
    let title = "YCSB 70/30: blocks of the log as they are, and compressed";
    compared(bench, Otherwise::CompressedLog, "compression", title)
}

/// Logsilo without before-images and with them.
pub(super) fn before_images(bench: &mut Bench<'_>) -> Result<Made> {
    let title = "YCSB 70/30: a log of new values, and of old ones beside them";
    compared(bench, Otherwise::BeforeImages, "before-images", title)
}

/// Logsilo with its log as it ships and otherwise, in turns.
fn compared(bench: &mut Bench<'_>, otherwise: Otherwise, name: &'static str, title: &str) -> Result<Made> {
    let plain = bench.setup(System::Logsilo, Load::Ycsb);
    let setups = [plain, Setup { otherwise, ..plain }];
    let mut courses: [Vec<Course>; 2] = [Vec::new(), Vec::new()];
    for round in 0..bench.arguments.rounds {
        for (setup, courses) in setups.iter().zip(&mut courses) {
            courses.push(bench.run(Setup { seed: setup.seed + round as u64, ..*setup })?);
        }
    }
    let place = || Place::Bar(WHOLE.to_owned());
    let mut rows = Vec::new();
    let mut rates: Vec<(String, Vec<f64>)> = Vec::new();
    for courses in &courses {
        let (label, parts) = (courses[0].label(), courses.iter().map(Course::whole).collect::<Vec<Part>>());
        let own: Vec<f64> = parts.iter().map(Part::rate).collect();
        rows.push(Row::new(&label, place(), THROUGHPUT, own.clone()));
        rows.extend(latencies(&label, &place(), &parts));
        let log = courses.iter().map(|course| course.log_bytes_per_transaction());
        rows.push(Row::new(&label, place(), ("log", "bytes per transaction"), log.collect()));
        rates.push((label, own));
    }
    let (plain, changed) = (&rates[0], &rates[1]);
    rows.push(Row::ratio((&changed.0, &changed.1), (&plain.0, &plain.1), place()));
    let figure = Figure { name, title: title.to_owned(), horizontal: "", drawn: THROUGHPUT, rows };
    Ok(Made::Rows(figure, true, String::new()))
}
