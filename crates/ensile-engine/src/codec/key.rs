//! Keys: encodings with the byte order of the values.
//!
//! Two forms of an encoding:
//! - The *last* form ([`AsKey::encode`]) stands at the end of a key and needs no end mark: text is stored raw.
//! - The *delimited* form ([`AsKey::encode_delimited`]) marks its own end, so that bytes may follow: the components of
//!   a tuple except the last, and secondary keys before a primary key.
//!
//! | type | last form | delimited form |
//! |---|---|---|
//! | `u8` .. `u128` | big-endian | the same |
//! | `i8` .. `i128` | big-endian, sign bit flipped | the same |
//! | `bool`, `char` | as `u8`, as `u32` | the same |
//! | `TotalF32`, `TotalF64` | sign bit flipped; negative: all bits flipped | the same |
//! | `[u8; N]`, `()` | raw | the same |
//! | `String`, `Vec<u8>` | raw | `00` becomes `00 FF`, then `00 01` ends it |
//! | `Option<T>` | `00`, or `01` and T | `00`, or `01` and T delimited |
//! | `Descending<T>` | complement of T delimited | the same |
//! | tuples, 1 to 8 | components delimited, the last in its last form | all components delimited |
//!
//! Invariants:
//! - ORDER: `a < b` if and only if the encoding of `a` is bytewise less than the encoding of `b`, in either form.
//! - PREFIX-FREE: No delimited form is the beginning of another value's.
//! - ROUND TRIP: Decoding returns the encoded value, and refuses bytes that are no encoding of a value.
//!
//! Neighbours: `composite` has tuples, options and `Descending`. `float` has the total order of floating-point numbers.
//! [`super::bounds`] encodes ranges of keys.

mod composite;
mod float;
#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;

pub use composite::Descending;
pub use float::{TotalF32, TotalF64};

use super::{CodecError, KeyBuffer, take};

/// End of text in the delimited form, after a NUL. Less than [`NUL_ESCAPED`] and than any other byte in this place.
const TEXT_END: u8 = 0x01;
/// Mark after a NUL that belongs to the text.
const NUL_ESCAPED: u8 = 0xFF;

/// A type for keys of a table or of an index.
///
/// [`AsKey<Self>`] has the encoding: a key type is the first of its own forms. The order of the encodings must be the
/// order of [`Ord`]. The encodings are stored, so they must never change. For a struct as a key, name the fields with
/// [`composite_key!`](crate::composite_key).
///
/// ```
/// # extern crate ensile_engine as ensile;
/// use ensile::Key;
/// use ensile::codec::{AsKey, KeyBuffer};
/// let (mut small, mut large) = (KeyBuffer::new(), KeyBuffer::new());
/// AsKey::<i32>::encode(&-5, &mut small);
/// AsKey::<i32>::encode(&300, &mut large);
/// assert!(small.as_ref() < large.as_ref());
/// assert_eq!(<i32 as Key>::decode(small.as_ref()), Ok(-5));
/// assert_eq!(<(u16, String)>::type_name(), "(u16,string)");
/// ```
pub trait Key: Sized + Ord + AsKey<Self> {
    /// The value with `bytes` as its last form.
    ///
    /// # Errors
    /// `bytes` are no last form of a value.
    fn decode(bytes: &[u8]) -> Result<Self, CodecError>;

    /// The value with a delimited form at the beginning of `bytes`. `bytes` moves to the end of this form.
    ///
    /// # Errors
    /// `bytes` do not begin with a delimited form. The position of `bytes` is then unspecified.
    fn decode_delimited(bytes: &mut &[u8]) -> Result<Self, CodecError>;

    /// Name of the type in the catalogue. An open of the table with another type is detected by the name. The name
    /// never changes.
    fn type_name() -> String;
}

/// A form for a key of type `K`: `K` itself, a reference to `K`, or a cheaper form.
///
/// A `str` is a form of a `String`, a `[u8]` of a `Vec<u8>`, and a tuple of forms of a tuple of keys: `(7, "abc")` for
/// a `(u32, String)`. All forms of a key have the same encoding.
pub trait AsKey<K> {
    /// Appends the last form. No byte may follow.
    fn encode(&self, out: &mut KeyBuffer);

    /// Appends the delimited form, which marks its own end.
    fn encode_delimited(&self, out: &mut KeyBuffer);
}

impl<K, Q: AsKey<K> + ?Sized> AsKey<K> for &Q {
    #[inline]
    fn encode(&self, out: &mut KeyBuffer) {
        (**self).encode(out);
    }

    #[inline]
    fn encode_delimited(&self, out: &mut KeyBuffer) {
        (**self).encode_delimited(out);
    }
}

