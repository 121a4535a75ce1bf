//! Reader of a checkpoint file, block by block, with every check that the format allows. The file counts as a whole
//! only once its end block agrees with the blocks read, and no byte follows. An installed checkpoint's files were
//! synced before the installation: any fault in such a file is damage.
//!
//! Neighbours: `files::block` has the grammar, and reads blocks. Recovery and the tools that check a folder load
//! checkpoints with this reader.

use ensile_base::Epoch;
use ensile_disk::Disk;

use super::end_block::Totals;
use crate::error::unless_missing;
use crate::files::block::entries::ENTRY_FRAME_BYTES;
use crate::files::block::origin::{OPENING_BYTES, Opened, PartPlace};
use crate::files::block::scan::{At, ChainPlace, Scanner};
use crate::files::block::{BlockKind, Header, NotABlock, Salt, entries};
use crate::files::manifest::installed_checkpoint::FuzzyCheckpoint;
use crate::files::names::PartName;
use crate::recoverable::EntryKind;
use crate::{DurabilityError, Entry};

const CUT: &str = "the file is cut: it ends before its end block";

/// A file of a checkpoint, read from its beginning to its end block.
#[derive(Debug)]
pub(crate) struct PartReader {
    scanner: Scanner,
    part: PartName,
    name: String,
    /// The walk that the manifest names.
    of: FuzzyCheckpoint,
    salt: Salt,
    entries: EntryKind,
    /// Offset of the next block. `place` has the block's place in the chain.
    offset: u64,
    /// Place of the next block in the chain; `None` before the opening block is read.
    place: Option<ChainPlace>,
    totals: Totals,
    end_bytes: u64,
    ended: bool,
}

/// A block of entries with every check passed.
#[derive(Debug)]
pub(crate) struct CheckpointRows<'r> {
    /// Section of the block's entries.
    pub(crate) section: u32,
    pub(crate) offset: u64,
    /// Bytes of the block, with header and padding.
    pub(crate) bytes: u64,
    pub(crate) count: u32,
    pub(crate) kind: EntryKind,
    payload: &'r [u8],
    /// Epoch above the epoch of every entry.
    epoch_end: Epoch,
}

impl<'r> CheckpointRows<'r> {
    /// The entries, TID and body each. An epoch that no entry of this checkpoint can have is an error too (K1).
    pub(crate) fn entries(&self) -> Result<Vec<Entry<'r>>, &'static str> {
        let mut batch = Vec::with_capacity(self.count as usize);
        entries::try_for_each(self.payload, self.count, |tid, body| {
            if tid.epoch() >= self.epoch_end {
                return Err("an entry's epoch is not below the checkpoint's");
            }
            batch.push(Entry { tid, body });
            Ok(())
        })?;
        Ok(batch)
    }
}

impl PartReader {
    /// Opens a file of an installed checkpoint. A missing file is damage.
    pub(crate) fn open(
        disk: &dyn Disk,
        part: PartName,
        of: &FuzzyCheckpoint,
    ) -> Result<Self, DurabilityError> {
        let files = &of.files;
        assert!(part.checkpoint == files.number, "{part} is of another checkpoint");
        assert!(part.checkpointer < files.checkpointers && part.file < files.files, "{part} is not of it");
        let name = part.to_string();
        let missing = "a file of the installed checkpoint is missing";
        let file = unless_missing(disk.open_to_read(&name))?;
        let file = file.ok_or_else(|| DurabilityError::damaged_file(&name, 0, missing))?;
        Ok(Self {
            scanner: Scanner::sequential(file)?,
            part,
            name,
            salt: files.salt,
            of: of.clone(),
            entries: EntryKind::Values,
            offset: 0,
            place: None,
            totals: Totals::default(),
            end_bytes: 0,
            ended: false,
        })
    }

    /// Bytes of the opening block and the end block, once the reader has read both blocks.
    pub(crate) fn end_bytes(&self) -> u64 {
        self.end_bytes
    }

    /// Number of entries and blocks read, and the header checksum that vouches for the blocks; `None` before the end
    /// block is read.
    pub(crate) fn end(&self) -> Option<(Totals, u32)> {
        let place = self.place.filter(|_| self.ended)?;
        Some((self.totals, place.previous_crc))
    }

    /// An error at this offset of the file.
    fn damage_error(&self, offset: u64, detail: &str) -> DurabilityError {
        DurabilityError::damaged_file(&self.name, offset, detail)
    }

