//! A checkpoint's block while entries are added.
//!
//! Invariant: a block's payload takes at most [`BLOCK_BYTES_MAX`] of memory, unless a single entry needs more. At most
//! one block of a database's checkpointers is larger at a time.
//!
//! Neighbours: `crate::files::block` has the grammar; `Walk` fills blocks; `writer` writes blocks to files.

use ensile_base::Tid;
use ensile_base::checksum::crc32c;
use ensile_base::limits::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
use std::sync::Arc;

use ensile_base::sync::{AtomicBool, Ordering};

use crate::files::block::entries::{ENTRY_FRAME_BYTES, FramedEntries, push_entry};
use crate::files::block::{ALIGN_BYTES, HEADER_BYTES, align_up};

/// Most bytes of a block's payload, unless a single entry is larger.
pub(crate) const BLOCK_BYTES_MAX: usize = 256 << 10;
/// Most entries of a block that are tried for a tail. An entry that fits into no tail takes most of a unit, so a block
/// is full before the block has as many of these entries.
const LOOKED_AT: usize = 64;
/// Most bytes of one entry with its frame.
pub(crate) const LARGE_BYTES_MAX: usize = KEY_BYTES_MAX + VALUE_BYTES_MAX + 64;
const _: () = {
    assert!(BLOCK_BYTES_MAX.is_multiple_of(ALIGN_BYTES));
    assert!(BLOCK_BYTES_MAX < LARGE_BYTES_MAX && LARGE_BYTES_MAX < u32::MAX as usize);
};

/// Permit to hold a block larger than [`BLOCK_BYTES_MAX`]: one permit for the checkpointers of a database.
#[derive(Clone, Debug, Default)]
pub(crate) struct LargePermit(Arc<AtomicBool>);

