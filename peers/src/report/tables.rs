//! The tables of a report: ratios at a glance, then every figure.
//!
//! A cell has one figure. A line without a figure has a reason.

use std::fmt::Write as _;

use super::{Line, Report};
use crate::store::Peer;
use crate::workload::{Better, Workload};

impl Report {
    /// The two tables, with the command and the machine above.
    pub(crate) fn markdown(&self) -> String {
        let mut text = format!(
            "`{}`\n\n{}\n\n{} rows of 8 + 100 bytes; rounds: {}; seconds for a workload: {}. Load average at the start \
             of the rounds: {}.\n\n{}\n{}",
            self.command,
            self.machine.line(),
            grouped(&self.rows.to_string()),
            self.rounds,
            self.seconds,
            self.load_averages.join(", "),
            self.ratios(),
            self.figures(),
        );
        let reasons = self.lines.iter().filter_map(|line| Some((line, line.reason.as_ref()?)));
        for (line, reason) in reasons {
            let _ = write!(text, "\n{}, {}: {reason}.\n", line.system.title(), line.workload.title());
        }
        text
    }

    /// Ensile's advantage over each system.
    fn ratios(&self) -> String {
        let others: Vec<_> =
            self.systems.iter().map(|system| system.peer).filter(|peer| *peer != Peer::Ensile).collect();
        let mut text = "| Ensile is better by a factor of | Ensile |".to_owned();
        for peer in &others {
            let _ = write!(text, " {} |", peer.title());
        }
        let _ = write!(text, "\n|---|--:|{}\n", "--:|".repeat(others.len()));
        for workload in self.workloads() {
            let ensile = self.line(workload, Peer::Ensile);
            let _ = write!(text, "| {} | {} {} |", workload.title(), cell(ensile), workload.unit());
            for peer in &others {
                let _ = write!(text, " {} |", advantage(self.line(workload, *peer)));
            }
            text.push('\n');
        }
        text
    }

    /// Every figure, a line for a figure.
    fn figures(&self) -> String {
        let mut text = "| workload | system | figure | unit | better | ratio to Ensile | least | most |\n\
                        |---|---|--:|---|---|--:|--:|--:|\n"
            .to_owned();
        for line in &self.lines {
            let [least, most] = spread(line).map(|figure| figure.map_or_else(String::new, rounded));
            let _ = writeln!(
                text,
                "| {} | {} | {} | {} | {} | {} | {least} | {most} |",
                line.workload.title(),
                line.system.title(),
                cell(Some(line)),
                line.unit,
                line.better.word(),
                line.ratio_to_ensile.map_or_else(|| "none".to_owned(), ratio),
            );
        }
        text
    }

    /// Every figure as comma-separated values.
    pub(crate) fn csv(&self) -> String {
        let mut text = "workload,system,value,unit,better,ratio_to_ensile,least,most,reason\n".to_owned();
        let number = |figure: Option<f64>| figure.map_or_else(String::new, |figure| figure.to_string());
        for line in &self.lines {
            let [least, most] = spread(line).map(number);
            let _ = writeln!(
                text,
                "{},{},{},{},{},{},{least},{most},{}",
                line.workload.name(),
                line.system,
                number(line.value),
                line.unit,
                line.better.word(),
                number(line.ratio_to_ensile),
                line.reason.as_ref().map_or_else(String::new, |reason| format!("\"{reason}\"")),
            );
        }
        text
    }

    fn workloads(&self) -> impl Iterator<Item = Workload> {
        Workload::ALL.into_iter().filter(|workload| self.line(*workload, Peer::Ensile).is_some())
    }

    fn line(&self, workload: Workload, system: Peer) -> Option<&Line> {
        self.lines.iter().find(|line| line.workload == workload && line.system == system)
    }
}

/// Factor by which Ensile is better: below one where Ensile is worse.
fn advantage(line: Option<&Line>) -> String {
    let better = line.and_then(|line| {
        Some(match line.better {
            Better::Higher => 1.0 / line.ratio_to_ensile?,
            Better::Lower => line.ratio_to_ensile?,
        })
    });
    better.map_or_else(|| "none".to_owned(), ratio)
}

fn cell(line: Option<&Line>) -> String {
    line.and_then(|line| line.value).map_or_else(|| "none".to_owned(), rounded)
}

/// Least and greatest figure of the rounds.
fn spread(line: &Line) -> [Option<f64>; 2] {
    [line.rounds.iter().copied().reduce(f64::min), line.rounds.iter().copied().reduce(f64::max)]
}

/// A figure of three digits or more, with commas.
pub(crate) fn rounded(figure: f64) -> String {
    let digits = digits_before_point(figure);
    if digits <= 3 {
        return format!("{figure:.*}", 3 - digits);
    }
    let unit = 10f64.powi(digits as i32 - 3);
    grouped(&format!("{:.0}", (figure / unit).round() * unit))
}

/// A ratio of three digits, with at most two digits behind the point. A very small ratio has two digits.
fn ratio(ratio: f64) -> String {
    if ratio > 0.0 && ratio < 0.1 {
        let zeros = -ratio.log10().floor() as usize;
        return format!("{ratio:.*}", zeros + 1);
    }
    format!("{ratio:.*}", (3 - digits_before_point(ratio).min(3)).min(2))
}

fn digits_before_point(figure: f64) -> usize {
    format!("{figure:.0}").len()
}

fn grouped(digits: &str) -> String {
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{ratio, rounded};

    #[test]
    fn a_figure_has_three_digits() {
        let texts = [1.2345, 12.345, 123.45, 999.6, 1_234_567.0].map(rounded);
        assert_eq!(texts, ["1.23", "12.3", "123", "1,000", "1,230,000"]);
    }

    #[test]
    fn a_ratio_has_two_digits_at_least() {
        let texts = [0.00251, 0.0312, 0.945, 1.234, 12.34, 1234.5].map(ratio);
        assert_eq!(texts, ["0.0025", "0.031", "0.94", "1.23", "12.3", "1234"]);
    }
}
