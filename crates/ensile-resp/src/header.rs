//! Header lines: a type's byte, a number, CR LF. Numbers are read as redis reads them.
//!
//! Neighbours: both decoders read header lines; [`crate::encode`] writes header lines.

use crate::error::ProtocolError;

/// Longest line of a type's byte and a number, its CR LF included: the number of bytes that a decoder may read again
/// when a piece ends inside the line. The longest number of 64 bits takes 20.
pub const HEADER_BYTES_MAX: usize = 32;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeaderLine {
    /// The end of the line has not arrived.
    Incomplete,
    /// The line has no end within [`HEADER_BYTES_MAX`].
    TooLong,
    /// No number in redis' form.
    Invalid,
    /// CR stands without LF behind it.
    NoLineFeed,
    /// The number, and the begin of the next line.
    Number(i64, usize),
}

impl HeaderLine {
    /// The number, and the begin of the next line; `None` for an incomplete line.
    ///
    /// # Errors
    /// `too_long` and `invalid` for such a line, and [`ProtocolError::ExpectedCrlf`].
    #[inline]
    pub(crate) fn number(
        self,
        too_long: ProtocolError,
        invalid: ProtocolError,
    ) -> Result<Option<(i64, usize)>, ProtocolError> {
        match self {
            Self::Number(number, next) => Ok(Some((number, next))),
            Self::Incomplete => Ok(None),
            Self::TooLong => Err(too_long),
            Self::Invalid => Err(invalid),
            Self::NoLineFeed => Err(ProtocolError::ExpectedCrlf),
        }
    }
}

/// Reads the number that begins at `from`, behind the type's byte.
#[inline]
pub(crate) fn header(input: &[u8], from: usize) -> HeaderLine {
    // Nearly all counts and lengths have one to three digits.
    let digit = |byte: u8| i64::from(byte - b'0');
    match input.get(from..).unwrap_or_default() {
        [a @ b'0'..=b'9', b'\r', b'\n', ..] => HeaderLine::Number(digit(*a), from + 3),
        [a @ b'1'..=b'9', b @ b'0'..=b'9', b'\r', b'\n', ..] => {
            HeaderLine::Number(digit(*a) * 10 + digit(*b), from + 4)
        }
        [a @ b'1'..=b'9', b @ b'0'..=b'9', c @ b'0'..=b'9', b'\r', b'\n', ..] => {
            HeaderLine::Number(digit(*a) * 100 + digit(*b) * 10 + digit(*c), from + 5)
        }
        _ => any_header(input, from),
    }
}

/// As [`header`], for every line.
#[inline(never)]
fn any_header(input: &[u8], from: usize) -> HeaderLine {
    // The type's byte stands before `from`, and the LF behind the CR that the search looks for.
    let window_full = from + HEADER_BYTES_MAX - 2;
    let window = &input[from..input.len().min(window_full)];
    let Some(length) = window.iter().position(|&byte| byte == b'\r') else {
        return if window_full <= input.len() { HeaderLine::TooLong } else { HeaderLine::Incomplete };
    };
    match input.get(from + length + 1) {
        None => HeaderLine::Incomplete,
        Some(b'\n') => match integer(&window[..length]) {
            Some(number) => HeaderLine::Number(number, from + length + 2),
            None => HeaderLine::Invalid,
        },
        Some(_) => HeaderLine::NoLineFeed,
    }
}

/// Parses a whole number: digits without leading zeros, with a `-` below zero. No `+`, no spaces, no `-0`.
#[must_use]
pub fn integer(text: &[u8]) -> Option<i64> {
    let (is_negative, digits) = match text.split_first()? {
        (b'-', digits) => (true, digits),
        _ => (false, text),
    };
    let has_leading_zero = digits.first()? == &b'0' && (digits.len() > 1 || is_negative);
    if has_leading_zero || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    digits.iter().try_fold(0_i64, |value, byte| {
        let digit = i64::from(byte - b'0');
        value.checked_mul(10)?.checked_add(if is_negative { -digit } else { digit })
    })
}

#[cfg(test)]
mod tests {
    use super::{HEADER_BYTES_MAX, HeaderLine, header, integer};

    #[test]
    fn numbers_have_one_form() {
        for number in [0, 1, 9, 10, 99_999_999, 100_000_000, i64::MAX, i64::MIN, -1] {
            let line = format!("${number}\r\n");
            assert_eq!(integer(number.to_string().as_bytes()), Some(number));
            assert_eq!(header(line.as_bytes(), 1), HeaderLine::Number(number, line.len()));
            for end in 1..line.len() {
                assert_eq!(header(&line.as_bytes()[..end], 1), HeaderLine::Incomplete, "{end} of {line:?}");
            }
        }
        for text in ["", "-", "+1", "01", "00", "-0", " 1", "1 ", "1a", "9223372036854775808", "0x1"] {
            assert_eq!(integer(text.as_bytes()), None, "{text:?}");
            assert_eq!(header(format!("${text}\r\n").as_bytes(), 1), HeaderLine::Invalid, "{text:?}");
        }
    }

    #[test]
    fn a_line_without_an_end_is_given_up() {
        let line = [b'1'; HEADER_BYTES_MAX];
        assert_eq!(header(&line[..HEADER_BYTES_MAX - 1], 1), HeaderLine::TooLong);
        assert_eq!(header(&line[..HEADER_BYTES_MAX - 2], 1), HeaderLine::Incomplete);
        assert_eq!(header(b"$1\rx", 1), HeaderLine::NoLineFeed);
    }
}
