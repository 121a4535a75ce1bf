//! The root of a picture: the places of the parts of the directory, of the pending removes and of the tails
//! (`docs/internals/formats/pictures.md` has the bytes).
//!
//! Invariants: N10 and N17. The manifest has the root's header checksum, so the manifest vouches for everything that a
//! root reaches. A tail stands in the last unit of a page that the root's checkpoint wrote, behind the page's last
//! block. A unit has at most one tail.
//!
//! Neighbours: [`super::directory`] has the parts; `files::manifest::installed_checkpoint` has the line that names a
//! root.

use super::location::{BlockName, BlockSpan, PageBound, PlaceBytes, encode_extent};
use crate::files::block::extent::{Extent, ExtentPlace, UNIT_BYTES};
use crate::files::block::{ALIGN_BYTES, BlockKind, HEADER_BYTES, Header, block_bytes};
use crate::number::NUMBER_END;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DirectoryPlace {
    /// Bound of the part's first page.
    pub(crate) bound: PageBound,
    /// Number of the part, unique among the parts that the checkpoint wrote.
    pub(crate) number: u64,
    /// The checkpoint that wrote the part.
    pub(crate) checkpoint: u64,
    /// Number of the part's pages, and the bytes of their extents.
    pub(crate) pages: u32,
    pub(crate) bytes: u64,
    pub(crate) place: ExtentPlace,
}

impl DirectoryPlace {
    pub(crate) fn block_name(&self) -> BlockName {
        BlockName { kind: BlockKind::DirectoryPart, number: self.number, checkpoint: self.checkpoint }
    }
}

/// Place of a block of pending removes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RemovesPlace {
    /// Number of the block, unique in this picture.
    pub(crate) number: u64,
    /// The checkpoint that wrote the block. The block counts for this checkpoint alone.
    pub(crate) checkpoint: u64,
    pub(crate) place: ExtentPlace,
}

impl RemovesPlace {
    pub(crate) fn block_name(&self) -> BlockName {
        BlockName { kind: BlockKind::PendingRemoves, number: self.number, checkpoint: self.checkpoint }
    }
}

/// Place of a tail: a block of pending removes behind the last block of a page, in the page's last unit. The root's
/// checkpoint wrote the page and the tail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TailPlace {
    /// Number of the tail, unique among the tails and the blocks of pending removes of this picture.
    pub(crate) number: u64,
    pub(crate) folder: u16,
    pub(crate) unit: u32,
    /// Offset of the tail in the unit, in bytes.
    pub(crate) unit_offset: u16,
    /// Bytes of the whole block.
    pub(crate) bytes: u16,
    pub(crate) header_crc: u32,
}

const _: () = assert!(UNIT_BYTES <= u16::MAX as usize, "a place in a unit is half a word");

impl TailPlace {
    /// Bytes of a tail's place in a root.
    pub(crate) const PLACE_BYTES: usize = 22;

    /// Offset of the tail in the file, in bytes.
    pub(crate) fn offset(&self) -> u64 {
        u64::from(self.unit) * UNIT_BYTES as u64 + u64::from(self.unit_offset)
    }

    /// Place of the tail's bytes in the page file.
    pub(crate) fn span(&self) -> BlockSpan {
        debug_assert!(self.is_whole(), "a unit has all of {self:?}");
        BlockSpan { folder: self.folder, offset: self.offset(), bytes: u64::from(self.bytes) }
    }

    /// Folder and unit of the tail.
    pub(crate) fn in_unit(&self) -> (u16, u32) {
        (self.folder, self.unit)
    }

    /// True if the block with this header and the checksum `crc` stands here and was written by this checkpoint.
    pub(crate) fn matches_block(&self, header: &Header, crc: u32, checkpoint: u64) -> bool {
        let found = (header.sequence, header.checkpoint, header.owner, header.first_unit);
        header.kind == BlockKind::PendingRemoves
            && found == (self.number, checkpoint, u32::from(self.folder), self.unit)
            && crc == self.header_crc
            && header.block_bytes() == usize::from(self.bytes)
    }

    /// True if a unit can have this tail.
    fn is_whole(&self) -> bool {
        let (from, bytes) = (usize::from(self.unit_offset), usize::from(self.bytes));
        let is_aligned = from.is_multiple_of(ALIGN_BYTES) && bytes.is_multiple_of(ALIGN_BYTES);
        // The page's block may begin in an earlier unit.
        let is_behind = from > 0 && bytes > HEADER_BYTES && from + bytes <= UNIT_BYTES;
        let unit = Extent { folder: self.folder, first: self.unit, units: 1 };
        self.number < NUMBER_END && unit.is_whole() && is_aligned && is_behind
    }

    fn encode(&self, out: &mut Vec<u8>) {
        assert!(self.is_whole(), "{self:?}");
        let before = out.len();
        out.extend_from_slice(&self.number.to_le_bytes());
        out.extend_from_slice(&self.folder.to_le_bytes());
        out.extend_from_slice(&self.unit.to_le_bytes());
        out.extend_from_slice(&self.unit_offset.to_le_bytes());
        out.extend_from_slice(&self.bytes.to_le_bytes());
        out.extend_from_slice(&self.header_crc.to_le_bytes());
        assert_eq!(out.len() - before, Self::PLACE_BYTES);
    }
}

/// Most bytes of a tail's payload behind a page's last block with `last_payload_bytes` of payload; `None` if a tail has
/// no room.
pub(crate) fn tail_room(last_payload_bytes: usize) -> Option<usize> {
    let used = block_bytes(last_payload_bytes);
    let free = used.next_multiple_of(UNIT_BYTES) - used;
    debug_assert!(free.is_multiple_of(ALIGN_BYTES), "blocks and units are");
    free.checked_sub(HEADER_BYTES).filter(|room| *room > 0)
}

