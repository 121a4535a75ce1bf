//! Figures over time: systems under one load, one run after another, drawn over the same seconds.
//!
//! Neighbours: [`super::bench`] makes the runs, [`ensile_bench::figure::OverTime`] the files.

use ensile_bench::Result;
use ensile_bench::figure::{Line, OverTime, Place, Point, Row, Scene};
use ensile_bench::number::{counted, grouped};
use ensile_bench::timeline::Part;

use super::bench::{Bench, cores};
use super::course::Course;
use super::results::Made;
use super::setup::{Load, Otherwise, Setup, System};

/// The place of averages over runs, and the main metric.
pub(super) const WHOLE: &str = "whole run";
pub(super) const THROUGHPUT: (&str, &str) = ("throughput", "txn/s");
/// Maximum number of points of a line: more points cannot be told apart.
const POINTS_MAX: usize = 600;

/// Figure 1.
pub(super) fn ycsb(bench: &mut Bench<'_>) -> Result<Made> {
    compared(bench, "fig1", Load::Ycsb, 1, &[])
}

/// Figure 5.
pub(super) fn tpcc(bench: &mut Bench<'_>) -> Result<Made> {
    compared(bench, "fig5", Load::Tpcc, 1, &[])
}

/// Figure 6.
pub(super) fn ycsb_again(bench: &mut Bench<'_>) -> Result<Made> {
    compared(bench, "fig6", Load::Ycsb, bench.arguments.rounds, &[])
}

/// Figure 7.
pub(super) fn tpcc_again(bench: &mut Bench<'_>) -> Result<Made> {
    let every_core = Setup { workers: cores(), ..bench.setup(System::Memsilo, Load::Tpcc) };
    compared(bench, "fig7", Load::Tpcc, bench.arguments.rounds, &[every_core])
}

/// Figure 2.
pub(super) fn fewer_workers(bench: &mut Bench<'_>) -> Result<Made> {
    let fewer = bench.setup(System::Memsilo, Load::Ycsb);
    let setups = [Setup { workers: cores(), ..fewer }, fewer];
    drawn(bench, "fig2", "YCSB 70/30 without a log", vec![setups.to_vec()])
}

/// Figure 3: with a worker for each core, loggers and checkpointers have no core of their own.
pub(super) fn oversubscribed(bench: &mut Bench<'_>) -> Result<Made> {
    let spare = bench.setup(System::Silor, Load::Ycsb);
    let setups = [spare, Setup { workers: cores(), ..spare }];
    drawn(bench, "fig3", "YCSB 70/30 with log and checkpoints", setups.map(|setup| vec![setup]).to_vec())
}

/// Bytes a second of figure 4's sleeping checkpointers: a fraction of the bandwidth of other checkpointers.
const SLEEPING_BANDWIDTH: u64 = 100 << 20;

/// Figure 4: a checkpoint synced once at its end, the same with sleeps, and as shipped.
pub(super) fn sync_strategies(bench: &mut Bench<'_>) -> Result<Made> {
    let shipped = bench.setup(System::Silor, Load::Ycsb);
    let strategies = [Otherwise::OneSync, Otherwise::Sleeps(SLEEPING_BANDWIDTH), Otherwise::No];
    let scenes = strategies.map(|otherwise| vec![Setup { otherwise, ..shipped }]);
    drawn(bench, "fig4", "YCSB 70/30, how checkpoints are synced", scenes.to_vec())
}

