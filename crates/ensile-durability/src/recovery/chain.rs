//! One log of one generation, put together from its files: its whole part, and the bytes behind the gap (L5).
//!
//! - A file belongs to the chain if its opening block follows by sequence and checksum. Only marks in the chain count.
//! - A log begins with file 0, or with a later file whose opening block shows that an installed checkpoint covers all
//!   earlier entries. Files before that file are discarded: a removal was under way.
//! - A logger begins a file when everything before is synced, and writes the second block when the opening block is
//!   synced. So a later file shows that the missing blocks before its own blocks were synced.
//! - A file gets the name of a closed file when the opening block of the next file is synced. So a next file without an
//!   opening block, for example an emptied file, has lost that block.
//!
//! Neighbours: `file_chain` reads the files; `durable_epoch` distinguishes torn from damaged; `replay` reads the runs.

use ensile_base::Epoch;
use ensile_disk::Disk;

use super::log_files::missing_file;
use crate::files::block::NotABlock;
use crate::files::block::origin::{OPENING_BYTES, Origin};
use crate::files::log::file_chain::{BlockRun, FileChain, FileOpening, Tail};
use crate::files::manifest::generation::Generation;
use crate::files::names::{SegmentFile, SegmentName};
use crate::store::closed_files::ClosedFile;
use crate::{DurabilityError, Result};

#[derive(Clone, Debug)]
pub(super) struct ChainEnd {
    pub(super) file: SegmentFile,
    pub(super) offset: u64,
    pub(super) detail: &'static str,
}

impl ChainEnd {
    pub(super) fn damage_error(&self, detail: impl Into<String>) -> DurabilityError {
        DurabilityError::damaged_file(&self.file.to_string(), self.offset, detail)
    }
}

#[derive(Clone, Debug)]
pub(super) struct Lost {
    pub(super) end: ChainEnd,
    pub(super) why: &'static str,
}

pub(super) const BLOCK_SHOWS_IT: &str = "a later block of this log was written after it was synced";
const NAME_SHOWS_IT: &str =
    "its first block was synced before the file before it was closed, which that one's name says";

#[derive(Clone, Debug)]
pub(super) struct Link {
    pub(super) file: SegmentFile,
    /// Offset of the chain's end in the file. Blocks before `synced_to` are shown to be synced.
    pub(super) end: u64,
    pub(super) synced_to: u64,
    /// Largest epoch of entries in this file and in earlier files of the log.
    pub(super) largest: Epoch,
    pub(super) runs: Vec<BlockRun>,
    pub(super) origin: Origin,
}

#[derive(Debug)]
pub(super) struct Chain {
    pub(super) generation: u64,
    pub(super) logger: u32,
    /// Files from the log's beginning to the chain's end; empty if the first file cannot be read.
    pub(super) links: Vec<Link>,
    /// Mark of the last linked file ([`FileChain`]).
    pub(super) mark: Epoch,
    /// Largest `published` and largest `seen` of all files ([`FileChain`]).
    pub(super) published: Epoch,
    pub(super) seen: Epoch,
    pub(super) end: ChainEnd,
    /// Number of blocks before the end, and the checksum of the last block.
    pub(super) blocks: u64,
    pub(super) crc: u32,
    pub(super) tail: Tail,
    /// Place of missing data that a block of this log shows to be synced.
    pub(super) lost: Option<Lost>,
    /// Files behind the file in which the chain ends, in the order of their numbers.
    pub(super) beyond: Vec<SegmentFile>,
    /// Files before the beginning, whose entries an installed checkpoint covers.
    pub(super) discarded: Vec<SegmentFile>,
}

