//! Keys made of keys: tuples, options, the descending order, and structs through [`composite_key!`].
//!
//! Neighbours: [`super::key`](super) states the encodings and their invariants ORDER, PREFIX-FREE and ROUND TRIP.

use std::cmp::{Ordering, Reverse};

use super::{AsKey, CodecError, Key, KeyBuffer, take};

const NONE: u8 = 0x00;
const SOME: u8 = 0x01;

/// `None` sorts before every `Some`.
impl<K: Key, Q: AsKey<K>> AsKey<Option<K>> for Option<Q> {
    #[inline]
    fn encode(&self, out: &mut KeyBuffer) {
        match self {
            None => out.push_array([NONE]),
            Some(key) => {
                out.push_array([SOME]);
                key.encode(out);
            }
        }
    }

    #[inline]
    fn encode_delimited(&self, out: &mut KeyBuffer) {
        match self {
            None => out.push_array([NONE]),
            Some(key) => {
                out.push_array([SOME]);
                key.encode_delimited(out);
            }
        }
    }
}

impl<K: Key> Key for Option<K> {
    fn decode(mut bytes: &[u8]) -> Result<Self, CodecError> {
        match take(&mut bytes)? {
            [NONE] if bytes.is_empty() => Ok(None),
            [NONE] => Err(CodecError::new("bytes behind a None")),
            [SOME] => K::decode(bytes).map(Some),
            [other] => Err(unknown_option(other)),
        }
    }

    fn decode_delimited(bytes: &mut &[u8]) -> Result<Self, CodecError> {
        match take(bytes)? {
            [NONE] => Ok(None),
            [SOME] => K::decode_delimited(bytes).map(Some),
            [other] => Err(unknown_option(other)),
        }
    }

    fn type_name() -> String {
        format!("option<{}>", K::type_name())
    }
}

#[cold]
fn unknown_option(mark: u8) -> CodecError {
    CodecError::new(format!("{mark} where an option's mark, 0 or 1, is due"))
}

/// A key in the opposite order: the largest first.
///
/// ```
/// # extern crate ensile_engine as ensile;
/// use ensile::Descending;
/// use ensile::codec::{AsKey, KeyBuffer};
/// let (mut newer, mut older) = (KeyBuffer::new(), KeyBuffer::new());
/// AsKey::<Descending<u64>>::encode(&Descending(9u64), &mut newer);
/// AsKey::<Descending<u64>>::encode(&Descending(3u64), &mut older);
/// assert!(newer.as_ref() < older.as_ref());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Descending<T>(
    /// The key in its own order.
    pub T,
);

impl<T: Ord> Ord for Descending<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        Reverse(&self.0).cmp(&Reverse(&other.0))
    }
}

impl<T: Ord> PartialOrd for Descending<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Uses the delimited form even at the end of a key. The complement reverses an order only if no encoding is the
/// beginning of another (PREFIX-FREE).
impl<K: Key, Q: AsKey<K>> AsKey<Descending<K>> for Descending<Q> {
    #[inline]
    fn encode(&self, out: &mut KeyBuffer) {
        let start = out.len();
        self.0.encode_delimited(out);
        out.complement_from(start);
    }

    #[inline]
    fn encode_delimited(&self, out: &mut KeyBuffer) {
        AsKey::<Descending<K>>::encode(self, out);
    }
}

impl<K: Key> Key for Descending<K> {
    fn decode(mut bytes: &[u8]) -> Result<Self, CodecError> {
        let key = Self::decode_delimited(&mut bytes)?;
        if bytes.is_empty() { Ok(key) } else { Err(CodecError::new("bytes behind a descending key")) }
    }

    fn decode_delimited(bytes: &mut &[u8]) -> Result<Self, CodecError> {
        let mut ascending = KeyBuffer::new();
        ascending.push(bytes);
        ascending.complement_from(0);
        let mut rest = ascending.as_ref();
        let key = K::decode_delimited(&mut rest)?;
        *bytes = &bytes[bytes.len() - rest.len()..];
        Ok(Self(key))
    }

    fn type_name() -> String {
        format!("descending<{}>", K::type_name())
    }
}

