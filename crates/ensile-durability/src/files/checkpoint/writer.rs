//! Writer of the files of one checkpointer in one checkpoint: blocks go to the files in turn, files are synced as they
//! grow, and end with their totals.
//!
//! Invariants: I1: the opening block is synced first. K1: after [`PartWriter::end`] every byte and every name of these
//! files is on stable storage.
//!
//! Neighbours: `fuzzy_part_writer` hands over full blocks; `crate::files::block` has the grammar; `reader` reads the
//! files.

use std::sync::Arc;

use ensile_base::checksum::crc32c;
use ensile_base::{Epoch, Tid};
use ensile_disk::{Disk, DiskError, DiskFile};

use super::end_block::Totals;
use crate::files::block::entries::FramedEntries;
use crate::files::block::origin::{OPENING_BYTES, Origin, PartPlace};
use crate::files::block::{BlockKind, HEADER_BYTES, Header, Salt, align_up};
use crate::files::checkpoint::block::CheckpointBlock;
use crate::files::checkpoint::end_block::GIVEN_AT_ONCE;
use crate::files::create_synced;
use crate::files::names::{PartName, checkpoint_folder};
use crate::recoverable::EntryKind;

/// Bytes of a page of the kernel's cache, on most machines. The kernel writes a page as a whole.
const CACHED_BYTES: u64 = 4 << 10;

/// One file under way.
#[derive(Debug)]
struct PartFile {
    file: Box<dyn DiskFile>,
    name: PartName,
    offset: u64,
    /// Offset up to which the bytes are synced, or the medium was asked to begin writing.
    behind: u64,
    sequence: u64,
    /// The open generation, and the checkpoint's salt.
    generation: u64,
    salt: Salt,
    previous_crc: u32,
    totals: Totals,
    is_dirty: bool,
}

/// The writing end of one checkpointer's files.
#[derive(Debug)]
pub(crate) struct PartWriter {
    disk: Arc<dyn Disk>,
    parts: Vec<PartFile>,
    /// e_l, and the kind of the entries.
    low: Epoch,
    entries: EntryKind,
    /// Index of the file that the next block goes to.
    turn: usize,
    unsynced_bytes: u64,
    sync_bytes: u64,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct PartShape {
    pub(crate) files: u32,
    /// Number of unsynced bytes from which the files are synced.
    pub(crate) sync_bytes: u64,
}

/// Facts about a checkpoint in the opening blocks of its files.
#[derive(Clone, Debug)]
pub(crate) struct Beginning {
    pub(crate) number: u64,
    pub(crate) generation: u64,
    /// e_l: epochs from e_l on are skipped.
    pub(crate) low: Epoch,
    /// Database and salt of the checkpoint.
    pub(crate) origin: Origin,
}

/// Figures of one checkpointer's written part.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PartWritten {
    pub(crate) entries: u64,
    /// Number of entries that commits have left beside a picture's pages, a part of `entries`.
    pub(crate) displaced: u64,
    /// Bytes of tails of pages with such entries.
    pub(crate) tail_bytes: u64,
    pub(crate) bytes: u64,
    /// Header checksums of the end blocks, by file. A picture's part has no files of its own.
    pub(crate) ends: Vec<u32>,
}

impl PartWriter {
    /// Makes the files of a checkpointer in this checkpoint, with synced opening blocks.
    pub(crate) fn create(
        disk: &Arc<dyn Disk>,
        checkpoint: &Beginning,
        checkpointer: u32,
        PartShape { files, sync_bytes }: PartShape,
    ) -> Result<Self, DiskError> {
        assert!(files > 0, "a part has a file");
        let part = |file| {
            let name = PartName { checkpoint: checkpoint.number, checkpointer, file };
            PartFile::create(disk, name, checkpoint)
        };
        Ok(Self {
            disk: Arc::clone(disk),
            parts: (0..files).map(part).collect::<Result<_, DiskError>>()?,
            low: checkpoint.low,
            entries: checkpoint.origin.entries,
            turn: 0,
            unsynced_bytes: 0,
            sync_bytes,
        })
    }

    /// Asks the medium to begin writing the bytes written so far, if there are at least `at_once` of them in a file.
    pub(crate) fn write_behind(&mut self, at_once: u64) {
        assert!(at_once <= GIVEN_AT_ONCE, "less than is given in any case");
        self.parts.iter_mut().for_each(|part| part.write_behind(at_once));
    }

