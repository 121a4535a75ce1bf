//! The grammar of checkpoint files, and a block while it is filled (`docs/formats/checkpoint.md` has the byte boxes).
//!
//! ```text
//! file    := rows-block* end-block            and nothing behind it
//! block   := header payload zero-padding to a multiple of 8
//! payload := entry*                           (rows; framed as in the log, compressed where the header says so)
//!          | entries u64, rows blocks u64     (end; of this file)
//! ```
//! Invariants:
//! - A block carries its place (checkpoint, checkpointer, file, sequence) and the header checksum of the block before; the
//!   header's checksum covers the payload's. So the end block's header checksum vouches for the whole file.
//! - A file without its end block is cut: truncation at any byte is seen.
//! - Memory: a block's payload is at most [`BLOCK_BYTES_MAX`], unless a single entry needs more; only one block of all
//!   checkpointers is such a large one at a time.
//!
//! Neighbours: `Walk` fills blocks, `write` sends them out, `read` parses.

use ensile_base::checksum::crc32c;
use ensile_base::limits::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
use ensile_base::sync::{Arc, AtomicBool, Ordering};
use ensile_base::{Epoch, Tid};

use crate::block::entries::ENTRY_FRAME_BYTES;
use crate::block::{ALIGN_BYTES, padded};
use crate::compress::Compressor;
use crate::store::names::PartName;

/// Bytes of a block's header.
pub(crate) const HEADER_BYTES: usize = 64;
/// Most bytes of a block's payload, unless one entry alone is larger.
pub(crate) const BLOCK_BYTES_MAX: usize = 256 << 10;
/// Most bytes of one entry with what frames it, as far as a compressed block is concerned.
pub(crate) const LARGE_BYTES_MAX: usize = KEY_BYTES_MAX + VALUE_BYTES_MAX + 64;
/// Bytes of an end block's payload.
const END_BYTES: usize = 16;

const MAGIC: [u8; 4] = *b"EnsC";
const VERSION: u16 = 1;
const HEADER_CRC_AT: usize = 60;
const _: () = assert!(HEADER_CRC_AT + 4 == HEADER_BYTES && HEADER_BYTES.is_multiple_of(ALIGN_BYTES));

/// What a block is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Entries of one section.
    Rows,
    /// The file's totals: nothing follows.
    End,
}

/// A block's header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) kind: Kind,
    pub(crate) section: u32,
    /// The checkpoint, the checkpointer and the file that this block belongs to.
    pub(crate) part: PartName,
    /// e_l: no entry has a larger epoch, or this one.
    pub(crate) low: Epoch,
    /// Counts the blocks of this file from 0.
    pub(crate) sequence: u32,
    pub(crate) entries: u32,
    /// The payload is the entries compressed (`crate::compress`).
    pub(crate) compressed: bool,
    /// Bytes behind the header, padding left out.
    pub(crate) payload_bytes: u32,
    /// The header checksum of the block before; zero in the first.
    pub(crate) previous_crc: u32,
    /// CRC-32C of payload and padding.
    pub(crate) payload_crc: u32,
}

/// Why bytes are not a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotAHeader {
    /// What is wrong with them.
    Damaged(&'static str),
    /// A version or kind that this program does not know, under a good checksum.
    Unknown,
}

