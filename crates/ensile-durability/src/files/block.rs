//! Blocks: the common grammar of all log and checkpoint files (`docs/internals/formats/block.md` has the byte boxes).
//!
//! Invariants: I1, L5, L7. The header checksum covers the payload's, so a reader finds a block's place even if the
//! payload is torn, or the kind [unknown](BlockKind::Unknown). The checksum begins with the salt that the opening block
//! names: an application's user chooses the bytes inside an entry, which could otherwise pass for a block.
//!
//! Neighbours: [`origin`] has the opening block's payload, [`entries`] the payload of data and rows, [`extent`] the
//! places of blocks in page files; [`scan`] reads files. Loggers and checkpointers write blocks, and recovery reads
//! blocks.

pub(crate) mod entries;
pub(crate) mod extent;
pub(crate) mod origin;
pub(crate) mod scan;

use ensile_base::Epoch;
use ensile_base::checksum::{crc32c, crc32c_append};
use ensile_base::random::Random;

use crate::error::NEWER;
use crate::number::NUMBER_END;

pub(crate) const HEADER_BYTES: usize = 80;
/// Alignment of blocks, in bytes.
pub(crate) const ALIGN_BYTES: usize = 8;
/// First bytes of a block.
pub(crate) const MAGIC: [u8; 4] = *b"EnsB";
/// Format of the blocks of logs, and of checkpoints that are written whole. The manifest names the format of each
/// generation (L7).
pub(crate) const FORMAT: u16 = 4;
/// Format of the blocks of page files.
pub(crate) const PAGES_FORMAT: u16 = 5;

const HEADER_CRC_AT: usize = 76;
const _: () = assert!(MAGIC.len() <= ALIGN_BYTES, "a search looks at the beginning of each unit");
const _: () = assert!(BlockKind::KNOWN.len() < u8::MAX as usize);
const _: () = assert!(HEADER_CRC_AT + 4 == HEADER_BYTES && HEADER_BYTES.is_multiple_of(ALIGN_BYTES));

/// Start value of header checksums: a random number for each generation and checkpoint. Only a reader of the files
/// knows the salt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Salt(u32);

impl Salt {
    /// Salt of a file's opening block. No entry can stand at the opening block's place, and the block names the salt of
    /// all later blocks.
    pub(crate) const OPENING: Self = Self(0);

    /// Draws an unpredictable salt.
    pub(crate) fn draw(random: &mut Random) -> Self {
        let salt = Self((random.next_u64() as u32).max(1));
        assert_ne!(salt, Self::OPENING, "a drawn salt differs from none");
        salt
    }

    /// Reads a salt from the manifest: eight lowercase hex digits, not zero.
    pub(crate) fn parse(word: &str) -> Option<Self> {
        let salt = Self::of_number(u32::from_str_radix(word, 16).ok()?)?;
        (salt.to_string() == word).then_some(salt)
    }

    /// Salt of this number in an opening block; `None` for zero.
    fn of_number(number: u32) -> Option<Self> {
        (number != Self::OPENING.0).then_some(Self(number))
    }

    /// CRC-32C of these bytes, with the salt as the start value.
    pub(crate) fn checksum(self, header: &[u8]) -> u32 {
        crc32c_append(self.0, header)
    }
}

impl std::fmt::Display for Salt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:08x}", self.0)
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum BlockKind {
    /// Entries of a log.
    Data,
    /// A log's durable mark.
    Mark,
    /// The first block of a log's file; also a mark.
    LogOpening,
    /// Entries of one section of a checkpoint.
    Rows,
    /// The totals of a checkpoint's file: the last block.
    End,
    /// The first block of a checkpoint's file.
    CheckpointOpening,
    /// A page of a picture, or the page's beginning.
    Page,
    /// The next part of a page that exceeds one block.
    Continuation,
    /// Entries, of any sections, that commits have displaced and that a picture's pages lack (N10).
    PendingRemoves,
    /// Places of a picture's pages.
    DirectoryPart,
    /// Places of a picture's directory parts and pending removes. A reader finds the whole picture from the root.
    Root,
    /// A picture's root that also has the places of tails.
    RootWithTails,
    /// The first block of a page file.
    PagesOpening,
    /// Written by a newer version, with a kind, flag or format unknown to this program (L7).
    #[default]
    Unknown,
}

