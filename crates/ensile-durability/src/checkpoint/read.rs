//! Reading a checkpoint file block by block, with every check that the format allows.
//!
//! Invariants:
//! - Nothing of a block is handed out before header, place, chain and payload are checked; the file counts as a whole only
//!   once its end block agrees with what was read and nothing stands behind it.
//! - An installed checkpoint's files were synced before it was installed: whatever is wrong with one is damage.
//!
//! Neighbours: `block` has the grammar; recovery loads with this, and so do the tools that check a folder.

use ensile_base::checksum::{crc32c, crc32c_append};
use ensile_base::{Epoch, Tid};
use ensile_disk::{Disk, DiskFile};

use super::block::{HEADER_BYTES, Header, Kind, NotAHeader, Totals, block_bytes, entries_bytes_max};
use crate::DurabilityError;
use crate::block::entries::{ENTRY_FRAME_BYTES, Entries};
use crate::compress;
use crate::store::names::PartName;

/// Read at once: a block that the window cuts is read twice, so several blocks.
const WINDOW_BYTES: usize = 4 << 20;

/// A file of a checkpoint, read from its beginning to its end block.
#[derive(Debug)]
pub(crate) struct PartReader {
    file: Box<dyn DiskFile>,
    part: PartName,
    name: String,
    low: Epoch,
    length: u64,
    window: Vec<u8>,
    window_at: u64,
    /// The entries of the last block that was compressed.
    plain: Vec<u8>,
    /// Where the next block begins, and what it continues.
    offset: u64,
    sequence: u32,
    previous_crc: u32,
    totals: Totals,
    end_bytes: u64,
    ended: bool,
}

/// A block of entries that is as it was written.
#[derive(Debug)]
pub(crate) struct Rows<'r> {
    pub(crate) section: u32,
    /// Where the block begins.
    pub(crate) offset: u64,
    /// Its bytes, header and padding included.
    pub(crate) bytes: u64,
    /// What they would be if it had not been compressed.
    pub(crate) plain_bytes: u64,
    pub(crate) entries: u32,
    payload: &'r [u8],
    low: Epoch,
}

impl<'r> Rows<'r> {
    /// The entries: TID and body each.
    ///
    /// # Errors
    /// What is wrong with the framing, or an epoch that no entry of this checkpoint can have (K1).
    pub(crate) fn entries(&self) -> impl Iterator<Item = Result<(Tid, &'r [u8]), &'static str>> + use<'r> {
        let low = self.low;
        Entries::of(self.payload).map(move |entry| match entry {
            Ok((tid, _)) if tid.epoch() >= low => Err("an entry's epoch is not below the checkpoint's"),
            Ok(entry) => Ok(entry),
            Err(_) => Err("an entry does not fit its block"),
        })
    }
}

impl PartReader {
    /// Opens a file of a checkpoint with this e_l.
    ///
    /// # Errors
    /// [`DurabilityError::Damaged`] if it is not there.
    pub(crate) fn open(disk: &dyn Disk, part: PartName, low: Epoch) -> Result<Self, DurabilityError> {
        let name = part.to_string();
        let file = match disk.open_to_read(&name) {
            Ok(file) => file,
            Err(error) if error.is_not_found() => {
                return Err(DurabilityError::damaged(
                    &name,
                    0,
                    "a file of the installed checkpoint is missing",
                ));
            }
            Err(error) => return Err(error.into()),
        };
        Ok(Self {
            length: file.len()?,
            file,
            part,
            name,
            low,
            window: Vec::new(),
            window_at: 0,
            plain: Vec::new(),
            offset: 0,
            sequence: 0,
            previous_crc: 0,
            totals: Totals::default(),
            end_bytes: 0,
            ended: false,
        })
    }

    /// Bytes of the end block, once it was read.
    pub(crate) fn end_bytes(&self) -> u64 {
        self.end_bytes
    }

    /// What was read, once the end block was: entries and blocks, and the header checksum that vouches for them.
    pub(crate) fn end(&self) -> Option<(Totals, u32)> {
        self.ended.then_some((self.totals, self.previous_crc))
    }

    /// An error at this offset of the file.
    fn damaged(&self, offset: u64, detail: &str) -> DurabilityError {
        DurabilityError::damaged(&self.name, offset, detail)
    }