impl Header {
    /// Writes the header into the first bytes of `block`; returns its checksum.
    pub(crate) fn encode(&self, block: &mut [u8]) -> u32 {
        let header = &mut block[..HEADER_BYTES];
        header.fill(0);
        header[0..4].copy_from_slice(&MAGIC);
        header[4..6].copy_from_slice(&VERSION.to_le_bytes());
        header[6] = match self.kind {
            Kind::Rows => 0,
            Kind::End => 1,
        };
        header[7] = u8::from(self.compressed);
        header[8..12].copy_from_slice(&self.section.to_le_bytes());
        header[12..16].copy_from_slice(&self.payload_bytes.to_le_bytes());
        header[16..24].copy_from_slice(&self.part.checkpoint.to_le_bytes());
        header[24..32].copy_from_slice(&self.low.number().to_le_bytes());
        header[32..36].copy_from_slice(&self.part.checkpointer.to_le_bytes());
        header[36..40].copy_from_slice(&self.part.file.to_le_bytes());
        header[40..44].copy_from_slice(&self.sequence.to_le_bytes());
        header[44..48].copy_from_slice(&self.entries.to_le_bytes());
        header[48..52].copy_from_slice(&self.previous_crc.to_le_bytes());
        header[52..56].copy_from_slice(&self.payload_crc.to_le_bytes());
        let crc = crc32c(&header[..HEADER_CRC_AT]);
        header[HEADER_CRC_AT..].copy_from_slice(&crc.to_le_bytes());
        crc
    }

    /// Reads a header and its checksum.
    ///
    /// # Errors
    /// Why these bytes are none.
    pub(crate) fn decode(bytes: &[u8]) -> Result<(Self, u32), NotAHeader> {
        let header = &bytes[..HEADER_BYTES];
        if header[0..4] != MAGIC {
            return Err(NotAHeader::Damaged(
                "no checkpoint block begins here: overwritten, or not a file of one",
            ));
        }
        let crc = u32_at(header, HEADER_CRC_AT);
        if crc != crc32c(&header[..HEADER_CRC_AT]) {
            return Err(NotAHeader::Damaged("the block header's checksum is wrong"));
        }
        let (kind, compressed) = match (u16::from_le_bytes([header[4], header[5]]), header[6], header[7]) {
            (VERSION, 0, 0) => (Kind::Rows, false),
            (VERSION, 0, 1) => (Kind::Rows, true),
            (VERSION, 1, 0) => (Kind::End, false),
            _ => return Err(NotAHeader::Unknown),
        };
        let low = u64_at(header, 24);
        if low >= Epoch::MAX.number() || u32_at(header, 56) != 0 {
            return Err(NotAHeader::Unknown);
        }
        let part = PartName {
            checkpoint: u64_at(header, 16),
            checkpointer: u32_at(header, 32),
            file: u32_at(header, 36),
        };
        let header = Self {
            kind,
            section: u32_at(header, 8),
            part,
            low: Epoch::new(low),
            sequence: u32_at(header, 40),
            entries: u32_at(header, 44),
            compressed,
            payload_bytes: u32_at(header, 12),
            previous_crc: u32_at(header, 48),
            payload_crc: u32_at(header, 52),
        };
        Ok((header, crc))
    }

    /// Bytes of the whole block.
    pub(crate) fn block_bytes(&self) -> usize {
        block_bytes(self.payload_bytes as usize)
    }
}

/// Most bytes that so many entries of a compressed block can have: no reader takes memory for more, so no writer makes it.
pub(crate) const fn entries_bytes_max(entries: u32) -> usize {
    if entries == 1 { LARGE_BYTES_MAX } else { BLOCK_BYTES_MAX }
}

/// Bytes of a whole block with such a payload.
pub(crate) const fn block_bytes(payload_bytes: usize) -> usize {
    HEADER_BYTES + padded(payload_bytes)
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

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
        payload
    }

    /// What an end block's payload says, if it is one.
    pub(crate) fn decode(payload: &[u8]) -> Option<Self> {
        (payload.len() == END_BYTES).then(|| Self { entries: u64_at(payload, 0), blocks: u64_at(payload, 8) })
    }
}

/// The right to hold a block larger than [`BLOCK_BYTES_MAX`]: one for all checkpointers of a database.
#[derive(Clone, Debug, Default)]
pub(crate) struct LargePermit(Arc<AtomicBool>);

