//! The files of one log: blocks one behind the other, space set aside in growing steps, a new file by bytes.
//!
//! Invariants:
//! - L5: blocks of one log are chained by sequence and checksum across its files.
//! - L3: a new file begins with a mark that is synced, name included, before anything else is written to it, and all
//!   of the file before it has been synced by then.
//!
//! Neighbours: made by recovery's finish (the first file of a generation), written by the logger.

use std::sync::Arc as StdArc;

use ensile_base::Epoch;
use ensile_base::planted::{Bug, is_planted};
use ensile_disk::{Disk, DiskError, DiskFile};

use super::block::{HEADER_BYTES, Header, Kind, Salt};
use super::buffer::Buffer;
use crate::names::SegmentName;

/// Space set aside at first, and at most at once; small databases stay small.
const PREALLOCATE_FIRST_BYTES: u64 = 1 << 20;
const PREALLOCATE_STEP_BYTES_MAX: u64 = 64 << 20;

/// Blocks up to this size are copied together into one write; larger ones are written from where they stand.
const GATHER_BYTES: usize = 32 << 10;

/// The writing end of one log.
#[derive(Debug)]
pub(crate) struct Segments {
    disk: StdArc<dyn Disk>,
    file: Box<dyn DiskFile>,
    name: SegmentName,
    segment_bytes: u64,
    /// Where the next write goes, how far space is set aside, and how much comes next.
    offset: u64,
    allocated: u64,
    step_bytes: u64,
    /// The chain: the next block's sequence, the last block's checksum.
    sequence: u64,
    chain_crc: u32,
    salt: Salt,
    /// Blocks that wait to be written together.
    gathered: Vec<u8>,
    /// Bytes written, over all files.
    written_bytes: u64,
    #[cfg(feature = "experiments")]
    compressor: Option<super::compress::Compressor>,
}

impl Segments {
    /// Makes the first file of a generation's log, beginning with a synced mark of `durable`. Its name is synced by
    /// the caller, once for all logs, before the manifest lists it.
    pub(crate) fn create(
        disk: &StdArc<dyn Disk>,
        name: SegmentName,
        segment_bytes: u64,
        durable: Epoch,
        salt: Salt,
    ) -> Result<Self, DiskError> {
        let mut segments = Self {
            file: disk.create(&name.to_string())?,
            disk: StdArc::clone(disk),
            name,
            segment_bytes,
            offset: 0,
            allocated: 0,
            step_bytes: PREALLOCATE_FIRST_BYTES,
            sequence: 0,
            chain_crc: salt.number(),
            salt: Salt::FIRST,
            gathered: Vec::new(),
            written_bytes: 0,
            #[cfg(feature = "experiments")]
            compressor: None,
        };
        segments.mark(durable, durable)?;
        segments.salt = salt;
        segments.flush()?;
        segments.file.sync_all()?;
        Ok(segments)
    }

    fn header(&mut self, kind: Kind, mark: Epoch, published: Epoch) -> Header {
        let sequence = self.sequence;
        self.sequence += 1;
        Header {
            kind,
            logger: self.name.logger,
            generation: self.name.generation,
            sequence,
            payload_bytes: 0,
            entries: 0,
            epoch_min: Epoch::ZERO,
            epoch_max: Epoch::ZERO,
            compressed: false,
            mark,
            published,
            previous_crc: self.chain_crc,
            payload_crc: 0,
        }
    }

