//! The rows with limits for this database, measured in one go, with each limit and its verdict.
//!
//! Every ratio is the median over the rounds, of runs that took turns. The picture shows the margin of each row to its
//! limit: 1 is the limit, more is better.
//!
//! Neighbours: [`super::bench`] makes the runs, [`super::idle`] the strict commits.

use ensile_bench::Result;
use ensile_bench::figure::{Figure, Place, RATIO, Row};
use ensile_bench::timeline::Part;

use super::bench::{Bench, cores};
use super::course::{Checkpoint, Course};
use super::figures::{THROUGHPUT, latencies};
use super::idle;
use super::results::Made;
use super::setup::{Load, Setup, System};

/// Places of rows.
const YCSB: &str = "YCSB 70/30";
const TPCC: &str = "TPC-C";
const EVERY_CORE: &str = "YCSB 70/30, a worker for each core";
const CHECKPOINTS: &str = "YCSB 70/30, while a checkpoint is written";

/// Metrics of checkpoints only.
const TAIL_RATIO: (&str, &str) = ("p99.9 ratio", "x");
const WRITING: (&str, &str) = ("writing, per GB of record data", "s");
const EXTRA_MEMORY: (&str, &str) = ("extra resident memory", "MiB");
const LOG_KEPT: (&str, &str) = ("log on disk after truncation", "checkpoint intervals of log");

/// Bytes of a YCSB record: key and value.
const RECORD_BYTES: f64 = 108.0;

/// The limit of a value.
#[derive(Clone, Copy, Debug)]
enum Limit {
    AtLeast(f64),
    AtMost(f64),
}

impl Limit {
    fn holds(self, value: f64) -> bool {
        match self {
            Self::AtLeast(least) => value >= least,
            Self::AtMost(most) => value <= most,
        }
    }

    /// Margin to the limit: at least 1 if the limit is kept, at most [`MARGIN_MAX`].
    fn margin(self, value: f64) -> f64 {
        let margin = match self {
            Self::AtLeast(least) => value / least,
            Self::AtMost(most) => most / value.max(f64::MIN_POSITIVE),
        };
        margin.min(MARGIN_MAX)
    }
}

impl std::fmt::Display for Limit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::AtLeast(least) => write!(f, ">= {least}"),
            Self::AtMost(most) => write!(f, "<= {most}"),
        }
    }
}

/// A measured row with a limit: its place and metric, the paper's value, the limit.
struct Goal {
    place: &'static str,
    metric: (&'static str, &'static str),
    paper: &'static str,
    limit: Limit,
}

const fn goal(
    place: &'static str,
    metric: (&'static str, &'static str),
    paper: &'static str,
    limit: Limit,
) -> Goal {
    Goal { place, metric, paper, limit }
}

const GOALS: &[Goal] = &[
    goal(YCSB, RATIO, "0.80, at equal workers 0.90", Limit::AtLeast(0.92)),
    goal(TPCC, RATIO, "0.93", Limit::AtLeast(0.95)),
    goal(CHECKPOINTS, RATIO, "about 0.97", Limit::AtLeast(0.97)),
    goal(CHECKPOINTS, TAIL_RATIO, "-", Limit::AtMost(2.0)),
    goal(CHECKPOINTS, WRITING, "3.5 (TPC-C, four checkpointers)", Limit::AtMost(3.5)),
    goal(CHECKPOINTS, EXTRA_MEMORY, "-", Limit::AtMost(64.0)),
    goal(CHECKPOINTS, LOG_KEPT, "bounded", Limit::AtMost(2.0)),
    goal(idle::PLACE, RATIO, "-", Limit::AtMost(1.1)),
];

/// Maximum margin; a larger margin is shown as the maximum.
const MARGIN_MAX: f64 = 5.0;
/// The metric in the picture.
const MARGIN: (&str, &str) = ("margin to the limit", "x");

/// Measures the rows and compares the rows with their limits.
pub(super) fn run(bench: &mut Bench<'_>) -> Result<Made> {
    let mut rows = Vec::new();
    let workers = bench.workers();
    let (both, checkpointed) = side_by_side(bench, YCSB, Load::Ycsb, workers)?;
    rows.extend(both);
    rows.extend(while_written(&checkpointed));
    rows.extend(side_by_side(bench, TPCC, Load::Tpcc, workers)?.0);
    if workers != cores() {
        rows.extend(side_by_side(bench, EVERY_CORE, Load::Ycsb, cores())?.0);
    }
    rows.extend(idle::rows(bench)?);
    let (margins, all, text) = judged(&rows);
    rows.extend(margins);
    let title = "What is to be reached: margins to the limits (1 is the limit, more is better)".to_owned();
    Ok(Made::Rows(
        Figure { name: "table", title, horizontal: "", drawn: MARGIN, rows, ..Figure::default() },
        all,
        text,
    ))
}

