//! Figures over time: systems under one load, one run after the other, drawn over the same seconds.
//!
//! Neighbours: [`super::bench`] makes the runs, [`crate::figure::OverTime`] the files.

use super::bench::{Bench, Course, Load, Setup, System, cores};
use crate::failure::Result;
use crate::figure::{Line, OverTime, Place, Point, Row, Scene};
use crate::report::grouped;

/// Points of a line at most: more cannot be told apart.
const POINTS_MAX: usize = 600;
/// What a run's averages leave out at its beginning: caches and pipelines fill.
const LEAD_IN_STEPS: usize = 10;

/// Figure 1.
pub(super) fn ycsb(bench: &mut Bench<'_>) -> Result<OverTime> {
    compared(bench, "fig1", Load::Ycsb, 1, &[])
}

/// Figure 5.
pub(super) fn tpcc(bench: &mut Bench<'_>) -> Result<OverTime> {
    compared(bench, "fig5", Load::Tpcc, 1, &[])
}

/// Figure 6.
pub(super) fn ycsb_again(bench: &mut Bench<'_>) -> Result<OverTime> {
    compared(bench, "fig6", Load::Ycsb, bench.arguments.rounds, &[])
}

/// Figure 7.
pub(super) fn tpcc_again(bench: &mut Bench<'_>) -> Result<OverTime> {
    let every_core = Setup { workers: cores(), ..bench.setup(System::Memsilo, Load::Tpcc) };
    compared(bench, "fig7", Load::Tpcc, bench.arguments.rounds, &[every_core])
}

/// Figure 2.
pub(super) fn fewer_workers(bench: &mut Bench<'_>) -> Result<OverTime> {
    let fewer = bench.setup(System::Memsilo, Load::Ycsb);
    let setups = [Setup { workers: cores(), ..fewer }, fewer];
    drawn(bench, "fig2", "YCSB 70/30 without a log", vec![setups.to_vec()])
}

/// Every system with the same workers, and `others`, as often as there are rounds.
fn compared(
    bench: &mut Bench<'_>,
    name: &'static str,
    load: Load,
    rounds: usize,
    others: &[Setup],
) -> Result<OverTime> {
    let systems = [System::Memsilo, System::Logsilo].map(|system| bench.setup(system, load));
    let scene = |round: usize| {
        let seeded = |setup: &Setup| Setup { seed: setup.seed + round as u64, ..*setup };
        systems.iter().chain(others).map(seeded).collect()
    };
    let what = match load {
        Load::Ycsb => format!("YCSB 70/30, {} records", grouped(bench.arguments.records as f64)),
        Load::Tpcc => "TPC-C, standard mix".to_owned(),
    };
    drawn(bench, name, &what, (0..rounds).map(scene).collect())
}

/// Makes the runs of every scene and puts them together.
fn drawn(bench: &mut Bench<'_>, name: &'static str, what: &str, scenes: Vec<Vec<Setup>>) -> Result<OverTime> {
    let mut rounds: Vec<Vec<Course>> = Vec::new();
    for setups in &scenes {
        rounds.push(setups.iter().map(|setup| bench.run(*setup)).collect::<Result<_>>()?);
    }
    let title_of = |round: usize| if rounds.len() > 1 { format!("run {}", round + 1) } else { String::new() };
    let scenes = rounds
        .iter()
        .enumerate()
        .map(|(round, courses)| Scene { title: title_of(round), lines: courses.iter().map(line).collect() })
        .collect();
    let title = format!("{what}: averages over 0.5 s; with a log counted when durable");
    Ok(OverTime { name, title, scenes, rows: averages(&rounds) })
}

/// Its name in the figure.
fn label(course: &Course) -> String {
    let Setup { system, workers, .. } = course.setup;
    let plural = if workers == 1 { "" } else { "s" };
    format!("{}, {workers} worker{plural}", system.name())
}

/// A run as a line.
fn line(course: &Course) -> Line {
    let stride = course.timeline.len().div_ceil(POINTS_MAX);
    let mut resident = course.resident.iter().peekable();
    let mut bytes = 0;
    let points = course.timeline.rolling(stride).into_iter().map(|(second, part)| {
        while let Some((_, seen)) = resident.next_if(|(at, _)| *at <= second) {
            bytes = *seen;
        }
        Point {
            second,
            throughput: part.rate(),
            mean_ms: part.mean_ms(),
            p50_ms: part.quantile_ms(0.5),
            p99_ms: part.quantile_ms(0.99),
            p999_ms: part.quantile_ms(0.999),
            resident_mb: bytes as f64 / 1e6,
        }
    });
    Line {
        system: label(course),
        durable: course.setup.system.is_durable(),
        points: points.collect(),
        checkpoints: course.checkpoints.clone(),
    }
}

/// Averages over whole runs, by system; ratios to the first.
fn averages(rounds: &[Vec<Course>]) -> Vec<Row> {
    let mut rows = Vec::new();
    let place = || Place::Bar("whole run".to_owned());
    let mut rates: Vec<(String, Vec<f64>)> = Vec::new();
    for system in 0..rounds.first().map_or(0, Vec::len) {
        let courses = || rounds.iter().map(|courses| &courses[system]);
        let parts: Vec<_> = courses()
            .map(|course| course.timeline.part(|step| step >= LEAD_IN_STEPS.min(course.timeline.len() / 4)))
            .collect();
        let name = label(&rounds[0][system]);
        let own: Vec<f64> = parts.iter().map(|part| part.rate()).collect();
        rows.push(Row::new(&name, place(), ("throughput", "txn/s"), own.clone()));
        for (metric, quantile) in [
            ("latency, mean", None),
            ("latency, p50", Some(0.5)),
            ("latency, p99", Some(0.99)),
            ("latency, p99.9", Some(0.999)),
        ] {
            let of = |part: &crate::timeline::Part| {
                quantile.map_or_else(|| part.mean_ms(), |q| part.quantile_ms(q))
            };
            let values: Vec<f64> = parts.iter().filter_map(of).collect();
            if !values.is_empty() {
                rows.push(Row::new(&name, place(), (metric, "ms"), values));
            }
        }
        let ended = courses().filter(|course| course.too_large);
        let seconds: Vec<f64> =
            ended.filter_map(|course| course.resident.last().map(|last| last.0)).collect();
        if !seconds.is_empty() {
            rows.push(Row::new(&name, place(), ("ended early, memory is at its limit", "s"), seconds));
        }
        rates.push((name, own));
    }
    if let Some((first, others)) = rates.split_first() {
        rows.extend(
            others.iter().map(|other| Row::ratio((&other.0, &other.1), (&first.0, &first.1), place())),
        );
    }
    rows
}
