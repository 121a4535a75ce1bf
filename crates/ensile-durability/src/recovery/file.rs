//! One file of one log, read by itself: how far its blocks follow each other, and what stands behind (L5).
//!
//! Headers are chained, so a walk over them alone finds the end. A payload is looked at here only where no later header
//! of the log shows that it was synced; the others are checked when they are replayed.
//!
//! Invariants:
//! - L5: a block belongs to the chain if it follows by sequence and checksum from the opening block of its file.
//! - L5: behind the gap remainders of entries may stand; only what the log's salt proves to be a block of this log is
//!   believed.
//! - L5: a data block repeats its log's last synced mark, so a chain that ends below it is damaged and not torn.
//! - L7: a block that the log's salt proves to be this log's, and whose kind is not known, is a newer version's: an
//!   error.
//! - L4: `seen` is the largest epoch in any block of the log here, behind the gap and with torn payloads too.
//!
//! Neighbours: any thread reads any file; `chain` puts the files of a log together.

use std::collections::VecDeque;

use ensile_base::Epoch;
use ensile_disk::{Disk, DiskError};

use crate::DurabilityError;
use crate::block::origin::{Opened, Origin};
use crate::block::scan::{At, ChainPlace, Scanner};
use crate::block::{BlockKind, Header, NotABlock, Salt};
use crate::error::unless_missing;
use crate::identity::Identity;
use crate::store::names::{SegmentFile, SegmentName};

/// Neighbouring blocks are put together up to this size.
const PIECE_BYTES: u64 = 4 << 20;

/// Neighbouring blocks of one file, marks included, that are replayed at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BlockRun {
    pub(super) offset: u64,
    pub(super) bytes: u64,
    pub(super) entries: u64,
    /// Of its entries.
    pub(super) epoch_min: Epoch,
    pub(super) epoch_max: Epoch,
}

/// What stands behind the end: nothing, or remainders of writes that were not synced, or of damage.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Tail {
    /// Up to the last byte that is not zero, over all files behind the end.
    pub(super) bytes: u64,
    /// Epochs in data blocks there, torn ones included.
    pub(super) epochs: Option<(Epoch, Epoch)>,
}

impl Tail {
    pub(super) fn add(&mut self, other: &Self) {
        self.bytes += other.bytes;
        if let Some((low, high)) = other.epochs {
            self.add_epochs(low, high);
        }
    }

    pub(super) fn add_epochs(&mut self, low: Epoch, high: Epoch) {
        self.epochs = Some(widened(self.epochs, low, high));
    }
}

/// The range that holds these epochs too.
fn widened(range: Option<(Epoch, Epoch)>, low: Epoch, high: Epoch) -> (Epoch, Epoch) {
    assert!(low <= high, "{low} to {high}");
    let (before_low, before_high) = range.unwrap_or((low, high));
    (low.min(before_low), high.max(before_high))
}

/// What the block that opens a file says.
#[derive(Clone, Debug)]
pub(super) struct FileOpening {
    pub(super) origin: Origin,
    pub(super) sequence: u64,
    pub(super) previous_crc: u32,
    /// The largest epoch of entries in the files before.
    pub(super) before: Epoch,
}

impl FileOpening {
    fn of(header: &Header, origin: Origin) -> Self {
        let Header { sequence, previous_crc, epoch_max: before, .. } = *header;
        Self { origin, sequence, previous_crc, before }
    }

    /// Of the file of this name at this path; `None` if there is none, or nothing shows that it is of this log.
    pub(super) fn read_at(disk: &dyn Disk, path: &str, name: SegmentName) -> Result<Option<Self>, DiskError> {
        let opened = unless_missing(Scanner::opening_of(disk, path))?.and_then(Result::ok);
        let opened = opened.filter(|opened| opens(opened, name));
        Ok(opened.map(|opened| Self::of(&opened.header, opened.origin)))
    }
}

