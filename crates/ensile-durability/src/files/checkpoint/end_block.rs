//! The end block of a checkpoint's file, the seal over the checkpoint's files, and the limit of unwritten bytes that
//! the writers of checkpoint files and page files share.
//!
//! Invariants: blocks are chained, so an end block's header checksum vouches for the whole file, and the seal for every
//! file. A file without an end block is cut.
//!
//! Neighbours: `writer` ends files; `reader` compares the totals, and recovery's load compares the seal with the
//! manifest's seal.

use ensile_base::checksum::crc32c_append;

use crate::files::block::ALIGN_BYTES;

/// Unwritten bytes of a file at which the medium is asked to begin writing. Without the request, the next sync would
/// find many bytes, and the log's syncs would wait behind the checkpoint's sync.
pub(crate) const GIVEN_AT_ONCE: u64 = 1 << 20;

/// Bytes of an end block's payload.
const END_BYTES: usize = 16;
const _: () = assert!(END_BYTES.is_multiple_of(ALIGN_BYTES));

/// Totals of a file, in the file's end block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    pub(crate) entries: u64,
    /// Number of blocks before the end block.
    pub(crate) blocks: u64,
}

impl Totals {
    /// The payload of the end block.
    pub(crate) fn encode(self) -> [u8; END_BYTES] {
        let mut payload = [0; END_BYTES];
        payload[..8].copy_from_slice(&self.entries.to_le_bytes());
        payload[8..].copy_from_slice(&self.blocks.to_le_bytes());
        assert_eq!(Self::decode(&payload), Some(self), "it reads as it was written");
        payload
    }

    /// The totals in an end block's payload; `None` if the payload is too short or too long.
    pub(crate) fn decode(payload: &[u8]) -> Option<Self> {
        let (entries, blocks) = payload.split_first_chunk()?;
        let (entries, blocks) = (u64::from_le_bytes(*entries), u64::from_le_bytes(blocks.try_into().ok()?));
        Some(Self { entries, blocks })
    }
}

/// One number for the files of a checkpoint, in order of checkpointer and file: a checksum over the header checksums of
/// the end blocks.
pub(crate) fn seal(ends: impl IntoIterator<Item = u32>) -> u32 {
    ends.into_iter().fold(0, |seal, end| crc32c_append(seal, &end.to_le_bytes()))
}