    /// Writes a buffer as a block, its header in place. `mark` is the last synced d.
    pub(crate) fn data(
        &mut self,
        buffer: &mut Buffer,
        mark: Epoch,
        published: Epoch,
    ) -> Result<(), DiskError> {
        let compressed = self.compress(buffer);
        let (payload_bytes, payload_crc) = buffer.seal();
        let (epoch_min, epoch_max) = buffer.epochs();
        let entries = buffer.entries();
        let header = self.header(Kind::Data, mark, published);
        let header =
            Header { payload_bytes, payload_crc, entries, epoch_min, epoch_max, compressed, ..header };
        self.chain_crc = header.encode(buffer.block(), self.salt);
        if buffer.bytes() <= GATHER_BYTES {
            self.gathered.extend_from_slice(buffer.block());
            return if self.gathered.len() > GATHER_BYTES { self.flush() } else { Ok(()) };
        }
        self.flush()?;
        self.write(buffer.block())
    }

    /// From here on entries are compressed, where an experiment wants it.
    #[cfg(feature = "experiments")]
    pub(crate) fn compressed(mut self, compress: bool) -> Self {
        self.compressor = compress.then(Default::default);
        self
    }

    #[cfg(feature = "experiments")]
    fn compress(&mut self, buffer: &mut Buffer) -> bool {
        self.compressor.as_mut().is_some_and(|compressor| compressor.compress(buffer))
    }

    #[cfg(not(feature = "experiments"))]
    const fn compress(&mut self, _buffer: &mut Buffer) -> bool {
        false
    }

    /// Adds a mark of d behind the blocks that wait to be written.
    pub(crate) fn mark(&mut self, d: Epoch, published: Epoch) -> Result<(), DiskError> {
        let header = self.header(Kind::Mark, d, published);
        let mut block = [0; HEADER_BYTES];
        self.chain_crc = header.encode(&mut block, self.salt);
        self.gathered.extend_from_slice(&block);
        Ok(())
    }

    /// Writes what was gathered.
    pub(crate) fn flush(&mut self) -> Result<(), DiskError> {
        if self.gathered.is_empty() {
            return Ok(());
        }
        let mut gathered = std::mem::take(&mut self.gathered);
        let written = self.write(&gathered);
        gathered.clear();
        self.gathered = gathered;
        written
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), DiskError> {
        let end = self.offset + bytes.len() as u64;
        while self.allocated < end {
            // Not beyond the segment's end, unless a block is: it will be the last one here.
            let wanted = (self.allocated + self.step_bytes).min(self.segment_bytes.max(end));
            self.file.preallocate(wanted)?;
            self.allocated = wanted;
            self.step_bytes = (self.step_bytes * 2).min(PREALLOCATE_STEP_BYTES_MAX);
        }
        self.file.write_at(bytes, self.offset)?;
        self.offset = end;
        self.written_bytes += bytes.len() as u64;
        Ok(())
    }

    /// Bytes written since this log was begun.
    pub(crate) fn written_bytes(&self) -> u64 {
        self.written_bytes
    }

    /// Syncs all that was written.
    pub(crate) fn sync(&self) -> Result<(), DiskError> {
        debug_assert!(self.gathered.is_empty(), "flushed before it is synced");
        self.file.sync_data()
    }

    /// Is the current file large enough?
    pub(crate) fn is_full(&self) -> bool {
        self.offset >= self.segment_bytes
    }

    /// Begins a new file with a synced mark of d (L3). The current one is synced.
    pub(crate) fn roll(&mut self, d: Epoch, published: Epoch) -> Result<(), DiskError> {
        self.trim()?;
        self.name.number += 1;
        self.file = self.disk.create(&self.name.to_string())?;
        (self.offset, self.allocated) = (0, 0);
        self.mark(d, published)?;
        self.flush()?;
        if !is_planted(Bug::NewFileMarkUnsynced) {
            self.file.sync_all()?;
        }
        if !is_planted(Bug::NewFileNameUnsynced) {
            self.disk.sync_folder("")?;
        }
        Ok(())
    }

    /// Gives back the space behind the last block.
    pub(crate) fn trim(&mut self) -> Result<(), DiskError> {
        if self.allocated > self.offset {
            self.file.set_len(self.offset)?;
            self.file.sync_all()?;
            self.allocated = self.offset;
        }
        Ok(())
    }
}
