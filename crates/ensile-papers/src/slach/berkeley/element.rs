//! The hash table as a collection of elements with values of arbitrary length. A value of at most `INLINE` bytes is
//! part of the object; the application chooses `INLINE`. A longer value has separate memory.
//!
//! Invariant: a new value with the old value's length overwrites the old value without an allocation.
//!
//! Neighbours: [`super::table`] calls the collection.

use ensile_bench::Result;
use ensile_objects::{CheckpointHandle, CodecResult, Objects, ObjectsBuilder, ObjectsStats, Persistent};

use super::keys::MULTI_GET;
use super::service::copy;
use super::table::HashTable;

/// A value.
#[derive(Debug)]
pub(super) enum Element<const INLINE: usize> {
    Inline { length: u16, bytes: [u8; INLINE] },
    Apart(Box<[u8]>),
}

impl<const INLINE: usize> Element<INLINE> {
    const FITS: () = assert!(INLINE <= u16::MAX as usize, "a length has two bytes");

    fn of(value: &[u8]) -> Self {
        const { Self::FITS };
        if value.len() > INLINE {
            return Self::Apart(value.into());
        }
        let mut bytes = [0; INLINE];
        bytes[..value.len()].copy_from_slice(value);
        Self::Inline { length: value.len() as u16, bytes }
    }

    #[inline]
    pub(super) fn value(&self) -> &[u8] {
        match self {
            Self::Inline { length, bytes } => &bytes[..usize::from(*length)],
            Self::Apart(bytes) => bytes,
        }
    }

    #[inline]
    fn value_mut(&mut self) -> &mut [u8] {
        match self {
            Self::Inline { length, bytes } => &mut bytes[..usize::from(*length)],
            Self::Apart(bytes) => bytes,
        }
    }
}

impl<const INLINE: usize> Persistent for Element<INLINE> {
    /// The new value.
    type Operation = Box<[u8]>;
    type Output = ();
    const VERSION: u16 = 1;
    const OPERATION_VERSION: u16 = 1;

    #[inline]
    fn apply(element: &mut Option<Self>, value: &Box<[u8]>) {
        match element {
            Some(there) if there.value().len() == value.len() => there.value_mut().copy_from_slice(value),
            other => *other = Some(Self::of(value)),
        }
    }

    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.value());
    }

    fn decode(_: u16, bytes: &[u8]) -> CodecResult<Self> {
        Ok(Self::of(bytes))
    }

    fn encode_operation(value: &Box<[u8]>, out: &mut Vec<u8>) {
        out.extend_from_slice(value);
    }

    fn decode_operation(_: u16, bytes: &[u8]) -> CodecResult<Box<[u8]>> {
        Ok(bytes.into())
    }
}

/// A collection of elements.
pub(super) struct ElementTable<const INLINE: usize> {
    elements: Objects<u64, Element<INLINE>>,
    /// The next value to set, for the log and the object.
    value: Box<[u8]>,
}

impl<const INLINE: usize> HashTable for ElementTable<INLINE> {
    fn open(builder: ObjectsBuilder) -> Result<Self> {
        Ok(Self { elements: builder.open()?, value: Box::default() })
    }

    #[inline]
    fn get(&self, key: u64, room: &mut [u8]) -> Result<bool> {
        Ok(self.elements.look(&key, |element| copy(element.map(Element::value), room))?.0)
    }

    #[inline]
    fn get_many(&self, keys: &[u64; MULTI_GET], room: &mut [u8]) -> Result<bool> {
        let mut rooms = room.chunks_exact_mut(room.len() / MULTI_GET);
        let mut all = true;
        for key in keys {
            all &= rooms.next().map_or(Ok(false), |room| self.get(*key, room))?;
        }
        Ok(all)
    }

    #[inline]
    fn set(&mut self, key: u64, value: &[u8]) -> Result<()> {
        if self.value.len() == value.len() {
            self.value.copy_from_slice(value);
        } else {
            self.value = value.into();
        }
        self.elements.submit(key, &self.value)?;
        Ok(())
    }

    fn checkpoint(&self) -> CheckpointHandle {
        self.elements.checkpoint()
    }

    fn stats(&self) -> ObjectsStats {
        self.elements.stats()
    }

    fn close(&self) -> Result<()> {
        Ok(self.elements.close()?)
    }
}

#[cfg(test)]
mod tests {
    use ensile_objects::Persistent as _;

    use super::Element;

    #[test]
    fn a_value_stands_inline_or_apart_and_is_what_was_set() {
        let mut element: Option<Element<8>> = None;
        for value in [&b"123"[..], b"456", b"12345678", b"", b"123456789", b"987654321", b"1"] {
            Element::apply(&mut element, &value.into());
            let element = element.as_ref().expect("it was set");
            assert_eq!(element.value(), value);
            assert_eq!(matches!(element, Element::Inline { .. }), value.len() <= 8);
            let mut bytes = Vec::new();
            element.encode(&mut bytes);
            assert_eq!(Element::<8>::decode(1, &bytes).expect("any bytes are one").value(), value);
        }
    }
}
