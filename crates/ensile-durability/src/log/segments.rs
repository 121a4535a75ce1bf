//! The files of one log. Blocks follow each other, over zeros or in space that is allocated in growing steps. Blocks
//! are encoded first and written in order. If the disk has no space, the encoded blocks stay here, and a later
//! [`Segments::flush`] writes them at the same offset.
//!
//! Invariants: L5. L3: a new file begins with a mark. The mark and the file's name are synced before anything else is
//! written to the file, and the file before is whole and synced by then.
//!
//! Neighbours: `recovery::install_generation` makes the first file of a generation, and `next_file` makes further
//! files; the logger writes. `recovery::merge` writes whole logs without a logger.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use ensile_base::Epoch;
use ensile_base::limits::LOG_ZEROED_BYTES_MAX;
use ensile_disk::{Disk, DiskError, DiskFile};

use super::LogConfig;
use crate::buffers::Buffer;
use crate::error::unless_full;
use crate::files::block::origin::{OPENING_BYTES, Origin, PartPlace};
use crate::files::block::{ALIGN_BYTES, BlockKind, HEADER_BYTES, Header};
use crate::files::log::next_file::{NextFile, write_zeros};
use crate::files::names::{SegmentFile, SegmentName, log_folder};
use crate::store::closed_files::ClosedFile;

/// Space of the first allocation in bytes, small for small databases; `PREALLOCATE_STEP_BYTES_MAX`: of the largest
/// allocation.
const PREALLOCATE_FIRST_BYTES: u64 = 1 << 20;
const PREALLOCATE_STEP_BYTES_MAX: u64 = 64 << 20;

/// Largest ratio of the zeros of a file to the zeros of the previous file.
const ZEROED_GROWTH_MAX: u64 = 8;

/// Pause after an attempt to begin a file that found no space, in nanoseconds.
pub(super) const ROLL_PAUSE_NANOS: u64 = 100_000_000;

/// Largest block that is copied to be written together with other blocks, in bytes. A larger block is written from its
/// buffer.
const GATHER_BYTES: usize = 32 << 10;
const _: () = assert!(PREALLOCATE_FIRST_BYTES <= PREALLOCATE_STEP_BYTES_MAX && ROLL_PAUSE_NANOS > 0);

/// Encoded blocks that wait for the write, in order.
#[derive(Debug)]
enum Unwritten {
    /// Small blocks, contiguous.
    Gathered(Vec<u8>),
    Block(Box<Buffer>),
}

impl Unwritten {
    fn bytes(&mut self) -> &[u8] {
        match self {
            Self::Gathered(bytes) => bytes,
            Self::Block(buffer) => buffer.block(),
        }
    }
}

/// Size in bytes and age in nanoseconds at which a file is closed.
#[derive(Clone, Copy, Debug)]
struct RollLimits {
    bytes: u64,
    nanos: u64,
}

/// The writing end of one log.
#[derive(Debug)]
pub(crate) struct Segments {
    file: Box<dyn DiskFile>,
    name: SegmentName,
    limits: RollLimits,
    opened_nanos: u64,
    /// Time before which no new file is begun, in nanoseconds of the clock.
    roll_not_before: u64,
    /// Offset of the next write, end of the allocated space, and size of the next allocation, in bytes.
    offset: u64,
    allocated: u64,
    step_bytes: u64,
    /// Bytes from the file's beginning that were filled with zeros ahead of the blocks.
    zeroed: u64,
    /// Place in the chain of blocks (L5): the next block's sequence number, and the last block's header checksum.
    sequence: u64,
    chain_crc: u32,
    origin: Origin,
    /// Largest epoch of entries so far; `marked`: epoch of the last mark.
    largest: Epoch,
    marked: Epoch,
    pending: VecDeque<Unwritten>,
    /// An empty vector, kept for its memory.
    free: Vec<u8>,
    /// Bytes written, over all files.
    written_bytes: u64,
}