/// Runs every system with the same workers, and `others`, once per round.
fn compared(
    bench: &mut Bench<'_>,
    name: &'static str,
    load: Load,
    rounds: usize,
    others: &[Setup],
) -> Result<Made> {
    let systems = [System::Memsilo, System::Logsilo, System::Silor].map(|system| bench.setup(system, load));
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

/// Makes the runs of every scene and merges the runs into a figure.
fn drawn(bench: &mut Bench<'_>, name: &'static str, what: &str, scenes: Vec<Vec<Setup>>) -> Result<Made> {
    let mut rounds: Vec<Vec<Course>> = Vec::new();
    for setups in &scenes {
        rounds.push(setups.iter().map(|setup| bench.run(*setup)).collect::<Result<_>>()?);
    }
    let title_of = |round: usize| if rounds.len() > 1 { scene_title(&rounds, round) } else { String::new() };
    let scenes = rounds
        .iter()
        .enumerate()
        .map(|(round, courses)| Scene { title: title_of(round), lines: courses.iter().map(line).collect() })
        .collect();
    let title = format!("{what}: averages over 0.5 s; with a log counted when durable");
    Ok(Made::OverTime(OverTime { name, title, scenes, rows: averages(&rounds) }))
}

/// The distinction of a scene from the other scenes: its deviation, its workers, or only its number.
fn scene_title(rounds: &[Vec<Course>], round: usize) -> String {
    let first = |round: &Vec<Course>| round[0].setup;
    let differ = |what: fn(Setup) -> String| {
        let text = what(first(&rounds[round]));
        rounds
            .iter()
            .enumerate()
            .all(|(other, courses)| other == round || what(first(courses)) != text)
            .then_some(text)
    };
    let otherwise = differ(|setup| setup.otherwise.to_string());
    otherwise
        .or_else(|| differ(|setup| counted(setup.workers, "worker")))
        .unwrap_or_else(|| format!("run {}", round + 1))
}

/// The line of a run.
fn line(course: &Course) -> Line {
    let stride = course.timeline.step_count().div_ceil(POINTS_MAX);
    let mut resident = course.looks.iter().peekable();
    let mut bytes = 0;
    let points = course.timeline.rolling(stride).into_iter().map(|(second, part)| {
        while let Some(look) = resident.next_if(|look| look.second <= second) {
            bytes = look.resident;
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
        system: course.label(),
        durable: course.setup.system.is_durable(),
        points: points.collect(),
        checkpoints: course.periods(),
    }
}

/// Averages over whole runs, by system; ratios to the first.
fn averages(rounds: &[Vec<Course>]) -> Vec<Row> {
    let mut systems: Vec<(String, Vec<&Course>)> = Vec::new();
    for course in rounds.iter().flatten() {
        let label = course.label();
        match systems.iter_mut().find(|(name, _)| *name == label) {
            Some((_, courses)) => courses.push(course),
            None => systems.push((label, vec![course])),
        }
    }
    let mut rows = Vec::new();
    let place = || Place::Bar(WHOLE.to_owned());
    let mut rates: Vec<(&str, Vec<f64>)> = Vec::new();
    for (name, courses) in &systems {
        let parts: Vec<Part> = courses.iter().map(|course| course.whole()).collect();
        let own: Vec<f64> = parts.iter().map(Part::rate).collect();
        rows.push(Row::new(name, place(), THROUGHPUT, own.clone()));
        rows.extend(latencies(name, &place(), &parts));
        let ended = courses.iter().filter(|course| course.too_large);
        let seconds: Vec<f64> = ended.filter_map(|course| Some(course.looks.last()?.second)).collect();
        if !seconds.is_empty() {
            rows.push(Row::new(name, place(), ("ended early, memory is at its limit", "s"), seconds));
        }
        rates.push((name, own));
    }
    if let Some(((first, base), others)) = rates.split_first() {
        let ratio = |(name, own): &(&str, Vec<f64>)| Row::ratio((name, own), (first, base), place());
        rows.extend(others.iter().map(ratio));
    }
    rows
}

/// The mean and quantiles of latency, if latencies were sampled.
pub(super) fn latencies(system: &str, place: &Place, parts: &[Part]) -> Vec<Row> {
    let row = |metric, of: &dyn Fn(&Part) -> Option<f64>| {
        let values: Vec<f64> = parts.iter().filter_map(of).collect();
        (!values.is_empty()).then(|| Row::new(system, place.clone(), (metric, "ms"), values))
    };
    let quantile = |metric, quantile| row(metric, &move |part: &Part| part.quantile_ms(quantile));
    let rows = [
        row("latency, mean", &Part::mean_ms),
        quantile("latency, p50", 0.5),
        quantile("latency, p99", 0.99),
        quantile("latency, p99.9", 0.999),
    ];
    rows.into_iter().flatten().collect()
}
