//! The files of one log: blocks one behind the other, over zeros or in space that is allocated in growing steps. A new
//! file begins by bytes or time.
//!
//! Blocks are encoded first and written in order; what the disk has no space for stays here, encoded as it is, and is
//! written by a later [`Segments::flush`] at the same offset.
//!
//! Invariants:
//! - L5: blocks of one log are chained by sequence and checksum across its files.
//! - L3: a new file begins with a mark that is synced, name included, before anything else is written to it, and all
//!   of the file before it has been synced by then.
//!
//! Neighbours: made by recovery's finish (the first file of a generation), written by the logger; `next` makes further
//! files.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use ensile_base::Epoch;
use ensile_base::limits::LOG_ZEROED_BYTES_MAX;
use ensile_disk::{Disk, DiskError, DiskFile};

use super::LogConfig;
use super::next::{NextFile, write_zeros};
use crate::block::origin::{OPENING_BYTES, Origin, PartPlace};
use crate::block::{ALIGN_BYTES, BlockKind, HEADER_BYTES, Header};
use crate::buffers::Buffer;
use crate::error::unless_full;
use crate::store::closed_files::ClosedFile;
use crate::store::names::{SegmentFile, SegmentName, log_folder};

/// Space allocated at first, and at most at once; small databases stay small.
const PREALLOCATE_FIRST_BYTES: u64 = 1 << 20;
const PREALLOCATE_STEP_BYTES_MAX: u64 = 64 << 20;

/// A file begins with at most this many times the zeros of the one before it.
const ZEROED_GROWTH_MAX: u64 = 8;

/// After an attempt to begin a file that found no space.
pub(super) const ROLL_PAUSE_NANOS: u64 = 100_000_000;

/// Blocks up to this size are copied together into one write; larger ones are written from where they stand.
const GATHER_BYTES: usize = 32 << 10;
const _: () = assert!(PREALLOCATE_FIRST_BYTES <= PREALLOCATE_STEP_BYTES_MAX && ROLL_PAUSE_NANOS > 0);

/// What is to be written, in order.
#[derive(Debug)]
enum Unwritten {
    /// Small blocks, one behind the other.
    Gathered(Vec<u8>),
    /// One large block.
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

/// When a file is closed.
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
    /// No new file is tried before this.
    roll_not_before: u64,
    /// Where the next write goes, how far space is allocated, and how much comes next.
    offset: u64,
    allocated: u64,
    step_bytes: u64,
    /// Zeros that the file began with.
    zeroed: u64,
    /// The chain: the next block's sequence, the last block's checksum.
    sequence: u64,
    chain_crc: u32,
    origin: Origin,
    /// The largest epoch of entries so far, and the last mark.
    largest: Epoch,
    marked: Epoch,
    pending: VecDeque<Unwritten>,
    /// An empty one, kept for its memory.
    free: Vec<u8>,
    /// Bytes written, over all files.
    written_bytes: u64,
}

