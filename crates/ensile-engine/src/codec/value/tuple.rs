//! Tuples of values: every component but the last has a length in front, so a component can be any value.
//!
//! Neighbours: [`super::value`](super) has the trait; `docs/internals/formats/rows.md` has the bytes.

use super::{Value, ValueBuffer};
use crate::codec::{CodecError, take};

/// Bytes of the length before a component.
const LENGTH_BYTES: usize = size_of::<u32>();

/// Appends a component that is not the last, with its length in front.
#[inline]
fn put_part<P: Value>(part: &P, out: &mut ValueBuffer<'_>) {
    out.extend_from_slice(&[0; LENGTH_BYTES]);
    let begin = out.end();
    part.encode(out);
    // A component that is too long for its length is far over the limit of a value. The limit refuses the whole value.
    let length = u32::try_from(out.end() - begin).unwrap_or(u32::MAX);
    out.set(begin - LENGTH_BYTES, length.to_le_bytes());
}

/// Splits the component with a length in front off the beginning of `bytes`, and decodes the component.
#[inline]
fn take_part<V: Value>(bytes: &mut &[u8]) -> Result<V, CodecError> {
    let length = u32::from_le_bytes(take(bytes)?) as usize;
    let (part, rest) =
        bytes.split_at_checked(length).ok_or_else(|| CodecError::length(bytes.len(), length))?;
    *bytes = rest;
    V::decode(part)
}

/// Implements `Value` for a tuple: the components but the last, then the last component, as (type, place).
macro_rules! tuple {
    ($($part:ident $at:tt,)* ; $last:ident $last_at:tt) => {
        impl<$($part: Value,)* $last: Value> Value for ($($part,)* $last,) {
            const BYTES: Option<usize> = {
                let bytes = $last::BYTES;
                $(let bytes = match (bytes, $part::BYTES) {
                    (Some(bytes), Some(part)) => Some(bytes + LENGTH_BYTES + part),
                    _ => None,
                };)*
                bytes
            };

            #[inline]
            fn encode(&self, out: &mut ValueBuffer<'_>) {
                $(put_part(&self.$at, out);)*
                self.$last_at.encode(out);
            }

            #[inline]
            fn decode(bytes: &[u8]) -> Result<Self, CodecError> {
                let mut rest = bytes;
                Ok(($(take_part::<$part>(&mut rest)?,)* $last::decode(std::mem::take(&mut rest))?,))
            }

            fn type_name() -> String {
                let names: &[String] = &[$($part::type_name(),)* $last::type_name()];
                format!("({})", names.join(","))
            }

            fn layout() -> Option<String> {
                let layouts: &[Option<String>] = &[$($part::layout(),)* $last::layout()];
                if layouts.iter().all(Option::is_none) {
                    return None;
                }
                let parts: Vec<&str> = layouts.iter().map(|part| part.as_deref().unwrap_or("-")).collect();
                Some(format!("({})", parts.join(",")))
            }
        }
    };
}

tuple!(; A 0);
tuple!(A 0,; B 1);
tuple!(A 0, B 1,; C 2);
tuple!(A 0, B 1, C 2,; D 3);
tuple!(A 0, B 1, C 2, D 3,; E 4);
tuple!(A 0, B 1, C 2, D 3, E 4,; F 5);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5,; G 6);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5, G 6,; H 7);
