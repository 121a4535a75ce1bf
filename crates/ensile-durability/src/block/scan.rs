//! Reading blocks from a file, and searching for them where the chain is broken.
//!
//! Invariant: the one reader of the grammar. No other module decodes a header or compares a payload's checksum.
//!
//! Neighbours: recovery walks over logs with this, replays what it has read, and writes it again; the checkpoint's
//! reader loads with it.

use ensile_disk::{Disk, DiskError, DiskFile};

use super::origin::{OPENING_BYTES, Opened};
use super::{ALIGN_BYTES, HEADER_BYTES, Header, MAGIC, NotABlock, Salt};

/// Read at once while searching, and while walking over blocks that are small.
const WINDOW_BYTES: usize = 1 << 20;
/// Read at once of large blocks one behind the other: one that the window cuts is read twice, so several.
const SEQUENTIAL_WINDOW_BYTES: usize = 4 << 20;
/// Read together while searching: allocated space is zeros, and much of it.
const PAGE_BYTES: usize = 4 << 10;
/// Read at once where only the headers of large blocks are wanted.
const HEADER_WINDOW_BYTES: usize = 4 << 10;
/// From this size on, a block's payload is not worth reading along.
const LARGE_BLOCK_BYTES: usize = 64 << 10;
const _: () = assert!(PAGE_BYTES.is_multiple_of(ALIGN_BYTES) && HEADER_WINDOW_BYTES >= HEADER_BYTES);

/// What stands at an offset.
#[derive(Debug)]
pub(crate) enum At {
    /// A block whose checksums are right; its header and the header's checksum.
    Block(Header, u32),
    /// A good header, but not the payload that it promises.
    TornPayload(Header),
    /// Anything else, and why.
    NoBlock(NotABlock),
    /// The file ends here, or in less than a header from here.
    End,
}

/// What stands at the beginning of `bytes`, in a file that goes on for `left` bytes from there. The payload is not
/// looked at, but fits.
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

/// What a block carries that continues a chain (L5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChainPlace {
    pub(crate) owner: u32,
    pub(crate) generation: u64,
    pub(crate) sequence: u64,
    pub(crate) previous_crc: u32,
}

impl ChainPlace {
    /// Behind the block with this header, which has this checksum.
    pub(crate) fn behind(header: &Header, crc: u32) -> Self {
        let Header { owner, generation, sequence, .. } = *header;
        Self { owner, generation, sequence: sequence + 1, previous_crc: crc }
    }

    /// Does the block with this header stand here?
    pub(crate) fn is_of(&self, header: &Header) -> bool {
        let Header { owner, generation, sequence, previous_crc, .. } = *header;
        *self == Self { owner, generation, sequence, previous_crc }
    }
}

/// Blocks one behind the other, in memory.
#[derive(Debug)]
pub(crate) struct ReadBlocks<'b> {
    bytes: &'b [u8],
    at: usize,
    salt: Salt,
}

/// One of them, whose payload is not looked at.
#[derive(Debug)]
pub(crate) struct ReadBlock<'b> {
    /// Where it begins.
    pub(crate) at: usize,
    pub(crate) header: Header,
    /// The header's checksum.
    pub(crate) crc: u32,
    bytes: &'b [u8],
}

impl<'b> ReadBlocks<'b> {
    /// Of a file with this salt.
    pub(crate) fn of(bytes: &'b [u8], salt: Salt) -> Self {
        Self { bytes, at: 0, salt }
    }
}

impl<'b> Iterator for ReadBlocks<'b> {
    /// A block, or where there is none. That is the last item then.
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
    /// Its payload, if it is what the header promises.
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
    /// How much is read at once.
    ahead: usize,
    /// All of it will be read, in order: the next window is asked for while this one is worked through.
    is_sequential: bool,
}

impl Scanner {
    pub(crate) fn new(file: Box<dyn DiskFile>) -> Result<Self, DiskError> {
        Ok(Self {
            length: file.len()?,
            file,
            window: Vec::new(),
            window_at: 0,
            ahead: WINDOW_BYTES,
            is_sequential: false,
        })
    }

    /// Of a file's first bytes, as if it ended there.
    pub(crate) fn until(file: Box<dyn DiskFile>, until: u64) -> Result<Self, DiskError> {
        let whole = Self::new(file)?;
        Ok(Self { length: whole.length.min(until), ..whole })
    }

    /// Of a file that is read from its beginning to its end.
    pub(crate) fn sequential(file: Box<dyn DiskFile>) -> Result<Self, DiskError> {
        Ok(Self { ahead: SEQUENTIAL_WINDOW_BYTES, is_sequential: true, ..Self::new(file)? })
    }

    /// The block that opens the file of this name, or why there is none; nothing else of the file is read.
    pub(crate) fn opening_of(disk: &dyn Disk, name: &str) -> Result<Result<Opened, NotABlock>, DiskError> {
        let file = disk.open_to_read(name)?;
        Self { ahead: OPENING_BYTES, ..Self::new(file)? }.opening()
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

    /// The block that opens the file, or why there is none.
    pub(crate) fn opening(&mut self) -> Result<Result<Opened, NotABlock>, DiskError> {
        let bytes = self.length.min(OPENING_BYTES as u64) as usize;
        let bytes = self.bytes(0, bytes)?.unwrap_or_default();
        Ok(Opened::decode(bytes))
    }

    /// The header at `offset` in a log with this salt, whose payload is not read but fits the file.
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

    /// The payload of the block whose header stands at `offset`, if it is what the header promises.
    pub(crate) fn payload(&mut self, offset: u64, header: &Header) -> Result<Option<&[u8]>, DiskError> {
        let block = self.bytes(offset, header.block_bytes())?;
        Ok(block.and_then(|block| header.payload_of(block)))
    }

    /// The whole block at `offset`, as it stands there, if its checksums are right.
    pub(crate) fn block(&mut self, offset: u64, salt: Salt) -> Result<Option<&[u8]>, DiskError> {
        let bytes = if offset == 0 {
            self.opening()?.is_ok().then_some(OPENING_BYTES)
        } else {
            match self.at(offset, salt)? {
                At::Block(header, _) => Some(header.block_bytes()),
                _ => None,
            }
        };
        bytes.map_or(Ok(None), |bytes| self.bytes(offset, bytes))
    }

    /// What stands at `offset` in a log with this salt, payload included?
    pub(crate) fn at(&mut self, offset: u64, salt: Salt) -> Result<At, DiskError> {
        Ok(match self.header(offset, salt)? {
            At::Block(header, _) if self.payload(offset, &header)?.is_none() => At::TornPayload(header),
            found => found,
        })
    }

    /// The next offset at or behind `offset` where a block may begin, and the end of the last bytes before it that
    /// are not zero.
    pub(crate) fn next_candidate(&mut self, mut offset: u64) -> Result<(Option<u64>, u64), DiskError> {
        offset = offset.next_multiple_of(ALIGN_BYTES as u64);
        let mut used_to = 0;
        while offset < self.length {
            // What the window still holds first, or a search among many small blocks would read it again for each.
            let window_end = self.window_at + self.window.len() as u64;
            let ahead = if (self.window_at..window_end).contains(&offset) { window_end } else { self.length }
                - offset;
            let chunk = ahead.min(PAGE_BYTES as u64) as usize;
            debug_assert!(chunk > 0, "the search goes on");
            let Some(bytes) = self.bytes(offset, chunk)? else { break };
            // Folded, not searched: that is done for many bytes at once.
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

    /// The end of the last bytes behind `from` that are not zero.
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
