//! Encoding of keys and values as bytes.
//!
//! - `key`: order-preserving encodings. The index compares bytes, and the byte order is the order of the values.
//! - `value`: compact and fast encodings without an order.
//! - `bounds`: encoded ranges and prefixes of keys.
//! - `buffer`: memory for an encoded key, without heap memory for a short key.
//!
//! Invariants:
//! - The encodings are stored on disk and never change. `docs/internals/formats/rows.md` has the bytes, and tests read
//!   them.
//! - Decoding never panics, with any bytes.
//!
//! Neighbours: the typed API encodes on the way down and decodes on the way up; the layers below use bytes.

pub(crate) mod bounds;
mod buffer;
#[cfg(test)]
pub(crate) mod format_examples;
mod key;
pub mod value;

use std::borrow::Cow;

pub use bounds::{ByteRange, KeyBounds, KeyPrefix, Prefix};
pub use buffer::KeyBuffer;
pub use key::{AsKey, Descending, Key, TotalF32, TotalF64};
#[cfg(feature = "serde")]
pub use value::Serde;
#[doc(hidden)]
pub use value::field_type;
pub use value::{AsValue, Value, ValueBuffer};
pub use zerocopy;

/// Bytes that are no encoding of a value of the requested type.
///
/// ```
/// # extern crate ensile_engine as ensile;
/// use ensile::Value;
/// use ensile::codec::CodecError;
/// let error: CodecError = <u32 as Value>::decode(&[1, 2]).unwrap_err();
/// assert_eq!(error.to_string(), "2 bytes where 4 are due");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{detail}")]
pub struct CodecError {
    detail: Cow<'static, str>,
}

impl CodecError {
    /// An error with the text `detail`: the found and the expected encoding.
    pub fn new(detail: impl Into<Cow<'static, str>>) -> Self {
        Self { detail: detail.into() }
    }

    /// An error with the found and the expected number of bytes.
    #[cold]
    #[must_use]
    pub fn length(found: usize, due: usize) -> Self {
        Self::new(format!("{found} bytes where {due} are due"))
    }
}

/// Returns all of `bytes` as an array. Fails if their number is not `N`.
#[inline]
fn exactly<const N: usize>(bytes: &[u8]) -> Result<[u8; N], CodecError> {
    bytes.try_into().map_err(|_| CodecError::length(bytes.len(), N))
}

/// Splits the first `N` bytes off `bytes`. Fails if `bytes` are fewer.
#[inline]
fn take<const N: usize>(bytes: &mut &[u8]) -> Result<[u8; N], CodecError> {
    let (first, rest) = bytes.split_first_chunk().ok_or_else(|| CodecError::length(bytes.len(), N))?;
    *bytes = rest;
    Ok(*first)
}
