//! A figure over time: per scene a panel of throughput above a panel of latency, with shaded times of checkpoints.
//!
//! The CSV file has the points, the JSON file the points and the averages, and the SVG file the picture.
//!
//! [`crate::silor`] and [`crate::slach`] measure. [`super::panels`] draws.

use std::fmt::Write as _;
use std::path::Path;

use serde::Serialize;

use super::{Document, Row, field, panels, table_of, write_files};
use crate::failure::Result;
use crate::machine::Machine;

/// Averages over the half second before `second`.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Point {
    /// End of the window, in seconds since the beginning of the run.
    pub second: f64,
    /// Results in a second.
    pub throughput: f64,
    /// Mean latency, in milliseconds.
    pub mean_ms: Option<f64>,
    /// Median latency, in milliseconds.
    pub p50_ms: Option<f64>,
    /// 99th percentile of latency, in milliseconds.
    pub p99_ms: Option<f64>,
    /// 99.9th percentile of latency, in milliseconds.
    pub p999_ms: Option<f64>,
    /// Resident memory, in MB.
    pub resident_mb: f64,
}

/// One run of one system.
#[derive(Clone, Debug, Serialize)]
pub struct Line {
    /// Name of the system.
    pub system: String,
    /// True if the line's latencies until durable are drawn.
    pub durable: bool,
    /// Points in the order of time.
    pub points: Vec<Point>,
    /// Begin and end of the checkpoints, in seconds.
    pub checkpoints: Vec<(f64, f64)>,
}

/// Lines over one time axis.
#[derive(Clone, Debug, Serialize)]
pub struct Scene {
    /// Title above the scene.
    pub title: String,
    /// Lines of the systems.
    pub lines: Vec<Line>,
}

/// A measured figure over time before the figure is written.
#[derive(Debug)]
pub struct OverTime {
    /// Name of the files.
    pub name: &'static str,
    /// Title above the picture.
    pub title: String,
    /// Scenes below each other.
    pub scenes: Vec<Scene>,
    /// Averages over whole runs.
    pub rows: Vec<Row>,
}

impl OverTime {
    /// Writes `NAME.csv`, `NAME.json` and `NAME.svg` into `folder`.
    pub fn write(&self, folder: &Path, machine: &Machine, command: &str) -> Result<()> {
        let Self { name, title, scenes, rows } = self;
        let document = Document { figure: name, title, command, machine, rows, verdicts: &[], scenes };
        let json = serde_json::to_string(&document).expect("plain numbers and strings serialize");
        let origin = format!("{}; {command}", machine.line());
        let files =
            [("csv", Ok(self.csv(&origin))), ("json", Ok(json + "\n")), ("svg", panels::svg(self, &origin))];
        write_files(folder, name, files)
    }

    /// Comment lines after `#`, with the averages, then a heading and a line per point.
    fn csv(&self, origin: &str) -> String {
        let mut text = format!("# {}\n# {origin}\n", self.title);
        for row in &self.rows {
            let Row { system, place, metric, unit, median, min, max, .. } = row;
            let _ = writeln!(text, "# {system}, {place}: {metric} {median} {unit} ({min} .. {max})");
        }
        text.push_str("scene,system,second,txn_per_s,mean_ms,p50_ms,p99_ms,p999_ms,resident_mb,checkpoint\n");
        let number = |value: Option<f64>| value.map_or_else(String::new, |value| format!("{value:.3}"));
        for (scene, line) in
            self.scenes.iter().flat_map(|scene| scene.lines.iter().map(move |line| (scene, line)))
        {
            for point in &line.points {
                let Point { second, throughput, mean_ms, p50_ms, p99_ms, p999_ms, resident_mb } = point;
                let within = line.checkpoints.iter().any(|(from, to)| (from..=to).contains(&second));
                let latencies = [mean_ms, p50_ms, p99_ms, p999_ms].map(|value| number(*value)).join(",");
                let _ = writeln!(
                    text,
                    "{},{},{second:.2},{throughput:.0},{latencies},{resident_mb:.1},{}",
                    field(&scene.title),
                    field(&line.system),
                    u8::from(within)
                );
            }
        }
        text
    }

    /// The averages, for the terminal.
    pub fn table(&self) -> String {
        table_of(self.name, &self.title, &self.rows)
    }
}
