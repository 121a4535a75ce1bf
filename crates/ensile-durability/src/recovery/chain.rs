//! One log of one generation: how far it is whole, and what stands behind the gap (L5).
//!
//! Invariants:
//! - L5: a block belongs to the chain if it follows by sequence and checksum from the first block of file 0; the chain
//!   ends at the first byte where that fails. Only marks inside the chain count.
//! - L5: behind the gap stand rests of entries too; only what the log's salt proves to be a block of this log is believed.
//! - L4: `seen` is the largest epoch in any block of this generation here, behind the gap and with torn payloads too.
//!
//! Neighbours: `verdict` takes the minimum over chains and tells torn from damaged; `replay` reads the data blocks.

use std::collections::VecDeque;

use ensile_base::Epoch;
use ensile_base::planted::{Bug, is_planted};
use ensile_disk::{Disk, DiskError};

use super::scan::{At, Scanner};
use crate::DurabilityError;
use crate::log::block::{Header, Kind, Salt};
use crate::names::SegmentName;

/// A data block of the chain.
#[derive(Clone, Debug)]
pub(super) struct BlockAt {
    /// Number of its file.
    pub(super) number: u64,
    pub(super) offset: u64,
    pub(super) bytes: u64,
    pub(super) entries: u32,
    pub(super) epoch_min: Epoch,
    pub(super) epoch_max: Epoch,
}

/// Where the chain ends, and why.
#[derive(Clone, Debug)]
pub(super) struct End {
    pub(super) number: u64,
    pub(super) offset: u64,
    pub(super) detail: &'static str,
}

/// What stands behind the end: nothing, or the rest of writes that were not synced, or of damage.
#[derive(Clone, Debug, Default)]
pub(super) struct Tail {
    /// From the end of the chain to the last byte that is not zero, over all files behind it.
    pub(super) bytes: u64,
    /// Epochs in blocks there, torn ones included.
    pub(super) epochs: Option<(Epoch, Epoch)>,
    /// The largest D that an intact block there carries.
    pub(super) published: Epoch,
}

/// One log of one generation, read once.
#[derive(Debug)]
pub(super) struct Chain {
    pub(super) generation: u64,
    pub(super) logger: u32,
    /// What its first block tells; without that block nothing else of the log is known to belong to it.
    pub(super) salt: Salt,
    /// The d of its last mark.
    pub(super) mark: Epoch,
    /// The largest D that any intact block carries.
    pub(super) published: Epoch,
    /// The largest epoch in any block.
    pub(super) seen: Epoch,
    pub(super) blocks: Vec<BlockAt>,
    pub(super) end: End,
    pub(super) tail: Tail,
    /// File and offset up to which later blocks show that a sync had returned; what comes behind may be in the
    /// system's cache only.
    pub(super) synced_to: (u64, u64),
}

impl Chain {
    pub(super) fn segment(&self, number: u64) -> SegmentName {
        SegmentName { generation: self.generation, logger: self.logger, number }
    }

    /// The name of the file in which the chain ends.
    pub(super) fn end_file(&self) -> String {
        self.segment(self.end.number).to_string()
    }

    /// Reads the log of `logger` in `generation`, whose files have the numbers `0..files`.
    pub(super) fn read(
        disk: &dyn Disk,
        generation: u64,
        logger: u32,
        files: u64,
    ) -> Result<Self, DurabilityError> {
        let chain = Self::empty(generation, logger);
        let mut walk = Walk { chain, sequence: 0, crc: 0, open_marks: VecDeque::new() };
        let mut broken = false;
        for number in 0..files {
            let file = walk.chain.segment(number).to_string();
            let mut scanner = Scanner::new(disk.open(&file)?)?;
            let from = if broken {
                0
            } else {
                let end = walk.follow(&mut scanner, number, &file)?;
                // A file that holds no block of the chain was being made when the chain ended before it.
                if end.offset > 0 || number == 0 {
                    walk.chain.end = end.clone();
                }
                end.offset
            };
            // Behind the last block there are zeros, unless something was being written.
            broken = walk.look_behind(&mut scanner, from)? || broken;
        }
        Ok(walk.chain)
    }

    fn empty(generation: u64, logger: u32) -> Self {
        Self {
            generation,
            logger,
            salt: Salt::FIRST,
            mark: Epoch::ZERO,
            published: Epoch::ZERO,
            seen: Epoch::ZERO,
            blocks: Vec::new(),
            end: End { number: 0, offset: 0, detail: "the file is empty" },
            tail: Tail::default(),
            synced_to: (0, 0),
        }
    }
}