impl Segments {
    /// Makes the first file of a generation's log, beginning with a synced mark of `durable`. The caller syncs the
    /// file's name before the manifest lists the file.
    pub(crate) fn create(
        disk: &Arc<dyn Disk>,
        file: impl Into<SegmentFile>,
        config: &LogConfig,
        durable: Epoch,
        origin: Origin,
    ) -> Result<Self, DiskError> {
        let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let file = file.into();
        let mut segments = Self {
            file: disk.create(&file.to_string())?,
            name: file.name,
            limits: RollLimits { bytes: config.segment_bytes, nanos: nanos(config.segment_interval) },
            opened_nanos: 0,
            roll_not_before: 0,
            offset: 0,
            allocated: 0,
            step_bytes: PREALLOCATE_FIRST_BYTES,
            zeroed: 0,
            sequence: 0,
            chain_crc: 0,
            origin,
            largest: Epoch::ZERO,
            marked: Epoch::ZERO,
            pending: VecDeque::new(),
            free: Vec::new(),
            written_bytes: 0,
        };
        segments.begin_with_zeros()?;
        let (block, crc) = segments.encode_opening(durable, durable);
        segments.push(&block, crc);
        segments.marked = durable;
        segments.flush(|_| {})?;
        segments.file.sync_all()?;
        assert_eq!(segments.offset, OPENING_BYTES as u64, "a file begins with its opening block");
        segments.check();
        Ok(segments)
    }

    /// Fills an empty file with zeros. A disk without space for the zeros may still have space for blocks.
    fn begin_with_zeros(&mut self) -> Result<(), DiskError> {
        let bytes = self.first_bytes();
        match unless_full(write_zeros(&*self.file, 0, bytes))? {
            Some(()) => (self.zeroed, self.allocated) = (bytes, bytes),
            None => self.file.set_len(0)?,
        }
        Ok(())
    }

    /// Starts the age of the first file.
    pub(crate) fn with_start_time(mut self, now_nanos: u64) -> Self {
        self.opened_nanos = now_nanos;
        self
    }

    /// Checks the invariants between two calls.
    fn check(&self) {
        assert!(self.offset >= OPENING_BYTES as u64 && self.sequence > 0, "a file without its opening block");
        assert!(self.offset.is_multiple_of(ALIGN_BYTES as u64), "the next block at {}", self.offset);
        assert!(self.offset <= self.allocated, "{} bytes in space for {}", self.offset, self.allocated);
        assert!(self.zeroed <= self.allocated, "{} zeros in space for {}", self.zeroed, self.allocated);
        assert!(self.offset <= self.written_bytes, "fewer bytes written in all files than in this one");
        assert!(self.step_bytes >= PREALLOCATE_FIRST_BYTES && self.step_bytes <= PREALLOCATE_STEP_BYTES_MAX);
    }

    /// Header of the next block in the chain, with this log's mark d, and the D of all logs as `published`.
    fn header(&self, kind: BlockKind, mark: Epoch, published: Epoch) -> Header {
        assert!(published <= mark, "a D of {published} before this log's mark of {mark} (L5)");
        let (sequence, previous_crc) = (self.sequence, self.chain_crc);
        let header = Header::new(kind, self.name.logger, self.name.generation);
        Header { sequence, mark, published, previous_crc, ..header }
    }

    /// Opening block of the next file, and the checksum of the block's header.
    fn encode_opening(&self, mark: Epoch, published: Epoch) -> ([u8; OPENING_BYTES], u32) {
        let header =
            Header { epoch_max: self.largest, ..self.header(BlockKind::LogOpening, mark, published) };
        self.origin.encode(header, PartPlace::default())
    }

    /// Adds the block of a buffer's entries to the pending blocks. `mark` is this log's last synced d, and `published`
    /// the least synced d of all logs. The buffer comes back at once if its block was copied; otherwise the `flush`
    /// that writes the block returns the buffer.
    pub(crate) fn data(
        &mut self,
        mut buffer: Box<Buffer>,
        mark: Epoch,
        published: Epoch,
    ) -> Option<Box<Buffer>> {
        let (payload_bytes, payload_crc) = buffer.seal();
        let (epoch_min, epoch_max) = buffer.epochs();
        assert!(epoch_min > mark, "an entry of epoch {epoch_min} behind a synced mark of {mark} (L1)");
        assert!(mark <= self.marked, "a block repeats {mark}, and the last mark is {}", self.marked);
        let entries = buffer.entries();
        let header = self.header(BlockKind::Data, mark, published);
        let header = Header { payload_bytes, payload_crc, entries, epoch_min, epoch_max, ..header };
        assert_eq!(buffer.bytes(), header.block_bytes(), "the payload stands behind the header");
        self.chain_crc = header.encode(buffer.block(), self.origin.salt);
        self.sequence += 1;
        self.largest = self.largest.max(epoch_max);
        if buffer.bytes() <= GATHER_BYTES {
            self.small_block_buffer().extend_from_slice(buffer.block());
            return Some(buffer);
        }
        self.pending.push_back(Unwritten::Block(buffer));
        None
    }

