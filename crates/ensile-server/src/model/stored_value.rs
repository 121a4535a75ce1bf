//! The value of a row in `keys`: a header with the type and the expiry, and the bytes of a string or of a small
//! collection. The bytes of a larger collection belong to its type.
//!
//! ```text
//! 0      1                    9                  17
//! +------+--------------------+------------------+---------
//! | type | [expiry, i64, ms]  | [object, u64]    | bytes ..
//! +------+--------------------+------------------+---------
//! type: bits 0 to 3 the kind, bit 6 an expiry follows, bit 7 an object id follows
//! ```
//! Invariants:
//! - The form never changes; a new kind gets a new number.
//! - A read in place, such as a scan, copies no bytes: the view of a [`StoredValue`] has the header and the length
//!   only.
//!
//! Neighbours: [`super::Keyspace`] reads and writes rows.

use ensile::Value;
use ensile::codec::{AsValue, CodecError, ValueBuffer};

use crate::blocking::WaitKind;

/// Longest header in bytes.
pub(crate) const HEADER_BYTES_MAX: usize = 1 + size_of::<i64>() + size_of::<u64>();

const HAS_EXPIRY: u8 = 1 << 6;
const HAS_OBJECT: u8 = 1 << 7;
const KIND: u8 = 0x0F;
/// Largest number of bits that name a stripe of an object.
pub(crate) const STRIPE_BITS_MAX: u8 = 6;

const UNKNOWN: u8 = !(HAS_EXPIRY | HAS_OBJECT | KIND);

/// Type of a key's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    String,
    List,
    Set,
    SortedSet,
    Hash,
    Stream,
}

impl Kind {
    /// The kind for clients that wait; `None` for values that nobody waits for.
    pub(crate) fn waited_for(self) -> Option<WaitKind> {
        match self {
            Self::List => Some(WaitKind::List),
            Self::SortedSet => Some(WaitKind::SortedSet),
            Self::Stream => Some(WaitKind::Stream),
            Self::String | Self::Set | Self::Hash => None,
        }
    }

    /// All types, by their numbers in rows.
    const ALL: [Self; 6] = [Self::String, Self::List, Self::Set, Self::SortedSet, Self::Hash, Self::Stream];

    /// Name as `TYPE` replies.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::String => "string",
            Self::List => "list",
            Self::Set => "set",
            Self::SortedSet => "zset",
            Self::Hash => "hash",
            Self::Stream => "stream",
        }
    }

    fn number(self) -> u8 {
        self as u8
    }

    fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }
}

/// Header of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ValueHeader {
    pub(crate) kind: Kind,
    /// Time from which the key is absent, in milliseconds since 1970; `None` for a key that stays.
    pub(crate) expiry_millis: Option<i64>,
    /// Number under which the elements of a larger value are kept; `None` for a value within the row.
    pub(crate) object: Option<u64>,
}

impl ValueHeader {
    /// Header of a string that stays.
    pub(crate) const STRING: Self = Self { kind: Kind::String, expiry_millis: None, object: None };

    /// True if the key is absent at this time.
    #[inline]
    pub(crate) fn is_expired(&self, now_millis: i64) -> bool {
        self.expiry_millis.is_some_and(|expiry| expiry <= now_millis)
    }

    fn encode(self, out: &mut ValueBuffer<'_>) {
        let flags = if self.expiry_millis.is_some() { HAS_EXPIRY } else { 0 }
            | if self.object.is_some() { HAS_OBJECT } else { 0 };
        out.extend_from_slice(&[self.kind.number() | flags]);
        if let Some(expiry) = self.expiry_millis {
            out.extend_from_slice(&expiry.to_le_bytes());
        }
        if let Some(object) = self.object {
            out.extend_from_slice(&object.to_le_bytes());
        }
    }

    /// The header at the begin of `bytes`, and the bytes behind the header.
    pub(super) fn decode(bytes: &[u8]) -> Result<(Self, &[u8]), CodecError> {
        let (first, mut rest) =
            bytes.split_first().ok_or_else(|| CodecError::new("a value without its header"))?;
        let kind = Kind::from_number(first & KIND)
            .ok_or_else(|| CodecError::new("an unknown type of value: a later version wrote it"))?;
        if first & UNKNOWN != 0 {
            return Err(CodecError::new("unknown properties of a value: a later version wrote it"));
        }
        let mut take = |flag: u8| {
            if first & flag == 0 {
                return Ok(None);
            }
            let (number, behind) =
                rest.split_first_chunk::<8>().ok_or_else(|| CodecError::new("a value without its header"))?;
            rest = behind;
            Ok(Some(*number))
        };
        let expiry_millis = take(HAS_EXPIRY)?.map(i64::from_le_bytes);
        let object = take(HAS_OBJECT)?.map(u64::from_le_bytes);
        Ok((Self { kind, expiry_millis, object }, rest))
    }
}