struct Walk {
    chain: Chain,
    sequence: u64,
    crc: u32,
    /// Marks that no block has shown to be synced yet, and where they end.
    open_marks: VecDeque<(Epoch, u64, u64)>,
}

impl Walk {
    /// Does this block follow the last one?
    fn follows(&self, header: &Header) -> bool {
        header.generation == self.chain.generation
            && header.logger == self.chain.logger
            && header.sequence == self.sequence
            && (header.sequence == 0 || header.previous_crc == self.crc)
    }

    fn is_ours(&self, header: &Header) -> bool {
        header.generation == self.chain.generation && header.logger == self.chain.logger
    }

    /// Follows the chain through one file, to where it ends in it.
    fn follow(&mut self, scanner: &mut Scanner, number: u64, file: &str) -> Result<End, DurabilityError> {
        let mut offset = 0;
        let detail = loop {
            let (header, crc) = match scanner.at(offset, self.chain.salt)? {
                At::Block(header, crc) if self.follows(&header) => (header, crc),
                At::Block(header, _) if self.is_ours(&header) => {
                    break "a block is missing before the one that stands here";
                }
                At::Block(..) => break "a block of another log stands here",
                At::TornPayload(_) => break "the block's checksum is wrong",
                At::NoBlock(detail) => break detail,
                At::End => break "the file ends",
            };
            // A writer's own rules, checked again when read: a chain that breaks them was not written by a logger.
            let sane = match header.kind {
                Kind::Data => {
                    header.entries > 0
                        && header.epoch_min <= header.epoch_max
                        && header.mark <= self.chain.mark
                }
                Kind::Mark => header.payload_bytes == 0 && header.mark >= self.chain.mark,
            };
            if !sane || header.published > header.mark.max(self.chain.mark) {
                return Err(DurabilityError::damaged(file, offset, "the block contradicts those before it"));
            }
            if header.sequence == 0 {
                self.chain.salt = Salt::told_by(&header);
            }
            self.note(number, offset, &header);
            (self.sequence, self.crc) = (header.sequence + 1, crc);
            offset += header.block_bytes() as u64;
        };
        Ok(End { number, offset, detail })
    }

    fn note(&mut self, number: u64, offset: u64, header: &Header) {
        let chain = &mut self.chain;
        chain.seen = chain.seen.max(header.epoch_seen());
        chain.published = chain.published.max(header.published);
        let shown = if header.kind == Kind::Data { header.mark } else { header.published };
        while let Some((_, number, end)) = self.open_marks.pop_front_if(|(mark, ..)| *mark <= shown) {
            chain.synced_to = (number, end);
        }
        match header.kind {
            Kind::Mark => {
                chain.mark = header.mark;
                self.open_marks.push_back((header.mark, number, offset + header.block_bytes() as u64));
            }
            Kind::Data => chain.blocks.push(BlockAt {
                number,
                offset,
                bytes: header.block_bytes() as u64,
                entries: header.entries,
                epoch_min: header.epoch_min,
                epoch_max: header.epoch_max,
            }),
        }
    }

    /// Looks for anything of this log from `from` to the end of the file; says whether anything but zeros is there.
    fn look_behind(&mut self, scanner: &mut Scanner, from: u64) -> Result<bool, DiskError> {
        let (mut offset, mut used_to) = (from, from);
        loop {
            let (candidate, used) = scanner.next_candidate(offset)?;
            used_to = used_to.max(used);
            let Some(at) = candidate else { break };
            used_to = used_to.max(at + 1);
            offset = at + 8;
            if self.sequence == 0 {
                continue;
            }
            let (header, intact) = match scanner.at(at, self.chain.salt)? {
                At::Block(header, _) => (header, true),
                At::TornPayload(header) => (header, false),
                At::NoBlock(_) | At::End => continue,
            };
            if !self.is_ours(&header) {
                continue;
            }
            if intact {
                offset = at + header.block_bytes() as u64;
                used_to = used_to.max(offset);
                self.chain.published = self.chain.published.max(header.published);
                self.chain.tail.published = self.chain.tail.published.max(header.published);
            }
            if header.kind == Kind::Mark && is_planted(Bug::MarkAcrossGap) {
                self.chain.mark = self.chain.mark.max(header.mark);
            }
            self.chain.seen = self.chain.seen.max(header.epoch_seen());
            if header.kind == Kind::Data {
                let (low, high) = self.chain.tail.epochs.unwrap_or((header.epoch_min, header.epoch_max));
                self.chain.tail.epochs = Some((low.min(header.epoch_min), high.max(header.epoch_max)));
            }
        }
        debug_assert!(used_to <= scanner.length());
        let bytes = used_to - from;
        self.chain.tail.bytes += bytes;
        Ok(bytes > 0)
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
