//! Arguments shared by the services: keys, times, codes, pairs of a name and a value.
//!
//! Neighbours: [`crate::pht`], [`crate::ups`] and [`crate::his`] read their requests by these functions.

use ensile_base::limits::KEY_BYTES_MAX;
use ensile_resp::ReplyEncoder;

use crate::service::{CallError, CallResult, CommandRequest, check_length};

/// Argument number `at`; the number of arguments was checked.
pub(crate) fn argument<'r>(request: &CommandRequest<'r>, at: usize) -> &'r [u8] {
    request.get(at).unwrap_or_default()
}

/// Argument number `at`, checked as a key of an object.
pub(crate) fn key<'r>(request: &CommandRequest<'r>, at: usize) -> Result<&'r [u8], CallError> {
    let key = argument(request, at);
    if key.len() > KEY_BYTES_MAX {
        return Err(CallError::TooLong { what: "a key", bytes: key.len(), limit: KEY_BYTES_MAX });
    }
    Ok(key)
}

/// Number of keys that are looked up at once in a request with many keys.
const TOGETHER: usize = 256;

/// Shows the objects of a request's keys, in order. The keys were checked and begin with argument 1. `show` gets a part
/// of the keys at a time, so that neither copies of the keys nor a reply that is too long take much memory.
///
/// # Errors
/// The errors of `show`; [`CallError::ReplyTooLong`] as soon as the reply is too long.
pub(crate) fn show_keys(
    request: &CommandRequest<'_>,
    reply: &mut ReplyEncoder<'_>,
    mut show: impl FnMut(&[Vec<u8>], &mut ReplyEncoder<'_>) -> CallResult,
) -> CallResult {
    for from in (1..request.len()).step_by(TOGETHER) {
        let to = request.len().min(from + TOGETHER);
        debug_assert!(from < to, "each part has a key");
        let keys: Vec<Vec<u8>> = (from..to).map(|at| argument(request, at).to_vec()).collect();
        show(&keys, reply)?;
        check_length(reply)?;
    }
    Ok(())
}

/// A code of two letters: of a language (ISO 639-1) or a country (ISO 3166), in small letters.
pub(crate) fn code(bytes: &[u8]) -> Result<[u8; 2], CallError> {
    match bytes {
        [a, b] if a.is_ascii_alphabetic() && b.is_ascii_alphabetic() => {
            Ok([a.to_ascii_lowercase(), b.to_ascii_lowercase()])
        }
        _ => Err(CallError::Argument("a language or country is two letters")),
    }
}

/// Writes a code; zeros are written as an empty string.
pub(crate) fn code_text(code: [u8; 2], reply: &mut ReplyEncoder<'_>) {
    reply.bulk(if code == [0; 2] { b"" } else { &code });
}

pub(crate) fn pair(name: &str, number: i64, reply: &mut ReplyEncoder<'_>) {
    reply.bulk(name.as_bytes());
    reply.integer(number);
}
