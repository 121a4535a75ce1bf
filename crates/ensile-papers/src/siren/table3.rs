//! Table 3 and figure 8 of the paper: extra memory of a full picture at its peak and over time, by the rate of updates;
//! and the same with most updates on few rows.
//!
//! Neighbours: [`super::run`] measures, [`super::formulas`] has the expected values.

use ensile_bench::Result;
use ensile_bench::figure::{Dashed, Figure, Place, Row};
use ensile_bench::number::grouped;
use ensile_bench::progress::Progress;

use super::arguments::SirenArguments;
use super::formulas::{Rates, peak_share};
use super::results::Made;
use super::run::{Run, Setup, run};
use super::strategy::Way;
use super::updates::{Choice, HOT_ROWS, HOT_UPDATES};

/// The figure whose points are in its files only.
pub(super) const FIG8: &str = "fig8";
/// Metrics of the figures. Formulas use the measured rates. The *unsteady* formula uses the written rows and updates of
/// each moment, as rates of a busy machine are not constant.
const PEAK: (&str, &str) = ("there twice, peak", "% of the rows");
const BY_FORMULA: (&str, &str) = ("by formula (1)", "% of the rows");
const BY_PAGES: (&str, &str) = ("by formula (2)", "% of the rows");
const OVER_TIME: (&str, &str) = ("there twice", "% of the rows");
const BY_COURSE: (&str, &str) = ("by formula (1), unsteady", "% of the rows");
const AT_MEASURED_RATES: &str = "formula (1) is worked out for what was measured of the rates";
/// Maximum deviation of updates from the asked rate, in percent: over the picture, and in each tenth of the picture.
const OFF_MAX: f64 = 2.0;
/// Default number of rounds.
pub(super) const ROUNDS: usize = 3;
/// Number of points of a line of figure 8.
const POINTS: usize = 60;
const MB: f64 = 1e6;

/// The formulas at the asked rates.
pub(super) fn by_formulas(arguments: &SirenArguments) -> Result<Made> {
    let mut rows = Vec::new();
    for &updates in &arguments.updates {
        let rates = arguments.rates(updates);
        let skewed = rates.skewed(HOT_UPDATES, HOT_ROWS);
        for (name, share) in [
            ("SIREN, formula (1)", peak_share(&[rates], 1.0)),
            ("pages, formula (2)", peak_share(&[rates], arguments.rows_per_page())),
            ("SIREN, 99 % on 1 %", peak_share(&skewed, 1.0)),
        ] {
            rows.push(Row::new(name, Place::At(updates as f64), PEAK, vec![share * 100.0]));
        }
    }
    rows.sort_by(|a, b| a.system.cmp(&b.system));
    let title = format!(
        "Extra memory by the formulas: {} rows, {} written a second, {:.1} a page",
        grouped(arguments.rows as f64),
        grouped(arguments.formula_writes as f64),
        arguments.rows_per_page()
    );
    let figure =
        Figure { name: "formulas", title, horizontal: "updates/s", drawn: PEAK, rows, ..Figure::default() };
    Ok(Made(vec![figure], true, String::new()))
}

/// Table 3, and figure 8 at the first rate.
pub(super) fn uniform(arguments: &SirenArguments) -> Result<Made> {
    let measured = Measured::of(arguments, Choice::Uniform)?;
    let over_time = measured.over_time(arguments);
    let mut figures = vec![measured.peaks("table3", "uniform updates")];
    figures.extend(over_time);
    Ok(Made(figures, measured.is_as_asked, measured.said))
}

/// The experiment with 99 % of the updates on 1 % of the rows.
pub(super) fn skewed(arguments: &SirenArguments) -> Result<Made> {
    let measured = Measured::of(arguments, Choice::Skewed)?;
    let figure = measured.peaks("skew", "99 % of the updates on 1 % of the rows");
    Ok(Made(vec![figure], measured.is_as_asked, measured.said))
}

/// Runs of one way at one rate, one per round.
struct Rounds {
    way: Way,
    runs: Vec<Run>,
}

/// All runs of a figure.
struct Measured<'a> {
    arguments: &'a SirenArguments,
    all: Vec<Rounds>,
    is_as_asked: bool,
    said: String,
}