impl BlockKind {
    /// Kinds that this version writes, each with its format and its byte in the header.
    const KNOWN: [(u16, u8, Self); 13] = [
        (FORMAT, 0, Self::Data),
        (FORMAT, 1, Self::Mark),
        (FORMAT, 2, Self::LogOpening),
        (FORMAT, 3, Self::Rows),
        (FORMAT, 4, Self::End),
        (FORMAT, 5, Self::CheckpointOpening),
        (PAGES_FORMAT, 6, Self::Page),
        (PAGES_FORMAT, 7, Self::Continuation),
        (PAGES_FORMAT, 8, Self::PendingRemoves),
        (PAGES_FORMAT, 9, Self::DirectoryPart),
        (PAGES_FORMAT, 10, Self::Root),
        (PAGES_FORMAT, 11, Self::PagesOpening),
        (PAGES_FORMAT, 12, Self::RootWithTails),
    ];

    /// Kind of this format and byte in a header; [`BlockKind::Unknown`] for any other pair.
    fn decode(format: u16, byte: u8) -> Self {
        let is_it = |known: &&(u16, u8, Self)| (known.0, known.1) == (format, byte);
        Self::KNOWN.iter().find(is_it).map_or(Self::Unknown, |known| known.2)
    }

    /// Format and byte of the kind in a header.
    fn format_and_byte(self) -> (u16, u8) {
        let known = Self::KNOWN.iter().find(|known| known.2 == self).expect("only known kinds are written");
        (known.0, known.1)
    }

    /// True if the entries of the block belong to one section.
    fn has_section(self) -> bool {
        matches!(self, Self::Rows | Self::Page | Self::Continuation)
    }

    /// True if the block stands in an extent of a page file. Such a block has no marks; its header names its place and
    /// writer.
    pub(crate) fn is_extent(self) -> bool {
        use BlockKind::{Continuation, DirectoryPart, Page, PendingRemoves};
        matches!(self, Page | Continuation | PendingRemoves | DirectoryPart) || self.is_root()
    }

    /// True if the block is a picture's root, of either kind.
    pub(crate) fn is_root(self) -> bool {
        matches!(self, Self::Root | Self::RootWithTails)
    }

    /// True if the block is the first of a file.
    pub(crate) fn is_opening(self) -> bool {
        matches!(self, Self::LogOpening | Self::CheckpointOpening | Self::PagesOpening)
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) kind: BlockKind,
    /// Number of the logger or checkpointer.
    pub(crate) owner: u32,
    /// Generation that was open during the write.
    pub(crate) generation: u64,
    /// Number of the block, from 0: in a log over all its files, in a checkpoint within the file. In a page file, the
    /// number of the page, block or part. In a page file's opening block, the number of the file.
    pub(crate) sequence: u64,
    /// Payload bytes behind the header, without padding.
    pub(crate) payload_bytes: u32,
    /// Number of entries. In a continuation: the block's place in the page, from 1. In a directory part or root: the
    /// number of listed pages or parts.
    pub(crate) entries: u32,
    /// Section of the entries, in rows and pages; zero in all other blocks.
    pub(crate) section: u32,
    /// Smallest and largest epoch: in a data block, the epochs of the first and of the last entry. In a log's opening
    /// block, `epoch_max` is the largest epoch of entries in all earlier files. In a checkpoint's opening block,
    /// `epoch_max` is e_l: no entry reaches e_l. In an extent, `epoch_max` is e_c of the picture that wrote the extent.
    /// All other values are zero.
    pub(crate) epoch_min: Epoch,
    pub(crate) epoch_max: Epoch,
    /// L3: the log's durable mark d. Only marks prove d; a data block repeats the last synced mark.
    pub(crate) mark: Epoch,
    /// L5: the D that the synced marks of all logs allowed when the block was written.
    pub(crate) published: Epoch,
    /// First unit of an extent; the field takes the place of `mark`.
    pub(crate) first_unit: u32,
    /// Number of the checkpoint that wrote the extent; the field takes the place of `published`.
    pub(crate) checkpoint: u64,
    /// Header checksum of the block before; zero in the first block. The first block of a log's later file carries the
    /// last checksum of the file before. A continuation carries the checksum of the page's block before; all other
    /// extents carry zero.
    pub(crate) previous_crc: u32,
    /// CRC-32C of payload and padding.
    pub(crate) payload_crc: u32,
}

