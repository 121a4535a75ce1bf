//! Reads blocks from a file, and searches for blocks after a break of the chain.
//!
//! Invariant: outside `block`, no module decodes a header or compares a payload's checksum. Readers call this module.
//!
//! Neighbours: readers of log files (`files::log::file_chain`), checkpoint files (`files::checkpoint::reader`) and
//! pictures (`files::picture`) scan with this module; recovery, a repair, the shipper and `store` scan single files.

use ensile_disk::{Disk, DiskError, DiskFile};

use super::origin::{OPENING_BYTES, Opened};
use super::{ALIGN_BYTES, HEADER_BYTES, Header, MAGIC, NotABlock, Salt};

/// Bytes of a read during a search for blocks, and during a walk over small blocks.
const WINDOW_BYTES: usize = 1 << 20;
/// Bytes of a read of large contiguous blocks. A block across the end of the window is read twice, so the window holds
/// several blocks.
const SEQUENTIAL_WINDOW_BYTES: usize = 4 << 20;
/// Bytes of a search step. A step of zeros is skipped at once, because allocated space is mostly zeros.
const PAGE_BYTES: usize = 4 << 10;
/// Bytes of a read if only the headers of large blocks are needed.
const HEADER_WINDOW_BYTES: usize = 4 << 10;
/// Size of a block in bytes from which a walk over headers does not read the payloads.
const LARGE_BLOCK_BYTES: usize = 64 << 10;
const _: () = assert!(PAGE_BYTES.is_multiple_of(ALIGN_BYTES) && HEADER_WINDOW_BYTES >= HEADER_BYTES);

/// Finding of a reader at an offset of a file.
#[derive(Debug)]
pub(crate) enum At {
    /// A block with right checksums: its header, and the header's checksum. A reader of headers alone has not checked
    /// the payload.
    Block(Header, u32),
    /// A right header, with a payload that is cut or has a wrong checksum.
    TornPayload(Header),
    /// No block, with the reason.
    NoBlock(NotABlock),
    /// The file ends here, or within a header's length.
    End,
}

/// Reads a header at the beginning of `bytes`, in a file with `left` more bytes. The payload is not read: a block that
/// fits the file is [`At::Block`].
fn header_in(bytes: &[u8], left: u64, salt: Salt) -> At {
    if bytes.len() < HEADER_BYTES {
        return At::End;
    }
    match Header::decode(bytes, salt) {
        Ok((header, crc)) if header.block_bytes() as u64 <= left => At::Block(header, crc),
        Ok((header, _)) => At::TornPayload(header),
        Err(not) => At::NoBlock(not),
    }
}

/// Chain fields of a block that continues a chain (L5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChainPlace {
    pub(crate) owner: u32,
    pub(crate) generation: u64,
    pub(crate) sequence: u64,
    pub(crate) previous_crc: u32,
}

impl ChainPlace {
    /// Place of the next block, after the block with this header and this header checksum.
    pub(crate) fn after_block(header: &Header, crc: u32) -> Self {
        let Header { owner, generation, sequence, .. } = *header;
        Self { owner, generation, sequence: sequence + 1, previous_crc: crc }
    }

    /// True if the block with this header stands at this place.
    pub(crate) fn matches_header(&self, header: &Header) -> bool {
        let Header { owner, generation, sequence, previous_crc, .. } = *header;
        *self == Self { owner, generation, sequence, previous_crc }
    }
}

/// Iterator over contiguous blocks in memory.
#[derive(Debug)]
pub(crate) struct ReadBlocks<'b> {
    bytes: &'b [u8],
    at: usize,
    salt: Salt,
}

/// A block in memory, with an unchecked payload.
#[derive(Debug)]
pub(crate) struct ReadBlock<'b> {
    /// Offset of the block in bytes.
    pub(crate) at: usize,
    pub(crate) header: Header,
    /// The header's checksum.
    pub(crate) crc: u32,
    bytes: &'b [u8],
}

impl<'b> ReadBlocks<'b> {
    /// Blocks of a file with this salt.
    pub(crate) fn new(bytes: &'b [u8], salt: Salt) -> Self {
        Self { bytes, at: 0, salt }
    }
}