impl<'a> Measured<'a> {
    fn of(arguments: &'a SirenArguments, choice: Choice) -> Result<Self> {
        let rounds = arguments.rounds.unwrap_or(ROUNDS);
        let mut progress = Progress::new(rounds);
        let (mut all, mut is_as_asked, mut said) = (Vec::new(), true, String::new());
        for &way in &arguments.ways {
            for &updates_per_s in &arguments.updates {
                let mut runs = Vec::new();
                for round in 0..rounds {
                    let rate = grouped(updates_per_s as f64);
                    progress.say(&format!("{}, {rate} updates/s, round {}", way.name(), round + 1));
                    let setup = Setup {
                        strategy: way.strategy(),
                        on_slow_device: way.is_on_slow_device(),
                        choice,
                        updates_per_s,
                        seed: arguments.seed + round as u64,
                    };
                    let run = run(arguments, setup)?;
                    let (held, words) = judged(way, &run);
                    is_as_asked &= held;
                    said += &words;
                    runs.push(run);
                }
                all.push(Rounds { way, runs });
            }
        }
        progress.clear();
        Ok(Self { arguments, all, is_as_asked, said })
    }

    /// Rows at each rate.
    fn peaks(&self, name: &'static str, updates: &str) -> Figure {
        let SirenArguments { rows, row_bytes, .. } = *self.arguments;
        let disk_mb = self.arguments.slow_mb();
        let title = format!(
            "A full picture of {:.0} MB at {disk_mb} MB/s, {updates}: {} rows of {row_bytes} bytes",
            rows as f64 * row_bytes as f64 / MB,
            grouped(rows as f64),
        );
        let rows = self.all.iter().flat_map(|rounds| rows_of(rounds, self.arguments)).collect();
        let dashed = Dashed::Metric(BY_FORMULA);
        let notes = vec![AT_MEASURED_RATES.to_owned()];
        Figure { name, title, horizontal: "updates/s", drawn: PEAK, dashed, notes, rows, ..Figure::default() }
    }

    /// Figure 8: the first rate over time, with the first round of each way.
    fn over_time(&self, arguments: &SirenArguments) -> Option<Figure> {
        let updates = *arguments.updates.first()?;
        let is_first = |rounds: &&Rounds| rounds.runs[0].setup.updates_per_s == updates;
        let rows = self.all.iter().filter(is_first).flat_map(|rounds| points_of(rounds, arguments)).collect();
        let title =
            format!("Rows that are there twice during a picture, {} updates/s", grouped(updates as f64));
        Some(Figure {
            name: FIG8,
            title,
            horizontal: "seconds since the first page",
            drawn: OVER_TIME,
            dashed: Dashed::Metric(BY_FORMULA),
            notes: vec![AT_MEASURED_RATES.to_owned()],
            rows,
            ..Figure::default()
        })
    }
}

/// The tuples of the formulas: uniform, or hot and cold tuples apart.
fn parts_of(run: &Run, rates: Rates) -> Vec<Rates> {
    match run.setup.choice {
        Choice::Uniform => vec![rates],
        Choice::Skewed => rates.skewed(HOT_UPDATES, HOT_ROWS).to_vec(),
    }
}

/// Displaced bytes as a share of the rows, in percent. If the size of a version was not observed, the row's size is
/// used. A version is larger than its row, so this share is too large.
fn percent_of_rows(run: &Run, arguments: &SirenArguments, displaced_bytes: u64) -> f64 {
    let bytes = run.version_bytes().unwrap_or(arguments.row_bytes as u64);
    displaced_bytes as f64 / bytes as f64 / run.rows as f64 * 100.0
}

