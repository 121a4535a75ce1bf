//! Figures of all rounds, and their tables: markdown, CSV and JSON.
//!
//! A figure is the median over the rounds. A ratio is the median of the rounds' ratios, the system's figure over
//! Ensile's of the same round.

mod tables;

use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::arguments::Arguments;
use crate::failure::Result;
use crate::machine::Machine;
use crate::store::{Facts, Peer};
use crate::workload::{Better, Workload};

pub(crate) use tables::rounded;

/// Outcome of the kill of a process after process-safe commits.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Safety {
    /// Number of commits that had returned.
    pub(crate) commits: u64,
    /// Number of commits that the next open found.
    pub(crate) survived: u64,
}

impl Safety {
    /// True if every commit survived.
    pub(crate) fn holds(self) -> bool {
        self.survived == self.commits
    }

    /// Reason for the missing figure.
    pub(crate) fn reason(self) -> String {
        format!(
            "not process-safe: {} of {} commits survived a kill of the process",
            self.survived, self.commits
        )
    }
}

/// A system of the comparison.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct System {
    pub(crate) peer: Peer,
    #[serde(flatten)]
    pub(crate) facts: Facts,
    pub(crate) safety: Safety,
}

impl System {
    /// Version and settings, a line each.
    pub(crate) fn lines(&self) -> String {
        let Facts { version, load, open, process, strict, calls } = &self.facts;
        let Safety { commits, survived } = self.safety;
        format!(
            "{} {version}\n  load: {load}\n  open: {open}\n  calls: {calls}\n  process-safe: {process}; {survived} of \
             {commits} commits survived a kill\n  strict: {strict}\n",
            self.peer.title(),
        )
    }
}

/// A figure of one round, or the reason for a missing figure.
#[derive(Clone, Debug)]
pub(crate) enum Outcome {
    Figure(f64),
    Reason(String),
}

/// A line of the tables: one system at one workload.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Line {
    pub(crate) workload: Workload,
    pub(crate) system: Peer,
    pub(crate) unit: String,
    pub(crate) better: Better,
    /// Median over the rounds; `None` with a reason.
    pub(crate) value: Option<f64>,
    /// Median of the rounds' ratios to Ensile.
    pub(crate) ratio_to_ensile: Option<f64>,
    /// Figures of the rounds.
    pub(crate) rounds: Vec<f64>,
    pub(crate) reason: Option<String>,
}

/// The whole comparison.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Report {
    pub(crate) command: String,
    pub(crate) machine: Machine,
    pub(crate) rows: u64,
    pub(crate) rounds: u64,
    pub(crate) seconds: f64,
    /// Load average of the machine at the start of each round.
    pub(crate) load_averages: Vec<String>,
    pub(crate) systems: Vec<System>,
    pub(crate) lines: Vec<Line>,
}

impl Report {
    /// A report without figures.
    pub(crate) fn new(arguments: &Arguments, machine: Machine) -> Self {
        Self {
            command: command(std::env::args().skip(1)),
            machine,
            rows: arguments.rows,
            rounds: arguments.rounds,
            seconds: arguments.seconds,
            load_averages: Vec::new(),
            systems: Vec::new(),
            lines: Vec::new(),
        }
    }

    /// The outcome of the kill of a system's process.
    pub(crate) fn safety(&self, peer: Peer) -> Safety {
        let system = self.systems.iter().find(|system| system.peer == peer);
        system.expect("every system is examined before the first round").safety
    }

    /// Adds the outcome of one round.
    pub(crate) fn push(&mut self, system: Peer, workload: Workload, outcome: Outcome) {
        let at = self.lines.iter().position(|line| line.system == system && line.workload == workload);
        let at = at.unwrap_or_else(|| {
            self.lines.push(Line {
                workload,
                system,
                unit: workload.unit().to_owned(),
                better: workload.better(),
                value: None,
                ratio_to_ensile: None,
                rounds: Vec::new(),
                reason: None,
            });
            self.lines.len() - 1
        });
        match outcome {
            Outcome::Figure(figure) => self.lines[at].rounds.push(figure),
            Outcome::Reason(reason) => self.lines[at].reason = Some(reason),
        }
    }

    /// Sorts the lines by workload and system, and computes medians and ratios.
    pub(crate) fn finish(&mut self) {
        let peers: Vec<_> = self.systems.iter().map(|system| system.peer).collect();
        let place =
            |line: &Line| (line.workload as usize, peers.iter().position(|peer| *peer == line.system));
        self.lines.sort_by_key(place);
        let of_ensile: Vec<_> =
            self.lines.iter().filter(|line| line.system == Peer::Ensile).cloned().collect();
        for line in &mut self.lines {
            let ensile = of_ensile.iter().find(|ensile| ensile.workload == line.workload);
            line.value = median(line.rounds.clone());
            line.ratio_to_ensile = ensile.and_then(|ensile| {
                median(
                    line.rounds.iter().zip(&ensile.rounds).map(|(figure, ensile)| figure / ensile).collect(),
                )
            });
        }
    }

    /// Writes `peers.md`, `peers.csv` and `peers.json`.
    pub(crate) fn write(&self, folder: &Path) -> Result<()> {
        fs::create_dir_all(folder)?;
        fs::write(folder.join("peers.md"), self.markdown())?;
        fs::write(folder.join("peers.csv"), self.csv())?;
        fs::write(folder.join("peers.json"), serde_json::to_string_pretty(self)? + "\n")?;
        Ok(())
    }
}

/// Command line without the machine's folders.
fn command(mut words: impl Iterator<Item = String>) -> String {
    let mut command = "ensile-peers".to_owned();
    while let Some(word) = words.next() {
        let (option, has_value) = word.split_once('=').map_or((&*word, false), |(option, _)| (option, true));
        if !["--data", "--out"].contains(&option) {
            command.push(' ');
            command.push_str(&word);
        } else if !has_value {
            words.next();
        }
    }
    command
}

/// The median; the mean of the middle two of an even number.
fn median(mut figures: Vec<f64>) -> Option<f64> {
    figures.sort_by(f64::total_cmp);
    let middle = figures.len() / 2;
    match figures.len() {
        0 => None,
        odd if odd % 2 == 1 => Some(figures[middle]),
        _ => Some((figures[middle - 1] + figures[middle]) / 2.0),
    }
}

#[cfg(test)]
mod tests {
    use super::{command, median};

    #[test]
    fn the_command_of_a_report_has_no_folders() {
        let words = "--seconds 3 --data /a --out=/b --quick".split(' ').map(str::to_owned);
        assert_eq!(command(words), "ensile-peers --seconds 3 --quick");
    }

    #[test]
    fn the_median_of_an_even_number_is_the_mean_of_the_middle_two() {
        assert_eq!(median(vec![9.0, 1.0, 4.0, 2.0]), Some(3.0));
        assert_eq!(median(vec![9.0, 1.0, 4.0]), Some(4.0));
        assert_eq!(median(Vec::new()), None);
    }
}
