//! A figure: rows of measured values in three files, CSV and JSON for programs and SVG for people. Every file contains
//! the rows, the machine and the command.
//!
//! Neighbours: experiments measure the rows. [`crate::machine`] describes the machine, and `drawing` draws the
//! picture.

mod axis;
mod content;
mod drawing;
mod files;
mod keys;
mod over_time;
mod panels;
mod rows;
mod scenes;
mod series;

use std::fmt::Write as _;
use std::path::Path;

use crate::failure::Result;
use crate::machine::Machine;
use files::{Document, field, write_files};
use rows::table_of;

pub use content::{Dashed, Figure};
pub use files::prepare;
pub use rows::{Place, RATIO, Row};
pub use scenes::{Line, OverTime, Point, Scene};

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

#[cfg(test)]
mod tests;
