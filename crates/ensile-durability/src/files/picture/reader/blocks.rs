//! Reader of the blocks of a picture, unchanged and with every check, for a load and for a copy; and reader of the
//! directory, for a copy. The header checksum in a place detects a block that was written over since (N16).
//!
//! Neighbours: `crate::backup` copies the blocks; [`super`] has the checks.

use ensile_base::Epoch;
use ensile_base::checksum::crc32c_append;

use super::{PictureReader, payload_of};
use crate::DurabilityError;
use crate::files::block::Header;
use crate::files::block::extent::Extent;
use crate::files::picture::page::PagePlace;
use crate::recoverable::EntryKind;

/// Receiver of a block's header and payload.
pub(crate) type TakeBlock<'t> = dyn FnMut(Header, &[u8]) -> Result<(), DurabilityError> + 't;

impl PictureReader {
    /// The places of the picture's pages, by part of the directory.
    pub(crate) fn directory(&self) -> Result<Vec<Vec<PagePlace>>, DurabilityError> {
        let mut block = Vec::new();
        let parts = (0..self.root.parts.len()).map(|part| self.part(part, &mut block));
        let parts: Vec<_> = parts.collect::<Result<_, _>>()?;
        debug_assert_eq!(parts.iter().map(Vec::len).sum::<usize>() as u64, self.of.pages);
        Ok(parts)
    }

    /// Kind of the entries; `None` if the picture has no file.
    pub(crate) fn entry_kind(&self) -> Option<EntryKind> {
        self.files.first().map(|file| file.entries)
    }

    /// Hands over the blocks of a page, in order. After the call, `block` holds the last block.
    pub(crate) fn blocks_of(
        &self,
        page: &PagePlace,
        block: &mut Vec<u8>,
        take: &mut TakeBlock<'_>,
    ) -> Result<(), DurabilityError> {
        let (mut previous_crc, mut payload_crc, mut epoch) = (0, 0, Epoch::ZERO);
        for (index, place) in page.extents.iter().enumerate() {
            let entries = if index == 0 { page.entries } else { index as u32 };
            let header = self.block(place, page.block_name(index), block)?;
            let found = (header.section, header.entries, header.previous_crc);
            if found != (page.bound.section, entries, previous_crc) || index > 0 && header.epoch_max != epoch
            {
                return Err(self.damage_error(place, "the block is not the one of its page that stands here"));
            }
            if index + 1 == page.extents.len() {
                self.check_tail(place.extent, header.block_bytes())?;
            }
            (previous_crc, epoch) = (place.header_crc, header.epoch_max);
            let payload = payload_of(&header, block);
            payload_crc = crc32c_append(payload_crc, payload);
            take(header, payload)?;
        }
        match page.extents.first() {
            Some(first) if payload_crc != page.payload_crc => {
                Err(self.damage_error(first, "the page does not have its checksum"))
            }
            _ => Ok(()),
        }
    }

    /// Checks that a tail in the last unit of `extent`, if there is one, begins where the page's last block of `bytes`
    /// bytes ends.
    fn check_tail(&self, extent: Extent, bytes: usize) -> Result<(), DurabilityError> {
        assert!(bytes as u64 <= extent.bytes(), "it was read within its extent");
        let end = extent.offset() + bytes as u64;
        match self.root.tail_in(extent.folder, extent.end() - 1) {
            Some(tail) if tail.offset() != end => {
                let detail = "it names a tail that does not begin where the block of its page ends";
                Err(self.damage_error(&self.of.root, detail))
            }
            _ => Ok(()),
        }
    }

    /// Hands over a block of versions left beside pages, by index in the root. A tail counts as a block.
    pub(crate) fn removes_block(
        &self,
        index: usize,
        block: &mut Vec<u8>,
        take: &mut TakeBlock<'_>,
    ) -> Result<(), DurabilityError> {
        let header = self.beside_block(index, block)?;
        assert!(header.checkpoint == self.of.number, "N10: it is of its own picture");
        let payload = payload_of(&header, block);
        take(header.clone(), payload)
    }
}
