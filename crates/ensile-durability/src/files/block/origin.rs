//! Payload of the opening block: the file's database (I1), its salt, and the kind of its entries. The opening block is
//! synced before anything is written behind the block. A longer file with an unreadable opening block is damaged or
//! another database's.
//!
//! Neighbours: `log::segments`, `files::checkpoint::writer` and `checkpoint::picture` write the block, backups and
//! take-overs copy the block, and [`super::scan`] reads the block.

use ensile_base::checksum::crc32c;
use ensile_disk::{DiskError, DiskFile};

use super::{
    BlockKind, FORMAT, HEADER_BYTES, Header, NotABlock, Salt, block_bytes, format_of, u32_at, u64_at,
};
use crate::identity::Identity;
use crate::recoverable::EntryKind;

const ORIGIN_BYTES: usize = 48;
pub(crate) const OPENING_BYTES: usize = block_bytes(ORIGIN_BYTES);
const _: () = assert!(OPENING_BYTES == 128, "as the format says");

/// Writes the next bytes of a copied file, for a backup or a take-over. As the original writer did, the call syncs the
/// opening block before it writes anything behind the block: so a short copy names its database.
pub(crate) fn write_copied(to: &dyn DiskFile, bytes: &[u8], offset: u64) -> Result<(), DiskError> {
    let (first, rest) = bytes.split_at(if offset == 0 { bytes.len().min(OPENING_BYTES) } else { 0 });
    if !first.is_empty() {
        to.write_at(first, 0)?;
        to.sync_all()?;
    }
    if !rest.is_empty() {
        to.write_at(rest, offset + first.len() as u64)?;
    }
    Ok(())
}

/// Common fields of the files of one generation's logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    pub(crate) identity: Identity,
    /// Start value of the header checksums of all blocks except the opening block.
    pub(crate) salt: Salt,
    pub(crate) entries: EntryKind,
}

/// Place of a file in its checkpoint; zeros for a log file and for a page file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PartPlace {
    pub(crate) checkpoint: u64,
    pub(crate) file: u32,
}

impl Origin {
    /// Encodes the whole opening block. Returns the block, and the header's checksum, which the next block carries.
    pub(crate) fn encode(&self, header: Header, place: PartPlace) -> ([u8; OPENING_BYTES], u32) {
        let mut block = [0; OPENING_BYTES];
        let payload = &mut block[HEADER_BYTES..];
        payload[..16].copy_from_slice(&self.identity.to_bytes());
        payload[16..20].copy_from_slice(&self.salt.0.to_le_bytes());
        payload[20] = match self.entries {
            EntryKind::Values => 0,
            EntryKind::Operations => 1,
        };
        payload[24..32].copy_from_slice(&place.checkpoint.to_le_bytes());
        payload[32..36].copy_from_slice(&place.file.to_le_bytes());
        let payload_crc = crc32c(payload);
        assert!(header.kind.is_opening(), "an opening block of {:?}", header.kind);
        assert_ne!(self.salt, Salt::OPENING, "the salt that it names is a drawn one");
        let header = Header { payload_bytes: ORIGIN_BYTES as u32, payload_crc, ..header };
        let crc = header.encode(&mut block, self.salt);
        debug_assert_eq!(Opened::decode(&block).map(|found| (found.origin, found.place)), Ok((*self, place)));
        (block, crc)
    }

    /// Reads an opening block's payload; `None` if this version would not have written the payload (L7).
    fn decode(payload: &[u8]) -> Option<(Self, PartPlace)> {
        let payload: &[u8; ORIGIN_BYTES] = payload.try_into().ok()?;
        let is_zero = |bytes: &[u8]| bytes.iter().all(|byte| *byte == 0);
        let entries = match payload[20] {
            0 => EntryKind::Values,
            1 => EntryKind::Operations,
            _ => return None,
        };
        if !is_zero(&payload[21..24]) || !is_zero(&payload[36..]) {
            return None;
        }
        let identity = Identity::of_bytes(payload[..16].try_into().ok()?);
        let salt = Salt::of_number(u32_at(payload, 16))?;
        let place = PartPlace { checkpoint: u64_at(payload, 24), file: u32_at(payload, 32) };
        Some((Self { identity, salt, entries }, place))
    }
}

/// Opening block of a file, as read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Opened {
    pub(crate) header: Header,
    /// The header's checksum; the next block carries the same value.
    pub(crate) crc: u32,
    pub(crate) origin: Origin,
    pub(crate) place: PartPlace,
}

impl Opened {
    /// Reads an opening block from a file's first bytes.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, NotABlock> {
        if bytes.len() < HEADER_BYTES {
            return Err(if bytes.is_empty() { NotABlock::Empty } else { NotABlock::Cut });
        }
        let (header, crc) = Header::decode(bytes, Salt::OPENING)?;
        if header.kind == BlockKind::Unknown && format_of(bytes) != FORMAT {
            return Err(NotABlock::OtherFormat);
        }
        if header.kind == BlockKind::Unknown || header.payload_bytes as usize != ORIGIN_BYTES {
            return Err(NotABlock::Unknown);
        }
        let block = bytes.get(HEADER_BYTES..header.block_bytes()).ok_or(NotABlock::Cut)?;
        if crc32c(block) != header.payload_crc {
            return Err(NotABlock::BadPayload);
        }
        let payload = &block[..header.payload_bytes as usize];
        let (origin, place) = Origin::decode(payload).ok_or(NotABlock::Unknown)?;
        Ok(Self { header, crc, origin, place })
    }
}
