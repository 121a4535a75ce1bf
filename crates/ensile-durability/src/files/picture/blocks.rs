//! The encoding of the blocks of a page file (`docs/internals/formats/pictures.md` has the bytes). A block's header has
//! the block's place, and the opening block names the database and the file's salt (I1).
//!
//! Neighbours: `files::block` has the grammar; [`super::location`] checks headers; the writer of a picture writes the
//! blocks to files, and `backup::pages` encodes copied blocks anew for their new places.

use ensile_base::checksum::crc32c;

use super::location::PAYLOAD_BYTES_MAX;
use crate::files::block::extent::{Extent, ExtentPlace};
use crate::files::block::origin::{OPENING_BYTES, Origin, PartPlace};
use crate::files::block::{BlockKind, HEADER_BYTES, Header, Salt, align_up};
use crate::files::names::PageFileName;

/// The opening block of a page file that this generation makes.
pub(crate) fn encode_opening(origin: &Origin, name: PageFileName, generation: u64) -> [u8; OPENING_BYTES] {
    let header = Header::new(BlockKind::PagesOpening, name.folder, generation);
    let (block, _) = origin.encode(Header { sequence: name.number, ..header }, PartPlace::default());
    block
}

/// Puts a block with this header and payload, for this extent, into `out`, in the form of a file with this salt. The
/// result is the block's place.
pub(crate) fn encode_block(
    header: Header,
    extent: Extent,
    payload: &[u8],
    salt: Salt,
    out: &mut Vec<u8>,
) -> ExtentPlace {
    assert!(header.kind.is_extent() && header.first_unit == extent.first, "{header:?} is for {extent:?}");
    let is_of_page = matches!(header.kind, BlockKind::Page | BlockKind::Continuation);
    assert!(!is_of_page || payload.len() <= PAYLOAD_BYTES_MAX, "a page is cut into blocks");
    assert_eq!(extent.units, Extent::units_of(payload.len()), "a block fills all units but the last");
    let header_crc = encode(header, payload, salt, out);
    ExtentPlace { extent, header_crc }
}

/// Puts a block with this header and payload into `out`, in the form of a file with this salt. Returns the header
/// checksum.
pub(crate) fn encode(header: Header, payload: &[u8], salt: Salt, out: &mut Vec<u8>) -> u32 {
    out.clear();
    out.resize(HEADER_BYTES, 0);
    out.extend_from_slice(payload);
    out.resize(HEADER_BYTES + align_up(payload.len()), 0);
    let payload_crc = crc32c(&out[HEADER_BYTES..]);
    let header = Header { payload_bytes: payload.len() as u32, payload_crc, ..header };
    header.encode(out, salt)
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
