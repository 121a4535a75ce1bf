//! The formulas against the paper's table 3, which was worked out with table 2's typical values.
//!
//! Neighbours: [`super`].

use super::{Rates, peak_share};

/// Table 2: tuples a page, and tuples a second that are written.
const TUPLES_PER_PAGE: f64 = 38.0;
const WRITTEN_PER_S: f64 = 70_000.0;

fn rates(updated_per_s: f64) -> Rates {
    Rates { tuples: 2e9 / 300.0, written_per_s: WRITTEN_PER_S, updated_per_s }
}

fn percent(updated_per_s: f64, together: f64) -> f64 {
    peak_share(&[rates(updated_per_s)], together) * 100.0
}

#[test]
fn siren_is_as_table_3_says_to_its_last_digit() {
    for (updated_per_s, paper, digit) in [
        (100e3, 26.0, 1.0),
        (50e3, 15.0, 1.0),
        (20e3, 6.7, 0.1),
        (10e3, 3.5, 0.1),
        (5e3, 1.8, 0.1),
        (2e3, 0.7, 0.1),
    ] {
        let ours = percent(updated_per_s, 1.0);
        assert!((ours - paper).abs() <= digit / 2.0 + 0.01, "{updated_per_s}: {ours}, in the paper {paper}");
    }
}

/// The paper's column is not quite what its formula gives with table 2's values: 92, 85, 71 and 57 % are 90.9, 84.6,
/// 70.9 and 56.3 here. No number of tuples a page gives all four.
#[test]
fn copy_on_update_is_within_a_hundredth_and_a_bit_of_table_3() {
    for (updated_per_s, paper, formula) in
        [(100e3, 92.0, 90.94), (50e3, 85.0, 84.62), (20e3, 71.0, 70.92), (10e3, 57.0, 56.29)]
    {
        let ours = percent(updated_per_s, TUPLES_PER_PAGE);
        assert!((ours - formula).abs() < 0.005, "{updated_per_s}: {ours}, worked out by hand {formula}");
        assert!((ours - paper).abs() < 1.1, "{updated_per_s}: {ours}, in the paper {paper}");
    }
}

#[test]
fn the_share_depends_on_the_ratio_of_the_rates_only() {
    let small = Rates { tuples: 1e6, written_per_s: 7e3, updated_per_s: 10e3 };
    let difference = peak_share(&[small], 1.0) - peak_share(&[rates(100e3)], 1.0);
    assert!(difference.abs() < 1e-6, "{difference}");
}

#[test]
fn nothing_is_there_twice_at_the_freeze_and_at_the_end() {
    let rates = rates(100e3);
    for together in [1.0, TUPLES_PER_PAGE, rates.tuples] {
        for seconds in [0.0, rates.seconds(), 2.0 * rates.seconds()] {
            assert_eq!(rates.duplicates(together, seconds), 0.0, "{together} at {seconds}");
        }
        let middle = rates.duplicates(together, rates.seconds() / 2.0);
        assert!(middle > 0.0 && middle <= rates.tuples / 2.0, "{together}: {middle}");
    }
}

#[test]
fn how_fast_it_was_does_not_matter_once_it_is_done() {
    let rates = rates(50e3);
    let (steady, after) = (rates.duplicates(1.0, 20.0), rates.duplicates_after(1.0, 0.21, 1e6));
    assert!((steady - after).abs() < 1e-6 * steady, "{steady} {after}");
}

#[test]
fn skewed_updates_are_even_ones_where_the_skew_is_none() {
    let rates = rates(50e3);
    let even = peak_share(&[rates], 1.0);
    assert!((peak_share(&rates.skewed(0.3, 0.3), 1.0) - even).abs() < 1e-6);
    // 99 % of the updates meet 1 % of the tuples: those are soon there twice, all of them, and the others hardly ever.
    let skewed = peak_share(&rates.skewed(0.99, 0.01), 1.0);
    assert!(skewed > 0.009 && skewed < 0.0125 && skewed < even, "{skewed}");
}
