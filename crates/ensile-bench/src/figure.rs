//! A figure: rows of measured values in three files, CSV and JSON for programs and SVG for people. Every file contains
//! the rows, the machine and the command.
//!
//! Experiments measure the rows. [`crate::machine`] describes the machine.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use serde::Serialize;

use crate::failure::{Failure, Result};
use crate::machine::Machine;
use crate::number::{grouped, median};
use crate::verdict::Judged;

mod axis;
mod drawing;
mod keys;
mod over_time;
mod panels;
mod series;

pub use over_time::{Line, OverTime, Point, Scene};

/// The place of a value on the horizontal axis.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Place {
    /// A number, such as workers or percent.
    At(f64),
    /// The name of a bar.
    Bar(String),
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::At(number) => write!(f, "{number}"),
            Self::Bar(name) => f.write_str(name),
        }
    }
}

/// One value with its spread over the rounds.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Name of the value's line, or kind of bar.
    pub system: String,
    /// Place on the horizontal axis.
    pub place: Place,
    /// Name of the measured quantity.
    pub metric: String,
    /// Unit of the metric.
    pub unit: &'static str,
    /// Median over the rounds.
    pub median: f64,
    /// Least value of a round.
    pub min: f64,
    /// Greatest value of a round.
    pub max: f64,
    pub(crate) rounds: usize,
}

impl Row {
    /// The median and spread of one value for each round.
    pub fn new(system: &str, place: Place, (metric, unit): (&str, &'static str), values: Vec<f64>) -> Self {
        Self {
            system: system.to_owned(),
            place,
            metric: metric.to_owned(),
            unit,
            min: values.iter().copied().fold(f64::INFINITY, f64::min),
            max: values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            rounds: values.len(),
            median: median(values),
        }
    }

    /// The ratio of two systems: the median of the rounds' ratios. The two sides of a round ran one after the other.
    pub fn ratio(left: (&str, &[f64]), right: (&str, &[f64]), place: Place) -> Self {
        let ratios = left.1.iter().zip(right.1).map(|(l, r)| l / r.max(f64::MIN_POSITIVE)).collect();
        Self::new(&format!("{} / {}", left.0, right.0), place, RATIO, ratios)
    }
}

/// The metric of [`Row::ratio`].
pub const RATIO: (&str, &str) = ("ratio", "x");

/// The lines of a picture that are drawn with dashes.
#[derive(Clone, Copy, Debug, Default)]
pub enum Dashed {
    #[default]
    /// No dashed line.
    Nothing,
    /// Another metric of the drawn unit, in the colours of its systems.
    Metric((&'static str, &'static str)),
    /// Systems of the second scheme, beside solid lines of the first scheme. A system has a name `SCHEME, GROUP` and
    /// the colour of the group.
    Scheme([&'static str; 2]),
}

impl Dashed {
    fn metric(self) -> Option<(&'static str, &'static str)> {
        if let Self::Metric(metric) = self { Some(metric) } else { None }
    }
}

/// A measured figure before the figure is written.
#[derive(Debug, Default)]
pub struct Figure {
    /// Name of the files.
    pub name: &'static str,
    /// Title above the picture.
    pub title: String,
    /// Text under the horizontal axis, with the unit.
    pub horizontal: &'static str,
    /// The drawn metric and the unit. The tables contain every metric.
    pub drawn: (&'static str, &'static str),
    /// Lines that are drawn with dashes.
    pub dashed: Dashed,
    /// Lines below the title.
    pub notes: Vec<String>,
    /// Measured values.
    pub rows: Vec<Row>,
    /// Verdicts on the measured values.
    pub verdicts: Vec<Judged>,
}

/// The JSON document.
#[derive(Serialize)]
struct Document<'a> {
    figure: &'a str,
    title: &'a str,
    command: &'a str,
    machine: &'a Machine,
    rows: &'a [Row],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    verdicts: &'a [Judged],
    /// Scenes of a figure over time.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    scenes: &'a [over_time::Scene],
}

impl Figure {
    /// Writes `NAME.csv`, `NAME.json` and `NAME.svg` into `folder`.
    pub fn write(&self, folder: &Path, machine: &Machine, command: &str) -> Result<()> {
        let json = self.json(machine, command);
        let origin = format!("{}; {command}", machine.line());
        let files =
            [("csv", Ok(self.csv(&origin))), ("json", Ok(json)), ("svg", drawing::svg(self, &origin))];
        write_files(folder, self.name, files)
    }