impl LargePermit {
    fn try_take(&self) -> bool {
        // Relaxed, both: guards memory's size and nothing that it holds.
        self.0.compare_exchange(false, true, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    fn give_back(&self) {
        // Relaxed: as above.
        self.0.store(false, Ordering::Relaxed);
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
    /// This block holds the permit.
    is_large: bool,
    /// The walk asked for room that only a large block has, and another one is.
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
        Self::sharing(LargePermit::default())
    }

    /// An empty block among others that share the right to be large.
    pub(crate) fn sharing(permit: LargePermit) -> Self {
        let mut bytes = Vec::with_capacity(HEADER_BYTES + BLOCK_BYTES_MAX);
        bytes.resize(HEADER_BYTES, 0);
        Self { bytes, entries: 0, permit, is_large: false, is_refused: false }
    }

    /// Is there room for an entry with a body of `body_bytes`? If not, the walk stops here, with `resume` at this entry.
    /// An empty block makes room for any entry, unless another checkpointer holds a large one just now.
    #[inline]
    pub fn has_room(&mut self, body_bytes: usize) -> bool {
        let payload = self.bytes.len() - HEADER_BYTES + ENTRY_FRAME_BYTES + body_bytes;
        payload <= BLOCK_BYTES_MAX || (self.entries == 0 && self.make_large(payload))
    }

    #[cold]
    fn make_large(&mut self, payload: usize) -> bool {
        if !self.is_large && !self.permit.try_take() {
            self.is_refused = true;
            return false;
        }
        self.is_large = true;
        self.bytes.reserve_exact(padded(payload));
        true
    }

    /// Adds an entry, for which there is room; `body` appends its body.
    #[inline]
    pub fn push(&mut self, tid: Tid, body: impl FnOnce(&mut Vec<u8>)) {
        let at = self.bytes.len();
        let mut frame = [0; ENTRY_FRAME_BYTES];
        frame[..8].copy_from_slice(&tid.bits().to_le_bytes());
        self.bytes.extend_from_slice(&frame);
        body(&mut self.bytes);
        let body = self.bytes.len().checked_sub(at + ENTRY_FRAME_BYTES).expect("the body only adds bytes");
        debug_assert!(
            self.is_large || self.bytes.len() <= HEADER_BYTES + BLOCK_BYTES_MAX,
            "room was asked for"
        );
        self.bytes[at + 8..at + ENTRY_FRAME_BYTES].copy_from_slice(&(body as u32).to_le_bytes());
        self.entries += 1;
    }

    /// How many entries it holds.
    #[must_use]
    pub fn entries(&self) -> u32 {
        self.entries
    }

    /// Whether the walk stopped because another block is large: tells once.
    pub(crate) fn take_refusal(&mut self) -> bool {
        std::mem::take(&mut self.is_refused)
    }

    /// Compresses the entries, before they are sealed; false if that would not make them shorter, or they are more than a
    /// reader would take memory for.
    pub(crate) fn compress(&mut self, compressor: &mut Compressor) -> bool {
        self.bytes.len() <= HEADER_BYTES + entries_bytes_max(self.entries)
            && compressor.compress(&mut self.bytes, HEADER_BYTES)
    }

    /// Pads the payload; its length without padding, and the checksum with it.
    pub(crate) fn seal(&mut self) -> (u32, u32) {
        let payload = self.bytes.len() - HEADER_BYTES;
        self.bytes.resize(HEADER_BYTES + padded(payload), 0);
        (payload as u32, crc32c(&self.bytes[HEADER_BYTES..]))
    }

    /// The whole block: header space, payload, padding.
    pub(crate) fn block(&mut self) -> &mut [u8] {
        &mut self.bytes
    }

    /// Empties the block, and gives back what a large one took.
    pub(crate) fn reset(&mut self) {
        self.bytes.truncate(HEADER_BYTES);
        self.entries = 0;
        if std::mem::take(&mut self.is_large) {
            self.bytes.shrink_to(HEADER_BYTES + BLOCK_BYTES_MAX);
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