/// What a file holds.
#[derive(Clone, Debug)]
pub(super) struct FileChain {
    pub(super) file: SegmentFile,
    /// `None`: nothing here shows that it belongs to the log.
    pub(super) opening: Option<FileOpening>,
    /// Why it has no opening block; `None` if it has one, perhaps of another log.
    pub(super) not_opened: Option<NotABlock>,
    /// Of which database its opening block says it is, whichever log it names.
    pub(super) identity: Option<Identity>,
    /// The sequence that would follow, and the checksum it would carry.
    pub(super) next_sequence: u64,
    pub(super) crc: u32,
    /// The d of its last mark.
    pub(super) mark: Epoch,
    /// The largest epoch of entries in it and in the files before.
    pub(super) largest: Epoch,
    /// The largest D that any intact block carries.
    pub(super) published: Epoch,
    /// The largest epoch in any block.
    pub(super) seen: Epoch,
    /// The largest synced d of this log that a block behind the end shows.
    pub(super) shown: Epoch,
    pub(super) runs: Vec<BlockRun>,
    /// Where its chain ends, and why.
    pub(super) end: u64,
    pub(super) detail: &'static str,
    pub(super) tail: Tail,
    /// Blocks of this log stand there, torn ones among them.
    has_blocks_behind: bool,
    /// Up to where later blocks show that a sync had returned; what comes behind may be in the system's cache only.
    pub(super) synced_to: u64,
}

impl FileChain {
    fn empty(file: SegmentFile, detail: &'static str) -> Self {
        Self {
            file,
            opening: None,
            not_opened: None,
            identity: None,
            next_sequence: 0,
            crc: 0,
            mark: Epoch::ZERO,
            largest: Epoch::ZERO,
            published: Epoch::ZERO,
            seen: Epoch::ZERO,
            shown: Epoch::ZERO,
            runs: Vec::new(),
            end: 0,
            detail,
            tail: Tail::default(),
            has_blocks_behind: false,
            synced_to: 0,
        }
    }

    /// Epochs of the entries in its chain.
    pub(super) fn epochs(&self) -> Option<(Epoch, Epoch)> {
        self.runs.iter().fold(None, |range, run| Some(widened(range, run.epoch_min, run.epoch_max)))
    }

    /// Does it hold a block of its log besides the opening one?
    pub(super) fn has_blocks(&self) -> bool {
        let in_chain = self.opening.as_ref().is_some_and(|opening| self.next_sequence > opening.sequence + 1);
        in_chain || self.has_blocks_behind
    }

    /// Reads a file; `next` is the one behind it, if there is one.
    pub(super) fn read(
        disk: &dyn Disk,
        file: SegmentFile,
        next: Option<SegmentFile>,
    ) -> Result<Self, DurabilityError> {
        Self::read_until(disk, file, next, u64::MAX)
    }

    /// The same of a file that ends at `until`, if it is not shorter.
    pub(super) fn read_until(
        disk: &dyn Disk,
        file: SegmentFile,
        next: Option<SegmentFile>,
        until: u64,
    ) -> Result<Self, DurabilityError> {
        let scanner = Scanner::until(disk.open_to_read(&file.to_string())?, until)?;
        // What the next file's first block shows: all before it was synced.
        Self::scanned(scanner, file, |salt| next.map_or(Ok(0), |next| sequence_behind(disk, next, salt)))
    }

    /// Reads the file that stands at this path, which says that it is `file`.
    pub(super) fn read_at(disk: &dyn Disk, path: &str, file: SegmentFile) -> Result<Self, DurabilityError> {
        Self::scanned(Scanner::new(disk.open_to_read(path)?)?, file, |_| Ok(0))
    }