fn rows_of(Rounds { way, runs }: &Rounds, arguments: &SirenArguments) -> Vec<Row> {
    let asked = runs[0].setup.updates_per_s as f64;
    let row = |metric, of: &dyn Fn(&Run) -> Option<f64>| {
        let values: Vec<f64> = runs.iter().filter_map(of).collect();
        (!values.is_empty()).then(|| Row::new(way.name(), Place::At(asked), metric, values))
    };
    let by_formula = |run: &Run, together| Some(peak_share(&parts_of(run, run.rates()?), together) * 100.0);
    // A page has hot rows and cold rows, so formula (2) has no value for skewed updates.
    let by_pages = |run: &Run| match run.setup.choice {
        Choice::Uniform => by_formula(run, run.rows_per_page().unwrap_or(arguments.rows_per_page())),
        Choice::Skewed => None,
    };
    let rows = [
        row(("updates, asked", "/s"), &|run| Some(run.setup.updates_per_s as f64)),
        row(("updates, held", "/s"), &|run| Some(run.updates_per_s())),
        row(("updates, off what was asked", "%"), &|run| Some(run.off_percent())),
        row(("updates, off in the worst tenth", "%"), &|run| Some(run.off_percent_at_worst())),
        row(("rows written", "/s"), &|run| Some(run.rates()?.written_per_s)),
        row(("picture, from demand to install", "s"), &|run| run.report.as_ref().map(|_| run.seconds())),
        row(PEAK, &|run| Some(percent_of_rows(run, arguments, run.displaced_peak))),
        row(BY_FORMULA, &|run| by_formula(run, 1.0)),
        row(BY_COURSE, &|run| run.rates().map(|rates| unsteady(run, rates).fold(0.0, f64::max))),
        row(BY_PAGES, &by_pages),
        row(("displaced at the peak", "% of the bytes of rows and index"), &|run| {
            Some(run.displaced_peak as f64 / run.memory_bytes as f64 * 100.0)
        }),
        row(("displaced at the peak", "MB"), &|run| Some(run.displaced_peak as f64 / MB)),
        row(("displaced versions written", "% of the updates"), &|run| {
            Some(run.report.as_ref()?.displaced as f64 / run.updates() as f64 * 100.0)
        }),
        row(("written for the picture", "MB"), &|run| Some(run.report.as_ref()?.bytes_written as f64 / MB)),
        row(("displaced versions in tails of pages", "MB"), &|run| {
            let in_tails = run.report.as_ref()?.displaced_tail_bytes;
            (in_tails > 0).then_some(in_tails as f64 / MB)
        }),
        row(("rows and index", "MB"), &|run| Some(run.memory_bytes as f64 / MB)),
        row(("resident, more than before", "MB"), &|run| Some(run.resident_extra() as f64 / MB)),
        row(("a displaced version", "bytes"), &|run| run.version_bytes().map(|bytes| bytes as f64)),
    ];
    rows.into_iter().flatten().collect()
}

/// Formula (1) at each moment of the run's course, in percent.
fn unsteady(run: &Run, rates: Rates) -> impl Iterator<Item = f64> {
    let parts = parts_of(run, rates);
    run.course().into_iter().map(move |done| {
        let twice = parts.iter().map(|part| {
            let updates = done.updates * part.updated_per_s / rates.updated_per_s;
            part.duplicates_after(1.0, done.written, updates)
        });
        twice.sum::<f64>() / rates.tuples * 100.0
    })
}

/// The line of one run, the formula's line, and the progress of picture and updates.
fn points_of(Rounds { way, runs }: &Rounds, arguments: &SirenArguments) -> Vec<Row> {
    let run = &runs[0];
    let Some(rates) = run.rates() else { return Vec::new() };
    let course = run.course();
    let stride = course.len().div_ceil(POINTS).max(1);
    let mut points = Vec::new();
    for (done, twice) in course.into_iter().zip(unsteady(run, rates)).step_by(stride) {
        let second = (done.second * 100.0).round() / 100.0;
        let mut point = |metric, value| {
            points.push(Row::new(way.name(), Place::At(second), metric, vec![value]));
        };
        point(OVER_TIME, percent_of_rows(run, arguments, done.displaced_bytes));
        point(BY_FORMULA, twice);
        point(("written", "% of the picture"), done.written * 100.0);
        point(("updates", "since the first page"), done.updates);
    }
    points
}

/// True if a run kept its limits, and a line of the measured values.
fn judged(way: Way, run: &Run) -> (bool, String) {
    let asked = grouped(run.setup.updates_per_s as f64);
    let off = run.off_percent();
    let worst = run.off_percent_at_worst();
    let is_held = off.abs() <= OFF_MAX && worst.abs() <= OFF_MAX;
    let mut words = vec![format!(
        "held {} ({off:+.2} %, {worst:+.2} % in the worst tenth){}",
        grouped(run.updates_per_s()),
        if is_held { "" } else { ": NOT HELD" }
    )];
    let has_one = run.has_one_version_a_row();
    words.push(run.versions().map_or("too little was displaced to count versions".to_owned(), |versions| {
        let [versions, touched, updates] =
            [versions, run.touched(), run.updates()].map(|count| grouped(count as f64));
        let verdict = match has_one {
            Some(false) => "MORE THAN ONE A ROW",
            _ => "one a row",
        };
        format!("{versions} versions of {touched} rows that {updates} updates met: {verdict}")
    }));
    let is_whole = run.has_each_row();
    let entries = run.report.as_ref().map_or_else(
        || format!("GIVEN UP after {:.0} s", run.seconds()),
        |report| {
            let [entries, displaced, rows] =
                [report.entries, report.displaced, run.rows].map(|count| grouped(count as f64));
            let verdict = if is_whole { "" } else { ": NOT EACH ROW ONCE" };
            format!("{entries} entries, {displaced} of them displaced, for {rows} rows{verdict}")
        },
    );
    words.push(entries);
    let line = format!("  {}: asked {asked} updates/s, {}\n", way.name(), words.join("; "));
    (is_held && is_whole && has_one != Some(false), line)
}
