//! Values: compact and fast encodings without an order.
//!
//! | type | encoding |
//! |---|---|
//! | `u8` .. `u128`, `i8` .. `i128`, `f32`, `f64` | little-endian |
//! | `bool`, `char` | as `u8`, as `u32` |
//! | `String`, `Vec<u8>`, `[u8; N]` | raw |
//! | `()` | nothing |
//! | `Option<T>` | `00`, or `01` and T |
//! | tuples, 1 to 8 | components with their length before them (`u32`), the last without |
//! | [`fixed_layout!`](crate::fixed_layout) types | their memory |
//! | `serde_value!` types, `Serde<T>` | postcard |
//!
//! Invariant: round trip. Decoding returns the encoded value. Bytes that are no encoding of a value are an error, never
//! a panic.
//!
//! Neighbours: the typed API encodes into the transaction's memory (`buffer`) and decodes the record's bytes.

mod buffer;
mod fixed_layout;
#[cfg(feature = "serde")]
mod serde;
#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
mod tuple;

pub use buffer::ValueBuffer;
#[doc(hidden)]
pub use fixed_layout::field_type;
#[cfg(feature = "serde")]
pub use serde::{Serde, decode_postcard, encode_postcard};

use super::key::checked_text;
use super::{CodecError, exactly, take};

/// A type for the values of a table.
///
/// Implemented for integers, floats, text, bytes, and options and tuples of these. For rows of your own:
/// - [`fixed_layout!`](crate::fixed_layout) for `repr(C)` structs of fixed width: no encoding at all, a copy;
/// - `serde_value!` for any serde type (feature `serde`);
/// - this trait, by hand, for a format of your own.
///
/// ```
/// # extern crate ensile_engine as ensile;
/// use ensile::Value;
/// use ensile::codec::{CodecError, ValueBuffer};
///
/// #[derive(Debug, PartialEq)]
/// struct Celsius(i16);
///
/// impl Value for Celsius {
///     fn encode(&self, out: &mut ValueBuffer<'_>) {
///         self.0.encode(out);
///     }
///     fn decode(bytes: &[u8]) -> Result<Self, CodecError> {
///         i16::decode(bytes).map(Self)
///     }
///     fn type_name() -> String {
///         "celsius".to_string()
///     }
/// }
///
/// let mut bytes = Vec::new();
/// Celsius(-40).encode(&mut ValueBuffer::new(&mut bytes));
/// assert_eq!(Celsius::decode(&bytes), Ok(Celsius(-40)));
/// ```
pub trait Value: Sized {
    /// Size of the encoding in bytes, if the same for all values of the type. A read prefetches this size before the
    /// row is known. A wrong number is no error, only slower.
    const BYTES: Option<usize> = None;