    /// Writes a block of entries of a section to the file in turn, and syncs once enough bytes are unsynced. Returns
    /// the bytes written, and true if files were synced. The block is empty afterwards.
    pub(crate) fn write(
        &mut self,
        section: u32,
        block: &mut CheckpointBlock,
    ) -> Result<(u64, bool), DiskError> {
        debug_assert!(self.may_hold(block), "K1: no entry is of e_l or a later epoch");
        let turn = self.turn;
        self.turn = (turn + 1) % self.parts.len();
        let part = &mut self.parts[turn];
        let entries = block.entries();
        let (payload_bytes, payload_crc) = block.seal();
        let header = part.header(BlockKind::Rows);
        let header = Header { section, entries, payload_bytes, payload_crc, ..header };
        let bytes = part.write(&header, block.block())?;
        part.totals.entries += u64::from(entries);
        part.totals.blocks += 1;
        block.reset();
        assert_eq!(block.entries(), 0);
        self.unsynced_bytes += bytes;
        let is_due = self.unsynced_bytes >= self.sync_bytes;
        if is_due {
            self.sync()?;
        }
        Ok((bytes, is_due))
    }

    fn sync(&mut self) -> Result<(), DiskError> {
        for part in self.parts.iter_mut().filter(|part| part.is_dirty) {
            part.file.sync_data()?;
            part.is_dirty = false;
            part.behind = part.offset - part.offset % CACHED_BYTES;
        }
        self.unsynced_bytes = 0;
        Ok(())
    }

    /// True if every entry of this block may stand in this checkpoint. The reach of operations is known only at the
    /// checkpoint's end.
    fn may_hold(&self, block: &mut CheckpointBlock) -> bool {
        let is_older = |entry| matches!(entry, Ok((tid, _)) if Tid::epoch(tid) < self.low);
        self.entries == EntryKind::Operations
            || FramedEntries::new(&block.block()[HEADER_BYTES..]).all(is_older)
    }

    /// Ends the files, and makes the files and their names survive a crash.
    pub(crate) fn end(mut self) -> Result<PartWritten, DiskError> {
        let mut written = PartWritten::default();
        for part in &mut self.parts {
            let mut block = [0; HEADER_BYTES + align_up(size_of::<Totals>())];
            let payload = part.totals.encode();
            block[HEADER_BYTES..].copy_from_slice(&payload);
            let (payload_bytes, payload_crc) = (payload.len() as u32, crc32c(&payload));
            let header = Header { payload_bytes, payload_crc, ..part.header(BlockKind::End) };
            part.write(&header, &mut block)?;
            part.file.sync_all()?;
            assert_eq!(part.sequence, part.totals.blocks + 2, "opening and end block, and those between");
            written.entries += part.totals.entries;
            written.bytes += part.offset;
            written.ends.push(part.previous_crc);
        }
        if let Some(part) = self.parts.first() {
            self.disk.sync_folder(&checkpoint_folder(part.name.checkpointer))?;
        }
        Ok(written)
    }
}

impl PartFile {
    fn create(disk: &Arc<dyn Disk>, name: PartName, checkpoint: &Beginning) -> Result<Self, DiskError> {
        let Beginning { generation, low, origin, .. } = *checkpoint;
        let header = Header::new(BlockKind::CheckpointOpening, name.checkpointer, generation);
        let place = PartPlace { checkpoint: name.checkpoint, file: name.file };
        let (block, previous_crc) = origin.encode(Header { epoch_max: low, ..header }, place);
        Ok(Self {
            file: create_synced(&**disk, &name.to_string(), &block)?,
            name,
            offset: OPENING_BYTES as u64,
            behind: 0,
            sequence: 1,
            generation,
            salt: origin.salt,
            previous_crc,
            totals: Totals::default(),
            is_dirty: false,
        })
    }

    /// The header of a block without payload.
    fn header(&self, kind: BlockKind) -> Header {
        let header = Header::new(kind, self.name.checkpointer, self.generation);
        Header { sequence: self.sequence, previous_crc: self.previous_crc, ..header }
    }

    /// Writes a block that begins with room for the header. Returns the bytes written.
    fn write(&mut self, header: &Header, block: &mut [u8]) -> Result<u64, DiskError> {
        self.previous_crc = header.encode(block, self.salt);
        assert_eq!(block.len(), header.block_bytes());
        assert_eq!((header.sequence, header.owner), (self.sequence, self.name.checkpointer), "a chain");
        self.file.write_at(block, self.offset)?;
        self.sequence += 1;
        self.offset += block.len() as u64;
        self.is_dirty = true;
        self.write_behind(GIVEN_AT_ONCE);
        Ok(block.len() as u64)
    }

    fn write_behind(&mut self, at_once: u64) {
        // The next block changes the cache page in which this block ends, so the cache page is written with the next
        // block.
        let whole = self.offset - self.offset % CACHED_BYTES;
        assert!(whole >= self.behind, "a file grows");
        if whole - self.behind >= at_once {
            self.file.write_behind(self.behind, whole - self.behind);
            self.behind = whole;
        }
    }
}