/// Properties of a value, without its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ValueSummary {
    pub(crate) header: ValueHeader,
    /// Length of the value in bytes.
    pub(crate) length: usize,
}

/// A value of a row: header and bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StoredValue {
    pub(crate) header: ValueHeader,
    /// The value itself; empty in a view.
    pub(crate) bytes: Vec<u8>,
    /// Length of the value in bytes, in a view too.
    length: usize,
}

impl StoredValue {
    /// Number of stripes of the object's rows. A list has a stripe for each end.
    pub(crate) fn stripes(&self) -> u32 {
        match self.header.kind {
            Kind::List => 2,
            _ => 1 << self.bytes.first().copied().unwrap_or(0).min(STRIPE_BITS_MAX),
        }
    }

    pub(crate) fn summary(&self) -> ValueSummary {
        ValueSummary { header: self.header, length: self.length }
    }
}

impl Value for StoredValue {
    fn encode(&self, out: &mut ValueBuffer<'_>) {
        debug_assert_eq!(self.length, self.bytes.len(), "a view is not written");
        NewValue { header: self.header, bytes: &self.bytes }.encode_value(out);
    }

    fn decode(bytes: &[u8]) -> Result<Self, CodecError> {
        let (header, bytes) = ValueHeader::decode(bytes)?;
        let is_striped =
            header.object.is_some() && matches!(header.kind, Kind::Set | Kind::SortedSet | Kind::Hash);
        let is_unknown = match header.kind {
            Kind::Stream => header.object.is_none() || !bytes.is_empty(),
            _ => is_striped && !matches!(bytes, [bits] if *bits <= STRIPE_BITS_MAX),
        };
        if is_unknown {
            return Err(CodecError::new("an unknown form of a collection: a later version wrote it"));
        }
        Ok(Self { header, bytes: bytes.to_vec(), length: bytes.len() })
    }

    /// Reads the header and the length. The value that `read` gets has no bytes.
    #[inline]
    fn view<R>(bytes: &[u8], read: impl FnOnce(&Self) -> R) -> Result<R, CodecError> {
        let (header, bytes) = ValueHeader::decode(bytes)?;
        Ok(read(&Self { header, bytes: Vec::new(), length: bytes.len() }))
    }

    fn type_name() -> String {
        "ensile-server value 1".to_owned()
    }
}

/// A value that is written from borrowed bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewValue<'v> {
    pub(crate) header: ValueHeader,
    pub(crate) bytes: &'v [u8],
}

impl AsValue<StoredValue> for NewValue<'_> {
    fn encode_value(&self, out: &mut ValueBuffer<'_>) {
        self.header.encode(out);
        out.extend_from_slice(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use ensile::Value;
    use ensile::codec::{AsValue as _, ValueBuffer};

    use super::{Kind, NewValue, StoredValue, ValueHeader};

    #[test]
    fn the_number_of_a_type_never_changes() {
        let names = Kind::ALL.map(|kind| (kind.number(), kind.name()));
        assert_eq!(names, [(0, "string"), (1, "list"), (2, "set"), (3, "zset"), (4, "hash"), (5, "stream")]);
        assert!((0..6).all(|number| Kind::from_number(number).map(Kind::number) == Some(number)));
    }

    #[test]
    fn a_view_copies_no_bytes() {
        let header = ValueHeader { expiry_millis: Some(7), object: Some(9), ..ValueHeader::STRING };
        let mut bytes = Vec::new();
        NewValue { header, bytes: b"text" }.encode_value(&mut ValueBuffer::new(&mut bytes));
        let decoded = StoredValue::decode(&bytes).expect("a value");
        assert_eq!((decoded.header, decoded.bytes.as_slice()), (header, &b"text"[..]));
        let (copied, summary) =
            StoredValue::view(&bytes, |view| (view.bytes.capacity(), view.summary())).expect("a value");
        assert_eq!((copied, summary), (0, decoded.summary()));
        assert_eq!(summary.length, 4);
    }
}
