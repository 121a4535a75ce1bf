//! Whole numbers in the form that redis reads from arguments and values: no sign but `-`, no leading zeros, no spaces.
//!
//! Neighbours: every service's arguments; the hash table's values.

use crate::service::CallError;

/// The number of these bytes.
///
/// # Errors
/// [`CallError::NotInteger`].
pub(crate) fn integer(bytes: &[u8]) -> Result<i64, CallError> {
    ensile_resp::integer(bytes).ok_or(CallError::NotInteger)
}

/// A number of this type.
///
/// # Errors
/// [`CallError::NotInteger`], also for a number that does not fit.
pub(crate) fn number<N: TryFrom<i64>>(bytes: &[u8]) -> Result<N, CallError> {
    N::try_from(integer(bytes)?).map_err(|_| CallError::NotInteger)
}

/// A whole number in this form.
pub(crate) struct Digits {
    bytes: [u8; DIGITS_MAX],
    begin: usize,
}

/// Bytes of the least number of 64 bits, with the sign.
const DIGITS_MAX: usize = 20;

const _: () = assert!(i64::MIN.unsigned_abs().ilog10() as usize + 2 == DIGITS_MAX, "digits, and the sign");

impl Digits {
    pub(crate) fn from_number(number: i64) -> Self {
        let (mut bytes, mut begin, mut rest) = ([0; DIGITS_MAX], DIGITS_MAX, number.unsigned_abs());
        loop {
            begin -= 1;
            bytes[begin] = b'0' + (rest % 10) as u8;
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        if number < 0 {
            begin -= 1;
            bytes[begin] = b'-';
        }
        debug_assert_eq!(integer(&bytes[begin..]).ok(), Some(number), "a written number reads back");
        Self { bytes, begin }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[self.begin..]
    }
}

#[cfg(test)]
mod tests {
    use super::{Digits, integer, number};

    #[test]
    fn numbers_have_one_form() {
        for value in [0, 1, -1, 42, i64::MAX, i64::MIN] {
            assert_eq!(integer(value.to_string().as_bytes()).ok(), Some(value));
            assert_eq!(Digits::from_number(value).bytes(), value.to_string().as_bytes());
        }
        for text in ["", "-", "+1", "01", "-0", "-01", " 1", "1 ", "9223372036854775808", "1.0", "x"] {
            assert!(integer(text.as_bytes()).is_err(), "{text:?}");
        }
        assert_eq!(number::<u32>(b"4294967295").ok(), Some(u32::MAX));
        assert!(number::<u32>(b"-1").is_err() && number::<u32>(b"4294967296").is_err());
    }
}
