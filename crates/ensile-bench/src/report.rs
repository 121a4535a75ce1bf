//! Figures from rounds: one JSON document for programs, a table with ratios for people, progress lines for the
//! impatient.
//!
//! Invariants:
//! - Every figure is the median over the rounds, with the spread beside the median.
//! - A ratio between two systems is the median of the ratios within each round: the systems of a round ran one after
//!   the other, so slow noise cancels.
//!
//! Neighbours: rounds come from [`crate::driver`], the machine from [`crate::machine`].

use std::fmt::Write as _;

use serde::Serialize;

use crate::driver::Round;
use crate::machine::Machine;
use crate::number::{grouped, median};

/// A latency distribution in microseconds.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Latency {
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    pub(crate) p999: f64,
}

/// The figures of one system.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Outcome {
    pub(crate) system: String,
    pub(crate) threads: usize,
    pub(crate) batch: usize,
    pub(crate) durable: bool,
    pub(crate) txn_per_s: f64,
    pub(crate) txn_per_s_min: f64,
    pub(crate) txn_per_s_max: f64,
    pub(crate) abort_rate: f64,
    pub(crate) latency_us: Latency,
    pub(crate) records: u64,
    pub(crate) rss_bytes: u64,
    /// Rates by round, for the ratios; programs get the median and the spread.
    #[serde(skip)]
    pub(crate) rates: Vec<f64>,
}

/// Facts of a system beside its rounds.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    pub(crate) system: &'static str,
    pub(crate) threads: usize,
    pub(crate) batch: usize,
    pub(crate) durable: bool,
    pub(crate) records: u64,
    pub(crate) rss_bytes: u64,
}

impl Outcome {
    /// The medians of `rounds`, at least one round.
    pub(crate) fn new(facts: &Facts, rounds: &[Round]) -> Self {
        let rates: Vec<f64> = rounds.iter().map(Round::rate).collect();
        let quantile =
            |q: f64| median(rounds.iter().map(|r| r.latencies.value_at_quantile(q) as f64 / 1e3).collect());
        Self {
            system: facts.system.to_owned(),
            threads: facts.threads,
            batch: facts.batch,
            durable: facts.durable,
            txn_per_s: median(rates.clone()),
            txn_per_s_min: rates.iter().copied().fold(f64::INFINITY, f64::min),
            txn_per_s_max: rates.iter().copied().fold(0.0, f64::max),
            abort_rate: median(rounds.iter().map(Round::abort_rate).collect()),
            latency_us: Latency { p50: quantile(0.5), p99: quantile(0.99), p999: quantile(0.999) },
            records: facts.records,
            rss_bytes: facts.rss_bytes,
            rates,
        }
    }
}

/// The results of one run.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) machine: Machine,
    pub(crate) results: Vec<Outcome>,
}

impl Report {
    /// The JSON document.
    pub(crate) fn json(&self) -> String {
        serde_json::to_string_pretty(&self).expect("plain numbers and strings serialize")
    }

    /// The table for people, headed by `title`.
    pub(crate) fn table(&self, title: &str) -> String {
        let mut text = format!("{title}\n{}\n\n", self.machine.line());
        let widest = self.results.iter().map(|result| result.system.len()).max().unwrap_or(6).max(6);
        let _ = writeln!(
            text,
            "{:widest$}  {:>7}  {:>5}  {:>11}  {:>23}  {:>7}  {:>9}  {:>9}  {:>9}  {:>9}  {:>8}",
            "system",
            "threads",
            "batch",
            "txn/s",
            "(min .. max)",
            "aborts",
            "p50 us",
            "p99 us",
            "p99.9 us",
            "counted",
            "B/record",
        );
        for result in &self.results {
            let spread = format!("({} .. {})", grouped(result.txn_per_s_min), grouped(result.txn_per_s_max));
            let _ = writeln!(
                text,
                "{:widest$}  {:>7}  {:>5}  {:>11}  {spread:>23}  {:>6.2}%  {:>9.1}  {:>9.1}  {:>9.1}  {:>9}  {:>8.1}",
                result.system,
                result.threads,
                result.batch,
                grouped(result.txn_per_s),
                result.abort_rate * 100.0,
                result.latency_us.p50,
                result.latency_us.p99,
                result.latency_us.p999,
                if result.durable { "durable" } else { "committed" },
                result.rss_bytes as f64 / result.records.max(1) as f64,
            );
        }
        text.push_str(&self.ratios());
        text
    }

    /// One line for each pair of systems.
    fn ratios(&self) -> String {
        let mut text = String::new();
        for (index, left) in self.results.iter().enumerate() {
            for right in &self.results[index + 1..] {
                let ratios: Vec<f64> =
                    left.rates.iter().zip(&right.rates).map(|(l, r)| l / r.max(f64::MIN_POSITIVE)).collect();
                let least = ratios.iter().copied().fold(f64::INFINITY, f64::min);
                let most = ratios.iter().copied().fold(0.0, f64::max);
                let (name, other) = (&left.system, &right.system);
                let _ = writeln!(
                    text,
                    "{}{name} / {other}: {:.3}  ({least:.3} .. {most:.3})",
                    if text.is_empty() { "\n" } else { "" },
                    median(ratios),
                );
            }
        }
        text
    }
}

#[cfg(test)]
mod tests;
