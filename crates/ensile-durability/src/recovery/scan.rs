//! Reading blocks from a file, and looking for them where the chain is broken.
//!
//! Neighbours: `chain` walks with this; the grammar is in `log::block`.

use ensile_base::checksum::crc32c;
use ensile_disk::{DiskError, DiskFile};

use crate::log::block::{ALIGN_BYTES, HEADER_BYTES, Header, MAGIC, Salt};

/// Read at once while walking.
const WINDOW_BYTES: usize = 1 << 20;
/// Looked at together while searching: space that was set aside is zeros, and much of it.
const PAGE_BYTES: usize = 4 << 10;

/// What stands at an offset.
#[derive(Debug)]
pub(super) enum At {
    /// A block whose checksums are right; its header and the header's checksum.
    Block(Header, u32),
    /// A good header, but not the payload that it promises.
    TornPayload(Header),
    /// Anything else, and why.
    NoBlock(&'static str),
    /// The file ends here, or in less than a header from here.
    End,
}

/// A file read through a window.
pub(super) struct Scanner {
    file: Box<dyn DiskFile>,
    length: u64,
    window: Vec<u8>,
    window_at: u64,
}

impl Scanner {
    pub(super) fn new(file: Box<dyn DiskFile>) -> Result<Self, DiskError> {
        Ok(Self { length: file.len()?, file, window: Vec::new(), window_at: 0 })
    }

    pub(super) fn length(&self) -> u64 {
        self.length
    }

    /// `bytes` bytes from `offset`, or `None` if the file has fewer.
    fn bytes(&mut self, offset: u64, bytes: usize) -> Result<Option<&[u8]>, DiskError> {
        let end = offset + bytes as u64;
        if end > self.length {
            return Ok(None);
        }
        if offset < self.window_at || end > self.window_at + self.window.len() as u64 {
            let wanted = (WINDOW_BYTES.max(bytes) as u64).min(self.length - offset) as usize;
            self.window.resize(wanted, 0);
            self.window_at = offset;
            let read = self.file.read_at(&mut self.window, offset)?;
            self.window.truncate(read);
            if read < bytes {
                return Ok(None);
            }
        }
        let start = (offset - self.window_at) as usize;
        Ok(Some(&self.window[start..start + bytes]))
    }

    /// What stands at `offset` in a log with this salt?
    pub(super) fn at(&mut self, offset: u64, salt: Salt) -> Result<At, DiskError> {
        let Some(bytes) = self.bytes(offset, HEADER_BYTES)? else { return Ok(At::End) };
        let (header, crc) = match Header::decode(bytes, salt) {
            Ok(found) => found,
            Err(not) => return Ok(At::NoBlock(not.detail())),
        };
        let Some(block) = self.bytes(offset, header.block_bytes())? else {
            return Ok(At::TornPayload(header));
        };
        let whole = crc32c(&block[HEADER_BYTES..]) == header.payload_crc;
        Ok(if whole { At::Block(header, crc) } else { At::TornPayload(header) })
    }

    /// The next offset at or behind `offset` where a block may begin, and the end of the last bytes before it that
    /// are not zero.
    pub(super) fn next_candidate(&mut self, mut offset: u64) -> Result<(Option<u64>, u64), DiskError> {
        offset = offset.next_multiple_of(ALIGN_BYTES as u64);
        let mut used_to = 0;
        while offset < self.length {
            // What the window still holds first, or a search among many small blocks would read it again for each.
            let window_end = self.window_at + self.window.len() as u64;
            let ahead = if (self.window_at..window_end).contains(&offset) { window_end } else { self.length }
                - offset;
            let chunk = ahead.min(PAGE_BYTES as u64) as usize;
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
}
