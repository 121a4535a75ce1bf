//! Arguments of commands: numbers, keys and values within their limits.
//!
//! Neighbours: the commands of each type.

use std::time::Duration;

use ensile_resp::integer;

use super::CommandError;
use crate::model::{ELEMENT_BYTES_MAX, KEY_BYTES_MAX, STRING_BYTES_MAX};

/// A whole number of 64 bits.
pub(super) fn whole(text: &[u8]) -> Result<i64, CommandError> {
    integer(text).ok_or(CommandError::NotInteger)
}

/// Number of random elements that a request wants, negative for repeated draws.
pub(super) fn random_count(text: &[u8]) -> Result<i64, CommandError> {
    let (least, most) = (-i64::MAX, i64::MAX);
    Some(whole(text)?).filter(|count| *count >= least).ok_or(CommandError::OutOfRange { least, most })
}

/// Checks the length of a key that is written.
pub(super) fn check_key(key: &[u8]) -> Result<(), CommandError> {
    if key.len() <= KEY_BYTES_MAX {
        return Ok(());
    }
    Err(CommandError::TooLong { item: "key", bytes: key.len(), bytes_max: KEY_BYTES_MAX })
}

/// Checks the length of a channel's name. A pattern's match takes time for both lengths.
pub(crate) fn check_channel(channel: &[u8]) -> Result<(), CommandError> {
    if channel.len() <= KEY_BYTES_MAX {
        return Ok(());
    }
    Err(CommandError::TooLong { item: "channel", bytes: channel.len(), bytes_max: KEY_BYTES_MAX })
}

/// Longest pattern of keys or parameters in bytes. The time of a match grows with the product of both lengths.
pub(crate) const PATTERN_BYTES_MAX: usize = 1 << 10;

/// Checks the length of a pattern.
pub(super) fn check_pattern(pattern: &[u8]) -> Result<&[u8], CommandError> {
    if pattern.len() <= PATTERN_BYTES_MAX {
        return Ok(pattern);
    }
    Err(CommandError::LongPattern { bytes: pattern.len() })
}

/// Checks the length of a field or a member that is written.
pub(super) fn check_element(element: &[u8]) -> Result<(), CommandError> {
    if element.len() <= ELEMENT_BYTES_MAX {
        return Ok(());
    }
    Err(CommandError::TooLong { item: "field or member", bytes: element.len(), bytes_max: ELEMENT_BYTES_MAX })
}

/// Checks the length of a string.
pub(super) fn check_string(bytes: usize) -> Result<(), CommandError> {
    if bytes <= STRING_BYTES_MAX {
        return Ok(());
    }
    Err(CommandError::TooLong { item: "string", bytes, bytes_max: STRING_BYTES_MAX })
}

/// The longest wait for keys, from a text of seconds. `None` is no limit.
pub(super) fn timeout(text: &[u8], now_millis: i64) -> Result<Option<Duration>, CommandError> {
    let seconds: Option<f64> = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
    let seconds = seconds
        .filter(|seconds| !seconds.is_nan())
        .ok_or(CommandError::Text("timeout is not a float or out of range"))?;
    // A cast keeps to the range of whole numbers.
    longest_wait((seconds * 1000.0).ceil() as i64, now_millis)
}

/// The longest wait for keys, from a text of milliseconds. `None` is no limit.
pub(super) fn timeout_of_millis(text: &[u8], now_millis: i64) -> Result<Option<Duration>, CommandError> {
    let millis = integer(text).ok_or(CommandError::Text("timeout is not an integer or out of range"))?;
    longest_wait(millis, now_millis)
}

fn longest_wait(millis: i64, now_millis: i64) -> Result<Option<Duration>, CommandError> {
    // Redis' text also for a time beyond its range.
    const OUT_OF_RANGE: CommandError = CommandError::Text("timeout is negative");
    if millis < 0 {
        return Err(OUT_OF_RANGE);
    }
    millis.checked_add(now_millis).ok_or(OUT_OF_RANGE)?;
    Ok(Some(Duration::from_millis(millis.unsigned_abs())).filter(|time| !time.is_zero()))
}
