//! The shape of the JSON that programs read, and the arithmetic of medians and ratios.
//!
//! Neighbours: [`super`].

use super::{Facts, Outcome, Report, grouped, median};
use crate::driver::Round;
use crate::machine::Machine;
use crate::tally::new_histogram;

fn round(transactions: u64) -> Round {
    let mut latencies = new_histogram();
    latencies.record(2_000).expect("within bounds");
    Round { seconds: 2.0, transactions, attempts: transactions, conflicts: transactions / 10, latencies }
}

fn outcome(system: &'static str, counts: &[u64]) -> Outcome {
    let rounds: Vec<Round> = counts.iter().map(|&count| round(count)).collect();
    let facts = Facts { system, threads: 1, batch: 16, durable: false, records: 10, rss_bytes: 1_500 };
    Outcome::new(&facts, &rounds)
}

#[test]
fn medians_ignore_the_odd_round() {
    assert_eq!(median(vec![3.0, 1.0, 1000.0]), 3.0);
    assert_eq!(median(vec![4.0, 2.0]), 3.0);
    let outcome = outcome("memsilo", &[200, 2, 400]);
    assert_eq!((outcome.txn_per_s, outcome.txn_per_s_min, outcome.txn_per_s_max), (100.0, 1.0, 200.0));
    assert!((outcome.abort_rate - 0.1).abs() < 0.01);
}

#[test]
fn the_json_document_has_the_promised_fields() {
    let report = Report { machine: Machine::look(), results: vec![outcome("memsilo", &[200])] };
    let json: serde_json::Value = serde_json::from_str(&report.json()).expect("it is JSON");
    assert!(json["machine"].is_object());
    let result = json["results"][0].as_object().expect("an object");
    let fields: Vec<&str> = result.keys().map(String::as_str).collect();
    let mut promised = [
        "system",
        "threads",
        "batch",
        "durable",
        "txn_per_s",
        "txn_per_s_min",
        "txn_per_s_max",
        "abort_rate",
        "latency_us",
        "records",
        "rss_bytes",
    ];
    promised.sort_unstable();
    assert_eq!(fields, promised, "serde_json's map is sorted");
    for quantile in ["p50", "p99", "p999"] {
        assert!((result["latency_us"][quantile].as_f64().expect("a number") - 2.0).abs() < 0.01);
    }
}

#[test]
fn ratios_are_taken_within_rounds() {
    let report = Report {
        machine: Machine::look(),
        // The machine is three times slower in the second round, for both.
        results: vec![outcome("a", &[300, 100, 300]), outcome("b", &[150, 50, 151])],
    };
    let table = report.table("a title");
    assert!(table.starts_with("a title\n"));
    assert!(table.contains("a / b: 2.000  (1.987 .. 2.000)"), "{table}");
}

#[test]
fn thousands_stand_apart() {
    assert_eq!(grouped(1_234_567.4), "1,234,567");
    assert_eq!(grouped(999.0), "999");
}
