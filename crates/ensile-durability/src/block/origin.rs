//! The opening block's payload: whose file this is, with which salt, and what its entries are.
//!
//! Invariants:
//! - I1: it names the database. A copied file carries it along, so it does not distinguish a copy from the original.
//! - It is synced before anything is written behind it: a file with more than it, whose opening block cannot be read,
//!   is damaged or another's.
//!
//! Neighbours: written by `log::segments`, `checkpoint::files::write` and `checkpoint::picture`, copied by backups and
//! take-overs, read by [`super::scan`].

use ensile_base::checksum::crc32c;
use ensile_disk::{DiskError, DiskFile};

use super::{
    BlockKind, FORMAT, HEADER_BYTES, Header, NotABlock, Salt, block_bytes, format_of, u32_at, u64_at,
};
use crate::identity::Identity;
use crate::recoverable::EntryKind;

/// Bytes of the payload.
const ORIGIN_BYTES: usize = 48;
/// Bytes of a whole opening block.
pub(crate) const OPENING_BYTES: usize = block_bytes(ORIGIN_BYTES);
const _: () = assert!(OPENING_BYTES == 128, "as the format says");

/// Writes the next bytes of a file that is copied from elsewhere. Its opening block is synced before anything is
/// written behind it, as by those who wrote the file: so one that is cut short says whose it is.
///
/// # Errors
/// The disk's.
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

/// What the files of one generation's logs have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    /// The database.
    pub(crate) identity: Identity,
    /// What the header checksums of all blocks but the opening one begin with.
    pub(crate) salt: Salt,
    /// What the entries are.
    pub(crate) entries: EntryKind,
}

/// Which file of which checkpoint it is; zero in a log's file and in a page file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PartPlace {
    /// The checkpoint's number.
    pub(crate) checkpoint: u64,
    pub(crate) file: u32,
}

impl Origin {
    /// The whole opening block with this header, whose payload this is; and the header's checksum.
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

    /// What an opening block's payload says; `None` if this version would not have written it (L7).
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

/// A file's opening block as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Opened {
    pub(crate) header: Header,
    /// The header's checksum, which the next block carries.
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
