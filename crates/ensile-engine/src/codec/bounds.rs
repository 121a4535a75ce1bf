//! Ranges and prefixes of keys, encoded as ranges of bytes.
//!
//! A table's key is a single encoding in its last form, so an encoded bound divides the keys exactly as the bound does.
//! An index entry is the delimited secondary key, followed by the primary key unless the index is unique. All entries
//! of a secondary key begin with its delimited form, and lie between this form and its [`successor`].
//!
//! Neighbours: [`Readable`](crate::Readable) takes [`KeyBounds`] from its callers, and scans the encoded
//! [`ByteRange`]s.

use std::ops::{Bound, Range, RangeBounds, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive};

use ensile_index::Direction;

use super::key::push_escaped;
use super::{AsKey, Key, KeyBuffer};

/// A range of keys of type `K`: any range of the standard library over forms of a key, or a [`Prefix`].
///
/// `..`, `5..10`, `(1, 0)..=(1, 9)`, `"a".."m"` over `String` keys, pairs of [`Bound`], `Prefix("ab")`. A range with
/// its end before its begin is empty.
///
/// ```
/// # extern crate ensile_engine as ensile;
/// use std::ops::Bound;
/// use ensile::Prefix;
/// use ensile::codec::KeyBounds;
/// fn takes_strings(_: impl KeyBounds<String>) {}
/// takes_strings(..);
/// takes_strings("a".."m");
/// takes_strings((Bound::Excluded("a"), Bound::Unbounded));
/// takes_strings(Prefix("ab"));
/// ```
pub trait KeyBounds<K: Key> {
    /// Range of a table's keys within the bounds.
    fn encode(&self) -> ByteRange;

    /// Range of an index's entries with secondary keys within the bounds.
    fn encode_delimited(&self) -> ByteRange;
}

impl<K: Key> KeyBounds<K> for RangeFull {
    fn encode(&self) -> ByteRange {
        ByteRange { lower: Bound::Unbounded, upper: Bound::Unbounded }
    }

    fn encode_delimited(&self) -> ByteRange {
        KeyBounds::<K>::encode(self)
    }
}

macro_rules! key_bounds {
    ($($range:ty),*) => {$(
        impl<K: Key, Q: AsKey<K>> KeyBounds<K> for $range {
            #[inline]
            fn encode(&self) -> ByteRange {
                ByteRange::of_keys(RangeBounds::<Q>::start_bound(self), RangeBounds::<Q>::end_bound(self))
            }

            #[inline]
            fn encode_delimited(&self) -> ByteRange {
                ByteRange::of_entries(RangeBounds::<Q>::start_bound(self), RangeBounds::<Q>::end_bound(self))
            }
        }
    )*};
}

key_bounds!(Range<Q>, RangeFrom<Q>, RangeInclusive<Q>, RangeTo<Q>, RangeToInclusive<Q>, (Bound<Q>, Bound<Q>));

/// All keys that begin with a prefix: the beginning of a text, or the first components of a tuple.
///
/// ```
/// # extern crate ensile_engine as ensile;
/// use ensile::Prefix;
/// use ensile::codec::KeyBounds;
/// fn takes_orders(_: impl KeyBounds<(u16, u8, u32)>) {}
/// takes_orders(Prefix((1,))); // all orders of warehouse 1
/// takes_orders(Prefix((1, 2))); // all orders of its district 2
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Prefix<P>(
    /// The prefix: see [`KeyPrefix`].
    pub P,
);

impl<K: Key, P: KeyPrefix<K>> KeyBounds<K> for Prefix<P> {
    #[inline]
    fn encode(&self) -> ByteRange {
        let mut prefix = KeyBuffer::new();
        self.0.encode_prefix(&mut prefix);
        ByteRange::beginning_with(prefix)
    }

    #[inline]
    fn encode_delimited(&self) -> ByteRange {
        let mut prefix = KeyBuffer::new();
        self.0.encode_prefix_delimited(&mut prefix);
        ByteRange::beginning_with(prefix)
    }
}