impl<'b> Iterator for ReadBlocks<'b> {
    /// A block; or, as the last item, the offset in bytes at which no block begins.
    type Item = Result<ReadBlock<'b>, usize>;

    fn next(&mut self) -> Option<Self::Item> {
        let (at, rest) = (self.at, &self.bytes[self.at..]);
        if rest.is_empty() {
            return None;
        }
        let At::Block(header, crc) = header_in(rest, rest.len() as u64, self.salt) else {
            self.at = self.bytes.len();
            return Some(Err(at));
        };
        let bytes = &rest[..header.block_bytes()];
        self.at += bytes.len();
        Some(Ok(ReadBlock { at, header, crc, bytes }))
    }
}

impl<'b> ReadBlock<'b> {
    /// The payload, if its checksum is the header's.
    pub(crate) fn payload(&self) -> Option<&'b [u8]> {
        self.header.payload_of(self.bytes)
    }
}

/// A file read through a window.
#[derive(Debug)]
pub(crate) struct Scanner {
    file: Box<dyn DiskFile>,
    length: u64,
    window: Vec<u8>,
    window_at: u64,
    /// Bytes of a read.
    ahead: usize,
    /// True if the whole file will be read in order: the scanner then tells the disk early that it needs the next
    /// window.
    is_sequential: bool,
}

impl Scanner {
    pub(crate) fn new(file: Box<dyn DiskFile>) -> Result<Self, DiskError> {
        let (length, window) = (file.len()?, Vec::new());
        Ok(Self { file, length, window, window_at: 0, ahead: WINDOW_BYTES, is_sequential: false })
    }

    /// Scanner of a file's first bytes, as if the file ended at `until`.
    pub(crate) fn with_end(file: Box<dyn DiskFile>, until: u64) -> Result<Self, DiskError> {
        let whole = Self::new(file)?;
        Ok(Self { length: whole.length.min(until), ..whole })
    }

    /// Scanner of a file that is read from beginning to end.
    pub(crate) fn sequential(file: Box<dyn DiskFile>) -> Result<Self, DiskError> {
        Ok(Self { ahead: SEQUENTIAL_WINDOW_BYTES, is_sequential: true, ..Self::new(file)? })
    }

    /// The opening block of the file of this name, or the reason for its absence; the rest of the file is not read.
    pub(crate) fn opening_of(disk: &dyn Disk, name: &str) -> Result<Result<Opened, NotABlock>, DiskError> {
        let file = disk.open_to_read(name)?;
        Self { ahead: OPENING_BYTES, ..Self::new(file)? }.read_opening()
    }

    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    /// `bytes` bytes from `offset`, or `None` if the file has fewer.
    pub(crate) fn bytes(&mut self, offset: u64, bytes: usize) -> Result<Option<&[u8]>, DiskError> {
        let end = offset + bytes as u64;
        if end > self.length {
            return Ok(None);
        }
        if offset < self.window_at || end > self.window_at + self.window.len() as u64 {
            let wanted = (self.ahead.max(bytes) as u64).min(self.length - offset) as usize;
            self.window.resize(wanted, 0);
            self.window_at = offset;
            let read = self.file.read_at(&mut self.window, offset)?;
            self.window.truncate(read);
            let next = offset + read as u64;
            if self.is_sequential && next < self.length {
                self.file.will_need(next, (self.ahead as u64).min(self.length - next));
            }
            if read < bytes {
                return Ok(None);
            }
        }
        assert!(offset >= self.window_at, "the window begins at or before what is read");
        let start = (offset - self.window_at) as usize;
        Ok(Some(&self.window[start..start + bytes]))
    }

    /// The opening block of the file, or the reason for its absence.
    pub(crate) fn read_opening(&mut self) -> Result<Result<Opened, NotABlock>, DiskError> {
        let bytes = self.length.min(OPENING_BYTES as u64) as usize;
        let bytes = self.bytes(0, bytes)?.unwrap_or_default();
        Ok(Opened::decode(bytes))
    }

