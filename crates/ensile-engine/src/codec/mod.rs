//! How keys and values become bytes and come back.
//!
//! - `key`: order-preserving. The index compares bytes; the types here make that the order of the values.
//! - `value`: compact and fast, with no order to keep.
//! - `bounds`: ranges and prefixes of keys, encoded.
//! - `buffer`: where a key is encoded, without touching the heap when it is short.
//!
//! Invariants:
//! - The encodings are stored on disk: they never change. `docs/formats/rows.md` has their bytes, which tests read.
//! - Decoding never panics, whatever the bytes.
//!
//! Neighbours: the typed API encodes on the way down and decodes on the way up; below it everything is bytes.

pub(crate) mod bounds;
mod buffer;
#[cfg(test)]
pub(crate) mod documented;
mod key;
pub mod value;

use std::borrow::Cow;

pub use bounds::{ByteRange, KeyBounds, KeyPrefix, Prefix};
pub use buffer::KeyBuffer;
pub use key::{AsKey, Descending, Key, TotalF32, TotalF64};
#[cfg(feature = "serde")]
pub use value::Serde;
pub use value::{AsValue, Value, ValueBuffer};
pub use zerocopy;

/// Bytes that are not the encoding of any value of the type asked for.
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
    /// An error that says `detail`: what was found, and what was due.
    pub fn new(detail: impl Into<Cow<'static, str>>) -> Self {
        Self { detail: detail.into() }
    }

    /// An error that says how many bytes were found and how many were due.
    #[cold]
    #[must_use]
    pub fn length(found: usize, due: usize) -> Self {
        Self::new(format!("{found} bytes where {due} are due"))
    }
}

/// All of `bytes`, if there are `N` of them.
#[inline]
fn exactly<const N: usize>(bytes: &[u8]) -> Result<[u8; N], CodecError> {
    bytes.try_into().map_err(|_| CodecError::length(bytes.len(), N))
}

/// The first `N` of `bytes`, which moves on behind them.
#[inline]
fn take<const N: usize>(bytes: &mut &[u8]) -> Result<[u8; N], CodecError> {
    let (first, rest) = bytes.split_first_chunk().ok_or_else(|| CodecError::length(bytes.len(), N))?;
    *bytes = rest;
    Ok(*first)
}
