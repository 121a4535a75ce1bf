//! What each file of a checkpoint ends with, and the seal over all of them.
//!
//! Invariants:
//! - Blocks are chained, so an end block's header checksum vouches for its whole file, and the seal for all files.
//! - A file without its end block is cut: truncation at any byte is seen.
//!
//! Neighbours: `write` ends files; `read` compares the totals, recovery's load the seal with the manifest's.

use ensile_base::checksum::crc32c_append;

use crate::block::ALIGN_BYTES;

/// Bytes of an end block's payload.
const END_BYTES: usize = 16;
const _: () = assert!(END_BYTES.is_multiple_of(ALIGN_BYTES));

/// What an end block says of its file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    pub(crate) entries: u64,
    /// Blocks before the end block.
    pub(crate) blocks: u64,
}

impl Totals {
    /// An end block's payload.
    pub(crate) fn encode(self) -> [u8; END_BYTES] {
        let mut payload = [0; END_BYTES];
        payload[..8].copy_from_slice(&self.entries.to_le_bytes());
        payload[8..].copy_from_slice(&self.blocks.to_le_bytes());
        assert_eq!(Self::decode(&payload), Some(self), "it reads as it was written");
        payload
    }

    /// What an end block's payload says, if it is one.
    pub(crate) fn decode(payload: &[u8]) -> Option<Self> {
        let (entries, blocks) = payload.split_first_chunk()?;
        let (entries, blocks) = (u64::from_le_bytes(*entries), u64::from_le_bytes(blocks.try_into().ok()?));
        Some(Self { entries, blocks })
    }
}

/// One number for all files of a checkpoint, in order of checkpointer and file: of their end blocks' header checksums.
pub(crate) fn seal(ends: impl IntoIterator<Item = u32>) -> u32 {
    ends.into_iter().fold(0, |seal, end| crc32c_append(seal, &end.to_le_bytes()))
}
