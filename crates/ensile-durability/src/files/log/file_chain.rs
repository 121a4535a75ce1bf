//! One log file, read alone: the end of its chain of blocks, and the bytes behind that end. Headers are chained, so a
//! walk over the headers finds the end. The walk checks a payload only if no later header of the log shows that the
//! payload was synced. Replay checks the remaining payloads.
//!
//! Invariants: L4, L5, L7. Recovery believes only blocks with the log's salt. A data block repeats the log's last
//! synced mark, so a chain that ends below that mark is damaged and not torn.
//!
//! Neighbours: any thread reads any file; `chain` puts the files of a log together.

use std::collections::VecDeque;

use ensile_base::Epoch;
use ensile_disk::{Disk, DiskError};

use crate::DurabilityError;
use crate::error::unless_missing;
use crate::files::block::origin::{Opened, Origin};
use crate::files::block::scan::{At, ChainPlace, Scanner};
use crate::files::block::{BlockKind, Header, NotABlock, Salt};
use crate::files::names::{SegmentFile, SegmentName};
use crate::identity::Identity;

/// Largest size, in bytes, of a run into which neighbouring blocks are joined.
const PIECE_BYTES: u64 = 4 << 20;

/// Neighbouring blocks of one file, marks included, that are replayed at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BlockRun {
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
    pub(crate) entries: u64,
    /// Smallest epoch of the run's entries.
    pub(crate) epoch_min: Epoch,
    pub(crate) epoch_max: Epoch,
}

/// Bytes behind the end of a chain: none, remainders of writes that were not synced, or damage.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tail {
    /// Bytes up to the last byte that is not zero, summed over the files behind the end.
    pub(crate) bytes: u64,
    /// Range of epochs in data blocks behind the end, torn blocks included.
    pub(crate) epochs: Option<(Epoch, Epoch)>,
}

impl Tail {
    /// Adds the tail of a later file of the same log.
    pub(crate) fn add(&mut self, other: &Self) {
        self.bytes += other.bytes;
        if let Some((low, high)) = other.epochs {
            self.add_epochs(low, high);
        }
    }

    pub(crate) fn add_epochs(&mut self, low: Epoch, high: Epoch) {
        self.epochs = Some(widen_range(self.epochs, low, high));
    }
}

fn widen_range(range: Option<(Epoch, Epoch)>, low: Epoch, high: Epoch) -> (Epoch, Epoch) {
    assert!(low <= high, "{low} to {high}");
    let (before_low, before_high) = range.unwrap_or((low, high));
    (low.min(before_low), high.max(before_high))
}

#[derive(Clone, Debug)]
pub(crate) struct FileOpening {
    pub(crate) origin: Origin,
    pub(crate) sequence: u64,
    pub(crate) previous_crc: u32,
    /// Largest epoch of entries in earlier files of the log.
    pub(crate) before: Epoch,
}

impl FileOpening {
    fn from_header(header: &Header, origin: Origin) -> Self {
        let Header { sequence, previous_crc, epoch_max: before, .. } = *header;
        Self { origin, sequence, previous_crc, before }
    }

