//! Search for a number of objects at which checkpoints cost a fixed threshold enough for a comparison.
//!
//! ```text
//! double   from the least number until one loses enough, three times in a row
//! halve    the interval below it, so that not much more is lost
//! ```
//! Invariant: a search without success reports the number with the largest loss.
//!
//! [`super::adaptive`] measures the loss of a number.

use ensile_bench::Result;
use ensile_bench::machine;

use crate::slach::arguments::SlachArguments;
use crate::slach::lossy_rate::LOST_PERCENT;

/// Loss to search for, in percent: rounds that lose somewhat less are still above 5 %.
const SEARCHED_PERCENT: f64 = 1.5 * LOST_PERCENT;
/// Number of measurements in a row that must lose enough. A machine busy with other work for a while loses requests,
/// too.
const MEASURED: usize = 3;
/// Number of halvings of the interval.
const HALVED: u32 = 2;
/// Maximum memory of an object, with its key and its part of a checkpoint, and the divisor of the free memory.
const OBJECT_BYTES: u64 = 400;
const MEMORY_SHARE: u64 = 2;

/// A number of objects, and its loss.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Found {
    pub(super) objects: u64,
    /// The smallest of the measured losses, in percent.
    pub(super) loss_percent: f64,
}

impl Found {
    /// The result of the search, for people.
    pub(super) fn words(self, policy: &str) -> String {
        let lost = self.loss_percent;
        if lost >= SEARCHED_PERCENT {
            format!(", with which {policy} lost {lost:.1} % in the search")
        } else {
            format!(
                ", with which {policy} lost {lost:.1} % in the search, where {SEARCHED_PERCENT} % were searched for: \
                 there is no such number up to --objects-max and half of the free memory"
            )
        }
    }
}

/// Largest number to try.
pub(super) fn most(arguments: &SlachArguments) -> u64 {
    let fitting = machine::available_bytes() / MEMORY_SHARE / OBJECT_BYTES;
    arguments.adaptive.objects_max.min(fitting).max(1)
}

/// The number of objects between `least` and `most` with a loss of about [`SEARCHED_PERCENT`], or the number with the
/// largest loss if no number loses as much. `lost_at` measures the percentage.
pub(super) fn search(least: u64, most: u64, mut lost_at: impl FnMut(u64) -> Result<f64>) -> Result<Found> {
    let mut measure = |objects: u64| {
        let mut loss_percent = f64::INFINITY;
        for _ in 0..MEASURED {
            loss_percent = lost_at(objects)?.min(loss_percent);
            if loss_percent < SEARCHED_PERCENT {
                break;
            }
        }
        Ok(Found { objects, loss_percent })
    };
    let mut best = measure(least)?;
    let mut below = None;
    while best.loss_percent < SEARCHED_PERCENT {
        let last = below.unwrap_or(least);
        if last >= most {
            return Ok(best);
        }
        let next = measure(last.saturating_mul(2).min(most))?;
        if next.loss_percent >= SEARCHED_PERCENT {
            return halved(last, next, measure);
        }
        below = Some(next.objects);
        if next.loss_percent > best.loss_percent {
            best = next;
        }
    }
    Ok(best)
}

/// Halves the interval between a number that loses too little and a number that loses enough.
fn halved(mut low: u64, mut high: Found, mut measure: impl FnMut(u64) -> Result<Found>) -> Result<Found> {
    for _ in 0..HALVED {
        let middle = (low as f64 * high.objects as f64).sqrt() as u64;
        let found = measure(middle)?;
        if found.loss_percent >= SEARCHED_PERCENT {
            high = found;
        } else {
            low = middle;
        }
    }
    Ok(high)
}

#[cfg(test)]
mod tests {
    use super::{Found, SEARCHED_PERCENT, search};

    #[test]
    fn the_number_found_loses_enough_and_little_more() {
        // A loss proportional to the number: 7.5 % at 3,300, between 3,200 and 6,400.
        let found = search(100, 100_000, |objects| Ok(objects as f64 / 440.0)).expect("it is measured");
        assert!((3_300..=4_000).contains(&found.objects), "{found:?}");
        assert!(found.loss_percent >= SEARCHED_PERCENT && !found.words("fixed").contains("no such number"));
    }

    #[test]
    fn a_number_that_loses_enough_only_twice_is_not_enough() {
        let mut calls = 0;
        let found = search(100, 400, |_| {
            calls += 1;
            // The first two measurements are disturbed.
            Ok(if calls <= 2 { 80.0 } else { 1.0 })
        });
        assert!((found.expect("it is measured").loss_percent - 1.0).abs() < 1e-9);
    }

    #[test]
    fn a_loss_that_is_never_reached_is_said_with_the_number_that_lost_the_most() {
        let found =
            search(100, 1_000, |objects| Ok(if objects == 400 { 2.0 } else { 1.0 })).expect("measured");
        assert_eq!(found, Found { objects: 400, loss_percent: 2.0 });
        assert!(found.words("UPS, fixed 800,000").contains("there is no such number"));
    }
}