    /// Reads the opening block, which names the owner of the file (I1) and the checkpoint.
    fn read_opening(&mut self) -> Result<ChainPlace, DurabilityError> {
        assert_eq!((self.offset, self.totals), (0, Totals::default()), "it is read first");
        let opened = match self.scanner.read_opening()? {
            Ok(opened) => opened,
            Err(NotABlock::Unknown | NotABlock::OtherFormat) => {
                return Err(DurabilityError::newer(&self.name, self.offset));
            }
            Err(NotABlock::NoMagic | NotABlock::Zeros) => {
                let detail = "no checkpoint block begins here: overwritten, or not a file of one";
                return Err(self.damage_error(0, detail));
            }
            Err(NotABlock::Empty | NotABlock::Cut) => return Err(self.damage_error(0, CUT)),
            Err(why) => return Err(self.damage_error(0, why.detail())),
        };
        let Opened { header, crc, origin, place } = opened;
        if header.kind != BlockKind::CheckpointOpening {
            return Err(self.damage_error(0, "a log's block begins here: not a file of a checkpoint"));
        }
        if origin.identity != self.of.files.database {
            return Err(DurabilityError::not_ours(&self.name, origin.identity, self.of.files.database));
        }
        let found = (header.owner, place, header.generation, header.epoch_max, origin.salt);
        let PartName { checkpoint, checkpointer, file } = self.part;
        let place = PartPlace { checkpoint, file };
        if found != (checkpointer, place, self.of.files.generation, self.of.low, self.salt) {
            return Err(
                self.damage_error(0, "the file is of another checkpoint, or another file of this one")
            );
        }
        self.entries = origin.entries;
        (self.offset, self.end_bytes) = (OPENING_BYTES as u64, OPENING_BYTES as u64);
        Ok(ChainPlace { sequence: 1, ..ChainPlace::after_block(&header, crc) })
    }

    /// The header at `self.offset` and the header's checksum, if the block belongs here and the file has the whole
    /// block.
    fn next_header(&mut self, place: ChainPlace) -> Result<(Header, u32), DurabilityError> {
        let (header, crc) = match self.scanner.header(self.offset, self.salt)? {
            At::Block(header, crc) => (header, crc),
            At::TornPayload(_) | At::End => return Err(self.damage_error(self.offset, CUT)),
            At::NoBlock(why) => return Err(self.damage_error(self.offset, why.detail())),
        };
        assert!(place.sequence > 0 && self.offset >= OPENING_BYTES as u64, "the opening block came before");
        if !place.matches_header(&header) {
            return Err(self.damage_error(self.offset, "the block does not continue the one before it"));
        }
        if !matches!(header.kind, BlockKind::Rows | BlockKind::End) {
            return Err(DurabilityError::newer(&self.name, self.offset));
        }
        Ok((header, crc))
    }

    /// The next block of entries; `None` after the end block.
    ///
    /// # Errors
    /// [`DurabilityError::Damaged`] with file and offset for bytes that no version writes; [`DurabilityError::Unknown`]
    /// for bytes of a newer version; [`DurabilityError::NotOurs`] for a file of another database.
    pub(crate) fn next_rows(&mut self) -> Result<Option<CheckpointRows<'_>>, DurabilityError> {
        if self.ended {
            return Ok(None);
        }
        let place = self.place.map_or_else(|| self.read_opening(), Ok)?;
        let (header, crc) = self.next_header(place)?;
        let (offset, length) = (self.offset, self.scanner.length());
        let damaged = |offset, detail| DurabilityError::damaged_file(&self.name, offset, detail);
        let Some(payload) = self.scanner.payload(offset, &header)? else {
            return Err(damaged(offset, "the block's payload does not have its checksum"));
        };
        let bytes = header.block_bytes() as u64;
        self.offset += bytes;
        let place = self.place.insert(ChainPlace::after_block(&header, crc));
        assert!(self.offset <= length, "a block that the file has");
        if header.kind == BlockKind::End {
            if Totals::decode(payload) != Some(self.totals) {
                return Err(damaged(offset, "the end block counts other entries or blocks than there are"));
            }
            if self.offset != length {
                return Err(damaged(self.offset, "something stands behind the end block"));
            }
            let counted = self.totals.blocks + 2;
            assert_eq!(place.sequence, counted, "between opening and end block stand the counted ones");
            self.end_bytes += bytes;
            self.ended = true;
            return Ok(None);
        }
        if header.entries as usize > payload.len() / ENTRY_FRAME_BYTES {
            // Otherwise the caller would reserve memory for the entries.
            return Err(damaged(offset, "the block has no room for its entries"));
        }
        self.totals.blocks += 1;
        self.totals.entries += u64::from(header.entries);
        Ok(Some(CheckpointRows {
            section: header.section,
            offset,
            bytes,
            count: header.entries,
            kind: self.entries,
            payload,
            epoch_end: self.entries.checkpoint_end(self.of.low, self.of.high),
        }))
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