    /// Adds a mark of d to the pending blocks.
    pub(crate) fn mark(&mut self, d: Epoch, published: Epoch) {
        assert!(d >= self.marked, "a mark of {d} behind one of {} (L3)", self.marked);
        self.marked = d;
        let mut block = [0; HEADER_BYTES];
        let crc = self.header(BlockKind::Mark, d, published).encode(&mut block, self.origin.salt);
        self.push(&block, crc);
    }

    /// Adds an encoded block to the pending blocks; `crc` is its header checksum.
    fn push(&mut self, block: &[u8], crc: u32) {
        assert!(block.len().is_multiple_of(ALIGN_BYTES), "a block of {} bytes", block.len());
        (self.sequence, self.chain_crc) = (self.sequence + 1, crc);
        self.small_block_buffer().extend_from_slice(block);
    }

    /// The pending bytes to which a small block is appended.
    fn small_block_buffer(&mut self) -> &mut Vec<u8> {
        if !matches!(self.pending.back(), Some(Unwritten::Gathered(_))) {
            self.pending.push_back(Unwritten::Gathered(std::mem::take(&mut self.free)));
        }
        match self.pending.back_mut() {
            Some(Unwritten::Gathered(bytes)) => bytes,
            _ => unreachable!("just pushed"),
        }
    }

    /// Writes the pending blocks in order; `written` gets the buffers. After an error of a full disk the remaining
    /// blocks still wait, and a later call may try again.
    pub(crate) fn flush(&mut self, mut written: impl FnMut(Box<Buffer>)) -> Result<(), DiskError> {
        while let Some(mut next) = self.pending.pop_front() {
            if let Err(error) = self.write(next.bytes()) {
                self.pending.push_front(next);
                return Err(error);
            }
            match next {
                Unwritten::Block(buffer) => written(buffer),
                Unwritten::Gathered(mut bytes) => {
                    bytes.clear();
                    self.free = bytes;
                }
            }
        }
        self.check();
        Ok(())
    }

    /// Writes whole blocks at the end of the file, and allocates space if necessary.
    fn write(&mut self, bytes: &[u8]) -> Result<(), DiskError> {
        let end = self.offset + bytes.len() as u64;
        while self.allocated < end {
            // The space ends at the segment's end. A block beyond the segment's end will be the last block of the file.
            let wanted = (self.allocated + self.step_bytes).min(self.limits.bytes.max(end));
            self.allocated = match self.file.preallocate(wanted) {
                Err(error) if error.is_full() && wanted > end => {
                    // The disk may have space for this much. The file's length shows how far the first attempt came.
                    self.file.preallocate(end)?;
                    self.file.len()?
                }
                allocated => allocated.map(|()| wanted)?,
            };
            self.step_bytes = (self.step_bytes * 2).min(PREALLOCATE_STEP_BYTES_MAX);
        }
        assert!(
            !bytes.is_empty() && bytes.len().is_multiple_of(ALIGN_BYTES),
            "{} bytes written",
            bytes.len()
        );
        assert!(end <= self.allocated, "blocks up to {end} in space for {}", self.allocated);
        self.file.write_at(bytes, self.offset)?;
        self.offset = end;
        self.written_bytes += bytes.len() as u64;
        Ok(())
    }

    /// Bytes written since this log began.
    pub(crate) fn written_bytes(&self) -> u64 {
        self.written_bytes
    }

    /// Bytes of the current file, written or allocated.
    pub(crate) fn file_bytes(&self) -> u64 {
        self.allocated.max(self.offset)
    }

    /// Syncs all written blocks. A removed file is an error, because a power failure loses a removed file.
    pub(crate) fn sync(&self) -> Result<(), DiskError> {
        assert!(self.pending.is_empty(), "flushed before it is synced (L3)");
        self.file.sync_data()?;
        self.file.check_named()
    }

