//! Rows of measured values, and their table for the terminal.
//!
//! Neighbours: experiments measure the rows; [`super::content`] has the rows of a figure.

use std::fmt::Write as _;

use serde::Serialize;

use crate::number::{grouped, median};

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

/// The widest line of a table, if names allow the width.
pub(super) const TABLE_WIDTH: usize = 110;

/// A line per row, under the figure's name. A name that is too long has a separate line above the rows.
pub(super) fn table_of(name: &str, title: &str, rows: &[Row]) -> String {
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

/// A number as text; larger numbers have fewer decimals.
pub(super) fn figures(value: f64) -> String {
    match value.abs() {
        large if large >= 1_000.0 => grouped(value),
        middle if middle >= 10.0 => format!("{value:.1}"),
        0.0 => "0".to_owned(),
        _ => format!("{value:.3}"),
    }
}