impl Segments {
    /// Makes the first file of a generation's log, beginning with a synced mark of `durable`. Its name is synced by
    /// the caller before the manifest lists it.
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
        let (block, crc) = segments.opening(durable, durable);
        segments.push(&block, crc);
        segments.marked = durable;
        segments.flush(|_| {})?;
        segments.file.sync_all()?;
        assert_eq!(segments.offset, OPENING_BYTES as u64, "a file begins with its opening block");
        segments.check();
        Ok(segments)
    }

    /// A file that has only its name gets its zeros; a disk that has no space for them may have some for blocks.
    fn begin_with_zeros(&mut self) -> Result<(), DiskError> {
        let bytes = self.first_bytes();
        match unless_full(write_zeros(&*self.file, 0, bytes))? {
            Some(()) => (self.zeroed, self.allocated) = (bytes, bytes),
            None => self.file.set_len(0)?,
        }
        Ok(())
    }

    /// The first file's age counts from here.
    pub(crate) fn started(mut self, now_nanos: u64) -> Self {
        self.opened_nanos = now_nanos;
        self
    }

    /// What holds between two calls.
    fn check(&self) {
        assert!(self.offset >= OPENING_BYTES as u64 && self.sequence > 0, "a file without its opening block");
        assert!(self.offset.is_multiple_of(ALIGN_BYTES as u64), "the next block at {}", self.offset);
        assert!(self.offset <= self.allocated, "{} bytes in space for {}", self.offset, self.allocated);
        assert!(self.zeroed <= self.allocated, "{} zeros in space for {}", self.zeroed, self.allocated);
        assert!(self.offset <= self.written_bytes, "fewer bytes written in all files than in this one");
        assert!(self.step_bytes >= PREALLOCATE_FIRST_BYTES && self.step_bytes <= PREALLOCATE_STEP_BYTES_MAX);
    }

    fn header(&self, kind: BlockKind, mark: Epoch, published: Epoch) -> Header {
        assert!(published <= mark, "a D of {published} before this log's mark of {mark} (L5)");
        let (sequence, previous_crc) = (self.sequence, self.chain_crc);
        let header = Header::of(kind, self.name.logger, self.name.generation);
        Header { sequence, mark, published, previous_crc, ..header }
    }

    /// The opening block of a file that follows now, and its header's checksum.
    fn opening(&self, mark: Epoch, published: Epoch) -> ([u8; OPENING_BYTES], u32) {
        let header =
            Header { epoch_max: self.largest, ..self.header(BlockKind::LogOpening, mark, published) };
        self.origin.encode(header, PartPlace::default())
    }

    /// Adds a buffer's block, its header in place. `mark` is the last synced d. The buffer comes back at once if its
    /// block was copied, or from the `flush` that writes it.
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
            self.gathered().extend_from_slice(buffer.block());
            return Some(buffer);
        }
        self.pending.push_back(Unwritten::Block(buffer));
        None
    }

    /// Adds a mark of d.
    pub(crate) fn mark(&mut self, d: Epoch, published: Epoch) {
        assert!(d >= self.marked, "a mark of {d} behind one of {} (L3)", self.marked);
        self.marked = d;
        let mut block = [0; HEADER_BYTES];
        let crc = self.header(BlockKind::Mark, d, published).encode(&mut block, self.origin.salt);
        self.push(&block, crc);
    }

    fn push(&mut self, block: &[u8], crc: u32) {
        assert!(block.len().is_multiple_of(ALIGN_BYTES), "a block of {} bytes", block.len());
        (self.sequence, self.chain_crc) = (self.sequence + 1, crc);
        self.gathered().extend_from_slice(block);
    }

    /// The last pending bytes, to add a small block to.
    fn gathered(&mut self) -> &mut Vec<u8> {
        if !matches!(self.pending.back(), Some(Unwritten::Gathered(_))) {
            self.pending.push_back(Unwritten::Gathered(std::mem::take(&mut self.free)));
        }
        match self.pending.back_mut() {
            Some(Unwritten::Gathered(bytes)) => bytes,
            _ => unreachable!("just pushed"),
        }
    }

    /// Writes what waits to be written, in order; `written` gets the buffers. After an error that says that the disk is
    /// full the remainder still waits, and may be tried again.
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

    fn write(&mut self, bytes: &[u8]) -> Result<(), DiskError> {
        let end = self.offset + bytes.len() as u64;
        while self.allocated < end {
            // Not beyond the segment's end, unless a block is: it will be the last one here.
            let wanted = (self.allocated + self.step_bytes).min(self.limits.bytes.max(end));
            self.allocated = match self.file.preallocate(wanted) {
                Err(error) if error.is_full() && wanted > end => {
                    // Perhaps there is space for this much; how far the first attempt came is the file's length.
                    self.file.preallocate(end)?;
                    self.file.len()?
                }
                allocated => allocated.map(|()| wanted)?,
            };
            self.step_bytes = (self.step_bytes * 2).min(PREALLOCATE_STEP_BYTES_MAX);
        }
        assert!(
            !bytes.is_empty() && bytes.len().is_multiple_of(ALIGN_BYTES),
            "{} bytes of blocks",
            bytes.len()
        );
        assert!(end <= self.allocated, "blocks up to {end} in space for {}", self.allocated);
        self.file.write_at(bytes, self.offset)?;
        self.offset = end;
        self.written_bytes += bytes.len() as u64;
        Ok(())
    }

    /// Bytes written since this log was begun.
    pub(crate) fn written_bytes(&self) -> u64 {
        self.written_bytes
    }

    /// Bytes of the current file, and allocated for it.
    pub(crate) fn file_bytes(&self) -> u64 {
        self.allocated.max(self.offset)
    }

    /// Syncs all that was written. A removed file is an error, as a power failure takes it.
    pub(crate) fn sync(&self) -> Result<(), DiskError> {
        assert!(self.pending.is_empty(), "flushed before it is synced (L3)");
        self.file.sync_data()?;
        self.file.check_named()
    }

    /// Is it time for a new file? Never while this one has nothing but its opening block.
    pub(crate) fn is_due(&self, now_nanos: u64) -> bool {
        let is_old = now_nanos.saturating_sub(self.opened_nanos) >= self.limits.nanos;
        (self.offset >= self.limits.bytes || is_old) && self.may_roll(now_nanos)
    }

    /// Is there something to close, and was there space at the last attempt?
    pub(crate) fn may_roll(&self, now_nanos: u64) -> bool {
        self.has_blocks() && now_nanos >= self.roll_not_before
    }

    /// Blocks of this log, over all files.
    pub(crate) fn blocks(&self) -> u64 {
        self.sequence
    }

    /// Does the current file hold more than its opening block?
    pub(crate) fn has_blocks(&self) -> bool {
        self.offset > OPENING_BYTES as u64
    }

    /// Is all of its zeros written over? The next file, if it is ready, has more.
    pub(super) fn is_used_up(&self) -> bool {
        self.zeroed > 0 && self.offset + self.zeroed / 16 >= self.zeroed
    }

    /// How many zeros the next file is to begin with, once it is time to make it: this one is half used, or half as old
    /// as it gets. As many as a log that goes on like this writes until a file is too old.
    pub(super) fn next_wanted(&self, now_nanos: u64) -> Option<u64> {
        let first = self.first_bytes();
        let age = now_nanos.saturating_sub(self.opened_nanos).max(1);
        let is_half = 2 * self.offset >= self.zeroed.max(first) || age >= self.limits.nanos / 2;
        if !self.has_blocks() || !is_half {
            return None;
        }
        let expected = u128::from(self.offset) * u128::from(self.limits.nanos) / u128::from(age);
        let most =
            LOG_ZEROED_BYTES_MAX.min(self.limits.bytes).min(ZEROED_GROWTH_MAX * self.zeroed.max(first));
        assert!(first <= most, "{first} zeros at least, {most} at most");
        Some(u64::try_from(expected).unwrap_or(u64::MAX).clamp(first, most))
    }

    /// The current file, of a log that gets no more blocks. `None` if it holds nothing, or blocks wait for space.
    pub(crate) fn as_closed(&self) -> Option<ClosedFile> {
        let is_whole = self.has_blocks() && self.pending.is_empty();
        let closed =
            ClosedFile { file: SegmentFile::from(self.name), largest: self.largest, bytes: self.offset };
        is_whole.then_some(closed)
    }

    /// What the next file is called.
    pub(crate) fn next_name(&self) -> SegmentName {
        SegmentName { number: self.name.number + 1, ..self.name }
    }

    /// No new file is tried for a while.
    pub(super) fn pause_rolls(&mut self, now_nanos: u64) {
        self.roll_not_before = now_nanos.saturating_add(ROLL_PAUSE_NANOS);
    }

    /// Goes on in the next file, whose name and zeros are synced, with a synced mark of d (L3). The current file is
    /// synced. Returns it, to be closed; `None` if the disk has no space for the mark: the current one goes on, and
    /// `next` stays.
    pub(crate) fn go_on_in(
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
        let (block, crc) = self.opening(d, published);
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
        // As much as the last file took: a log that writes little keeps its files small.
        self.step_bytes = used.bytes.clamp(PREALLOCATE_FIRST_BYTES, PREALLOCATE_STEP_BYTES_MAX);
        (self.sequence, self.chain_crc) = (self.sequence + 1, crc);
        self.written_bytes += OPENING_BYTES as u64;
        self.marked = d;
        self.check();
        Ok(Some(used))
    }

    /// Space that a new file begins with at the least.
    pub(crate) fn first_bytes(&self) -> u64 {
        PREALLOCATE_FIRST_BYTES.min(self.limits.bytes)
    }

    /// Gives back the space behind the last block for good: the log is closed.
    pub(crate) fn trim(&mut self) -> Result<(), DiskError> {
        assert!(self.pending.is_empty(), "a log is cut behind its last block");
        if self.allocated > self.offset && cut(&*self.file, self.offset)? {
            self.file.sync_all()?;
            // With the space its zeros are gone.
            (self.allocated, self.zeroed) = (self.offset, 0);
        }
        Ok(())
    }
}