    /// The document for programs.
    pub fn json(&self, machine: &Machine, command: &str) -> String {
        let Self { name, title, rows, verdicts, .. } = self;
        let document = Document { figure: name, title, command, machine, rows, verdicts, scenes: &[] };
        serde_json::to_string_pretty(&document).expect("plain numbers and strings serialize") + "\n"
    }

    /// Comment lines after `#`, with the verdicts, then a heading and a line per row.
    fn csv(&self, origin: &str) -> String {
        let mut text = format!("# {}\n# {origin}\n", self.title);
        for judged in &self.verdicts {
            let _ = writeln!(text, "# {judged}");
        }
        text.push_str("system,place,metric,unit,median,min,max,rounds\n");
        for row in &self.rows {
            let Row { system, place, metric, unit, median, min, max, rounds } = row;
            let names = [system.as_str(), &place.to_string(), metric, unit].map(field).join(",");
            let _ = writeln!(text, "{names},{median},{min},{max},{rounds}");
        }
        text
    }

    /// The table for the terminal.
    pub fn table(&self) -> String {
        table_of(self.name, &self.title, &self.rows)
    }
}

/// Makes the folder for figures and checks that the folder accepts files, before hours of measuring.
pub fn prepare(folder: &Path) -> Result<()> {
    make(folder)?;
    let probe = folder.join(format!(".ensile-{}", std::process::id()));
    let tried = fs::write(&probe, []).and_then(|()| fs::remove_file(&probe));
    tried.map_err(Failure::io(format!("making files in {}", folder.display())))
}

fn make(folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).map_err(Failure::io(format!("making the folder {}", folder.display())))
}

/// Writes a file `NAME.EXTENSION` per text.
fn write_files<const N: usize>(
    folder: &Path,
    name: &str,
    files: [(&str, Result<String, String>); N],
) -> Result<()> {
    make(folder)?;
    for (extension, text) in files {
        let path = folder.join(format!("{name}.{extension}"));
        let text = text.map_err(std::io::Error::other);
        text.and_then(|text| fs::write(&path, text))
            .map_err(Failure::io(format!("writing {}", path.display())))?;
    }
    Ok(())
}

/// The widest line of a table, if names allow the width.
const TABLE_WIDTH: usize = 110;

/// A line per row, under the figure's name. A name that is too long has a separate line above the rows.
fn table_of(name: &str, title: &str, rows: &[Row]) -> String {
    let mut text = format!("{name}: {title}\n");
    let told: Vec<[String; 4]> = rows.iter().map(told).collect();
    let [systems, places, metrics, values] =
        [0, 1, 2, 3].map(|column| told.iter().map(|row| row[column].chars().count()).max().unwrap_or(0));
    let is_wide = [systems, places, metrics, values].iter().sum::<usize>() + 2 * 4 > TABLE_WIDTH;
    let mut before = None;
    for [system, place, metric, value] in &told {
        if !is_wide {
            let line = format!("  {system:systems$}  {place:places$}  {metric:metrics$}  {value}");
            text.push_str(&line);
        } else {
            if before.replace((system, place)) != Some((system, place)) {
                let comma = if place.is_empty() { "" } else { ", " };
                let _ = writeln!(text, "  {system}{comma}{place}");
            }
            let _ = write!(text, "    {metric:metrics$}  {value}");
        }
        text.push('\n');
    }
    text
}

/// System, place, metric and values of a row. The place is empty if the system's name contains the place.
fn told(row: &Row) -> [String; 4] {
    let place = row.place.to_string();
    let place = if row.system.starts_with(&place) { String::new() } else { place };
    let (median, min, max) = (figures(row.median), figures(row.min), figures(row.max));
    let values = format!("{median:>10}  ({min} .. {max})");
    [row.system.clone(), place, format!("{} ({})", row.metric, row.unit), values]
}

/// A name as a field of CSV, in quotes if the name contains a comma.
fn field(name: &str) -> String {
    if name.contains(',') { format!("\"{name}\"") } else { name.to_owned() }
}

/// A number as text; larger numbers have fewer decimals.
fn figures(value: f64) -> String {
    match value.abs() {
        large if large >= 1_000.0 => grouped(value),
        middle if middle >= 10.0 => format!("{value:.1}"),
        0.0 => "0".to_owned(),
        _ => format!("{value:.3}"),
    }
}

#[cfg(test)]
mod tests;