    /// True if the current file is too large or too old. Never true while the file has only its opening block.
    pub(crate) fn is_due(&self, now_nanos: u64) -> bool {
        let is_old = now_nanos.saturating_sub(self.opened_nanos) >= self.limits.nanos;
        (self.offset >= self.limits.bytes || is_old) && self.may_roll(now_nanos)
    }

    /// True if the current file has blocks to close, and the pause after an attempt without space is over.
    pub(crate) fn may_roll(&self, now_nanos: u64) -> bool {
        self.has_blocks() && now_nanos >= self.roll_not_before
    }

    /// Number of blocks of this log, over all files.
    pub(crate) fn blocks(&self) -> u64 {
        self.sequence
    }

    /// True if the current file holds more than its opening block.
    pub(crate) fn has_blocks(&self) -> bool {
        self.offset > OPENING_BYTES as u64
    }

    /// True if blocks have overwritten 15/16 of the file's zeros. The logger then continues early in a ready next file,
    /// which has new zeros.
    pub(super) fn is_used_up(&self) -> bool {
        self.zeroed > 0 && self.offset + self.zeroed / 16 >= self.zeroed
    }

    /// Bytes of zeros for the next file; `None` before the next file is due. The next file is due once the current file
    /// is half used, or half as old as a file may get. The result is the number of bytes that the log writes at its
    /// present rate until a file is too old.
    pub(super) fn next_wanted(&self, now_nanos: u64) -> Option<u64> {
        let first = self.first_bytes();
        let age = now_nanos.saturating_sub(self.opened_nanos).max(1);
        let is_half = 2 * self.offset >= self.zeroed.max(first) || age >= self.limits.nanos / 2;
        if !self.has_blocks() || !is_half {
            return None;
        }
        let expected = u128::from(self.offset) * u128::from(self.limits.nanos) / u128::from(age);
        let grown = ZEROED_GROWTH_MAX * self.zeroed.max(first);
        let most = LOG_ZEROED_BYTES_MAX.min(self.limits.bytes).min(grown);
        assert!(first <= most, "{first} zeros at least, {most} at most");
        Some(u64::try_from(expected).unwrap_or(u64::MAX).clamp(first, most))
    }

    /// The current file, of a log that gets no more blocks. `None` if the file has no blocks, or blocks wait for space.
    pub(crate) fn as_closed(&self) -> Option<ClosedFile> {
        let is_whole = self.has_blocks() && self.pending.is_empty();
        let (file, largest, bytes) = (SegmentFile::from(self.name), self.largest, self.offset);
        is_whole.then_some(ClosedFile { file, largest, bytes })
    }

    pub(crate) fn next_name(&self) -> SegmentName {
        SegmentName { number: self.name.number + 1, ..self.name }
    }

    /// Prevents new files for [`ROLL_PAUSE_NANOS`].
    pub(super) fn pause_rolls(&mut self, now_nanos: u64) {
        self.roll_not_before = now_nanos.saturating_add(ROLL_PAUSE_NANOS);
    }

    /// Continues in the next file, with a synced opening mark of d (L3). The caller has synced the name and zeros of
    /// the next file, and the current file. Returns the previous file, which the caller closes. Returns `None` if the
    /// disk has no space for the mark: the current file continues, and `next` stays.
    pub(crate) fn continue_in(
        &mut self,
        next: &mut Option<NextFile>,
        d: Epoch,
        published: Epoch,
        now_nanos: u64,
    ) -> Result<Option<UsedFile>, DiskError> {
        assert!(self.pending.is_empty(), "nothing is left for the file that is closed (L3)");
        assert!(d >= self.marked, "an opening mark of {d} behind one of {} (L3)", self.marked);
        let Some(made) = next.take() else { return Ok(None) };
        assert_eq!(made.name, self.next_name(), "files of a log are numbered without a gap");
        assert!(made.allocated >= OPENING_BYTES as u64, "a file of {} bytes is not ready", made.allocated);
        let (block, crc) = self.encode_opening(d, published);
        if unless_full(made.file.write_at(&block, 0))?.is_none() {
            *next = Some(made);
            return Ok(None);
        }
        made.file.sync_data()?;
        let used = UsedFile {
            file: std::mem::replace(&mut self.file, made.file),
            name: self.name,
            largest: self.largest,
            bytes: self.offset,
            allocated: self.allocated,
        };
        (self.name, self.opened_nanos) = (made.name, now_nanos);
        (self.offset, self.allocated) = (OPENING_BYTES as u64, made.allocated);
        self.zeroed = made.zeroed;
        // The first allocation is as large as the last file: a log with few writes keeps its files small.
        self.step_bytes = used.bytes.clamp(PREALLOCATE_FIRST_BYTES, PREALLOCATE_STEP_BYTES_MAX);
        (self.sequence, self.chain_crc) = (self.sequence + 1, crc);
        self.written_bytes += OPENING_BYTES as u64;
        self.marked = d;
        self.check();
        Ok(Some(used))
    }

