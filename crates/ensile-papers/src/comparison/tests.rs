//! A row is held only if both sides did comparable work.
//!
//! Neighbours: [`super`].

use super::{Comparison, Verdict};

fn comparison() -> Comparison<'static> {
    Comparison::of(["ours", "theirs"])
}

fn reason(verdict: Verdict) -> String {
    let Verdict::NotComparable(reason) = verdict else { panic!("{verdict}") };
    reason
}

#[test]
fn sides_that_did_the_same_work_are_held_by_the_value_alone() {
    for (holds, verdict) in [(true, Verdict::Held), (false, Verdict::NotHeld)] {
        let same = comparison().each_at_least("checkpoints", [3.0, 4.0], 3.0);
        let same = same.alike("checkpoints a minute", [30.0, 20.0], 1.5).only_if(true, "never");
        assert_eq!(same.verdict(holds), verdict);
    }
}

#[test]
fn a_side_that_did_too_little_makes_no_value_held() {
    for (work, side) in [([0.0, 513_415.0], "ours"), ([5.0, 2.0], "theirs"), ([f64::NAN, 9.0], "ours")] {
        let reason = reason(comparison().each_at_least("checkpoints", work, 3.0).verdict(true));
        assert!(reason.starts_with(side) && reason.ends_with("at least 3 are needed"), "{reason}");
    }
}

#[test]
fn unlike_work_is_not_comparable_whichever_side_did_more() {
    for work in [[3.0, 513_415.0], [513_415.0, 3.0], [0.0, 1.0], [f64::NAN, 1.0]] {
        let reason = reason(comparison().alike("checkpoints a minute", work, 1.5).verdict(true));
        assert!(reason.contains("at most 1.5 times as many"), "{reason}");
    }
}

#[test]
fn every_reason_is_given() {
    let both = comparison().only_if(false, "nothing was lost").each_at_least("requests", [1.0, 0.0], 1.0);
    assert_eq!(reason(both.verdict(false)), "nothing was lost; theirs has 0 requests, at least 1 are needed");
}
