//! Numbers with a fraction, for `INCRBYFLOAT` and `HINCRBYFLOAT`: exact decimals, with an approximation for very large
//! numbers.
//!
//! Redis adds in 80 bits and writes 17 digits behind the point, so 0.1 and 0.2 have the sum 0.3. An exact sum has the
//! same text, except for the last digits of numbers that do not fit into 80 bits.
//!
//! Invariant: the text of a number is read as the same number.
//!
//! Neighbours: `strings` and `hashes` add.

use super::CommandError;

/// Digits behind the point.
const DIGITS: usize = 17;
/// Number 1, scaled.
const ONE: i128 = 10_i128.pow(DIGITS as u32);
/// Bound of exact numbers: the sum of two of them fits.
const EXACT_MAX: i128 = ONE * 10_i128.pow(20);

const _: () = assert!(EXACT_MAX < i128::MAX / 2, "a sum of exact numbers fits");

/// A finite or infinite number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Decimal {
    /// Number of units of the last digit behind the point.
    Exact(i128),
    /// A number beyond the range of exact numbers.
    Approximate(f64),
}

impl Decimal {
    pub(super) const ZERO: Self = Self::Exact(0);

    /// Reads a number, as redis does: no spaces, no `nan`; an exponent and `inf` are permitted.
    ///
    /// # Errors
    /// [`CommandError::NotFloat`].
    pub(super) fn parse(text: &[u8]) -> Result<Self, CommandError> {
        let text = std::str::from_utf8(text).map_err(|_| CommandError::NotFloat)?;
        let float: f64 = text.parse().map_err(|_| CommandError::NotFloat)?;
        if float.is_nan() {
            return Err(CommandError::NotFloat);
        }
        Ok(exact(text).map_or(Self::Approximate(float), Self::Exact))
    }

    pub(super) fn is_finite(self) -> bool {
        self.float().is_finite()
    }

    /// The sum; `None` if the sum is not finite.
    pub(super) fn add(self, by: Self) -> Option<Self> {
        if let (Self::Exact(left), Self::Exact(right)) = (self, by) {
            let sum = left + right;
            return Some(if sum.abs() < EXACT_MAX {
                Self::Exact(sum)
            } else {
                Self::Approximate(Self::Exact(sum).float())
            });
        }
        let sum = self.float() + by.float();
        sum.is_finite().then_some(Self::Approximate(sum))
    }

    fn float(self) -> f64 {
        match self {
            Self::Exact(units) => units as f64 / ONE as f64,
            Self::Approximate(float) => float,
        }
    }

    /// Text without an exponent, and without zeros at the end.
    pub(super) fn text(self) -> String {
        match self {
            Self::Exact(units) => {
                let sign = if units < 0 { "-" } else { "" };
                let (whole, fraction) = (units.abs() / ONE, units.abs() % ONE);
                let text = format!("{sign}{whole}.{fraction:0DIGITS$}");
                text.trim_end_matches('0').trim_end_matches('.').to_owned()
            }
            Self::Approximate(float) => {
                debug_assert!(float.is_finite(), "a stored number is finite");
                format!("{float}")
            }
        }
    }
}

/// The units of a number's text; `None` beyond the range. The text is that of a number.
fn exact(text: &str) -> Option<i128> {
    let (number, exponent) = match text.split_once(['e', 'E']) {
        Some((number, exponent)) => (number, exponent.parse::<i32>().ok()?),
        None => (text, 0),
    };
    let (is_negative, number) = match number.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, number.strip_prefix('+').unwrap_or(number)),
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = [whole, fraction].concat();
    // `inf` has no digits.
    let units: i128 = digits.parse().ok()?;
    let digits_behind = i32::try_from(fraction.len()).ok()?;
    let shift = (DIGITS as i32).checked_add(exponent)?.checked_sub(digits_behind)?;
    let scaled = match u32::try_from(shift) {
        Ok(_) if units == 0 => 0,
        Ok(shift) => units.checked_mul(10_i128.checked_pow(shift)?)?,
        Err(_) => match 10_i128.checked_pow(shift.unsigned_abs()) {
            // Half of a unit is rounded up.
            Some(divisor) => units / divisor + i128::from(units % divisor >= divisor / 2),
            None => 0,
        },
    };
    (scaled < EXACT_MAX).then_some(if is_negative { -scaled } else { scaled })
}

#[cfg(test)]
mod tests;