/// Reason why no block can be read at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotABlock {
    /// The file has no bytes.
    Empty,
    /// The file ends before the block does.
    Cut,
    /// Zeros: no block was ever written here.
    Zeros,
    /// The magic is missing.
    NoMagic,
    /// The header's checksum is wrong.
    BadCrc,
    /// The header is valid. The payload has another checksum, or contents that no version writes.
    BadPayload,
    /// A valid opening block of another format than this program's (L7).
    OtherFormat,
    /// A valid block of a kind that is unknown to this program, or unknown at this place (L7).
    Unknown,
}

impl NotABlock {
    /// Text of the reason, for an error.
    pub(crate) fn detail(self) -> &'static str {
        match self {
            Self::Empty => "the file is empty",
            Self::Cut => "the file ends inside a block",
            Self::Zeros => "zeros where a block was expected",
            Self::NoMagic => "no block begins here",
            Self::BadCrc => "the block header's checksum is wrong",
            Self::BadPayload => "the block's checksum is wrong",
            Self::OtherFormat => "the block is of another format than the manifest says",
            Self::Unknown => NEWER,
        }
    }
}

impl Header {
    /// Header without entries, payload or epochs.
    pub(crate) fn new(kind: BlockKind, owner: u32, generation: u64) -> Self {
        Self { kind, owner, generation, ..Self::default() }
    }

    /// Checks the invariants of every written header. For a reader, a header that breaks an invariant is of a later
    /// version (L7).
    fn check(&self) {
        assert_ne!(self.kind, BlockKind::Unknown, "what is not known is not written");
        assert!(self.epoch_seen() < Epoch::MAX, "there is an epoch above every epoch that is seen (L4)");
        assert!(self.epoch_min <= self.epoch_max, "epochs {} to {}", self.epoch_min, self.epoch_max);
        assert!(self.generation.max(self.sequence) < NUMBER_END, "a reader takes no larger number");
        assert!(self.checkpoint < NUMBER_END, "a reader takes no larger number");
        let is_extent = self.kind.is_extent();
        let has_entries = is_extent || matches!(self.kind, BlockKind::Data | BlockKind::Rows);
        assert!(self.entries == 0 || has_entries, "entries in a block of {:?}", self.kind);
        assert!(self.section == 0 || self.kind.has_section(), "a section in a block of {:?}", self.kind);
        assert_eq!((self.first_unit > 0, self.checkpoint > 0), (is_extent, is_extent), "{:?}", self.kind);
        assert!(!is_extent || self.mark == Epoch::ZERO, "an extent has no mark");
        assert!(self.kind != BlockKind::Mark || self.payload_bytes == 0, "a mark has no payload");
        assert!(self.published <= self.mark, "a D of {} before the mark {} (L5)", self.published, self.mark);
    }

    /// Writes the header into the first bytes of `block`. Returns the header's checksum, which the next block of the
    /// chain carries. The checksum of an opening block omits the salt, because the opening block names the salt.
    pub(crate) fn encode(&self, block: &mut [u8], salt: Salt) -> u32 {
        self.check();
        let header = &mut block[..HEADER_BYTES];
        let (format, kind) = self.kind.format_and_byte();
        // A section takes the place of the smallest epoch, and the fields of an extent take the place of the marks.
        let first = if self.kind.has_section() { u64::from(self.section) } else { self.epoch_min.number() };
        let [third, fourth] = if self.kind.is_extent() {
            [u64::from(self.first_unit), self.checkpoint]
        } else {
            [self.mark, self.published].map(Epoch::number)
        };
        header[0..4].copy_from_slice(&MAGIC);
        header[4..6].copy_from_slice(&format.to_le_bytes());
        header[6] = kind;
        // The byte of the flags is reserved.
        header[7] = 0;
        header[8..12].copy_from_slice(&self.owner.to_le_bytes());
        header[12..16].copy_from_slice(&self.payload_bytes.to_le_bytes());
        header[16..24].copy_from_slice(&self.generation.to_le_bytes());
        header[24..32].copy_from_slice(&self.sequence.to_le_bytes());
        header[32..40].copy_from_slice(&first.to_le_bytes());
        header[40..48].copy_from_slice(&self.epoch_max.number().to_le_bytes());
        header[48..56].copy_from_slice(&third.to_le_bytes());
        header[56..64].copy_from_slice(&fourth.to_le_bytes());
        header[64..68].copy_from_slice(&self.entries.to_le_bytes());
        header[68..72].copy_from_slice(&self.previous_crc.to_le_bytes());
        header[72..76].copy_from_slice(&self.payload_crc.to_le_bytes());
        let salt = if self.kind.is_opening() { Salt::OPENING } else { salt };
        let crc = salt.checksum(&header[..HEADER_CRC_AT]);
        header[HEADER_CRC_AT..].copy_from_slice(&crc.to_le_bytes());
        debug_assert_eq!(Self::decode(header, salt).as_ref(), Ok(&(self.clone(), crc)), "it reads back");
        crc
    }