/// Implements `AsKey` and `Key` for a tuple: the components before the last, each as (type, form, place), then the
/// last.
macro_rules! tuple {
    ($($key:ident $form:ident $at:tt,)* ; $last:ident $last_form:ident $last_at:tt) => {
        impl<$($key: Key, $form: AsKey<$key>,)* $last: Key, $last_form: AsKey<$last>>
            AsKey<($($key,)* $last,)> for ($($form,)* $last_form,)
        {
            #[inline]
            fn encode(&self, out: &mut KeyBuffer) {
                $(self.$at.encode_delimited(out);)*
                self.$last_at.encode(out);
            }

            #[inline]
            fn encode_delimited(&self, out: &mut KeyBuffer) {
                $(self.$at.encode_delimited(out);)*
                self.$last_at.encode_delimited(out);
            }
        }

        impl<$($key: Key,)* $last: Key> Key for ($($key,)* $last,) {
            // Always inlined, so that unused components are not even decoded.
            #[inline(always)]
            fn decode(bytes: &[u8]) -> Result<Self, CodecError> {
                let mut rest = bytes;
                Ok(($($key::decode_delimited(&mut rest)?,)* $last::decode(std::mem::take(&mut rest))?,))
            }

            #[inline]
            fn decode_delimited(bytes: &mut &[u8]) -> Result<Self, CodecError> {
                Ok(($($key::decode_delimited(bytes)?,)* $last::decode_delimited(bytes)?,))
            }

            fn type_name() -> String {
                let names: &[String] = &[$($key::type_name(),)* $last::type_name()];
                format!("({})", names.join(","))
            }
        }
    };
}

tuple!(; A P 0);
tuple!(A P 0,; B Q 1);
tuple!(A P 0, B Q 1,; C R 2);
tuple!(A P 0, B Q 1, C R 2,; D S 3);
tuple!(A P 0, B Q 1, C R 2, D S 3,; E T 4);
tuple!(A P 0, B Q 1, C R 2, D S 3, E T 4,; F U 5);
tuple!(A P 0, B Q 1, C R 2, D S 3, E T 4, F U 5,; G V 6);
tuple!(A P 0, B Q 1, C R 2, D S 3, E T 4, F U 5, G V 6,; H W 7);

/// Makes a struct a key, with the encoding of the tuple of its fields in the order of the macro call.
///
/// Name all fields, in the order of their declaration, so that the derived `Ord` is the order of the encodings. The
/// struct is `Ord + Clone`, with at most eight fields.
///
/// ```
/// # extern crate ensile_engine as ensile;
/// use ensile::Key;
///
/// #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
/// struct OrderKey {
///     warehouse: u16,
///     district: u8,
///     order: u32,
/// }
/// ensile::composite_key!(OrderKey { warehouse: u16, district: u8, order: u32 });
///
/// assert_eq!(OrderKey::type_name(), "(u16,u8,u32)");
/// assert_eq!(OrderKey::decode(&[0, 1, 2, 0, 0, 0, 3]), Ok(OrderKey { warehouse: 1, district: 2, order: 3 }));
/// ```
#[macro_export]
macro_rules! composite_key {
    ($type:ident { $($field:ident: $field_type:ty),+ $(,)? }) => {
        impl $crate::codec::AsKey<$type> for $type {
            #[inline]
            fn encode(&self, out: &mut $crate::codec::KeyBuffer) {
                $crate::codec::AsKey::<($($field_type,)+)>::encode(&($(&self.$field,)+), out);
            }

            #[inline]
            fn encode_delimited(&self, out: &mut $crate::codec::KeyBuffer) {
                $crate::codec::AsKey::<($($field_type,)+)>::encode_delimited(&($(&self.$field,)+), out);
            }
        }

        impl $crate::codec::Key for $type {
            fn decode(bytes: &[u8]) -> ::std::result::Result<Self, $crate::codec::CodecError> {
                let ($($field,)+) = <($($field_type,)+) as $crate::codec::Key>::decode(bytes)?;
                ::std::result::Result::Ok(Self { $($field),+ })
            }

            fn decode_delimited(bytes: &mut &[u8]) -> ::std::result::Result<Self, $crate::codec::CodecError> {
                let ($($field,)+) = <($($field_type,)+) as $crate::codec::Key>::decode_delimited(bytes)?;
                ::std::result::Result::Ok(Self { $($field),+ })
            }

            fn type_name() -> ::std::string::String {
                <($($field_type,)+) as $crate::codec::Key>::type_name()
            }
        }
    };
}