    /// Reads the opening of the file of this name at this path; `None` if the file is missing, or if no opening block
    /// shows that the file belongs to this log.
    pub(crate) fn read_at(disk: &dyn Disk, path: &str, name: SegmentName) -> Result<Option<Self>, DiskError> {
        let opened = unless_missing(Scanner::opening_of(disk, path))?.and_then(Result::ok);
        let opened = opened.filter(|opened| opens(opened, name));
        Ok(opened.map(|opened| Self::from_header(&opened.header, opened.origin)))
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct FileChain {
    pub(crate) file: SegmentFile,
    /// Opening block; `None` if no block shows that the file belongs to the log.
    pub(crate) opening: Option<FileOpening>,
    /// Reason for the missing opening block; `None` if the file has an opening block, perhaps of another log.
    pub(crate) not_opened: Option<NotABlock>,
    /// Database that the opening block names, even if the block names another log.
    pub(crate) identity: Option<Identity>,
    /// Sequence of the next block, and the checksum of the previous block that the next block would carry.
    pub(crate) next_sequence: u64,
    pub(crate) crc: u32,
    /// Epoch d of the last mark.
    pub(crate) mark: Epoch,
    /// Largest epoch of entries in this file and in earlier files.
    pub(crate) largest: Epoch,
    /// Largest D in the intact blocks.
    pub(crate) published: Epoch,
    /// Largest epoch in the file's blocks.
    pub(crate) seen: Epoch,
    /// Largest synced d of this log that a block behind the end shows.
    pub(crate) shown: Epoch,
    pub(crate) runs: Vec<BlockRun>,
    /// Offset of the chain's end; `detail` is the reason.
    pub(crate) end: u64,
    pub(crate) detail: &'static str,
    pub(crate) tail: Tail,
    /// True if blocks of this log, torn or intact, stand behind the end.
    has_blocks_behind: bool,
    /// Offset up to which later blocks show a returned sync. Bytes behind the offset may be only in the system's cache.
    pub(crate) synced_to: u64,
}

impl FileChain {
    pub(crate) fn epochs(&self) -> Option<(Epoch, Epoch)> {
        self.runs.iter().fold(None, |range, run| Some(widen_range(range, run.epoch_min, run.epoch_max)))
    }

    /// True if the file holds a block of its log besides the opening block.
    pub(crate) fn has_blocks(&self) -> bool {
        let in_chain = self.opening.as_ref().is_some_and(|opening| self.next_sequence > opening.sequence + 1);
        in_chain || self.has_blocks_behind
    }

    /// Reads a file; `next` is the following file, if present.
    pub(crate) fn read(
        disk: &dyn Disk,
        file: SegmentFile,
        next: Option<SegmentFile>,
    ) -> Result<Self, DurabilityError> {
        Self::read_until(disk, file, next, u64::MAX)
    }

    /// As [`Self::read`], for a file that ends at `until` or earlier: a backup's copied span (N21), or a repair's cut.
    pub(crate) fn read_until(
        disk: &dyn Disk,
        file: SegmentFile,
        next: Option<SegmentFile>,
        until: u64,
    ) -> Result<Self, DurabilityError> {
        let scanner = Scanner::with_end(disk.open_to_read(&file.to_string())?, until)?;
        // The opening block of the next file shows that all earlier blocks were synced.
        Self::scan_file(scanner, file, |salt| next.map_or(Ok(0), |next| sequence_behind(disk, next, salt)))
    }

    /// Reads the file at this path, in a folder or an archive, and expects `file` in the opening block.
    /// `recovery::orphan_logs` judges files that no manifest lists.
    pub(crate) fn read_at(disk: &dyn Disk, path: &str, file: SegmentFile) -> Result<Self, DurabilityError> {
        Self::scan_file(Scanner::new(disk.open_to_read(path)?)?, file, |_| Ok(0))
    }

    /// Reads through `scanner`. In a log with the given salt, blocks with sequences below `proven` were synced.
    fn scan_file(
        mut scanner: Scanner,
        file: SegmentFile,
        proven: impl FnOnce(Salt) -> Result<u64, DurabilityError>,
    ) -> Result<Self, DurabilityError> {
        let Opened { header, crc, origin, .. } = match scanner.read_opening()? {
            Ok(found) if opens(&found, file.name) => found,
            other => return Self::without_opening(scanner, file, other),
        };
        let (salt, mark) = (origin.salt, header.mark);
        let opening = Some(FileOpening::from_header(&header, origin));
        let chain = Self { file, identity: Some(origin.identity), opening, ..Self::default() };
        let proven = proven(salt)?;
        let (open, place) = (VecDeque::new(), ChainPlace::after_block(&header, crc));
        let mut walk = HeaderWalk { chain, salt, open, place, mark, contradiction: None };
        walk.follow(&mut scanner, header, crc)?;
        let mut chain = walk.end(&mut scanner, proven)?;
        let end = chain.end;
        assert!(chain.synced_to <= end && end <= scanner.length(), "the chain is in the file");
        assert!(chain.runs.windows(2).all(|two| two[0].offset + two[0].bytes <= two[1].offset), "in order");
        chain.look_behind(&mut scanner, end, salt)?;
        Ok(chain)
    }

    /// Opens a chain for a file without its first block. Only the file's length counts, until the salt is known.
    fn without_opening(
        mut scanner: Scanner,
        file: SegmentFile,
        found: Result<Opened, NotABlock>,
    ) -> Result<Self, DurabilityError> {
        let (detail, identity, not_opened) = match found {
            Ok(other) => ("a block of another log stands here", Some(other.origin.identity), None),
            Err(why) => (why.detail(), None, Some(why)),
        };
        let tail = Tail { bytes: scanner.used_to(0)?, epochs: None };
        Ok(Self { file, identity, not_opened, tail, detail, ..Self::default() })
    }

    /// Looks for blocks with this salt in a file without its first block. Fills in the tail, and the seen epochs.
    pub(crate) fn look_with(&mut self, disk: &dyn Disk, salt: Salt) -> Result<(), DurabilityError> {
        assert!(self.opening.is_none() && self.end == 0, "a file with an opening block names its own salt");
        let mut scanner = Scanner::new(disk.open_to_read(&self.file.to_string())?)?;
        self.tail = Tail::default();
        self.look_behind(&mut scanner, 0, salt)
    }

    fn look_behind(&mut self, scanner: &mut Scanner, from: u64, salt: Salt) -> Result<(), DurabilityError> {
        let (mut offset, mut used_to) = (from, from);
        loop {
            let (candidate, used) = scanner.next_candidate(offset)?;
            used_to = used_to.max(used);
            let Some(at) = candidate else { break };
            used_to = used_to.max(at + 1);
            offset = at + 8;
            let (header, intact) = match scanner.block_at(at, salt)? {
                At::Block(header, _) => (header, true),
                At::TornPayload(header) => (header, false),
                At::NoBlock(_) | At::End => continue,
            };
            if !belongs_to_log(&header, self.file.name) {
                continue;
            }
            check_kind(&header, self.file, at)?;
            if header.kind == BlockKind::Data && header.epoch_min > header.epoch_max {
                // No logger wrote such a block, even if the checksum is right.
                continue;
            }
            if intact {
                offset = at + header.block_bytes() as u64;
                used_to = used_to.max(offset);
                self.published = self.published.max(header.published);
            }
            self.seen = self.seen.max(header.epoch_seen());
            self.has_blocks_behind = true;
            if header.kind == BlockKind::Data {
                // A data block repeats the last mark that was synced before the block was written.
                self.shown = self.shown.max(header.mark);
                self.tail.add_epochs(header.epoch_min, header.epoch_max);
            }
        }
        assert!(from <= used_to && used_to <= scanner.length(), "the tail is in the file");
        self.tail.bytes += used_to - from;
        Ok(())
    }

    /// Adds a block that is known to belong to the chain.
    fn take(&mut self, block: Block) {
        let Block { offset, header, crc } = block;
        assert_eq!(offset, self.end, "L5: a block begins where the one before ends");
        assert!(offset == 0 || header.sequence == self.next_sequence, "L5: blocks are counted");
        self.seen = self.seen.max(header.epoch_seen());
        self.published = self.published.max(header.published);
        self.largest = self.largest.max(header.epoch_max);
        (self.next_sequence, self.crc) = (header.sequence + 1, crc);
        self.end = offset + header.block_bytes() as u64;
        if header.kind != BlockKind::Data {
            self.mark = header.mark;
            return;
        }
        let Header { epoch_min, epoch_max, .. } = header;
        let (bytes, entries) = (self.end - offset, u64::from(header.entries));
        match self.runs.last_mut() {
            // Only marks stand between the run and this block.
            Some(run) if self.end - run.offset <= PIECE_BYTES => {
                run.bytes = self.end - run.offset;
                run.entries += entries;
                run.epoch_min = run.epoch_min.min(epoch_min);
                run.epoch_max = run.epoch_max.max(epoch_max);
            }
            _ => self.runs.push(BlockRun { offset, bytes, entries, epoch_min, epoch_max }),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MarkSearch {
    None,
    /// Offset of a block before the mark, with a payload that does not match its header.
    WrongPayload(u64),
    /// Offset at which the mark's block ends.
    EndsAt(u64),
}

/// Finds the end of the first mark of `least` or more, in a file whose chain ends at `end`. `recovery::copied_logs`
/// cuts a log of a copy at this place: at the S of a copy beside running loggers (N20), or at the epoch of a restore to
/// an earlier epoch (A5).
pub(crate) fn end_of_mark(
    disk: &dyn Disk,
    file: SegmentFile,
    end: u64,
    least: Epoch,
) -> Result<MarkSearch, DurabilityError> {
    let mut scanner = Scanner::new(disk.open_to_read(&file.to_string())?)?;
    let Ok(Opened { mut header, origin, .. }) = scanner.read_opening()? else { return Ok(MarkSearch::None) };
    let mut offset = 0;
    loop {
        let next = offset + header.block_bytes() as u64;
        if header.kind == BlockKind::Data && scanner.payload(offset, &header)?.is_none() {
            return Ok(MarkSearch::WrongPayload(offset));
        }
        if header.kind != BlockKind::Data && header.mark >= least {
            return Ok(MarkSearch::EndsAt(next));
        }
        if next >= end {
            return Ok(MarkSearch::None);
        }
        let At::Block(found, _) = scanner.header(next, origin.salt)? else { return Ok(MarkSearch::None) };
        (header, offset) = (found, next);
    }
}

fn belongs_to_log(header: &Header, name: SegmentName) -> bool {
    header.generation == name.generation && header.owner == name.logger
}

fn opens(opened: &Opened, name: SegmentName) -> bool {
    opened.header.kind == BlockKind::LogOpening && belongs_to_log(&opened.header, name)
}

/// Checks that a block behind the opening block is a data or mark block (L7). Any other block is of a newer version.
fn check_kind(header: &Header, file: SegmentFile, offset: u64) -> Result<(), DurabilityError> {
    if matches!(header.kind, BlockKind::Data | BlockKind::Mark) {
        return Ok(());
    }
    Err(DurabilityError::newer(&file.to_string(), offset))
}

/// Sequence of the next file's opening block; 0 if the next file has no opening block of this log. Blocks of smaller
/// sequences are synced.
fn sequence_behind(disk: &dyn Disk, next: SegmentFile, salt: Salt) -> Result<u64, DurabilityError> {
    let opening = Scanner::opening_of(disk, &next.to_string())?;
    let ours = opening.ok().filter(|opened| opens(opened, next.name) && opened.origin.salt == salt);
    Ok(ours.map_or(0, |opened| opened.header.sequence))
}

/// Block whose header follows in the chain.
struct Block {
    offset: u64,
    header: Header,
    crc: u32,
}

struct HeaderWalk {
    /// Chain of the blocks that are known to be whole, or whose payloads replay checks.
    chain: FileChain,
    salt: Salt,
    /// Blocks not yet shown by a later block to be synced.
    open: VecDeque<Block>,
    /// Place in the chain behind the last block.
    place: ChainPlace,
    /// Largest mark of the blocks so far.
    mark: Epoch,
    /// Offset of a block that follows by its header but contradicts the rules of a logger.
    contradiction: Option<u64>,
}

impl HeaderWalk {
    /// Walks from the opening block, with this header and header checksum, to the first place where no block follows.
    fn follow(&mut self, scanner: &mut Scanner, opening: Header, crc: u32) -> Result<(), DurabilityError> {
        let mut offset = opening.block_bytes() as u64;
        self.push(Block { offset: 0, header: opening, crc });
        if self.contradiction.is_some() {
            return Ok(());
        }
        self.chain.detail = loop {
            let (header, crc) = match scanner.header(offset, self.salt)? {
                At::Block(header, crc) if self.place.matches_header(&header) => (header, crc),
                At::Block(header, _) if belongs_to_log(&header, self.chain.file.name) => {
                    break "a block is missing before the one that stands here";
                }
                At::Block(..) => break "a block of another log stands here",
                At::TornPayload(_) => break "the block's checksum is wrong",
                At::NoBlock(why) => break why.detail(),
                At::End => break "the file ends",
            };
            check_kind(&header, self.chain.file, offset)?;
            let end = offset + header.block_bytes() as u64;
            self.push(Block { offset, header, crc });
            if self.contradiction.is_some() {
                break "the block contradicts those before it";
            }
            offset = end;
        };
        Ok(())
    }

    /// Adds a block that follows, and takes the blocks now shown to be synced.
    fn push(&mut self, block: Block) {
        let Block { offset, ref header, crc } = block;
        assert!(self.contradiction.is_none(), "nothing follows a contradiction");
        // Reading repeats the writer's own checks: a chain that breaks these rules was not written by a logger.
        let sane = match header.kind {
            BlockKind::Data => {
                header.entries > 0 && header.epoch_min <= header.epoch_max && header.mark <= self.mark
            }
            BlockKind::Mark => header.payload_bytes == 0 && header.mark >= self.mark,
            _ => header.mark >= self.mark,
        };
        if !sane || header.published > header.mark.max(self.mark) {
            self.contradiction = Some(offset);
            return;
        }
        let shown = if header.kind == BlockKind::Data { header.mark } else { header.published };
        self.place = ChainPlace::after_block(header, crc);
        self.mark = self.mark.max(header.mark);
        let is_shown = |block: &Block| block.header.kind != BlockKind::Data && block.header.mark <= shown;
        if let Some(last) = self.open.iter().rposition(is_shown) {
            for block in self.open.drain(..=last) {
                self.chain.take(block);
            }
            self.chain.synced_to = self.chain.end;
        }
        assert!(self.open.back().is_none_or(|last| last.offset < offset), "in the order of the file");
        self.open.push_back(block);
    }

    /// Checks the payloads of blocks that no later block shows to be synced. Sequences below `proven` are synced.
    fn end(mut self, scanner: &mut Scanner, proven: u64) -> Result<FileChain, DurabilityError> {
        while let Some(block) = self.open.pop_front() {
            let is_proven = block.header.sequence < proven;
            if !is_proven && scanner.payload(block.offset, &block.header)?.is_none() {
                self.chain.detail = "the block's checksum is wrong";
                return Ok(self.chain);
            }
            self.chain.take(block);
            if is_proven {
                self.chain.synced_to = self.chain.end;
            }
        }
        match self.contradiction {
            Some(offset) => {
                let file = self.chain.file.to_string();
                Err(DurabilityError::damaged_file(&file, offset, "the block contradicts those before it"))
            }
            None => Ok(self.chain),
        }
    }
}