impl Chain {
    /// Puts the files of a log together, in the order of their numbers. A checkpoint holds the epochs below `covered`.
    pub(super) fn stitch(disk: &dyn Disk, mut files: Vec<FileChain>, covered: Epoch) -> Result<Self> {
        assert!(!files.is_empty(), "a listed log has a file");
        assert!(files.windows(2).all(|pair| pair[0].file.name < pair[1].file.name), "of one log, in order");
        let (begin, count) = (first_file_index(&files, covered)?, files.len());
        let discarded = files.drain(..begin).map(|file| file.file).collect();
        let first = files.first().expect("a listed log has a file");
        let SegmentName { generation, logger, .. } = first.file.name;
        let mut chain = Self {
            generation,
            logger,
            links: Vec::new(),
            mark: Epoch::ZERO,
            published: Epoch::ZERO,
            seen: Epoch::ZERO,
            end: ChainEnd { file: first.file, offset: 0, detail: first.detail },
            blocks: 0,
            crc: 0,
            tail: Tail::default(),
            lost: None,
            beyond: Vec::new(),
            discarded,
        };
        let mut last: Option<FileChain> = None;
        for (index, file) in files.into_iter().enumerate() {
            let follows = match &last {
                // If the first file cannot be read, no later file may replace the first file.
                None => index == 0 && file.opening.is_some(),
                Some(last) => chain.beyond.is_empty() && last.tail.bytes == 0 && is_next(last, &file),
            };
            if follows {
                chain.add(&file);
                last = Some(file);
            } else {
                chain.add_beyond(disk, file, last.as_ref())?;
            }
        }
        let placed = chain.links.len() + chain.beyond.len() + chain.discarded.len();
        assert!(chain.links.is_empty() || placed == count, "each file has a place in its log, or outside");
        assert!(chain.links.is_empty() || chain.end.offset >= OPENING_BYTES as u64, "it has an opening");
        Ok(chain)
    }

    /// Adds the file that continues the chain. The chain then ends at that file's end.
    fn add(&mut self, file: &FileChain) {
        assert!(self.beyond.is_empty(), "L5: the chain has no gap");
        assert!(file.next_sequence > self.blocks, "L5: each file adds a block");
        assert!(file.synced_to <= file.end, "what is shown to be synced is in the chain");
        self.mark = file.mark;
        (self.blocks, self.crc) = (file.next_sequence, file.crc);
        self.published = self.published.max(file.published);
        self.seen = self.seen.max(file.seen);
        self.end = ChainEnd { file: file.file, offset: file.end, detail: file.detail };
        self.tail = file.tail.clone();
        let is_lost = file.shown > file.mark;
        self.lost = is_lost.then(|| Lost { end: self.end.clone(), why: BLOCK_SHOWS_IT });
        self.links.push(Link {
            file: file.file,
            end: file.end,
            synced_to: file.synced_to,
            largest: file.largest,
            runs: file.runs.clone(),
            origin: file.opening.as_ref().expect("only such files follow").origin,
        });
    }

    /// Adds a file behind the end of the chain, which ends in `last`: bytes, epochs, and proof of this log's lost data.
    fn add_beyond(&mut self, disk: &dyn Disk, mut file: FileChain, last: Option<&FileChain>) -> Result<()> {
        assert_eq!(last.is_some(), !self.links.is_empty(), "the chain ends in its last file");
        if last.is_some() {
            self.beyond.push(file.file);
        }
        let mut lost = None;
        let salt = last.and_then(|last| last.opening.as_ref()).map(|opening| opening.origin.salt);
        match (&file.opening, salt) {
            (None, Some(salt)) => {
                file.look_with(disk, salt)?;
                // The opening block was synced before any block was written behind it.
                let has_more = file.identity.is_none() && file.tail.bytes > OPENING_BYTES as u64;
                let why = if file.has_blocks() || has_more {
                    Some(BLOCK_SHOWS_IT)
                } else {
                    self.is_closed_before(file.file).then_some(NAME_SHOWS_IT)
                };
                let end = ChainEnd { file: file.file, offset: 0, detail: file.detail };
                lost = why.map(|why| Lost { end, why });
            }
            // The chain ends in the first file, whatever stands behind.
            (None, None) => {}
            (Some(opening), salt) => {
                file.tail.bytes += file.end;
                if salt.is_some_and(|salt| salt != opening.origin.salt) {
                    // The file is of another log, in spite of the name: its contents are ignored.
                    self.tail.bytes += file.tail.bytes;
                    return Ok(());
                }
                if let Some((low, high)) = file.epochs() {
                    file.tail.add_epochs(low, high);
                }
                let is_later = last.is_some_and(|last| opening.sequence > last.next_sequence);
                let is_lost = is_later || file.has_blocks();
                lost = is_lost.then(|| Lost { end: self.end.clone(), why: BLOCK_SHOWS_IT });
            }
        }
        if self.lost.is_none() {
            self.lost = lost;
        }
        self.published = self.published.max(file.published);
        self.seen = self.seen.max(file.seen);
        self.tail.add(&file.tail);
        Ok(())
    }

