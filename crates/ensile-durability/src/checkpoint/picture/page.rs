//! A page of a picture: its place in the directory, and the blocks that it is cut into.
//!
//! ```text
//! page-place := section u32 · key length u16 · first key
//!               page number u64 · checkpoint number u64
//!               entries u32 · CRC-32C of all its payloads u32 · extents u16 · extent-place*
//! ```
//! A page's payload is its entries, one behind the other. It is cut into blocks wherever one is full: a large row may
//! begin in one and end in another. A page without entries has no block.
//!
//! Invariants:
//! - A page has the range from its first key to the next page's (N17), and its number as long as it keeps that range.
//!   No other page ever has the number.
//! - A continuation carries the header checksum of the block before it, and its place in the page.
//!
//! Neighbours: [`super::directory`] has the places, in parts.

use super::place::{EXTENT_PLACE_BYTES, PageBound, PlaceBytes, encode_extent};
use crate::block::extent::ExtentPlace;
use crate::number::NUMBER_END;

/// Most blocks of a page.
pub(crate) const PAGE_EXTENTS_MAX: usize = u16::MAX as usize;

/// Where a page is, and what it holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PagePlace {
    pub(crate) bound: PageBound,
    pub(crate) number: u64,
    /// The checkpoint that wrote it.
    pub(crate) checkpoint: u64,
    pub(crate) entries: u32,
    /// CRC-32C of its payload: the same rows have the same one, wherever they stand.
    pub(crate) payload_crc: u32,
    /// Its blocks in order.
    pub(crate) extents: Box<[ExtentPlace]>,
}

impl PagePlace {
    /// Bytes of its extents.
    pub(crate) fn bytes(&self) -> u64 {
        debug_assert!(self.extents.iter().all(|place| place.extent.is_whole()));
        self.extents.iter().map(|place| place.extent.bytes()).sum()
    }

    /// Does a block of it stand in a folder of this number, or of a larger one?
    pub(super) fn is_in_folder_from(&self, folder: usize) -> bool {
        self.extents.iter().any(|place| usize::from(place.extent.folder) >= folder)
    }

    /// Bytes that the place takes in a directory part.
    pub(super) fn place_bytes(&self) -> usize {
        self.bound.bytes() + 26 + EXTENT_PLACE_BYTES * self.extents.len()
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
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

    pub(super) fn decode(from: &mut PlaceBytes<'_>) -> Option<Self> {
        let bound = from.bound()?;
        let (number, checkpoint) = (from.u64()?, from.u64()?);
        let (entries, payload_crc, count) = (from.u32()?, from.u32()?, from.u16()?);
        let extents = (0..count).map(|_| from.extent()).collect::<Option<_>>()?;
        let place = Self { bound, number, checkpoint, entries, payload_crc, extents };
        place.is_whole().then_some(place)
    }

    /// Does what it says of itself go together?
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