    /// Appends the encoding of the value to `out`.
    fn encode(&self, out: &mut ValueBuffer<'_>);

    /// The value encoded by `bytes`.
    ///
    /// # Errors
    /// `bytes` are not the encoding of any value.
    fn decode(bytes: &[u8]) -> Result<Self, CodecError>;

    /// Name of the type in the catalogue. An open of the table with another type is detected by the name. The name must
    /// change with the encoding, and must not change otherwise.
    fn type_name() -> String;

    /// Fields of the type, in words, for a type whose name alone does not tell its encoding. The catalogue keeps the
    /// words, and an open of the table with other words is refused. `None` states nothing, and nothing is compared.
    #[must_use]
    fn layout() -> Option<String> {
        None
    }

    /// Calls `read` with the value encoded by `bytes`. If possible, `read` gets the bytes in place, without a new
    /// value.
    ///
    /// # Errors
    /// As for [`decode`](Self::decode).
    #[inline]
    fn view<R>(bytes: &[u8], read: impl FnOnce(&Self) -> R) -> Result<R, CodecError> {
        Self::decode(bytes).map(|value| read(&value))
    }
}

/// A form for a value of type `V`: `V` itself, a `str` for a `String`, a `[u8]` for a `Vec<u8>`.
pub trait AsValue<V> {
    /// Appends the encoding of the value to `out`.
    fn encode_value(&self, out: &mut ValueBuffer<'_>);
}

impl<V: Value> AsValue<V> for V {
    #[inline]
    fn encode_value(&self, out: &mut ValueBuffer<'_>) {
        self.encode(out);
    }
}

impl AsValue<String> for str {
    #[inline]
    fn encode_value(&self, out: &mut ValueBuffer<'_>) {
        out.extend_from_slice(self.as_bytes());
    }
}

impl AsValue<Vec<u8>> for [u8] {
    #[inline]
    fn encode_value(&self, out: &mut ValueBuffer<'_>) {
        out.extend_from_slice(self);
    }
}

impl<const N: usize> AsValue<Vec<u8>> for [u8; N] {
    #[inline]
    fn encode_value(&self, out: &mut ValueBuffer<'_>) {
        out.extend_from_slice(self);
    }
}

/// Values of a single width. The arguments encode and decode the bytes.
macro_rules! fixed_width {
    ($(where [$($generic:tt)*])? $type:ty, $name:expr, |$value:ident| $encode:expr, |$bytes:ident| $decode:expr) => {
        impl<$($($generic)*)?> Value for $type {
            const BYTES: Option<usize> = Some(size_of::<$type>());
            #[inline]
            fn encode(&self, out: &mut ValueBuffer<'_>) {
                let $value = self;
                out.extend_from_slice(&$encode);
            }

            #[inline]
            fn decode(bytes: &[u8]) -> Result<Self, CodecError> {
                let $bytes = exactly(bytes)?;
                $decode
            }

            fn type_name() -> String {
                $name.to_string()
            }
        }
    };
}

macro_rules! numbers {
    ($($type:ty),*) => {$(
        fixed_width!(
            $type,
            stringify!($type),
            |value| value.to_le_bytes(),
            |bytes| Ok(<$type>::from_le_bytes(bytes))
        );
    )*};
}

numbers!(u8, u16, u32, u64, u128, i8, i16, i32, i64, i128, f32, f64);

fixed_width!(bool, "bool", |value| [u8::from(*value)], |bytes| match u8::from_le_bytes(bytes) {
    0 => Ok(false),
    1 => Ok(true),
    other => Err(CodecError::new(format!("{other} where a bool is due"))),
});

fixed_width!(char, "char", |value| u32::from(*value).to_le_bytes(), |bytes| {
    let number = u32::from_le_bytes(bytes);
    char::from_u32(number).ok_or_else(|| CodecError::new(format!("{number:#x} is no character")))
});

fixed_width!(where [const N: usize] [u8; N], format!("[u8;{N}]"), |value| *value, |bytes| Ok(bytes));

fixed_width!((), "()", |_value| [], |bytes| {
    let []: [u8; 0] = bytes;
    Ok(())
});

impl Value for Vec<u8> {
    #[inline]
    fn encode(&self, out: &mut ValueBuffer<'_>) {
        out.extend_from_slice(self);
    }

    #[inline]
    fn decode(bytes: &[u8]) -> Result<Self, CodecError> {
        Ok(bytes.to_vec())
    }

    fn type_name() -> String {
        "bytes".to_string()
    }
}

impl Value for String {
    #[inline]
    fn encode(&self, out: &mut ValueBuffer<'_>) {
        out.extend_from_slice(self.as_bytes());
    }

    #[inline]
    fn decode(bytes: &[u8]) -> Result<Self, CodecError> {
        checked_text(bytes.to_vec())
    }

    fn type_name() -> String {
        "string".to_string()
    }
}

impl<T: Value> Value for Option<T> {
    #[inline]
    fn encode(&self, out: &mut ValueBuffer<'_>) {
        out.push(u8::from(self.is_some()));
        if let Some(value) = self {
            value.encode(out);
        }
    }

    #[inline]
    fn decode(mut bytes: &[u8]) -> Result<Self, CodecError> {
        match take(&mut bytes)? {
            [0] if bytes.is_empty() => Ok(None),
            [0] => Err(CodecError::new("bytes behind a None")),
            [1] => T::decode(bytes).map(Some),
            [other] => Err(CodecError::new(format!("{other} where an option's mark, 0 or 1, is due"))),
        }
    }

    fn type_name() -> String {
        format!("option<{}>", T::type_name())
    }

    fn layout() -> Option<String> {
        T::layout()
    }
}