    /// Reads the header at `offset` in a file with this salt. The payload is not read: a block that fits the file is
    /// [`At::Block`].
    pub(crate) fn header(&mut self, offset: u64, salt: Salt) -> Result<At, DiskError> {
        debug_assert!(offset.is_multiple_of(ALIGN_BYTES as u64), "a block at {offset}");
        let left = self.length.saturating_sub(offset);
        let Some(bytes) = self.bytes(offset, HEADER_BYTES)? else { return Ok(At::End) };
        let found = header_in(bytes, left, salt);
        if let (At::Block(header, _) | At::TornPayload(header), false) = (&found, self.is_sequential) {
            let is_large = header.block_bytes() >= LARGE_BLOCK_BYTES;
            self.ahead = if is_large { HEADER_WINDOW_BYTES } else { WINDOW_BYTES };
        }
        Ok(found)
    }

    /// The payload of the block with this header at `offset`, if its checksum is the header's.
    pub(crate) fn payload(&mut self, offset: u64, header: &Header) -> Result<Option<&[u8]>, DiskError> {
        let block = self.bytes(offset, header.block_bytes())?;
        Ok(block.and_then(|block| header.payload_of(block)))
    }

    /// The whole block at `offset`, if its checksums are right.
    pub(crate) fn block(&mut self, offset: u64, salt: Salt) -> Result<Option<&[u8]>, DiskError> {
        let bytes = if offset == 0 {
            self.read_opening()?.is_ok().then_some(OPENING_BYTES)
        } else {
            match self.block_at(offset, salt)? {
                At::Block(header, _) => Some(header.block_bytes()),
                _ => None,
            }
        };
        bytes.map_or(Ok(None), |bytes| self.bytes(offset, bytes))
    }

    /// Reads the block at `offset` in a file with this salt, payload included.
    pub(crate) fn block_at(&mut self, offset: u64, salt: Salt) -> Result<At, DiskError> {
        Ok(match self.header(offset, salt)? {
            At::Block(header, _) if self.payload(offset, &header)?.is_none() => At::TornPayload(header),
            found => found,
        })
    }

    /// Searches for the magic of a block at or after `offset`. Returns its offset, if found, and the end of the last
    /// nonzero bytes before it; 0 if all bytes before it are zeros.
    pub(crate) fn next_candidate(&mut self, mut offset: u64) -> Result<(Option<u64>, u64), DiskError> {
        offset = offset.next_multiple_of(ALIGN_BYTES as u64);
        let mut used_to = 0;
        while offset < self.length {
            // The rest of the window comes first, because a search among many small blocks would otherwise read the
            // window again for each block.
            let window_end = self.window_at + self.window.len() as u64;
            let ahead = if (self.window_at..window_end).contains(&offset) { window_end } else { self.length }
                - offset;
            let chunk = ahead.min(PAGE_BYTES as u64) as usize;
            debug_assert!(chunk > 0, "the search goes on");
            let Some(bytes) = self.bytes(offset, chunk)? else { break };
            // A fold, not a search: the compiler vectorizes a fold.
            if bytes.iter().fold(0, |all, byte| all | byte) == 0 {
                offset += chunk as u64;
                continue;
            }
            for (index, unit) in bytes.chunks(ALIGN_BYTES).enumerate() {
                let at = offset + (index * ALIGN_BYTES) as u64;
                if unit.starts_with(&MAGIC) {
                    return Ok((Some(at), used_to));
                }
                if let Some(last) = unit.iter().rposition(|byte| *byte != 0) {
                    used_to = at + last as u64 + 1;
                }
            }
            offset += chunk as u64;
        }
        Ok((None, used_to))
    }

    /// Offset of the end of the last nonzero bytes after `from`; `from` if only zeros follow. A tail is torn or damaged
    /// if bytes follow the chain.
    pub(crate) fn used_to(&mut self, from: u64) -> Result<u64, DiskError> {
        let (mut offset, mut used_to) = (from, from);
        loop {
            let (candidate, used) = self.next_candidate(offset)?;
            used_to = used_to.max(used);
            let Some(at) = candidate else { return Ok(used_to) };
            used_to = used_to.max(at + MAGIC.len() as u64);
            debug_assert!(at >= offset, "a candidate behind the search");
            offset = at + ALIGN_BYTES as u64;
        }
    }
}