/// Keys of a single width, with the same bytes in the last and in the delimited form. The arguments encode and decode
/// the bytes.
macro_rules! fixed_width {
    ($(where [$($generic:tt)*])? $type:ty, $name:expr, |$value:ident| $encode:expr, |$bytes:ident| $decode:expr) => {
        impl<$($($generic)*)?> $crate::codec::AsKey<$type> for $type {
            #[inline]
            fn encode(&self, out: &mut $crate::codec::KeyBuffer) {
                let $value = self;
                out.push_array($encode);
            }

            #[inline]
            fn encode_delimited(&self, out: &mut $crate::codec::KeyBuffer) {
                $crate::codec::AsKey::<$type>::encode(self, out);
            }
        }

        impl<$($($generic)*)?> $crate::codec::Key for $type {
            #[inline]
            fn decode(bytes: &[u8]) -> Result<Self, $crate::codec::CodecError> {
                let $bytes = $crate::codec::exactly(bytes)?;
                $decode
            }

            #[inline]
            fn decode_delimited(bytes: &mut &[u8]) -> Result<Self, $crate::codec::CodecError> {
                let $bytes = $crate::codec::take(bytes)?;
                $decode
            }

            fn type_name() -> String {
                $name.to_string()
            }
        }
    };
}
use fixed_width;

/// Integers. `MIN` is the sign bit of a signed type and zero for an unsigned type: the flip that each type needs.
macro_rules! integers {
    ($($type:ty),*) => {$(
        fixed_width!(
            $type,
            stringify!($type),
            |value| (value ^ <$type>::MIN).to_be_bytes(),
            |bytes| Ok(<$type>::from_be_bytes(bytes) ^ <$type>::MIN)
        );
    )*};
}

integers!(u8, u16, u32, u64, u128, i8, i16, i32, i64, i128);

fixed_width!(bool, "bool", |value| [u8::from(*value)], |bytes| match u8::from_be_bytes(bytes) {
    0 => Ok(false),
    1 => Ok(true),
    other => Err(CodecError::new(format!("{other} where a bool is due"))),
});

fixed_width!(char, "char", |value| u32::from(*value).to_be_bytes(), |bytes| {
    let number = u32::from_be_bytes(bytes);
    char::from_u32(number).ok_or_else(|| CodecError::new(format!("{number:#x} is no character")))
});

fixed_width!(where [const N: usize] [u8; N], format!("[u8;{N}]"), |value| *value, |bytes| Ok(bytes));

fixed_width!((), "()", |_value| [], |bytes| {
    let []: [u8; 0] = bytes;
    Ok(())
});

/// Forms of text. `as_ref` of each form returns its bytes.
macro_rules! text {
    ($key:ty: $(where [$($generic:tt)*])? $form:ty) => {
        impl<$($($generic)*)?> AsKey<$key> for $form {
            #[inline]
            fn encode(&self, out: &mut KeyBuffer) {
                out.push(self.as_ref());
            }

            #[inline]
            fn encode_delimited(&self, out: &mut KeyBuffer) {
                push_escaped(self.as_ref(), out);
                out.push_array([0x00, TEXT_END]);
            }
        }
    };
}

text!(String: String);
text!(String: str);
text!(Vec<u8>: Vec<u8>);
text!(Vec<u8>: [u8]);
text!(Vec<u8>: where [const N: usize] [u8; N]);

impl Key for Vec<u8> {
    #[inline]
    fn decode(bytes: &[u8]) -> Result<Self, CodecError> {
        Ok(bytes.to_vec())
    }

    fn decode_delimited(bytes: &mut &[u8]) -> Result<Self, CodecError> {
        take_escaped(bytes)
    }

    fn type_name() -> String {
        "bytes".to_string()
    }
}

impl Key for String {
    #[inline]
    fn decode(bytes: &[u8]) -> Result<Self, CodecError> {
        checked_text(bytes.to_vec())
    }

    fn decode_delimited(bytes: &mut &[u8]) -> Result<Self, CodecError> {
        checked_text(take_escaped(bytes)?)
    }

    fn type_name() -> String {
        "string".to_string()
    }
}

/// `bytes` as text. Bytes that are not UTF-8 are refused.
pub(super) fn checked_text(bytes: Vec<u8>) -> Result<String, CodecError> {
    String::from_utf8(bytes)
        .map_err(|error| CodecError::new(format!("text that is not UTF-8: {}", error.utf8_error())))
}

/// Appends `text` with escaped NULs and without an end. The appended bytes begin the delimited form of `text`, and of
/// every longer text with the prefix `text`.
pub(super) fn push_escaped(text: &[u8], out: &mut KeyBuffer) {
    let mut rest = text;
    while let Some(nul) = rest.iter().position(|&byte| byte == 0x00) {
        out.push(&rest[..nul]);
        out.push_array([0x00, NUL_ESCAPED]);
        rest = &rest[nul + 1..];
    }
    out.push(rest);
}

/// Reads escaped text up to and including its end.
fn take_escaped(bytes: &mut &[u8]) -> Result<Vec<u8>, CodecError> {
    let mut text = Vec::new();
    loop {
        let nul = bytes
            .iter()
            .position(|&byte| byte == 0x00)
            .ok_or_else(|| CodecError::new("text without its end"))?;
        text.extend_from_slice(&bytes[..nul]);
        let mark = bytes.get(nul + 1).copied();
        *bytes = bytes.get(nul + 2..).unwrap_or_default();
        match mark {
            Some(TEXT_END) => return Ok(text),
            Some(NUL_ESCAPED) => text.push(0x00),
            _ => return Err(CodecError::new("a NUL in text that is neither its end nor escaped")),
        }
    }
}