    /// Least initial space of a new file, in bytes.
    pub(crate) fn first_bytes(&self) -> u64 {
        PREALLOCATE_FIRST_BYTES.min(self.limits.bytes)
    }

    /// Gives back the space behind the last block for good: at the close of the log, at the end of a merge, and at an
    /// open on a full disk.
    pub(crate) fn trim(&mut self) -> Result<(), DiskError> {
        assert!(self.pending.is_empty(), "a log is cut behind its last block");
        if self.allocated > self.offset && cut(&*self.file, self.offset)? {
            self.file.sync_all()?;
            // The cut also removes the zeros.
            (self.allocated, self.zeroed) = (self.offset, 0);
        }
        Ok(())
    }
}

/// Cuts a file to its first `bytes` bytes, its blocks. False if the disk has no space to record the cut: the space then
/// stays allocated.
fn cut(file: &dyn DiskFile, bytes: u64) -> Result<bool, DiskError> {
    Ok(unless_full(file.set_len(bytes))?.is_some())
}

/// A file that gets no more blocks, and is to be closed; the log continues in the next file.
#[derive(Debug)]
pub(crate) struct UsedFile {
    file: Box<dyn DiskFile>,
    name: SegmentName,
    largest: Epoch,
    bytes: u64,
    allocated: u64,
}

impl UsedFile {
    /// Gives back the file's unused space, and renames the file. The new name is for people and for recovery's verdict:
    /// the name shows that a next file with a synced mark existed. If the disk has no space for the new name, or the
    /// system forbids the rename, the old name stays and is as valid. The cut is not synced: a crash may leave the
    /// zeros behind the blocks. The zeros mean nothing, and recovery cuts again. A file without a name is an error
    /// ([`DiskError::Removed`]).
    pub(crate) fn close(self, disk: &dyn Disk) -> Result<ClosedFile, DiskError> {
        assert!(self.bytes > OPENING_BYTES as u64, "a file that holds nothing is not closed");
        if self.allocated > self.bytes {
            cut(&*self.file, self.bytes)?;
        }
        let open = SegmentFile::from(self.name);
        let closed = SegmentFile { to: Some(self.largest), ..open };
        let renamed = match disk.rename(&open.to_string(), &closed.to_string()) {
            Err(error) if error.is_permission_denied() => false,
            // L9: somebody has removed the file, perhaps with a folder that is being removed.
            Err(error) if error.is_not_found() => {
                self.file.check_named()?;
                return Err(error);
            }
            renamed => unless_full(renamed)?.is_some(),
        };
        if renamed {
            unless_full(disk.sync_folder(&log_folder(self.name.logger)))?;
        }
        let file = if renamed { closed } else { open };
        Ok(ClosedFile { file, largest: self.largest, bytes: self.bytes })
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use ensile_base::Epoch;
    use ensile_disk::{Disk, DiskError};
    use ensile_sim::SimDisk;

    use super::UsedFile;
    use crate::files::names::{SegmentFile, SegmentName, log_folder};

    #[test]
    fn l9_a_file_that_was_removed_before_its_close_is_told_as_removed() -> Result<(), DiskError> {
        let disk = SimDisk::new();
        let name = SegmentName { logger: 0, generation: 1, number: 1 };
        disk.create_folder(&log_folder(0))?;
        let path = SegmentFile::from(name).to_string();
        let file = disk.create(&path)?;
        disk.remove(&path)?;
        let used = UsedFile { file, name, largest: Epoch::new(7), bytes: 9_000, allocated: 9_000 };
        let refused = used.close(&disk).expect_err("the file has no name");
        assert!(matches!(refused, DiskError::Removed { .. }), "{refused}");
        Ok(())
    }
}
