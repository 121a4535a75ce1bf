//! A checkpointer at its part: the slices that it walks, the block that it fills, the files that it writes.
//!
//! Invariants:
//! - K1: no entry of an epoch >= e_l is asked for, and every slice is walked to its end.
//! - N9: behind its last page a part of a picture has what commits have left beside the pages: until nothing is left.
//!
//! Neighbours: `manager` steps it, a block at a time; `source` fills the block, `write` has the files.

use ensile_base::Epoch;
use ensile_disk::{Disk, DiskError};
use std::sync::Arc;

use super::source::EntrySource;
use super::write::{PartWriter, PartWritten};
use crate::checkpoint::block::CheckpointBlock;
use crate::checkpoint::displaced::DisplacedBlock;
use crate::checkpoint::room::Room;
use crate::checkpoint::ticket::Ticket;
use crate::checkpoint::walk::{Slice, Walk};

/// A part under way.
#[derive(Debug)]
pub(in crate::checkpoint) struct PartWork {
    slices: std::vec::IntoIter<Slice>,
    slice: Option<Slice>,
    /// Where the walk of `slice` goes on.
    resume: Vec<u8>,
    /// e_l.
    low: Epoch,
    source: EntrySource,
    /// A block of pages was filled since commits' lists were found empty, or none was yet.
    may_be_displaced: bool,
    writer: PartWriter,
    block: CheckpointBlock,
    ticket: Arc<Ticket>,
    room: Arc<Room>,
}

/// What came of a block's turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::checkpoint) enum BlockStep {
    /// So much was written; no entries if a slice ended that had no more. What was displaced is not paced: to write it
    /// empties memory.
    Written { bytes: u64, entries: u64, is_synced: bool, is_paced: bool },
    /// The next entry needs a large block, and another checkpointer has one.
    Refused,
    /// No slice is left.
    Ended,
}

impl PartWork {
    pub(in crate::checkpoint) fn new(
        slices: Vec<Slice>,
        (low, source): (Epoch, EntrySource),
        writer: PartWriter,
        block: CheckpointBlock,
        (ticket, room): (Arc<Ticket>, Arc<Room>),
    ) -> Self {
        let (slices, may_be_displaced) = (slices.into_iter(), source.has_displaced());
        let (slice, resume) = (None, Vec::new());
        Self { slices, slice, resume, low, source, may_be_displaced, writer, block, ticket, room }
    }

    /// Looks whether there is still room for a block.
    ///
    /// # Errors
    /// Why not.
    pub(in crate::checkpoint) fn check_room(
        &self,
        disk: &dyn Disk,
        checkpointer: usize,
    ) -> Result<(), String> {
        self.room.check(disk, checkpointer)
    }

    /// Fills one block and writes it. While a picture's bandwidth is used up, only what was displaced is written;
    /// `None` if nothing was.
    pub(in crate::checkpoint) fn step(
        &mut self,
        walk: &dyn Walk,
        has_bandwidth: bool,
    ) -> Result<Option<BlockStep>, DiskError> {
        assert_eq!(self.block.entries(), 0, "the block before was written");
        if self.source.has_displaced() && (self.may_be_displaced || !has_bandwidth) {
            let displaced = self.step_displaced(walk)?;
            if displaced.is_some() {
                return Ok(displaced);
            }
        }
        if has_bandwidth { self.step_slice(walk).map(Some) } else { Ok(None) }
    }

    /// Writes a block of what commits have left beside the pages, if there is anything.
    fn step_displaced(&mut self, walk: &dyn Walk) -> Result<Option<BlockStep>, DiskError> {
        let pages = walk.pages().expect("it has published them");
        let has_more = pages.take_displaced(self.low, &mut DisplacedBlock::of(&mut self.block));
        self.may_be_displaced = has_more;
        let (entries, is_refused) = (u64::from(self.block.entries()), self.block.take_refusal());
        if entries == 0 {
            assert!(is_refused || !has_more, "an empty block has room for any entry");
            return Ok(has_more.then_some(BlockStep::Refused));
        }
        let (bytes, is_synced) = self.writer.write_displaced(&mut self.block)?;
        self.ticket.add_block(bytes, entries);
        Ok(Some(BlockStep::Written { bytes, entries, is_synced, is_paced: false }))
    }

    fn step_slice(&mut self, walk: &dyn Walk) -> Result<BlockStep, DiskError> {
        let slice = match &self.slice {
            Some(slice) => slice,
            None => {
                let Some(next) = self.slices.next() else { return Ok(BlockStep::Ended) };
                self.resume.clear();
                self.slice.insert(next)
            }
        };
        let section = slice.section;
        // Pages are closed: what was left beside them before is looked for behind that (N9).
        self.may_be_displaced = self.source.has_displaced();
        let has_more = self.source.fill(walk, slice, &mut self.resume, self.low, &mut self.block);
        let is_refused = self.block.take_refusal();
        if has_more && self.block.entries() == 0 && is_refused {
            return Ok(BlockStep::Refused);
        }
        assert!(!has_more || self.block.entries() > 0, "a walk that stops has filled its block");
        let entries = u64::from(self.block.entries());
        let (mut bytes, mut is_synced) = (0, false);
        if entries > 0 {
            (bytes, is_synced) = self.writer.write(section, &mut self.block)?;
            self.ticket.add_block(bytes, entries);
        }
        if !has_more {
            self.slice = None;
            self.ticket.add_slice();
        }
        Ok(BlockStep::Written { bytes, entries, is_synced, is_paced: true })
    }

    /// Ends the files, and makes them and their names survive a crash.
    pub(in crate::checkpoint) fn end(self) -> Result<PartWritten, DiskError> {
        assert!(self.slice.is_none() && self.slices.len() == 0, "K1: every slice is walked to its end");
        assert!(!self.may_be_displaced, "N9: what was displaced is written behind the last page");
        self.writer.end()
    }
}
