//! What is asked for at each size, and which keys there are.

use clap::Parser;

use super::keys::{DrawnKeys, mixed};
use super::sides::Answer;
use super::{Measured, judge, name_of, rows_of};
use crate::slach::arguments::SlachArguments;
use crate::slach::asked::Asked;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    slach: SlachArguments,
}

fn arguments(line: &str) -> SlachArguments {
    Line::parse_from(["slach", "berkeley"].into_iter().chain(line.split_whitespace())).slach
}

fn answers(rate: f64, besides: [f64; 2]) -> Vec<Answer> {
    vec![Answer { rate, seconds: 1.0, checkpoints: 2.0, besides }; 3]
}

/// A table that reaches, or just misses, all that is asked for at 100 bytes.
fn measured(share: f64) -> Measured {
    Measured {
        lookups: [answers(400.0 * share, [0.0; 2]), answers(100.0, [9_995.0, 5.0])],
        many: answers(1_000.0 * share, [0.0; 2]),
        updates: [answers(400.0 * share, [0.0, 1e8]), answers(100.0, [0.0; 2])],
        with_checkpoints: [answers(400.0 * share * 0.96, [2e8, 0.0]), answers(80.0, [0.0; 2])],
        device: vec![100.0; 3],
        memory: [(1_600_000_000, 1_000_000_000); 2],
    }
}

#[test]
fn each_ratio_is_held_against_its_limit() {
    let arguments = arguments("");
    for (size, share, misses) in
        [(100, 1.0, 0), (100, 0.99, 3), (1_024, 0.9, 0), (1_024, 0.5, 2), (10_240, 0.5, 0)]
    {
        let mut asked = Asked::new();
        judge(&mut asked, &arguments, (size, 1_000), &measured(share));
        let (said, holds) = asked.told();
        assert_eq!(said.matches("NOT HELD").count(), misses, "{size}, {share}: {said}");
        assert_eq!(holds, misses == 0, "{said}");
    }
}

#[test]
fn a_loss_is_held_against_a_quarter_of_the_others() {
    let mut asked = Asked::new();
    let mut large = measured(1.0);
    // A tenth is more than a quarter of a fifth.
    large.with_checkpoints[0] = answers(360.0, [0.0; 2]);
    judge(&mut asked, &arguments(""), (100, 1_000), &large);
    let (said, holds) = asked.told();
    assert!(!holds && said.contains("Berkeley DB's 20.0 %, PHT's: 10 %, asked <= 5 %: NOT HELD"), "{said}");
}

#[test]
fn every_row_stands_at_its_size() {
    let rows = rows_of(&name_of(1_024), &measured(1.0));
    assert!(rows.iter().all(|row| row.place.to_string() == "1 KB" && row.median.is_finite()));
    let loss = |system: &str| {
        rows.iter().find(|row| row.system == system && row.unit == "%").map(|row| row.median.round() as u64)
    };
    assert_eq!((loss("PHT, checkpoints"), loss("Berkeley DB, checkpoints")), (Some(4), Some(20)));
}

#[test]
fn keys_are_as_many_as_fit_the_cache_or_as_are_asked_for() {
    let of = |line: &str| arguments(line).berkeley.tables();
    let fitting = of("").expect("four sizes");
    assert_eq!(fitting, [(30, 20_000_000), (100, 8_000_000), (1_024, 900_000), (10_240, 40_000)]);
    assert_eq!(of("--sizes 30 --cache-mb 768").expect("half of it"), [(30, 10_000_000)]);
    assert_eq!(of("--sizes 7,30 --keys 5,6").expect("as asked"), [(7, 5), (30, 6)]);
    assert!(of("--sizes 7,30 --keys 5").is_err() && of("--sizes 7").is_err());
}

#[test]
fn drawn_keys_are_those_that_were_loaded() {
    let loaded: std::collections::HashSet<u64> = (0..100).map(mixed).collect();
    assert_eq!(loaded.len(), 100, "no two are the same");
    let mut drawn = DrawnKeys::new(1, 100);
    let called: std::collections::HashSet<u64> = (0..10_000).map(|_| drawn.next_key()).collect();
    assert_eq!(called, loaded);
}
