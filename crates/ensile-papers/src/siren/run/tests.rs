//! What is worked out of samples.
//!
//! Neighbours: [`super`].

use super::{Choice, Run, Sample, Setup, Strategy, greatest_common_divisor};

/// Ten seconds of 100 looks each second; `versions` were displaced at each of them.
fn run(versions: impl Fn(u64) -> u64) -> Run {
    let setup = Setup {
        strategy: Strategy::Lists,
        on_slow_device: false,
        choice: Choice::Uniform,
        updates_per_s: 1_000,
        seed: 1,
    };
    let samples = (0..=1_000).map(|look| Sample {
        second: 5.0 + look as f64 / 100.0,
        displaced_bytes: versions(look) * 352,
        resident_bytes: 1 << 20 | look,
        updates: 5_000 + look * 10,
        touched: 4_000 + look * 5,
        written: look.clamp(100, 900) * 10 - 1_000,
    });
    Run {
        setup,
        rows: 8_000,
        samples: samples.collect(),
        memory_bytes: 1 << 20,
        displaced_peak: (0..=1_000).map(&versions).max().unwrap_or_default() * 352,
        report: None,
    }
}

#[test]
fn the_rate_that_was_held_is_that_of_the_whole_picture() {
    let run = run(|look| look);
    assert_eq!((run.updates(), run.seconds()), (10_000, 10.0));
    assert!((run.updates_per_s() - 1_000.0).abs() < 1e-9 && run.off_percent().abs() < 1e-9);
    assert!(run.off_percent_at_worst().abs() < 1e-9);
    assert_eq!(run.resident_extra(), 1_000);
    let walk = run.walk().map(|(first, last)| (first.second, last.second));
    assert_eq!(walk, Some((6.01, 14.0)), "from the first entry to the last");
    assert!(run.rates().is_none(), "a picture that was given up has no rate");
}

#[test]
fn a_stall_that_was_made_up_for_shows_in_its_tenth() {
    let mut run = run(|look| look);
    for sample in &mut run.samples[300..350] {
        sample.updates = 5_000 + 3_000;
    }
    assert!(run.off_percent().abs() < 1e-9, "the whole time knows nothing of it");
    assert!(run.off_percent_at_worst().abs() < 1e-9, "nor does a tenth, if it is made up for there");
    for sample in &mut run.samples[300..420] {
        sample.updates = 5_000 + 3_000;
    }
    assert!((run.off_percent_at_worst().abs() - 100.0).abs() < 1e-6, "{}", run.off_percent_at_worst());
}

#[test]
fn what_one_version_takes_is_what_divides_all_that_was_seen() {
    assert_eq!(run(|look| look * 3 + look % 7).version_bytes(), Some(352));
    assert_eq!(run(|_| 0).version_bytes(), None, "nothing was displaced");
    assert_eq!(run(|look| look % 4 * 2).version_bytes(), None, "that could be twice as much");
    assert_eq!(greatest_common_divisor(0, 12), 12);
}

#[test]
fn more_versions_than_rows_were_updated_are_seen_at_any_moment() {
    assert_eq!(run(|look| 4_000 + look * 5).has_one_version_a_row(), Some(true), "each row, once");
    let one_too_many = |look| 4_000 + look * 5 - if look == 500 { 0 } else { 3_000 } + u64::from(look == 500);
    assert_eq!(run(one_too_many).has_one_version_a_row(), Some(false));
    assert_eq!(run(|_| 0).has_one_version_a_row(), None);
}
