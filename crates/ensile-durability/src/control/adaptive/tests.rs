//! The formula, with the parameters of the paper, and what is refused.

use super::*;

const M: u64 = 1_000_000;

/// Those of the paper's table 3, for UPS and HIS, with the capacities of its table 2.
fn services() -> [AdaptiveThreshold; 2] {
    [AdaptiveThreshold::of_ups(56_000), AdaptiveThreshold::of_his(15_000)]
}

#[test]
fn the_threshold_is_the_papers_formula_with_the_parameters_of_table_3() {
    let [ups, his] = services();
    let of = |service: AdaptiveThreshold| {
        let AdaptiveThreshold {
            lower, upper, low_watermark, high_watermark, scaling, weight, window, ..
        } = service;
        assert_eq!((service.measure, window), (ThresholdMeasure::Records, Duration::from_secs(5)));
        (weight, upper, lower, high_watermark, low_watermark, scaling)
    };
    assert_eq!(of(ups), (80, 8 * M, M, 85, 20, 3));
    assert_eq!(of(his), (80, 1_800_000, 300_000, 85, 35, 6));
    let [ups, his] = services();
    for (of, load, expected) in [
        (ups, 0.0, M),
        (ups, 0.2, M),
        // ((0.5 - 0.2) / 0.65)^3 = 0.09832 of 7 million.
        (ups, 0.5, 1_688_211),
        (ups, 0.8, 6_505_689),
        (ups, 0.85, 8 * M),
        (ups, 3.0, 8 * M),
        (his, 0.35, 300_000),
        // (0.4 / 0.5)^6 = 0.262144 of 1.5 million.
        (his, 0.75, 693_216),
        (his, 0.9, 1_800_000),
    ] {
        let found = of.threshold(load);
        assert!(found.abs_diff(expected) <= 1, "{load}: {found}, and not {expected}");
    }
    for of in services() {
        let thresholds: Vec<u64> =
            (0..=120).map(|percent| of.threshold(f64::from(percent) / 100.0)).collect();
        assert!(thresholds.is_sorted() && thresholds[0] < thresholds[120], "{thresholds:?}");
    }
}

#[test]
fn k7_bounds_as_large_as_numbers_are_hold() {
    for (lower, upper) in [(1, u64::MAX), (1_000_000, u64::MAX), (u64::MAX, u64::MAX), (2, u64::MAX - 1)] {
        for measure in [ThresholdMeasure::Bytes, ThresholdMeasure::Records, ThresholdMeasure::Time] {
            let terms = AdaptiveThreshold { measure, lower, upper, ..AdaptiveThreshold::of_ups(1000) };
            for load in [0.0, 0.2, 0.5, 0.85, 1.0, 1e300] {
                let threshold = terms.threshold(load);
                assert!((lower..=upper).contains(&threshold), "{terms:?} at {load}: {threshold}");
            }
            assert_eq!((terms.threshold(0.0), terms.threshold(1.0)), (lower, upper));
        }
    }
}

#[test]
fn what_cannot_work_is_said() {
    let [ups, _] = services();
    assert_eq!((ups.problem(), AdaptiveThreshold::of_time(1).problem()), (None, None));
    for wrong in [
        AdaptiveThreshold { capacity: 0, ..ups },
        AdaptiveThreshold { lower: 9 * M, ..ups },
        AdaptiveThreshold { low_watermark: 85, ..ups },
        AdaptiveThreshold { scaling: 0, ..ups },
        AdaptiveThreshold { weight: 100, ..ups },
        AdaptiveThreshold { window: Duration::from_millis(999), ..ups },
        AdaptiveThreshold { lower: 0, ..AdaptiveThreshold::of_time(1) },
    ] {
        assert!(wrong.problem().is_some(), "{wrong:?}");
    }
}