/// A type for the [`Prefix`] of keys of type `K`: text for text, a shorter tuple for a tuple.
pub trait KeyPrefix<K: Key> {
    /// Appends the common beginning of the last forms of the keys with this prefix. No other key has this beginning.
    fn encode_prefix(&self, out: &mut KeyBuffer);

    /// Appends the common beginning of the delimited forms of the keys with this prefix. No other key has this
    /// beginning.
    fn encode_prefix_delimited(&self, out: &mut KeyBuffer);
}

impl<K: Key, P: KeyPrefix<K> + ?Sized> KeyPrefix<K> for &P {
    fn encode_prefix(&self, out: &mut KeyBuffer) {
        (**self).encode_prefix(out);
    }

    fn encode_prefix_delimited(&self, out: &mut KeyBuffer) {
        (**self).encode_prefix_delimited(out);
    }
}

macro_rules! text_prefix {
    ($key:ty: $(where [$($generic:tt)*])? $form:ty) => {
        impl<$($($generic)*)?> KeyPrefix<$key> for $form {
            fn encode_prefix(&self, out: &mut KeyBuffer) {
                out.push(self.as_ref());
            }

            fn encode_prefix_delimited(&self, out: &mut KeyBuffer) {
                push_escaped(self.as_ref(), out);
            }
        }
    };
}

text_prefix!(String: String);
text_prefix!(String: str);
text_prefix!(Vec<u8>: Vec<u8>);
text_prefix!(Vec<u8>: [u8]);
text_prefix!(Vec<u8>: where [const N: usize] [u8; N]);

/// Implements `KeyPrefix` for a tuple of leading components, each as (type, form, place), and for every number of
/// further components.
macro_rules! tuple_prefix {
    ($prefix:tt: $([$($rest:ident)+])+) => {
        $(tuple_prefix!(@one $prefix [$($rest)+]);)+
    };
    (@one ($($key:ident $form:ident $at:tt),+) [$($rest:ident)+]) => {
        impl<$($key: Key, $form: AsKey<$key>,)+ $($rest: Key),+> KeyPrefix<($($key,)+ $($rest,)+)> for ($($form,)+) {
            #[inline]
            fn encode_prefix(&self, out: &mut KeyBuffer) {
                $(self.$at.encode_delimited(out);)+
            }

            #[inline]
            fn encode_prefix_delimited(&self, out: &mut KeyBuffer) {
                $(self.$at.encode_delimited(out);)+
            }
        }
    };
}

tuple_prefix!((A P 0): [B] [B C] [B C D] [B C D E] [B C D E F] [B C D E F G] [B C D E F G H]);
tuple_prefix!((A P 0, B Q 1): [C] [C D] [C D E] [C D E F] [C D E F G] [C D E F G H]);
tuple_prefix!((A P 0, B Q 1, C R 2): [D] [D E] [D E F] [D E F G] [D E F G H]);
tuple_prefix!((A P 0, B Q 1, C R 2, D S 3): [E] [E F] [E F G] [E F G H]);
tuple_prefix!((A P 0, B Q 1, C R 2, D S 3, E T 4): [F] [F G] [F G H]);
tuple_prefix!((A P 0, B Q 1, C R 2, D S 3, E T 4, F U 5): [G] [G H]);
tuple_prefix!((A P 0, B Q 1, C R 2, D S 3, E T 4, F U 5, G V 6): [H]);

/// A range over encoded keys, from [`KeyBounds`].
#[derive(Debug, Clone)]
pub struct ByteRange {
    lower: Bound<KeyBuffer>,
    upper: Bound<KeyBuffer>,
}

impl ByteRange {
    /// A range without keys: no key lies above and below the same bound.
    const EMPTY: Self =
        Self { lower: Bound::Excluded(KeyBuffer::new()), upper: Bound::Excluded(KeyBuffer::new()) };

    /// The keys of a table between two bounds.
    fn of_keys<K: Key>(lower: Bound<&impl AsKey<K>>, upper: Bound<&impl AsKey<K>>) -> Self {
        Self { lower: lower.map(|key| encode_key(key)), upper: upper.map(|key| encode_key(key)) }
    }

