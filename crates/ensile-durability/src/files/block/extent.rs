//! The units of a page file, and the extents of its blocks.
//!
//! Invariant: an extent is a run of units after the unit of the opening block, and holds one block.
//!
//! Neighbours: `files::picture` reads and writes page files; `files::manifest::installed_checkpoint` names the extent
//! of a picture's root.

use super::block_bytes;
use crate::number::CHECKPOINTERS_MAX;

/// Bytes of a unit, the allocation unit of page files.
pub(crate) const UNIT_BYTES: usize = 4 << 10;

/// A run of units of a folder's page file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Extent {
    /// Index of the checkpointer whose folder has the page file.
    pub(crate) folder: u16,
    /// First unit of the extent. Not zero: the opening block stands at zero.
    pub(crate) first: u32,
    /// Number of units. Not zero.
    pub(crate) units: u32,
}

/// An extent, and the header checksum of its block: by the checksum a reader recognizes an overwritten block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ExtentPlace {
    pub(crate) extent: Extent,
    pub(crate) header_crc: u32,
}

impl Extent {
    /// Number of units for a block with a payload of this size.
    pub(crate) const fn units_of(payload_bytes: usize) -> u32 {
        block_bytes(payload_bytes).div_ceil(UNIT_BYTES) as u32
    }

    /// Offset of the extent in its file, in bytes.
    pub(crate) const fn offset(self) -> u64 {
        self.first as u64 * UNIT_BYTES as u64
    }

    /// First unit after the extent.
    pub(crate) const fn end(self) -> u32 {
        self.first + self.units
    }

    pub(crate) const fn bytes(self) -> u64 {
        self.units as u64 * UNIT_BYTES as u64
    }

    /// True if a page file can have the extent: a valid folder, and a run of units that begins after unit 0 and has an
    /// end.
    pub(crate) fn is_whole(self) -> bool {
        let has_end = self.first.checked_add(self.units).is_some();
        u32::from(self.folder) < CHECKPOINTERS_MAX && self.first > 0 && self.units > 0 && has_end
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::{Extent, UNIT_BYTES};
    use crate::files::block::HEADER_BYTES;

    #[test]
    fn an_extent_has_room_for_its_block_and_no_more_units() {
        for (payload, units) in [(0, 1), (1, 1), (UNIT_BYTES - HEADER_BYTES, 1), (UNIT_BYTES - 79, 2)] {
            assert_eq!(Extent::units_of(payload), units, "{payload}");
        }
        let extent = Extent { folder: 3, first: 5, units: 2 };
        assert_eq!((extent.offset(), extent.bytes(), extent.end()), (5 << 12, 2 << 12, 7));
    }
}