    /// True if the chain ends in the previous file, which is closed: so this file had its first block.
    fn is_closed_before(&self, file: SegmentFile) -> bool {
        self.end.file.to.is_some() && self.end.file.name.number + 1 == file.name.number
    }

    /// True if the log holds no entry and lost no entry to a checkpoint.
    pub(super) fn is_empty(&self) -> bool {
        let is_first = self.links.first().is_none_or(|link| link.file.name.number == 0);
        is_first && self.discarded.is_empty() && self.links.iter().all(|link| link.runs.is_empty())
    }

    /// True if the next file is missing: a file gets the name of a closed file only once the next file exists.
    pub(super) fn lacks_next(&self) -> bool {
        self.beyond.is_empty() && self.end.file.to.is_some()
    }

    /// Files of the chain, as they stay once the generation is closed, with their lengths up to the end of the chain.
    pub(super) fn closed_files(&self) -> impl Iterator<Item = ClosedFile> + '_ {
        self.links.iter().map(|link| ClosedFile { file: link.file, largest: link.largest, bytes: link.end })
    }
}

/// Checks that the opening block of a listed generation's file agrees with the manifest: in database (I1), format (L7),
/// salt and kind of entries. Files were made anew, and synced, for the generation that lists them. So a file of such a
/// name with a different opening block was put there by someone else.
pub(super) fn check_origin(generation: &Generation, file: &FileChain) -> Result<()> {
    let name = file.file.to_string();
    if let Some(found) = file.identity.filter(|found| *found != generation.database) {
        return Err(DurabilityError::not_ours(&name, found, generation.database));
    }
    let damaged = |detail| Err(DurabilityError::damaged_file(&name, 0, detail));
    match (&file.not_opened, &file.opening) {
        (Some(NotABlock::Unknown), _) => Err(DurabilityError::newer(&name, 0)),
        (Some(why @ NotABlock::OtherFormat), _) => damaged(why.detail()),
        (_, Some(opening)) if opening.origin.salt != generation.salt => {
            damaged("the log, or the manifest, is of another time")
        }
        (_, Some(opening)) if opening.origin.entries != generation.entries => {
            damaged("the log has entries of another kind than the manifest says")
        }
        _ => Ok(()),
    }
}

/// Index of a log's first file: file 0, or the file behind the last gap if the checkpoint covers the files before.
fn first_file_index(files: &[FileChain], covered: Epoch) -> Result<usize> {
    let numbers = || files.iter().map(|file| file.file.name.number);
    let gap = numbers().zip(1..).zip(numbers().skip(1)).filter(|((one, _), after)| one + 1 != *after).last();
    let begin = gap.map_or(0, |((_, index), _)| index);
    assert!(begin < files.len(), "a gap stands between two files");
    let (discarded, first) = (&files[..begin], &files[begin]);
    let number = first.file.name.number;
    let misplaced = |file: &FileChain, detail: &str| {
        Err(DurabilityError::damaged_file(&file.file.to_string(), 0, detail))
    };
    match &first.opening {
        Some(opening) if number == 0 && opening.sequence > 0 => {
            misplaced(first, "a later file of the log stands in place of its first one")
        }
        Some(opening) if number > 0 && opening.sequence == 0 => {
            misplaced(first, "the first file of the log stands in place of a later one")
        }
        Some(opening) if number == 0 || opening.before < covered => {
            // The covered files come before. A discarded file with a later sequence is misnamed, or this file is.
            let is_later = |file: &&FileChain| {
                file.opening.as_ref().is_some_and(|other| other.sequence >= opening.sequence)
            };
            discarded.iter().find(is_later).map_or(Ok(begin), |file| {
                misplaced(file, "a later file of the log stands in place of an earlier one")
            })
        }
        // The file cannot be read: the verdict gives the reason.
        None if number == 0 => Ok(begin),
        _ => Err(missing_file(SegmentName { number: number - 1, ..first.file.name })),
    }
}

/// True if `file` continues the chain from the end of `last`.
pub(super) fn is_next(last: &FileChain, file: &FileChain) -> bool {
    file.opening.as_ref().is_some_and(|opening| is_opened_next(last, opening))
}

/// True if a file with this opening block continues the chain from the end of `last`.
pub(super) fn is_opened_next(last: &FileChain, opening: &FileOpening) -> bool {
    let Some(before) = &last.opening else { return false };
    opening.sequence == last.next_sequence
        && opening.previous_crc == last.crc
        && opening.origin == before.origin
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