    /// Reads a header and its checksum: an opening block with [`Salt::OPENING`], any other block with the file's salt.
    /// If the checksum holds, place and length are right even for an unknown kind.
    fn decode(bytes: &[u8], salt: Salt) -> Result<(Self, u32), NotABlock> {
        let header = &bytes[..HEADER_BYTES];
        if header[0..4] != MAGIC {
            let zeros = header.iter().all(|byte| *byte == 0);
            return Err(if zeros { NotABlock::Zeros } else { NotABlock::NoMagic });
        }
        let crc = u32_at(header, HEADER_CRC_AT);
        if crc != salt.checksum(&header[..HEADER_CRC_AT]) {
            return Err(NotABlock::BadCrc);
        }
        let known = BlockKind::decode(format_of(header), header[6]);
        let is_misplaced = known.is_opening() != (salt == Salt::OPENING);
        let mut kind = if header[7] != 0 || is_misplaced { BlockKind::Unknown } else { known };
        let mut word = |at, end: u64| {
            let number = u64_at(header, at);
            if number < end {
                return number;
            }
            kind = BlockKind::Unknown;
            0
        };
        // No block has the largest epoch, because an epoch must exist above every seen epoch (L4).
        let (epoch, half_word) = (Epoch::MAX.number(), 1 << u32::BITS);
        let first = word(32, if known.has_section() { half_word } else { epoch });
        let (epoch_min, section) = if known.has_section() { (0, first) } else { (first, 0) };
        let [generation, sequence] = [16, 24].map(|at| word(at, NUMBER_END));
        let epoch_max = Epoch::new(word(40, epoch));
        let ends = if known.is_extent() { [half_word, NUMBER_END] } else { [epoch; 2] };
        let [third, fourth] = [word(48, ends[0]), word(56, ends[1])];
        let pair = [third, fourth];
        let (marks, unit) = if known.is_extent() { ([0; 2], pair) } else { (pair, [0; 2]) };
        let [mark, published] = marks.map(Epoch::new);
        let header = Self {
            kind,
            owner: u32_at(header, 8),
            generation,
            sequence,
            payload_bytes: u32_at(header, 12),
            entries: u32_at(header, 64),
            section: section as u32,
            epoch_min: Epoch::new(epoch_min),
            epoch_max,
            mark,
            published,
            first_unit: unit[0] as u32,
            checkpoint: unit[1],
            previous_crc: u32_at(header, 68),
            payload_crc: u32_at(header, 72),
        };
        Ok((header, crc))
    }

    /// Payload from the bytes of this block, if the payload has the header's checksum.
    fn payload_of<'b>(&self, block: &'b [u8]) -> Option<&'b [u8]> {
        let padded = &block[HEADER_BYTES..self.block_bytes()];
        (crc32c(padded) == self.payload_crc).then(|| &padded[..self.payload_bytes as usize])
    }

    pub(crate) fn block_bytes(&self) -> usize {
        block_bytes(self.payload_bytes as usize)
    }

    /// Largest epoch in the header. The next generation begins above every such epoch (L4).
    pub(crate) fn epoch_seen(&self) -> Epoch {
        self.epoch_max.max(self.mark).max(self.published)
    }
}

fn format_of(header: &[u8]) -> u16 {
    u16::from_le_bytes([header[4], header[5]])
}

/// `bytes` rounded up to a whole number of alignment units.
pub(crate) const fn align_up(bytes: usize) -> usize {
    bytes.next_multiple_of(ALIGN_BYTES)
}

/// Bytes of a whole block with a payload of this size.
pub(crate) const fn block_bytes(payload_bytes: usize) -> usize {
    HEADER_BYTES + align_up(payload_bytes)
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