/// Cuts a file to its blocks. False if the disk has no space to note that: then the space stays allocated.
fn cut(file: &dyn DiskFile, bytes: u64) -> Result<bool, DiskError> {
    Ok(unless_full(file.set_len(bytes))?.is_some())
}

/// A file that gets no more blocks, as it was while it got them. The log has gone on in the next one.
#[derive(Debug)]
pub(crate) struct UsedFile {
    file: Box<dyn DiskFile>,
    name: SegmentName,
    largest: Epoch,
    bytes: u64,
    allocated: u64,
}

impl UsedFile {
    /// Gives back its unused space and renames it. The new name is for people and for recovery's verdict: it shows that
    /// a next file with a synced mark was there. A disk that has no space for it, or a system that forbids it, keeps
    /// the old one, which is as valid. The cut is not synced: a crash leaves the zeros that stood behind the blocks,
    /// which say nothing, and recovery cuts again.
    pub(crate) fn close(self, disk: &dyn Disk) -> Result<ClosedFile, DiskError> {
        assert!(self.bytes > OPENING_BYTES as u64, "a file that holds nothing is not closed");
        if self.allocated > self.bytes {
            cut(&*self.file, self.bytes)?;
        }
        let open = SegmentFile::from(self.name);
        let closed = SegmentFile { to: Some(self.largest), ..open };
        let renamed = match disk.rename(&open.to_string(), &closed.to_string()) {
            Err(error) if error.is_permission_denied() => false,
            renamed => unless_full(renamed)?.is_some(),
        };
        if renamed {
            unless_full(disk.sync_folder(&log_folder(self.name.logger)))?;
        }
        let file = if renamed { closed } else { open };
        Ok(ClosedFile { file, largest: self.largest, bytes: self.bytes })
    }
}
