//! Places of the blocks of a picture, as a root and the parts of a directory name them; and the facts that the blocks'
//! headers repeat.
//!
//! Invariant: a block names its own place, so a block written for another place, number or checkpoint is detected. The
//! header checksum in the place vouches for the whole block.
//!
//! Neighbours: [`super::root`], [`super::directory`] and [`super::page`] have places; `files::block` has the headers.

use ensile_base::Epoch;

use crate::files::block::extent::{Extent, ExtentPlace};
use crate::files::block::{BlockKind, Header};

/// Most bytes of a block's payload in a page file, except blocks of directories and roots.
pub(crate) const PAYLOAD_BYTES_MAX: usize = 1 << 20;
pub(crate) const EXTENT_PLACE_BYTES: usize = 14;

pub(crate) fn encode_extent(place: ExtentPlace, out: &mut Vec<u8>) {
    let Extent { folder, first, units } = place.extent;
    assert!(place.extent.is_whole(), "{place:?}");
    let before = out.len();
    out.extend_from_slice(&folder.to_le_bytes());
    out.extend_from_slice(&first.to_le_bytes());
    out.extend_from_slice(&units.to_le_bytes());
    out.extend_from_slice(&place.header_crc.to_le_bytes());
    assert_eq!(out.len() - before, EXTENT_PLACE_BYTES);
}

/// Facts about a picture that every block of the picture carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PictureStamp {
    pub(crate) checkpoint: u64,
    pub(crate) generation: u64,
    /// e_c.
    pub(crate) epoch: Epoch,
}

impl PictureStamp {
    /// The header of a block in this extent, without the payload and the fields of the block's kind.
    pub(crate) fn header(&self, kind: BlockKind, number: u64, extent: Extent) -> Header {
        assert!(kind.is_extent() && extent.is_whole(), "{kind:?} in {extent:?}");
        Header {
            sequence: number,
            epoch_max: self.epoch,
            first_unit: extent.first,
            checkpoint: self.checkpoint,
            ..Header::new(kind, u32::from(extent.folder), self.generation)
        }
    }
}

/// Name of a block of a picture. The block's header repeats the name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlockName {
    pub(crate) kind: BlockKind,
    /// Number of the page, of the part of the directory, or of the block beside the pages; 0 for a root.
    pub(crate) number: u64,
    /// The checkpoint that wrote the block.
    pub(crate) checkpoint: u64,
}

impl BlockName {
    /// Name of the root that this checkpoint wrote, of either kind.
    pub(crate) fn root(checkpoint: u64) -> Self {
        debug_assert!(checkpoint > 0, "checkpoints are numbered from 1");
        Self { kind: BlockKind::Root, number: 0, checkpoint }
    }

    /// True if the block with this header and the checksum `crc` stands at this place and has this name. A root may be
    /// of either kind of root.
    pub(crate) fn is_at(&self, place: &ExtentPlace, header: &Header, crc: u32) -> bool {
        let Self { kind, number, checkpoint } = *self;
        let Extent { folder, first, units } = place.extent;
        assert!(place.extent.is_whole() && checkpoint > 0, "a place that was read is one of a file");
        let is_kind = header.kind == kind || header.kind.is_root() && kind.is_root();
        let found = (header.sequence, header.checkpoint, header.owner, header.first_unit);
        is_kind
            && found == (number, checkpoint, u32::from(folder), first)
            && crc == place.header_crc
            && Extent::units_of(header.payload_bytes as usize) == units
    }
}

/// Bytes of a folder's page file that hold a block, and perhaps more behind the block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlockSpan {
    /// Number of the checkpointer.
    pub(crate) folder: u16,
    /// Offset of the block, in bytes.
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
}

impl BlockSpan {
    pub(crate) fn from_extent(extent: Extent) -> Self {
        debug_assert!(extent.is_whole(), "a file has all of {extent:?}");
        Self { folder: extent.folder, offset: extent.offset(), bytes: extent.bytes() }
    }
}

/// Bytes of places, read from the front. `None`: too few bytes are left.
#[derive(Debug)]
pub(crate) struct PlaceBytes<'p>(pub(crate) &'p [u8]);

impl<'p> PlaceBytes<'p> {
    pub(crate) fn bytes(&mut self, count: usize) -> Option<&'p [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*taken)
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// A section and a key in the section: `section u32 · key length u16 · key`.
    pub(crate) fn bound(&mut self) -> Option<PageBound> {
        let before = self.0.len();
        let (section, length) = (self.u32()?, self.u16()?);
        let bound = PageBound { section, first_key: self.bytes(usize::from(length))?.into() };
        debug_assert_eq!(before - self.0.len(), bound.bytes());
        Some(bound)
    }

    pub(crate) fn extent(&mut self) -> Option<ExtentPlace> {
        let extent = Extent { folder: self.u16()?, first: self.u32()?, units: self.u32()? };
        let header_crc = self.u32()?;
        extent.is_whole().then_some(ExtentPlace { extent, header_crc })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Begin of a page: section and first key. A section's first page begins with the empty key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PageBound {
    pub(crate) section: u32,
    pub(crate) first_key: Box<[u8]>,
}

impl PageBound {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let length = u16::try_from(self.first_key.len()).expect("keys are not as long (KEY_BYTES_MAX)");
        out.extend_from_slice(&self.section.to_le_bytes());
        out.extend_from_slice(&length.to_le_bytes());
        out.extend_from_slice(&self.first_key);
    }

    /// Bytes of the bound in a place.
    pub(crate) fn bytes(&self) -> usize {
        6 + self.first_key.len()
    }

    /// True if a page with this bound may follow a page with the bound `before` directly (N17).
    pub(crate) fn follows(&self, before: Option<&Self>) -> bool {
        match before {
            Some(before) if before.section == self.section => before.first_key < self.first_key,
            Some(before) => before.section < self.section && self.first_key.is_empty(),
            None => self.first_key.is_empty(),
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