/// Runs memsilo and silor in turns, round by round; returns their averages, and the runs of silor.
fn side_by_side(
    bench: &mut Bench<'_>,
    place: &str,
    load: Load,
    workers: usize,
) -> Result<(Vec<Row>, Vec<Course>)> {
    let (mut without, mut with) = (Vec::new(), Vec::new());
    for round in 0..bench.arguments.rounds {
        for (system, courses) in [(System::Memsilo, &mut without), (System::Silor, &mut with)] {
            let setup = bench.setup(system, load);
            courses.push(bench.run(Setup { workers, seed: setup.seed + round as u64, ..setup })?);
        }
    }
    let place = || Place::Bar(place.to_owned());
    let parts = [&without, &with].map(|courses| courses.iter().map(Course::whole).collect::<Vec<Part>>());
    let rates = parts.each_ref().map(|parts| parts.iter().map(Part::rate).collect::<Vec<f64>>());
    let names = [System::Memsilo, System::Silor].map(System::name);
    let mut rows = Vec::new();
    for (name, (parts, rates)) in names.iter().zip(parts.iter().zip(&rates)) {
        rows.push(Row::new(name, place(), THROUGHPUT, rates.clone()));
        rows.extend(latencies(name, &place(), parts));
    }
    rows.push(Row::ratio((names[1], &rates[1]), (names[0], &rates[0]), place()));
    Ok((rows, with))
}

/// Cost of checkpoints for the runs with checkpoints.
fn while_written(courses: &[Course]) -> Vec<Row> {
    let place = || Place::Bar(CHECKPOINTS.to_owned());
    let (mut rows, name) = (Vec::new(), System::Silor.name());
    let parts: Vec<(Part, Part)> = courses.iter().map(Course::inside_and_between).collect();
    let (inside, between): (Vec<Part>, Vec<Part>) =
        parts.into_iter().filter(|(inside, between)| inside.seconds > 0.0 && between.seconds > 0.0).unzip();
    if !inside.is_empty() {
        let rates = |parts: &[Part]| parts.iter().map(Part::rate).collect::<Vec<f64>>();
        let names = ["silor, meanwhile", "silor, between"];
        for (name, parts) in names.iter().zip([&inside, &between]) {
            rows.push(Row::new(name, place(), THROUGHPUT, rates(parts)));
            rows.extend(latencies(name, &place(), parts));
        }
        rows.push(Row::ratio((names[0], &rates(&inside)), (names[1], &rates(&between)), place()));
        let tails = inside.iter().zip(&between);
        let ratios = tails
            .filter_map(|(inside, between)| Some(inside.quantile_ms(0.999)? / between.quantile_ms(0.999)?));
        rows.extend(row_of(name, place(), TAIL_RATIO, ratios.collect()));
    }
    let checkpoints: Vec<Checkpoint> = courses.iter().flat_map(Course::checkpoints).collect();
    let writing = checkpoints.iter().filter(|checkpoint| checkpoint.entries > 0).map(|checkpoint| {
        (checkpoint.to - checkpoint.from) / (checkpoint.entries as f64 * RECORD_BYTES / 1e9)
    });
    rows.extend(row_of(name, place(), WRITING, writing.collect()));
    let extra = checkpoints.iter().map(|checkpoint| checkpoint.extra_bytes as f64 / f64::from(1 << 20));
    rows.extend(row_of(name, place(), EXTRA_MEMORY, extra.collect()));
    let kept = checkpoints.iter().filter_map(|checkpoint| {
        let interval = checkpoint.log_between.filter(|bytes| *bytes > 0)?;
        Some(checkpoint.log_kept? as f64 / interval as f64)
    });
    rows.extend(row_of(name, place(), LOG_KEPT, kept.collect()));
    rows
}

/// A row, if `values` is not empty.
pub(super) fn row_of(
    system: &str,
    place: Place,
    metric: (&str, &'static str),
    values: Vec<f64>,
) -> Option<Row> {
    (!values.is_empty()).then(|| Row::new(system, place, metric, values))
}

/// Margins to the limits, true if every limit is kept, and a line for each limit. A row without a measurement is
/// missed: the run was too short to have a checkpoint.
fn judged(rows: &[Row]) -> (Vec<Row>, bool, String) {
    let (mut margins, mut all, mut text) = (Vec::new(), true, String::new());
    for Goal { place, metric, paper, limit } in GOALS {
        let is_it = |row: &&Row| {
            matches!(&row.place, Place::Bar(bar) if bar == *place)
                && (row.metric.as_str(), row.unit) == *metric
        };
        let (name, unit) = metric;
        let Some(Row { median, min, max, .. }) = rows.iter().find(is_it) else {
            all = false;
            text += &format!("  {place}, {name}: NOT MEASURED: longer runs are due (--seconds)\n");
            continue;
        };
        let held = limit.holds(*median);
        all &= held;
        text += &format!(
            "  {place}, {name}: {median:.3} {unit} ({min:.3} .. {max:.3}), to reach {limit} (paper: {paper}): {}\n",
            if held { "kept" } else { "MISSED" }
        );
        let values = [median, min, max].map(|value| limit.margin(*value));
        margins.push(Row::new("limits", Place::Bar(format!("{place}, {name}")), MARGIN, values.to_vec()));
    }
    (margins, all, text)
}

#[cfg(test)]
mod tests {
    use super::Limit;

    #[test]
    fn a_limit_is_kept_where_its_margin_is_at_least_one() {
        for (limit, value) in [
            (Limit::AtLeast(0.95), 0.949),
            (Limit::AtLeast(0.95), 0.95),
            (Limit::AtMost(1.1), 1.1),
            (Limit::AtMost(1.1), 1.2),
            (Limit::AtMost(64.0), 0.0),
        ] {
            assert_eq!(limit.holds(value), limit.margin(value) >= 1.0, "{limit} with {value}");
        }
    }
}