impl LargePermit {
    fn try_take(&self) -> bool {
        // Relaxed, both: the permit guards the size of memory, and no data in the memory.
        self.0.compare_exchange(false, true, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    fn give_back(&self) {
        // Relaxed: the permit guards the size of memory, and no data in the memory.
        let was_held = self.0.swap(false, Ordering::Relaxed);
        assert!(was_held, "only a block that took it gives it back");
    }
}

/// A checkpoint block that a walk fills with entries.
///
/// ```
/// use ensile_base::{Epoch, Tid};
/// use ensile_durability::CheckpointBlock;
/// let mut block = CheckpointBlock::new();
/// assert!(block.has_room(5));
/// block.push(Tid::first_of(Epoch::new(3)), |body| body.extend_from_slice(b"hello"));
/// assert_eq!(block.entries(), 1);
/// ```
#[derive(Debug)]
pub struct CheckpointBlock {
    bytes: Vec<u8>,
    entries: u32,
    permit: LargePermit,
    /// True if this block holds the permit.
    is_large: bool,
    /// True if the walk asked for the room of a large block while another block held the permit.
    is_refused: bool,
}

impl Default for CheckpointBlock {
    fn default() -> Self {
        Self::new()
    }
}

impl CheckpointBlock {
    /// An empty block.
    #[must_use]
    pub fn new() -> Self {
        Self::with_permit(LargePermit::default())
    }

    /// An empty block that shares the permit with further blocks.
    pub(crate) fn with_permit(permit: LargePermit) -> Self {
        let mut bytes = Vec::with_capacity(HEADER_BYTES + BLOCK_BYTES_MAX);
        bytes.resize(HEADER_BYTES, 0);
        assert!(bytes.capacity() >= HEADER_BYTES + BLOCK_BYTES_MAX, "a usual block takes no more memory");
        Self { bytes, entries: 0, permit, is_large: false, is_refused: false }
    }

    /// True if the block has room for an entry with a body of `body_bytes`. If not, the walk stops here, with `resume`
    /// at this entry. An empty block makes room for any entry, unless another checkpointer holds a large block just
    /// now.
    #[inline]
    pub fn has_room(&mut self, body_bytes: usize) -> bool {
        let payload = self.bytes.len() - HEADER_BYTES + ENTRY_FRAME_BYTES + body_bytes;
        payload <= BLOCK_BYTES_MAX || (self.entries == 0 && self.make_large(payload))
    }

    /// Makes room for one large entry with a payload of `payload` bytes, if no other block holds the permit.
    #[cold]
    fn make_large(&mut self, payload: usize) -> bool {
        assert!(self.entries == 0 && payload > BLOCK_BYTES_MAX, "a large block is for one entry");
        if !self.is_large && !self.permit.try_take() {
            self.is_refused = true;
            return false;
        }
        self.is_large = true;
        self.bytes.reserve_exact(align_up(payload));
        true
    }

    /// Adds an entry after a successful [`CheckpointBlock::has_room`]; `body` appends the entry's body.
    #[inline]
    pub fn push(&mut self, tid: Tid, body: impl FnOnce(&mut Vec<u8>)) {
        push_entry(&mut self.bytes, tid, body);
        debug_assert!(
            self.is_large || self.bytes.len() <= HEADER_BYTES + BLOCK_BYTES_MAX,
            "room was asked for"
        );
        self.entries += 1;
    }

    /// Number of entries in the block.
    #[must_use]
    pub fn entries(&self) -> u32 {
        self.entries
    }

    /// The entries, each with TID and body. Call `iter` before the block is sealed.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Tid, &[u8])> {
        FramedEntries::new(&self.bytes[HEADER_BYTES..]).map(|entry| entry.expect("what was pushed is framed"))
    }

    /// True if the block holds an entry that no usual block has room for. Until the block is written, no other block
    /// may be large.
    pub(crate) fn is_large(&self) -> bool {
        self.is_large
    }

    /// Moves entries into `out`, the tail of a picture's page, that fit into `bytes_max` together, and returns their
    /// number. An entry that does not fit stays, and later entries are tried, up to [`LOOKED_AT`] entries.
    pub(crate) fn take_fitting(&mut self, bytes_max: usize, out: &mut Vec<u8>) -> u32 {
        let (mut from, mut kept, mut taken, mut left) = (HEADER_BYTES, HEADER_BYTES, 0, bytes_max);
        for _ in 0..LOOKED_AT {
            let Some(Ok((_, body))) = FramedEntries::new(&self.bytes[from..]).next() else { break };
            let bytes = ENTRY_FRAME_BYTES + body.len();
            let entry = from..from + bytes;
            from = entry.end;
            if bytes <= left {
                out.extend_from_slice(&self.bytes[entry]);
                (taken, left) = (taken + 1, left - bytes);
            } else {
                self.bytes.copy_within(entry, kept);
                kept += bytes;
            }
            if left < ENTRY_FRAME_BYTES {
                break;
            }
        }
        self.bytes.drain(kept..from);
        self.entries -= taken;
        assert!(taken == 0 || !self.is_large, "a large entry fits into no tail");
        assert_eq!(self.entries == 0, self.bytes.len() == HEADER_BYTES, "whole entries");
        taken
    }

    /// True if the walk stopped because another block is large. The call resets the flag.
    pub(crate) fn take_refusal(&mut self) -> bool {
        std::mem::take(&mut self.is_refused)
    }

    /// Pads the payload. Returns the length without padding, and the checksum with padding.
    pub(crate) fn seal(&mut self) -> (u32, u32) {
        assert!(self.entries > 0, "a block without entries is not written");
        let payload = self.bytes.len() - HEADER_BYTES;
        assert!(payload >= self.entries as usize * ENTRY_FRAME_BYTES, "each entry has its frame");
        assert!(payload <= BLOCK_BYTES_MAX || self.is_large, "a reader takes no more memory");
        self.bytes.resize(HEADER_BYTES + align_up(payload), 0);
        (payload as u32, crc32c(&self.bytes[HEADER_BYTES..]))
    }

    /// The whole block: space for the header, payload, padding.
    pub(crate) fn block(&mut self) -> &mut [u8] {
        &mut self.bytes
    }

    /// Empties the block, and gives back the memory and the permit of a large block.
    pub(crate) fn reset(&mut self) {
        self.bytes.truncate(HEADER_BYTES);
        self.entries = 0;
        if std::mem::take(&mut self.is_large) {
            self.bytes.shrink_to(HEADER_BYTES + BLOCK_BYTES_MAX);
            assert!(self.bytes.capacity() < HEADER_BYTES + LARGE_BYTES_MAX, "its memory is given back");
            self.permit.give_back();
        }
    }
}

impl Drop for CheckpointBlock {
    fn drop(&mut self) {
        if self.is_large {
            self.permit.give_back();
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
