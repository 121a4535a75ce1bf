//! Axes of pictures: ticks at round numbers, and the text of a number at an axis.
//!
//! Invariant: a tick is a multiple of 1, 2, 2.5 or 5 times a power of ten, or a place that was measured.
//!
//! [`super::drawing`] and [`super::panels`] build their charts on these axes.

use std::ops::Range;

use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint, Ranged};
use plotters::coord::types::RangedCoordf64;

use crate::number::grouped;

/// Distances of ticks, times a power of ten.
const STEPS: [f64; 5] = [1.0, 2.0, 2.5, 5.0, 10.0];
/// Share by which a range may miss a step through rounding.
const ROUNDING: f64 = 1e-9;
/// Most digits behind the point of a number at an axis.
const DECIMALS_MAX: usize = 9;

/// An axis that is marked at its ticks and nowhere between.
#[derive(Clone)]
pub(super) struct Axis {
    numbers: RangedCoordf64,
    pub(super) ticks: Vec<f64>,
    /// Digits behind the point of every number at the axis.
    decimals: usize,
}

impl Axis {
    /// An axis over the range with at most `most` ticks at round numbers.
    pub(super) fn round(range: Range<f64>, most: usize) -> Self {
        let step = step(range.end - range.start, most);
        let (first, last) = ((range.start / step).ceil() as i64, (range.end / step).floor() as i64);
        let ticks = (first..=last).map(|tick| tick as f64 * step).collect();
        Self { numbers: range.into(), ticks, decimals: decimals(step) }
    }

    /// An axis over the range that is marked at these places, which are whole numbers.
    pub(super) fn marked(range: Range<f64>, places: Vec<f64>) -> Self {
        Self { numbers: range.into(), ticks: places, decimals: 0 }
    }

    /// The length of the range.
    pub(super) fn length(&self) -> f64 {
        let Range { start, end } = self.numbers.range();
        end - start
    }

    /// A number as it stands at the axis.
    pub(super) fn text(&self, at: f64) -> String {
        if self.decimals == 0 { grouped(at) } else { format!("{at:.*}", self.decimals) }
    }
}

impl Ranged for Axis {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        self.numbers.map(value, limit)
    }

    fn key_points<Hint: KeyPointHint>(&self, _hint: Hint) -> Vec<f64> {
        self.ticks.clone()
    }

    fn range(&self) -> Range<f64> {
        self.numbers.range()
    }
}

/// The distance of ticks: the smallest round number of which at most `most` fit the length.
fn step(length: f64, most: usize) -> f64 {
    let least = length / most.max(1) as f64;
    let power = 10_f64.powf(least.log10().floor());
    let fits = |share: &&f64| **share * power >= least * (1.0 - ROUNDING);
    power * STEPS.iter().find(fits).copied().unwrap_or(10.0)
}

/// Digits behind the point that a step needs.
fn decimals(step: f64) -> usize {
    let is_whole = |decimals: &usize| {
        let scaled = step * 10_f64.powi(*decimals as i32);
        scaled >= 1.0 - ROUNDING && (scaled - scaled.round()).abs() <= scaled * ROUNDING
    };
    (0..DECIMALS_MAX).find(is_whole).unwrap_or(DECIMALS_MAX)
}

#[cfg(test)]
mod tests {
    use super::Axis;

    fn texts(end: f64, most: usize) -> Vec<String> {
        let axis = Axis::round(0.0..end, most);
        axis.ticks.iter().map(|tick| axis.text(*tick)).collect()
    }

    #[test]
    fn numbers_at_an_axis_have_the_digits_that_their_step_needs() {
        assert_eq!(texts(28.0, 6), ["0", "5", "10", "15", "20", "25"]);
        assert_eq!(texts(7.5, 8), ["0", "1", "2", "3", "4", "5", "6", "7"]);
        assert_eq!(texts(9.9, 4), ["0.0", "2.5", "5.0", "7.5"]);
        assert_eq!(texts(208_000.0, 5), ["0", "50,000", "100,000", "150,000", "200,000"]);
        assert_eq!(texts(0.054, 6), ["0.00", "0.01", "0.02", "0.03", "0.04", "0.05"]);
    }

    #[test]
    fn ticks_of_any_range_are_few_and_round() {
        let ends = (1..400).map(|at| 1.07_f64.powi(at - 200) * 3.0).chain([1e30, 1.08]);
        for (end, most) in ends.flat_map(|end| [3, 10].map(|most| (end, most))) {
            let Axis { ticks, .. } = Axis::round(0.0..end, most);
            assert!((2..=most + 1).contains(&ticks.len()), "{end}: {ticks:?}");
            let power = 10_f64.powf(ticks[1].log10().floor());
            let share = ticks[1] / power;
            assert!([1.0, 2.0, 2.5, 5.0].iter().any(|step| (share - step).abs() < 1e-6), "{end}: {ticks:?}");
            assert!(
                ticks.windows(2).all(|pair| (pair[1] - pair[0] - ticks[1]).abs() <= end * 1e-9),
                "{ticks:?}"
            );
        }
    }
}