/// A block of versions that commits have left beside pages: in an extent, or in a tail.
#[derive(Clone, Copy, Debug)]
pub(crate) enum BesidePlace<'r> {
    Block(&'r RemovesPlace),
    Tail(&'r TailPlace),
}

impl BesidePlace<'_> {
    /// The bytes of the block's extent, or of the tail.
    pub(crate) fn span(&self) -> BlockSpan {
        match self {
            Self::Block(RemovesPlace { place, .. }) => BlockSpan::from_extent(place.extent),
            Self::Tail(tail) => tail.span(),
        }
    }
}

/// Content of a root: the places of all parts of the directory, of the pending removes and of the tails.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Root {
    pub(crate) parts: Vec<DirectoryPlace>,
    pub(crate) removes: Vec<RemovesPlace>,
    /// Tails in the order of their places, so that a reader moves forward.
    pub(crate) tails: Vec<TailPlace>,
}

impl Root {
    /// The tail in this unit. [`Root::decode`] has checked the order of the tails' places.
    pub(crate) fn tail_in(&self, folder: u16, unit: u32) -> Option<&TailPlace> {
        let found = self.tails.binary_search_by_key(&(folder, unit), TailPlace::in_unit);
        found.ok().map(|at| &self.tails[at])
    }

    pub(crate) fn kind(&self) -> BlockKind {
        if self.tails.is_empty() { BlockKind::Root } else { BlockKind::RootWithTails }
    }

    /// Number of blocks beside the pages: blocks in extents, followed by blocks in tails.
    pub(crate) fn removes_block_count(&self) -> usize {
        self.removes.len() + self.tails.len()
    }

    /// Block number `index` among the blocks beside the pages.
    pub(crate) fn beside_at(&self, index: usize) -> BesidePlace<'_> {
        assert!(index < self.removes_block_count(), "block {index} of {}", self.removes_block_count());
        match self.removes.get(index) {
            Some(block) => BesidePlace::Block(block),
            None => BesidePlace::Tail(&self.tails[index - self.removes.len()]),
        }
    }

    /// The payload of the root's block. The checkpoint of this number writes the block.
    pub(crate) fn encode(&self, checkpoint: u64) -> Vec<u8> {
        let out = self.to_bytes();
        let read = Self::decode(&out, self.kind(), self.parts.len() as u32, checkpoint);
        assert!(read.as_ref() == Some(self), "it reads as it was written");
        out
    }

    fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for DirectoryPlace { bound, number, checkpoint, pages, bytes, place } in &self.parts {
            bound.encode(&mut out);
            out.extend_from_slice(&number.to_le_bytes());
            out.extend_from_slice(&checkpoint.to_le_bytes());
            out.extend_from_slice(&pages.to_le_bytes());
            out.extend_from_slice(&bytes.to_le_bytes());
            encode_extent(*place, &mut out);
        }
        if !self.tails.is_empty() {
            out.extend_from_slice(&(self.tails.len() as u32).to_le_bytes());
            self.tails.iter().for_each(|tail| tail.encode(&mut out));
        }
        for RemovesPlace { number, checkpoint, place } in &self.removes {
            out.extend_from_slice(&number.to_le_bytes());
            out.extend_from_slice(&checkpoint.to_le_bytes());
            encode_extent(*place, &mut out);
        }
        out
    }

    /// Decodes a root's payload. The header has the kind and the number of parts. The checkpoint of this number wrote
    /// the root. `None` if no version writes such a payload.
    pub(crate) fn decode(payload: &[u8], kind: BlockKind, parts: u32, checkpoint: u64) -> Option<Self> {
        let mut from = PlaceBytes(payload);
        let mut root = Self::default();
        for _ in 0..parts {
            root.parts.push(DirectoryPlace {
                bound: from.bound()?,
                number: from.u64()?,
                checkpoint: from.u64()?,
                pages: from.u32()?,
                bytes: from.u64()?,
                place: from.extent()?,
            });
        }
        let tails = if kind == BlockKind::RootWithTails { from.u32()? } else { 0 };
        for _ in 0..tails {
            root.tails.push(TailPlace {
                number: from.u64()?,
                folder: from.u16()?,
                unit: from.u32()?,
                unit_offset: from.u16()?,
                bytes: from.u16()?,
                header_crc: from.u32()?,
            });
        }
        while !from.is_empty() {
            let (number, checkpoint) = (from.u64()?, from.u64()?);
            root.removes.push(RemovesPlace { number, checkpoint, place: from.extent()? });
        }
        debug_assert!(from.is_empty() && root.parts.len() == parts as usize);
        (root.kind() == kind && root.is_whole(checkpoint)).then_some(root)
    }

    fn is_whole(&self, checkpoint: u64) -> bool {
        let is_known = |number: u64, by: u64| number < NUMBER_END && (1..=checkpoint).contains(&by);
        let parts = self.parts.iter().all(|part| is_known(part.number, part.checkpoint) && part.pages > 0);
        let removes = self.removes.iter().all(|block| is_known(block.number, block.checkpoint));
        let is_in_order = self.tails.windows(2).all(|pair| pair[0].in_unit() < pair[1].in_unit());
        let tails = self.tails.iter().all(TailPlace::is_whole) && is_in_order;
        let is_own = self.removes.iter().all(|block| block.checkpoint == checkpoint);
        let is_tiled = self.parts.first().is_none_or(|first| first.bound.follows(None));
        let is_ordered = self.parts.windows(2).all(|pair| pair[0].bound < pair[1].bound);
        parts && removes && tails && is_own && is_tiled && is_ordered
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
