//! Sides, verdicts and objects of the adaptive experiment.
//!
//! Neighbours: [`super`].

use super::{ADAPTIVE, LARGEST, Measured, NONE, Point, Policy, SERVICES, SMALLEST, judge};
use crate::slach::asked::Asked;

fn point(policy: usize, load: u32, replay_ms: f64, loss_percent: f64) -> Point {
    let work = Measured { installed: 3, requests: 1e6, ..Measured::default() };
    Point { policy, load, measured: vec![Measured { replay_ms, loss_percent, ..work }] }
}

/// Policies at a load below and one above the watermarks; the adaptive one has this replay and this loss.
fn points([replay_ms, loss_percent]: [f64; 2], quiet: u32) -> Vec<Point> {
    vec![
        point(NONE, quiet, 0.0, 0.0),
        point(SMALLEST, quiet, 100.0, 0.0),
        point(LARGEST, quiet, 800.0, 0.0),
        point(ADAPTIVE, quiet, replay_ms, 0.0),
        point(NONE, 90, 0.0, 0.1),
        point(SMALLEST, 90, 100.0, 9.0),
        point(LARGEST, 90, 800.0, 6.0),
        point(ADAPTIVE, 90, 800.0, loss_percent),
    ]
}

fn judged(points: &[Point]) -> (String, bool) {
    let [ups, _] = SERVICES;
    let mut asked = Asked::new();
    judge(&mut asked, &ups, &ups.policies(1_000, 1.0), points);
    asked.told()
}

#[test]
fn below_the_low_watermark_replay_is_asked_for_and_above_the_high_one_loss() {
    for (adaptive, quiet, holds) in [
        ([110.0, 7.0], 20, true),
        ([111.0, 6.0], 20, false),
        ([90.0, 7.1], 20, false),
        // Between the watermarks nothing is asked for.
        ([500.0, 7.0], 50, true),
    ] {
        let (said, found) = judged(&points(adaptive, quiet));
        assert_eq!(found, holds, "{said}");
    }
}

/// The line of the loss above the high watermark, once a policy's runs there are changed.
fn loss_line(policy: usize, change: impl Fn(&mut Measured)) -> String {
    let mut points = points([100.0, 6.0], 20);
    let high = points.iter_mut().filter(|point| (point.policy, point.load) == (policy, 90));
    high.flat_map(|point| &mut point.measured).for_each(change);
    let (said, holds) = judged(&points);
    assert!(!holds, "{said}");
    said.lines().find(|line| line.contains("90 %: loss")).expect("it is judged").to_owned()
}

#[test]
fn nothing_beside_nothing_is_no_loss_that_is_held() {
    let line = loss_line(LARGEST, |measured| measured.loss_percent = 0.0);
    let reason = "NOT COMPARABLE: UPS, fixed 8,000,000 lost 0.00 %, at least 5 % are needed";
    assert!(line.contains(reason), "{line}");
}

#[test]
fn a_loss_without_checkpoints_is_none_of_a_policy() {
    let line = loss_line(NONE, |measured| measured.loss_percent = 4.0);
    assert!(line.contains("NOT COMPARABLE: without checkpoints 4.00 % are lost, too"), "{line}");
}

#[test]
fn sides_with_other_checkpoints_or_requests_are_not_comparable() {
    let few = loss_line(ADAPTIVE, |measured| measured.installed = 2);
    assert!(few.contains("UPS, adaptive has 2 checkpoints in a run, at least 3 are needed"), "{few}");
    let other = loss_line(ADAPTIVE, |measured| measured.requests = 0.9e6);
    assert!(other.contains("NOT COMPARABLE: UPS, adaptive has 900,000 requests a second"), "{other}");
}

#[test]
fn a_share_of_a_policy_has_a_share_of_its_thresholds_and_a_second_of_window_at_least() {
    let [ups, _] = SERVICES;
    let [none, small, .., adaptive] = ups.policies(1_000, 0.1);
    assert_eq!((none, small), (Policy::Never, Policy::Fixed(100_000)));
    assert_eq!(small.name(&ups), "UPS, fixed 100,000", "the threshold that it has, not the paper's");
    let Policy::Adaptive(terms) = adaptive else { panic!("it is") };
    assert_eq!((terms.lower, terms.upper, terms.window.as_millis()), (100_000, 800_000, 1_000));
    assert_eq!((terms.capacity, terms.low_watermark), (1_000, 20));
}
