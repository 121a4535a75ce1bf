//! The body of a checkpoint's entry: a row's key and its value.
//!
//! ```text
//! key length u16 | key | value        little-endian
//! ```
//! Byte example: `docs/internals/formats/checkpoint.md`.
//!
//! Neighbours: the walk of a checkpoint writes the body; `open::replay` and `open::folder` read the body; the
//! durability crate frames the body with TID and length.

use ensile_base::limits::KEY_BYTES_MAX;

/// Bytes of the key's length.
const LENGTH_BYTES: usize = 2;

const _: () = assert!(KEY_BYTES_MAX <= u16::MAX as usize);

/// Size of a body in bytes, for a key and a value of these sizes.
#[inline]
pub(crate) const fn bytes(key: usize, value: usize) -> usize {
    LENGTH_BYTES + key + value
}

/// Appends a body.
#[inline]
pub(crate) fn encode(out: &mut Vec<u8>, key: &[u8], value: &[u8]) {
    let start = out.len();
    debug_assert!(key.len() <= KEY_BYTES_MAX, "a table refuses longer keys: {} bytes", key.len());
    out.extend_from_slice(&(key.len() as u16).to_le_bytes());
    out.extend_from_slice(key);
    out.extend_from_slice(value);
    debug_assert_eq!(decode(&out[start..]), Ok((key, value)), "what is written is what will be read");
}

/// Key and value of a body.
///
/// # Errors
/// Statement of the fault, if the body has no key length or ends in its key.
pub(crate) fn decode(body: &[u8]) -> Result<(&[u8], &[u8]), &'static str> {
    let (length, row) =
        body.split_first_chunk::<LENGTH_BYTES>().ok_or("a checkpoint entry has no key length")?;
    let length = usize::from(u16::from_le_bytes(*length));
    row.split_at_checked(length).ok_or("a checkpoint entry ends in its key")
}

/// Key of a body; `None` for a faulty body.
pub(crate) fn key_of(body: &[u8]) -> Option<&[u8]> {
    decode(body).ok().map(|(key, _)| key)
}

#[cfg(test)]
mod tests;
