//! The log's grammar: blocks and the entries inside (`docs/formats/log.md` has the byte boxes).
//!
//! ```text
//! log   := file+                                    of one (generation, logger), in order
//! file  := opening-mark block*
//! block := header payload zero-padding to a multiple of 8
//! payload := entry*      (kind data)   |  nothing   (kinds mark and opening)
//! entry := tid u64, body length u32, body
//! ```
//! Invariants:
//! - L5: a block carries its place (generation, logger, sequence) and the checksum of the block before it; the header
//!   has its own checksum, which covers the payload's, so that epochs of a block whose payload is torn can be read.
//! - L5: header checksums are seeded by the log's salt, which stands in the first block of each file: what stands inside an
//!   entry is chosen by whoever wrote the value, and must not pass for a block where the chain is broken.
//! - L3: `mark` counts in marks only; in a data block it repeats the last synced one.
//!
//! Neighbours: loggers fill headers in place, in front of the entries that the appenders framed; recovery parses.

use ensile_base::checksum::crc32c_append;
use ensile_base::random::Random;
use ensile_base::{Epoch, Tid};

/// Bytes of a block's header.
pub(crate) const HEADER_BYTES: usize = 80;
/// Bytes in front of an entry's body.
pub(crate) const ENTRY_FRAME_BYTES: usize = 12;
/// Blocks begin at multiples of this.
pub(crate) const ALIGN_BYTES: usize = 8;
/// The first bytes of a block.
pub(crate) const MAGIC: [u8; 4] = *b"EnsL";
/// The format of blocks: the manifest tells it for each generation (L7).
pub(crate) const FORMAT: u16 = 3;

const HEADER_CRC_AT: usize = 76;
const _: () = assert!(HEADER_CRC_AT + 4 == HEADER_BYTES && HEADER_BYTES.is_multiple_of(ALIGN_BYTES));

/// What the header checksums of a generation's logs begin with: a random number, known to nobody who has not read the files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Salt(u32);

impl Salt {
    /// Of a file's first block, which stands where no entry can, and tells the salt of all others.
    const OPENING: Self = Self(0);

    /// A salt that nobody can guess.
    pub(crate) fn draw(random: &mut Random) -> Self {
        Self((random.next_u64() as u32).max(1))
    }

    /// As it stands in the manifest.
    pub(crate) fn parse(word: &str) -> Option<Self> {
        let salt = Self(u32::from_str_radix(word, 16).ok()?);
        (salt != Self::OPENING && salt.to_string() == word).then_some(salt)
    }

    fn checksum(self, header: &[u8]) -> u32 {
        crc32c_append(self.0, header)
    }
}

impl std::fmt::Display for Salt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:08x}", self.0)
    }
}

/// What a block is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Entries.
    Data,
    /// A durable mark.
    Mark,
    /// The first block of a file: a mark of what is synced, which also tells the log's salt.
    Opening,
}

/// A block's header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) kind: Kind,
    pub(crate) logger: u32,
    pub(crate) generation: u64,
    /// Counts the blocks of this log from 0, over all its segments.
    pub(crate) sequence: u64,
    /// Bytes of entries behind the header, padding left out.
    pub(crate) payload_bytes: u32,
    pub(crate) entries: u32,
    /// Epochs of the first and the last entry; zero in a mark, but for the largest of an opening mark: of the entries in all
    /// files before it.
    pub(crate) epoch_min: Epoch,
    pub(crate) epoch_max: Epoch,
    /// The payload is the entries compressed (`crate::compress`).
    pub(crate) compressed: bool,
    /// This log's durable mark d (L1, L3).
    pub(crate) mark: Epoch,
    /// The D that every log's synced marks allowed when this block was written (L5).
    pub(crate) published: Epoch,
    /// The header checksum of the block before, in the file before if it is the first of one; zero in a log's first.
    pub(crate) previous_crc: u32,
    /// CRC-32C of payload and padding.
    pub(crate) payload_crc: u32,
}

/// Why bytes are not a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotAHeader {
    /// No block was ever written here.
    Zeros,
    /// The magic is missing.
    NoMagic,
    /// A version or kind that this program does not know, under a good checksum.
    Unknown,
    /// The checksum is wrong.
    BadCrc,
}

impl NotAHeader {
    pub(crate) fn detail(self) -> &'static str {
        match self {
            Self::Zeros => "zeros where a block was expected",
            Self::NoMagic => "no block begins here",
            Self::Unknown => "a block of an unknown version or kind",
            Self::BadCrc => "the block header's checksum is wrong",
        }
    }
}