    /// Makes `bytes` bytes at `self.offset` stand in the window; says where.
    fn fetch(&mut self, bytes: usize) -> Result<usize, DurabilityError> {
        if bytes as u64 > self.length - self.offset {
            return Err(self.damaged(self.offset, "the file is cut: it ends before its end block"));
        }
        let end = self.offset + bytes as u64;
        if self.offset < self.window_at || end > self.window_at + self.window.len() as u64 {
            let wanted = (WINDOW_BYTES.max(bytes) as u64).min(self.length - self.offset) as usize;
            self.window.resize(wanted, 0);
            self.window_at = self.offset;
            let read = self.file.read_at(&mut self.window, self.offset)?;
            self.window.truncate(read);
            // The next window is on its way while this one is worked through.
            let next = self.offset + read as u64;
            if next < self.length {
                self.file.will_need(next, (WINDOW_BYTES as u64).min(self.length - next));
            }
            if read < bytes {
                return Err(self.damaged(self.offset, "the file became shorter while it was read"));
            }
        }
        Ok((self.offset - self.window_at) as usize)
    }

    /// The next block's header and its checksum, if it belongs here.
    fn next_header(&mut self) -> Result<(Header, u32), DurabilityError> {
        let at = self.fetch(HEADER_BYTES)?;
        let decoded = Header::decode(&self.window[at..]);
        let (header, crc) = decoded.map_err(|why| match why {
            NotAHeader::Damaged(detail) => self.damaged(self.offset, detail),
            NotAHeader::Unknown => DurabilityError::Unknown {
                file: self.name.clone(),
                offset: self.offset,
                detail: "a block of an unknown version or kind",
            },
        })?;
        if header.part != self.part || header.low != self.low {
            return Err(self.damaged(self.offset, "the block belongs to another file or checkpoint"));
        }
        if (header.sequence, header.previous_crc) != (self.sequence, self.previous_crc) {
            return Err(self.damaged(self.offset, "the block does not continue the one before it"));
        }
        Ok((header, crc))
    }

    /// The next block of entries, or `None` behind the end block.
    ///
    /// # Errors
    /// [`DurabilityError::Damaged`] with file and offset for anything that was not written so; [`DurabilityError::Unknown`]
    /// for what a newer version wrote.
    pub(crate) fn next_rows(&mut self) -> Result<Option<Rows<'_>>, DurabilityError> {
        if self.ended {
            return Ok(None);
        }
        let (header, crc) = self.next_header()?;
        let at = self.fetch(header.block_bytes())?;
        let block = at + HEADER_BYTES..at + header.block_bytes();
        if crc32c(&self.window[block.clone()]) != header.payload_crc {
            return Err(self.damaged(self.offset, "the block's payload does not have its checksum"));
        }
        let payload = block.start..block.start + header.payload_bytes as usize;
        let offset = self.offset;
        self.offset += header.block_bytes() as u64;
        self.sequence += 1;
        self.previous_crc = crc;
        if header.kind == Kind::End {
            let totals = Totals::decode(&self.window[payload]);
            if totals != Some(self.totals) {
                return Err(
                    self.damaged(offset, "the end block counts other entries or blocks than there are")
                );
            }
            if self.offset != self.length {
                return Err(self.damaged(self.offset, "something stands behind the end block"));
            }
            self.end_bytes = header.block_bytes() as u64;
            self.ended = true;
            return Ok(None);
        }
        let payload = &self.window[payload];
        let payload = if header.compressed {
            compress::decompress(payload, entries_bytes_max(header.entries), &mut self.plain).ok_or_else(
                || DurabilityError::damaged(&self.name, offset, "the block's entries do not decompress"),
            )?;
            &self.plain
        } else {
            payload
        };
        if header.entries as usize > payload.len() / ENTRY_FRAME_BYTES {
            // Or memory would be taken for them.
            return Err(DurabilityError::damaged(
                &self.name,
                offset,
                "the block has no room for its entries",
            ));
        }
        self.totals.blocks += 1;
        self.totals.entries += u64::from(header.entries);
        Ok(Some(Rows {
            section: header.section,
            offset,
            bytes: header.block_bytes() as u64,
            entries: header.entries,
            plain_bytes: block_bytes(payload.len()) as u64,
            payload,
            low: self.low,
        }))
    }
}

/// One number for all files of a checkpoint, in order of checkpointer and file: of their end blocks' header checksums.
pub(crate) fn seal(ends: impl IntoIterator<Item = u32>) -> u32 {
    ends.into_iter().fold(0, |seal, end| crc32c_append(seal, &end.to_le_bytes()))
}
