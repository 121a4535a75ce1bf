//! The capacity as defined by SLACH (§6.1): the rate at which 5 % of the requests are lost, found by halving an
//! interval.
//!
//! ```text
//! bracket   from a guess up, or down, by a fifth until one rate loses more than 5 % and the one below it does not
//! halve     at the mean of both, until they are within 2 %; the mean of the last two is the rate
//! ```
//! Invariant: a rate counts as lossy only if two measurements in a row lose too much. A machine that was busy with
//! other work for a moment is no limit.
//!
//! Neighbours: [`super::adaptive`] and [`super::services`] measure the loss at a rate.

use ensile_bench::number::grouped;
use ensile_bench::{Failure, Result};

/// Loss at the capacity, in percent.
pub(super) const LOST_PERCENT: f64 = 5.0;
/// Served share of the rate: a loop that serves requests back to back serves this share, and the rest is lost.
pub(super) const SERVED_SHARE: f64 = 1.0 - LOST_PERCENT / 100.0;
/// Ratio of two rates of the bracket, and maximum ratio of the last two rates.
const STEP: f64 = 1.2;
const PRECISION: f64 = 1.02;
/// Maximum number of steps to a bracket: down to a thirtieth of the guess, or up to thirty times the guess.
const STEPS_MAX: usize = 19;

/// Requests a second at which [`LOST_PERCENT`] are lost. `lost_at` measures the loss at a rate, in percent. The search
/// begins at `guess`.
///
/// # Errors
/// Errors of `lost_at`; [`Failure::Usage`] if every tried rate loses more, or every rate loses less.
pub(super) fn lossy_rate(guess: f64, mut lost_at: impl FnMut(f64) -> Result<f64>) -> Result<f64> {
    let mut is_lossy = |rate: f64| Ok(lost_at(rate)? > LOST_PERCENT && lost_at(rate)? > LOST_PERCENT);
    let [mut low, mut high] = bracket(guess, &mut is_lossy)?;
    while high / low > PRECISION {
        let middle = (low * high).sqrt();
        *(if is_lossy(middle)? { &mut high } else { &mut low }) = middle;
    }
    Ok((low * high).sqrt())
}

/// Two rates; only the higher rate loses too much.
fn bracket(guess: f64, is_lossy: &mut impl FnMut(f64) -> Result<bool>) -> Result<[f64; 2]> {
    let is_above = is_lossy(guess)?;
    let mut before = guess;
    for _ in 0..STEPS_MAX {
        let rate = if is_above { before / STEP } else { before * STEP };
        if is_lossy(rate)? != is_above {
            return Ok(if is_above { [rate, before] } else { [before, rate] });
        }
        before = rate;
    }
    let (more, [low, high]) = if is_above { ("more", [before, guess]) } else { ("less", [guess, before]) };
    Err(Failure::Usage(format!(
        "every rate between {} and {} requests a second loses {more} than {LOST_PERCENT} %: ask for longer runs, or \
         another time-out",
        grouped(low),
        grouped(high)
    )))
}

#[cfg(test)]
mod tests {
    use super::{PRECISION, lossy_rate};
    use ensile_bench::{Failure, Result};

    /// A server that takes `capacity` requests a second, and loses the rest of a rate.
    fn lost(capacity: f64) -> impl Fn(f64) -> Result<f64> {
        move |rate| Ok((1.0 - capacity / rate).max(0.0) * 100.0)
    }

    #[test]
    fn the_rate_at_which_five_percent_are_lost_is_found_from_any_guess() {
        for guess in [950.0, 1_000.0, 4_000.0, 20_000.0, 90.0, 1_052.0] {
            let found = lossy_rate(guess, lost(1_000.0)).expect("there is one");
            let asked = 1_000.0 / 0.95;
            assert!((asked / PRECISION..asked * PRECISION).contains(&found), "{guess}: {found}");
        }
    }

    #[test]
    fn a_rate_that_loses_much_once_is_measured_again() {
        let (mut calls, of) = (0, lost(1_000.0));
        // Each third measurement is disturbed: two in a row never are.
        let found = lossy_rate(1_000.0, |rate| {
            calls += 1;
            if calls % 3 == 0 { Ok(80.0) } else { of(rate) }
        });
        let asked = 1_000.0 / 0.95;
        let found = found.expect("there is one");
        assert!((asked / PRECISION..asked * PRECISION).contains(&found), "{found}");
    }

    #[test]
    fn a_rate_that_is_nowhere_near_is_said_to_be_so() {
        for (lost, word) in [(100.0, "more than 5 %"), (0.0, "less than 5 %")] {
            let Err(Failure::Usage(said)) = lossy_rate(1_000.0, |_| Ok(lost)) else {
                panic!("there is none")
            };
            assert!(said.contains(word), "{said}");
        }
        let failed = lossy_rate(1_000.0, |_| Err(Failure::Panic("of the load".to_owned())));
        assert!(matches!(failed, Err(Failure::Panic(_))), "{failed:?}");
    }
}