impl Header {
    /// Writes the header into the first bytes of `block`, and returns the checksum that the next block carries.
    pub(crate) fn encode(&self, block: &mut [u8], salt: Salt) -> u32 {
        let header = &mut block[..HEADER_BYTES];
        header[0..4].copy_from_slice(&MAGIC);
        header[4..6].copy_from_slice(&FORMAT.to_le_bytes());
        header[6] = match self.kind {
            Kind::Data => 0,
            Kind::Mark => 1,
            Kind::Opening => 2,
        };
        header[7] = u8::from(self.compressed);
        header[8..12].copy_from_slice(&self.logger.to_le_bytes());
        header[12..16].copy_from_slice(&self.payload_bytes.to_le_bytes());
        header[16..24].copy_from_slice(&self.generation.to_le_bytes());
        header[24..32].copy_from_slice(&self.sequence.to_le_bytes());
        header[32..40].copy_from_slice(&self.epoch_min.number().to_le_bytes());
        header[40..48].copy_from_slice(&self.epoch_max.number().to_le_bytes());
        header[48..56].copy_from_slice(&self.mark.number().to_le_bytes());
        header[56..64].copy_from_slice(&self.published.number().to_le_bytes());
        // An opening mark has no entries, and tells the salt instead.
        let (told, salt) =
            if self.kind == Kind::Opening { (salt.0, Salt::OPENING) } else { (self.entries, salt) };
        header[64..68].copy_from_slice(&told.to_le_bytes());
        header[68..72].copy_from_slice(&self.previous_crc.to_le_bytes());
        header[72..76].copy_from_slice(&self.payload_crc.to_le_bytes());
        let crc = salt.checksum(&header[..HEADER_CRC_AT]);
        header[HEADER_CRC_AT..].copy_from_slice(&crc.to_le_bytes());
        crc
    }

    /// Reads the first header of a file: itself, its checksum, and the log's salt.
    pub(crate) fn decode_opening(bytes: &[u8]) -> Result<(Self, u32, Salt), NotAHeader> {
        let (header, crc) = Self::decode_any(bytes, Salt::OPENING)?;
        if header.kind != Kind::Opening {
            return Err(NotAHeader::Unknown);
        }
        let salt = Salt(header.entries);
        Ok((Self { entries: 0, ..header }, crc, salt))
    }

    /// Reads a header of the log with this salt that is not the first of its file, and its checksum.
    pub(crate) fn decode(bytes: &[u8], salt: Salt) -> Result<(Self, u32), NotAHeader> {
        let (header, crc) = Self::decode_any(bytes, salt)?;
        if header.kind == Kind::Opening { Err(NotAHeader::Unknown) } else { Ok((header, crc)) }
    }

    fn decode_any(bytes: &[u8], salt: Salt) -> Result<(Self, u32), NotAHeader> {
        let header = &bytes[..HEADER_BYTES];
        if header[0..4] != MAGIC {
            let zeros = header.iter().all(|byte| *byte == 0);
            return Err(if zeros { NotAHeader::Zeros } else { NotAHeader::NoMagic });
        }
        let crc = u32_at(header, HEADER_CRC_AT);
        if crc != salt.checksum(&header[..HEADER_CRC_AT]) {
            return Err(NotAHeader::BadCrc);
        }
        let (kind, compressed) = match (u16::from_le_bytes([header[4], header[5]]), header[6], header[7]) {
            (FORMAT, 0, 0) => (Kind::Data, false),
            (FORMAT, 0, 1) => (Kind::Data, true),
            (FORMAT, 1, 0) => (Kind::Mark, false),
            (FORMAT, 2, 0) => (Kind::Opening, false),
            _ => return Err(NotAHeader::Unknown),
        };
        let epoch = |at| {
            let number = u64_at(header, at);
            // The largest is nobody's: there must be one above every epoch that is seen (L4).
            if number >= Epoch::MAX.number() { Err(NotAHeader::Unknown) } else { Ok(Epoch::new(number)) }
        };
        let header = Self {
            kind,
            logger: u32_at(header, 8),
            payload_bytes: u32_at(header, 12),
            generation: u64_at(header, 16),
            sequence: u64_at(header, 24),
            epoch_min: epoch(32)?,
            epoch_max: epoch(40)?,
            compressed,
            mark: epoch(48)?,
            published: epoch(56)?,
            entries: u32_at(header, 64),
            previous_crc: u32_at(header, 68),
            payload_crc: u32_at(header, 72),
        };
        Ok((header, crc))
    }

    /// Bytes of the whole block.
    pub(crate) fn block_bytes(&self) -> usize {
        HEADER_BYTES + padded(self.payload_bytes as usize)
    }

    /// The largest epoch that this block knows of.
    pub(crate) fn epoch_seen(&self) -> Epoch {
        self.epoch_max.max(self.mark).max(self.published)
    }
}

/// `bytes` rounded up to a whole number of alignment units.
pub(crate) const fn padded(bytes: usize) -> usize {
    bytes.next_multiple_of(ALIGN_BYTES)
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

/// The entries of a payload, each its TID and body; `Err` where the framing is broken.
pub(crate) struct Entries<'a> {
    rest: &'a [u8],
}

impl<'a> Entries<'a> {
    pub(crate) fn of(payload: &'a [u8]) -> Self {
        Self { rest: payload }
    }
}

/// An entry does not fit the payload that holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BadFrame;

impl<'a> Iterator for Entries<'a> {
    type Item = Result<(Tid, &'a [u8]), BadFrame>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let Some((frame, rest)) = self.rest.split_at_checked(ENTRY_FRAME_BYTES) else {
            self.rest = &[];
            return Some(Err(BadFrame));
        };
        let bits = u64_at(frame, 0);
        let Some((body, rest)) = rest.split_at_checked(u32_at(frame, 8) as usize) else {
            self.rest = &[];
            return Some(Err(BadFrame));
        };
        self.rest = rest;
        let tid = Tid::from_word(bits);
        Some(if tid.bits() == bits { Ok((tid, body)) } else { Err(BadFrame) })
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
