//! Arguments of commands: numbers, keys and values within their limits.
//!
//! Neighbours: the commands of each type.

use ensile_resp::integer;

use super::CommandError;
use crate::model::{KEY_BYTES_MAX, STRING_BYTES_MAX};

/// A whole number of 64 bits.
pub(super) fn whole(text: &[u8]) -> Result<i64, CommandError> {
    integer(text).ok_or(CommandError::NotInteger)
}

/// A finite number with a fraction.
pub(super) fn float(text: &[u8]) -> Result<f64, CommandError> {
    let is_plain = !text.is_empty() && !text[0].is_ascii_whitespace() && !text.ends_with(b" ");
    let number: Option<f64> =
        std::str::from_utf8(text).ok().filter(|_| is_plain).and_then(|text| text.parse().ok());
    number.filter(|number| !number.is_nan()).ok_or(CommandError::NotFloat)
}

/// Text of a number with a fraction, as redis writes it: no exponent, no zeros at the end.
pub(super) fn float_text(number: f64) -> String {
    debug_assert!(number.is_finite(), "a stored number is finite");
    if number == 0.0 { "0".to_owned() } else { format!("{number}") }
}

/// Checks the length of a key that is written.
pub(super) fn check_key(key: &[u8]) -> Result<(), CommandError> {
    if key.len() <= KEY_BYTES_MAX {
        return Ok(());
    }
    Err(CommandError::TooLong { item: "a key", bytes: key.len(), bytes_max: KEY_BYTES_MAX })
}

/// Checks the length of a string.
pub(super) fn check_string(bytes: usize) -> Result<(), CommandError> {
    if bytes <= STRING_BYTES_MAX {
        return Ok(());
    }
    Err(CommandError::TooLong { item: "a string", bytes, bytes_max: STRING_BYTES_MAX })
}

#[cfg(test)]
mod tests {
    use super::{float, float_text};

    #[test]
    fn numbers_with_a_fraction_have_redis_form() {
        for (text, written) in
            [("1.50", "1.5"), ("3.0e3", "3000"), ("-0", "0"), ("+5", "5"), ("1e-7", "0.0000001")]
        {
            assert_eq!(float_text(float(text.as_bytes()).expect(text)), written);
        }
        for text in ["", " 1", "1 ", "nan", "x", "1,5"] {
            assert!(float(text.as_bytes()).is_err(), "{text:?}");
        }
    }
}