    /// The entries of an index with secondary keys between two bounds. A bound lies before or after all entries of its
    /// key.
    fn of_entries<S: Key>(lower: Bound<&impl AsKey<S>>, upper: Bound<&impl AsKey<S>>) -> Self {
        let lower = match lower.map(|key| encode_key_delimited(key)) {
            Bound::Excluded(key) => match successor(key.as_ref()) {
                Some(above) => Bound::Included(above),
                None => return Self::EMPTY,
            },
            other => other,
        };
        let upper = match upper.map(|key| encode_key_delimited(key)) {
            Bound::Included(key) => successor(key.as_ref()).map_or(Bound::Unbounded, Bound::Excluded),
            other => other,
        };
        Self { lower, upper }
    }

    /// A single key of a table.
    #[inline]
    pub(crate) fn of_key<K: Key>(key: &(impl AsKey<K> + ?Sized)) -> Self {
        let key = encode_key(key);
        Self { lower: Bound::Included(key.clone()), upper: Bound::Included(key) }
    }

    /// The entries of an index for a single secondary key.
    #[inline]
    pub(crate) fn of_entry<S: Key>(key: &(impl AsKey<S> + ?Sized)) -> Self {
        Self::beginning_with(encode_key_delimited(key))
    }

    /// Range of the byte strings that begin with `prefix`.
    fn beginning_with(prefix: KeyBuffer) -> Self {
        let upper = successor(prefix.as_ref()).map_or(Bound::Unbounded, Bound::Excluded);
        Self { lower: Bound::Included(prefix), upper }
    }

    /// Borrows the range in the form that a scan of the index expects.
    #[inline]
    pub(crate) fn as_range(&self) -> ensile_index::Range<'_> {
        ensile_index::Range {
            lower: self.lower.as_ref().map(KeyBuffer::as_ref),
            upper: self.upper.as_ref().map(KeyBuffer::as_ref),
        }
    }

    /// True if no key lies within: the encoding of a range with its end before its begin.
    pub(crate) fn is_empty(&self) -> bool {
        let range = self.as_range();
        match (range.lower, range.upper) {
            (Bound::Unbounded, _) | (_, Bound::Unbounded) => false,
            (Bound::Included(lower), Bound::Included(upper)) => lower > upper,
            (
                Bound::Included(lower) | Bound::Excluded(lower),
                Bound::Included(upper) | Bound::Excluded(upper),
            ) => lower >= upper,
        }
    }

    /// Shortens the range to the keys after `key` in the direction of a scan: the next batch of the scan begins there.
    pub(crate) fn resume(&mut self, key: KeyBuffer, direction: Direction) {
        let rest = match direction {
            Direction::Forward => &mut self.lower,
            Direction::Reverse => &mut self.upper,
        };
        *rest = Bound::Excluded(key);
    }
}

/// The least byte string above every string that begins with `prefix`; `None` if no such string exists. The last byte
/// other than `FF` is incremented, and the bytes after it are dropped.
fn successor(prefix: &[u8]) -> Option<KeyBuffer> {
    let last = prefix.iter().rposition(|&byte| byte != 0xFF)?;
    let mut buffer = KeyBuffer::new();
    buffer.push(&prefix[..last]);
    buffer.push_array([prefix[last] + 1]);
    Some(buffer)
}

/// Encodes `key` in its last form: the form of a key in a table.
#[inline]
pub(crate) fn encode_key<K>(key: &(impl AsKey<K> + ?Sized)) -> KeyBuffer {
    let mut buffer = KeyBuffer::new();
    key.encode(&mut buffer);
    buffer
}

/// Encodes `key` in its delimited form: the beginning of an index entry.
#[inline]
pub(crate) fn encode_key_delimited<K>(key: &(impl AsKey<K> + ?Sized)) -> KeyBuffer {
    let mut buffer = KeyBuffer::new();
    key.encode_delimited(&mut buffer);
    buffer
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