    /// Blocks of smaller sequences than `proven` says, of a log with this salt, were synced.
    fn scanned(
        mut scanner: Scanner,
        file: SegmentFile,
        proven: impl FnOnce(Salt) -> Result<u64, DurabilityError>,
    ) -> Result<Self, DurabilityError> {
        let Opened { header, crc, origin, .. } = match scanner.opening()? {
            Ok(found) if opens(&found, file.name) => found,
            Ok(found) => {
                let mut chain = Self::unopened(scanner, file, "a block of another log stands here")?;
                chain.identity = Some(found.origin.identity);
                return Ok(chain);
            }
            Err(why) => {
                let mut chain = Self::unopened(scanner, file, why.detail())?;
                chain.not_opened = Some(why);
                return Ok(chain);
            }
        };
        let salt = origin.salt;
        let mut chain = Self::empty(file, "");
        chain.identity = Some(origin.identity);
        chain.opening = Some(FileOpening::of(&header, origin));
        let proven = proven(salt)?;
        let mut walk = HeaderWalk {
            chain,
            salt,
            open: VecDeque::new(),
            place: ChainPlace::behind(&header, crc),
            mark: header.mark,
            contradiction: None,
        };
        walk.follow(&mut scanner, (header, crc))?;
        let mut chain = walk.end(&mut scanner, proven)?;
        let end = chain.end;
        assert!(chain.synced_to <= end && end <= scanner.length(), "the chain is in the file");
        assert!(
            chain.runs.windows(2).all(|pair| pair[0].offset + pair[0].bytes <= pair[1].offset),
            "in order"
        );
        chain.look_behind(&mut scanner, end, salt)?;
        Ok(chain)
    }

    /// A file whose first block is not there: only its length in bytes counts, until its salt is known.
    fn unopened(
        mut scanner: Scanner,
        file: SegmentFile,
        detail: &'static str,
    ) -> Result<Self, DurabilityError> {
        let mut chain = Self::empty(file, detail);
        chain.tail.bytes = scanner.used_to(0)?;
        Ok(chain)
    }

    /// Looks again at a file whose first block is not there, in a log with this salt.
    pub(super) fn look_with(&mut self, disk: &dyn Disk, salt: Salt) -> Result<(), DurabilityError> {
        assert!(self.opening.is_none() && self.end == 0, "a file with an opening block names its own salt");
        let mut scanner = Scanner::new(disk.open_to_read(&self.file.to_string())?)?;
        self.tail = Tail::default();
        self.look_behind(&mut scanner, 0, salt)
    }

    /// Looks for anything of this log from `from` to the end of the file.
    fn look_behind(&mut self, scanner: &mut Scanner, from: u64, salt: Salt) -> Result<(), DurabilityError> {
        let (mut offset, mut used_to) = (from, from);
        loop {
            let (candidate, used) = scanner.next_candidate(offset)?;
            used_to = used_to.max(used);
            let Some(at) = candidate else { break };
            used_to = used_to.max(at + 1);
            offset = at + 8;
            let (header, intact) = match scanner.at(at, salt)? {
                At::Block(header, _) => (header, true),
                At::TornPayload(header) => (header, false),
                At::NoBlock(_) | At::End => continue,
            };
            if !is_of(&header, self.file.name) {
                continue;
            }
            check_kind(&header, self.file, at)?;
            if header.kind == BlockKind::Data && header.epoch_min > header.epoch_max {
                // No logger wrote it, whatever its checksum says.
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
                // It repeats the last mark that was synced before it was written.
                self.shown = self.shown.max(header.mark);
                self.tail.add_epochs(header.epoch_min, header.epoch_max);
            }
        }
        assert!(from <= used_to && used_to <= scanner.length(), "the tail is in the file");
        self.tail.bytes += used_to - from;
        Ok(())
    }

    /// A block is known to belong to the chain.
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
        let entries = u64::from(header.entries);
        match self.runs.last_mut() {
            // What stands between is marks.
            Some(run) if self.end - run.offset <= PIECE_BYTES => {
                run.bytes = self.end - run.offset;
                run.entries += entries;
                run.epoch_min = run.epoch_min.min(header.epoch_min);
                run.epoch_max = run.epoch_max.max(header.epoch_max);
            }
            _ => self.runs.push(BlockRun {
                offset,
                bytes: self.end - offset,
                entries,
                epoch_min: header.epoch_min,
                epoch_max: header.epoch_max,
            }),
        }
    }
}

