//! What is asked for at each size, and which keys there are.

use clap::Parser;

use super::keys::{DrawnKeys, mixed};
use super::sides::Answer;
use super::{Measured, has_enough, judge, name_of, rows_of};
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

/// Three rounds of a second, which log 100 MB and find all pages.
fn answers(rate: f64) -> Vec<Answer> {
    let answer = Answer { rate, seconds: 1.0, pages: [9_995.0, 5.0], log_bytes: 1e8, ..Answer::default() };
    vec![answer; 3]
}

/// The same with three checkpoints of 20 MB a run.
fn with_checkpoints(rate: f64) -> Vec<Answer> {
    let made = |answer| Answer { checkpoints: 3.0, checkpoint_seconds: 0.3, checkpoint_bytes: 6e7, ..answer };
    answers(rate).into_iter().map(made).collect()
}

/// A table that reaches, or just misses, all that is asked for at 100 bytes.
fn measured(share: f64) -> Measured {
    Measured {
        lookups: [answers(400.0 * share), answers(100.0)],
        many: answers(1_000.0 * share),
        updates: [answers(400.0 * share), answers(100.0)],
        with_checkpoints: [with_checkpoints(400.0 * share * 0.96), with_checkpoints(80.0)],
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
    large.with_checkpoints[0] = with_checkpoints(360.0);
    judge(&mut asked, &arguments(""), (100, 1_000), &large);
    let (said, holds) = asked.told();
    let loss = "Berkeley DB's 20.0 % to 9, PHT's to 9: 10 %, asked <= 5 %: NOT HELD";
    assert!(!holds && said.contains(loss), "{said}");
}

/// The lines of a table that reaches all, once its answers are changed.
fn judged_with(change: impl FnOnce(&mut Measured)) -> String {
    let mut measured = measured(1.0);
    change(&mut measured);
    let mut asked = Asked::new();
    judge(&mut asked, &arguments(""), (100, 1_000), &measured);
    let (said, holds) = asked.told();
    assert!(!holds, "{said}");
    said
}

#[test]
fn a_loss_is_not_comparable_if_one_side_made_other_checkpoints() {
    let loss = |change: &dyn Fn(&mut Answer), side: usize| {
        let said = judged_with(|measured| measured.with_checkpoints[side].iter_mut().for_each(change));
        said.lines().find(|line| line.contains("lost to checkpoints")).expect("it is judged").to_owned()
    };
    for (change, side, reason) in [
        (&|answer: &mut Answer| answer.checkpoints = 0.0, 0, "PHT has 0 checkpoints in a run"),
        (&|answer: &mut Answer| answer.checkpoints = 8_557.0, 1, "Berkeley DB 513,420"),
        (&|answer: &mut Answer| answer.checkpoint_bytes = 0.0, 1, "Berkeley DB has 0 bytes of checkpoints"),
        (&|answer: &mut Answer| answer.rate = 101.0, 1, "Berkeley DB lost nothing"),
    ] as [(&dyn Fn(&mut Answer), usize, &str); 4]
    {
        let line = loss(change, side);
        assert!(line.contains("NOT COMPARABLE: ") && line.contains(reason), "{line}");
    }
}

#[test]
fn lookups_are_not_comparable_if_berkeley_db_reads_its_files() {
    let said =
        judged_with(|measured| measured.lookups[1][..2].iter_mut().for_each(|one| one.pages = [9.0, 1.0]));
    let reason = "NOT COMPARABLE: Berkeley DB found 90.0 % of its pages in its cache";
    assert_eq!(said.matches(reason).count(), 2, "single and multi-gets: {said}");
}

#[test]
fn a_run_with_fewer_than_three_checkpoints_is_an_error() {
    let run = |checkpoints| Answer { checkpoints, seconds: 601.0, ..Answer::default() };
    assert!(has_enough("PHT", &run(3.0)).is_ok());
    let refused = has_enough("PHT", &run(2.0)).expect_err("two are too few").to_string();
    assert!(refused.contains("PHT: 2 checkpoints ended in 601 s, at least 3 are needed"), "{refused}");
}

#[test]
fn every_row_stands_at_its_size() {
    let rows = rows_of(&name_of(1_024), &measured(1.0));
    assert!(rows.iter().all(|row| row.place.to_string() == "1 KB" && row.median.is_finite()));
    let of = |system: &str, unit: &str| {
        rows.iter().find(|row| row.system == system && row.unit == unit).map(|row| row.median.round() as u64)
    };
    for (system, loss) in [("PHT, checkpoints", 4), ("Berkeley DB, checkpoints", 20)] {
        assert_eq!(of(system, "%"), Some(loss));
        assert_eq!(of(system, "in a run"), Some(3), "both counts stand in the files");
    }
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
