//! The root of a picture: where the parts of its directory are, and its pending removes.
//!
//! ```text
//! root        := part-place* block-place*           its header says how many parts there are
//! part-place  := section u32 · key length u16 · first key           of its first page
//!                part number u64 · checkpoint number u64 · pages u32 · bytes u64 · extent-place
//! block-place := block number u64 · checkpoint number u64 · extent-place
//! ```
//! Invariants:
//! - The manifest has the root's header checksum: it vouches for all that a root reaches.
//! - N10: each block of pending removes is of the root's own checkpoint.
//! - N17: parts follow each other as their pages do, and no page is in two of them.
//!
//! Neighbours: [`super::directory`] has the parts; `store::installed` the line that names a root.

use super::place::{PageBound, PlaceBytes, encode_extent};
use crate::block::extent::ExtentPlace;
use crate::number::NUMBER_END;

/// Where a part of the directory is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DirectoryPlace {
    /// Of its first page.
    pub(crate) bound: PageBound,
    /// No other part that the checkpoint wrote has it.
    pub(crate) number: u64,
    /// The checkpoint that wrote it.
    pub(crate) checkpoint: u64,
    /// How many pages it has, and the bytes of their extents.
    pub(crate) pages: u32,
    pub(crate) bytes: u64,
    pub(crate) place: ExtentPlace,
}

/// Where a block of pending removes is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RemovesPlace {
    /// No other block of this picture has it.
    pub(crate) number: u64,
    /// The checkpoint that wrote it, and for which alone it counts.
    pub(crate) checkpoint: u64,
    pub(crate) place: ExtentPlace,
}

/// All that a picture has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Root {
    pub(crate) parts: Vec<DirectoryPlace>,
    pub(crate) removes: Vec<RemovesPlace>,
}

impl Root {
    /// The payload of its block, which the checkpoint of this number writes.
    pub(crate) fn encode(&self, checkpoint: u64) -> Vec<u8> {
        let out = self.encoded();
        let parts = self.parts.len() as u32;
        assert!(Self::decode(&out, parts, checkpoint).as_ref() == Some(self), "it reads as it was written");
        out
    }

    fn encoded(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for DirectoryPlace { bound, number, checkpoint, pages, bytes, place } in &self.parts {
            bound.encode(&mut out);
            out.extend_from_slice(&number.to_le_bytes());
            out.extend_from_slice(&checkpoint.to_le_bytes());
            out.extend_from_slice(&pages.to_le_bytes());
            out.extend_from_slice(&bytes.to_le_bytes());
            encode_extent(*place, &mut out);
        }
        for RemovesPlace { number, checkpoint, place } in &self.removes {
            out.extend_from_slice(&number.to_le_bytes());
            out.extend_from_slice(&checkpoint.to_le_bytes());
            encode_extent(*place, &mut out);
        }
        out
    }

    /// What a payload says, of which the header says that it has so many parts, and which the checkpoint of this number
    /// wrote. `None` if no version writes it so.
    pub(crate) fn decode(payload: &[u8], parts: u32, checkpoint: u64) -> Option<Self> {
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
        while !from.is_empty() {
            let (number, checkpoint) = (from.u64()?, from.u64()?);
            root.removes.push(RemovesPlace { number, checkpoint, place: from.extent()? });
        }
        debug_assert!(from.is_empty() && root.parts.len() == parts as usize);
        root.is_whole(checkpoint).then_some(root)
    }

    fn is_whole(&self, checkpoint: u64) -> bool {
        let is_known = |number: u64, by: u64| number < NUMBER_END && (1..=checkpoint).contains(&by);
        let parts = self.parts.iter().all(|part| is_known(part.number, part.checkpoint) && part.pages > 0);
        let removes = self.removes.iter().all(|block| is_known(block.number, block.checkpoint));
        let is_own = self.removes.iter().all(|block| block.checkpoint == checkpoint);
        let is_tiled = self.parts.first().is_none_or(|first| first.bound.follows(None));
        let is_ordered = self.parts.windows(2).all(|pair| pair[0].bound < pair[1].bound);
        parts && removes && is_own && is_tiled && is_ordered
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
