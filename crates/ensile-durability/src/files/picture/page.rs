//! A page of a picture: the page's place in the directory, and the blocks of the page. The payload is cut into blocks
//! wherever a block is full: a large row may begin in one block and end in the next. A page without entries has no
//! block.
//!
//! Invariants: N17. A page keeps its number as long as its range, and no other page ever has the number. A continuation
//! carries the header checksum of the block before, and the continuation's place in the page.
//!
//! Neighbours: [`super::directory`] has the places, in parts.

use super::location::{BlockName, EXTENT_PLACE_BYTES, PageBound, PlaceBytes, encode_extent};
use crate::files::block::BlockKind;
use crate::files::block::extent::ExtentPlace;
use crate::number::NUMBER_END;

/// Most blocks of a page.
pub(crate) const PAGE_EXTENTS_MAX: usize = u16::MAX as usize;

/// Place, size and checksum of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PagePlace {
    pub(crate) bound: PageBound,
    pub(crate) number: u64,
    /// The checkpoint that wrote the page.
    pub(crate) checkpoint: u64,
    pub(crate) entries: u32,
    /// CRC-32C of the payload: equal rows have an equal checksum in every place.
    pub(crate) payload_crc: u32,
    /// The page's blocks in order.
    pub(crate) extents: Box<[ExtentPlace]>,
}

impl PagePlace {
    /// Bytes of the page's extents.
    pub(crate) fn bytes(&self) -> u64 {
        debug_assert!(self.extents.iter().all(|place| place.extent.is_whole()));
        self.extents.iter().map(|place| place.extent.bytes()).sum()
    }

    pub(crate) fn block_name(&self, index: usize) -> BlockName {
        debug_assert!(index < self.extents.len(), "block {index} of {}", self.extents.len());
        let kind = if index == 0 { BlockKind::Page } else { BlockKind::Continuation };
        BlockName { kind, number: self.number, checkpoint: self.checkpoint }
    }

    /// True if a block of the page stands in folder `folder`, or in a folder with a larger number.
    pub(crate) fn is_in_folder_from(&self, folder: usize) -> bool {
        self.extents.iter().any(|place| usize::from(place.extent.folder) >= folder)
    }

    /// Bytes of the place in a directory part.
    pub(crate) fn place_bytes(&self) -> usize {
        self.bound.bytes() + 26 + EXTENT_PLACE_BYTES * self.extents.len()
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        assert!(self.is_whole(), "{self:?}");
        let before = out.len();
        self.bound.encode(out);
        out.extend_from_slice(&self.number.to_le_bytes());
        out.extend_from_slice(&self.checkpoint.to_le_bytes());
        out.extend_from_slice(&self.entries.to_le_bytes());
        out.extend_from_slice(&self.payload_crc.to_le_bytes());
        out.extend_from_slice(&(self.extents.len() as u16).to_le_bytes());
        self.extents.iter().for_each(|place| encode_extent(*place, out));
        assert_eq!(out.len() - before, self.place_bytes());
    }

    pub(crate) fn decode(from: &mut PlaceBytes<'_>) -> Option<Self> {
        let bound = from.bound()?;
        let (number, checkpoint) = (from.u64()?, from.u64()?);
        let (entries, payload_crc, count) = (from.u32()?, from.u32()?, from.u16()?);
        let extents = (0..count).map(|_| from.extent()).collect::<Option<_>>()?;
        let place = Self { bound, number, checkpoint, entries, payload_crc, extents };
        place.is_whole().then_some(place)
    }

    /// True if the fields agree with each other.
    fn is_whole(&self) -> bool {
        let is_counted = self.extents.len() <= PAGE_EXTENTS_MAX;
        let is_numbered = self.number < NUMBER_END && (1..NUMBER_END).contains(&self.checkpoint);
        let is_empty = self.entries == 0;
        is_counted
            && is_numbered
            && self.extents.is_empty() == is_empty
            && (!is_empty || self.payload_crc == 0)
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
