//! A figure over time: per scene a panel of throughput above a panel of latency, with shaded times of checkpoints.
//!
//! The CSV file has the points, the JSON file the points and the averages, and the SVG file the picture.
//!
//! Neighbours: SiloR's and SLACH's experiments in `ensile-papers` measure. [`super::scenes`] has the points, and
//! [`super::panels`] draws.

use std::fmt::Write as _;
use std::path::Path;

use super::files::{Document, field, write_files};
use super::panels;
use super::rows::{Row, table_of};
use super::scenes::{OverTime, Point};
use crate::failure::Result;
use crate::machine::Machine;

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
