//! The average, by windows of numbers.

use super::{AdaptiveThreshold, LoadAverage};

const SECOND: u64 = 1_000_000_000;

fn terms() -> AdaptiveThreshold {
    AdaptiveThreshold::of_capacity(1000)
}

/// The load after windows of 5 s in which so much a second was counted.
fn after(rates: &[u64]) -> f64 {
    let (mut average, mut now, mut counted) = (LoadAverage::new(7, 50), 7, 50);
    for rate in rates {
        (now, counted) = (now + 5 * SECOND, counted + 5 * rate);
        average.observe(now, counted, &terms());
    }
    average.load()
}

fn assert_near(found: f64, expected: f64) {
    assert!((found - expected).abs() < 1e-9, "{found}, and not {expected}");
}

#[test]
fn it_is_the_papers_average() {
    assert_near(after(&[]), 0.0);
    assert_near(after(&[500]), 0.5);
    assert_near(after(&[500, 1000]), 0.8 * 0.5 + 0.2);
    assert_near(after(&[500, 1000, 0]), 0.8 * (0.8 * 0.5 + 0.2));
}

#[test]
fn a_window_that_is_not_over_changes_nothing() {
    let mut average = LoadAverage::new(0, 0);
    average.observe(5 * SECOND - 1, 1_000_000, &terms());
    assert_near(average.load(), 0.0);
    average.observe(5 * SECOND, 5 * 1000, &terms());
    assert_near(average.load(), 1.0);
}

#[test]
fn who_looks_seldom_sees_the_same() {
    let mut seldom = LoadAverage::new(0, 0);
    seldom.observe(5 * SECOND, 5 * 200, &terms());
    seldom.observe(20 * SECOND, 5 * 200 + 15 * 800, &terms());
    assert_near(seldom.load(), after(&[200, 800, 800, 800]));
}