/// What a search for a mark finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MarkSearch {
    /// No such mark.
    None,
    /// Before one, a block whose payload is not what its header promises.
    WrongPayload(u64),
    /// The mark's block ends here.
    EndsAt(u64),
}

/// Where the block ends that has the first mark of `least` or more, in a file whose chain ends at `end`.
pub(super) fn end_of_mark(
    disk: &dyn Disk,
    (file, end): (SegmentFile, u64),
    least: Epoch,
) -> Result<MarkSearch, DurabilityError> {
    let mut scanner = Scanner::new(disk.open_to_read(&file.to_string())?)?;
    let Ok(Opened { mut header, origin, .. }) = scanner.opening()? else { return Ok(MarkSearch::None) };
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

fn is_of(header: &Header, name: SegmentName) -> bool {
    header.generation == name.generation && header.owner == name.logger
}

fn opens(opened: &Opened, name: SegmentName) -> bool {
    opened.header.kind == BlockKind::LogOpening && is_of(&opened.header, name)
}

/// A block of this log behind its opening one is data or a mark (L7).
fn check_kind(header: &Header, file: SegmentFile, offset: u64) -> Result<(), DurabilityError> {
    if matches!(header.kind, BlockKind::Data | BlockKind::Mark) {
        return Ok(());
    }
    Err(DurabilityError::newer(&file.to_string(), offset))
}

/// The place in the chain that the next file's first block has, if it can be read: everything before is synced.
fn sequence_behind(disk: &dyn Disk, next: SegmentFile, salt: Salt) -> Result<u64, DurabilityError> {
    let opening = Scanner::opening_of(disk, &next.to_string())?;
    let ours = opening.ok().filter(|opened| opens(opened, next.name) && opened.origin.salt == salt);
    Ok(ours.map_or(0, |opened| opened.header.sequence))
}

/// A block whose header follows.
struct Block {
    offset: u64,
    header: Header,
    crc: u32,
}

/// A walk over the headers of a file.
struct HeaderWalk {
    /// Blocks that are known to be whole, or are for replay to check.
    chain: FileChain,
    salt: Salt,
    /// Blocks that no later one has shown to be synced, so far.
    open: VecDeque<Block>,
    /// Behind the last block.
    place: ChainPlace,
    mark: Epoch,
    /// Where a block follows by its header and says what no logger would write.
    contradiction: Option<u64>,
}

impl HeaderWalk {
    /// From the opening block to where no block follows.
    fn follow(&mut self, scanner: &mut Scanner, opening: (Header, u32)) -> Result<(), DurabilityError> {
        let mut offset = opening.0.block_bytes() as u64;
        self.push(Block { offset: 0, header: opening.0, crc: opening.1 });
        if self.contradiction.is_some() {
            return Ok(());
        }
        self.chain.detail = loop {
            let (header, crc) = match scanner.header(offset, self.salt)? {
                At::Block(header, crc) if self.place.is_of(&header) => (header, crc),
                At::Block(header, _) if is_of(&header, self.chain.file.name) => {
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

    /// Adds a block that follows, and takes those that it shows to be synced.
    fn push(&mut self, block: Block) {
        let Block { offset, ref header, crc } = block;
        assert!(self.contradiction.is_none(), "nothing follows a contradiction");
        // A writer's own rules, checked again when read: a chain that breaks them was not written by a logger.
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
        self.place = ChainPlace::behind(header, crc);
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

    /// Looks at the payloads of blocks that nothing shows to be synced; those of smaller sequences than `proven` are.
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
                Err(DurabilityError::damaged(&file, offset, "the block contradicts those before it"))
            }
            None => Ok(self.chain),
        }
    }
}
