//! A checkpointer at its part: the slices that it walks, the block that it fills, the files that it writes.
//!
//! Invariant: K1: no entry of an epoch >= e_l is asked for, and every slice is walked to its end.
//!
//! Neighbours: `manager` steps it, a block at a time; the state's [`Walk`] fills the block, `write` has the files.

use ensile_base::Epoch;
use ensile_disk::{Disk, DiskError};
use std::sync::Arc;

use super::write::{PartWriter, PartWritten};
use crate::checkpoint::block::CheckpointBlock;
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
    writer: PartWriter,
    block: CheckpointBlock,
    ticket: Arc<Ticket>,
    room: Arc<Room>,
}

/// What came of a block's turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::checkpoint) enum BlockStep {
    /// So much was written; no entries if a slice ended that had no more, or a page has none. What was displaced is not
    /// paced: to write it empties memory.
    Written { bytes: u64, entries: u64, is_synced: bool, is_paced: bool },
    /// The next entry needs a large block, and another checkpointer has one.
    Refused,
    /// No slice is left.
    Ended,
}

impl PartWork {
    pub(in crate::checkpoint) fn new(
        slices: Vec<Slice>,
        low: Epoch,
        writer: PartWriter,
        block: CheckpointBlock,
        (ticket, room): (Arc<Ticket>, Arc<Room>),
    ) -> Self {
        let (slices, slice, resume) = (slices.into_iter(), None, Vec::new());
        Self { slices, slice, resume, low, writer, block, ticket, room }
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

    /// Fills one block and writes it.
    ///
    /// # Errors
    /// Why the part fails.
    pub(in crate::checkpoint) fn step(&mut self, walk: &dyn Walk) -> Result<BlockStep, String> {
        assert_eq!(self.block.entries(), 0, "the block before was written");
        let slice = match &self.slice {
            Some(slice) => slice,
            None => {
                let Some(next) = self.slices.next() else { return Ok(BlockStep::Ended) };
                self.resume.clear();
                self.slice.insert(next)
            }
        };
        let section = slice.section;
        let has_more = walk.walk(slice, &mut self.resume, self.low, &mut self.block);
        let is_refused = self.block.take_refusal();
        if has_more && self.block.entries() == 0 && is_refused {
            return Ok(BlockStep::Refused);
        }
        assert!(!has_more || self.block.entries() > 0, "a walk that stops has filled its block");
        let entries = u64::from(self.block.entries());
        let (mut bytes, mut is_synced) = (0, false);
        if entries > 0 {
            let written = self.writer.write(section, &mut self.block);
            (bytes, is_synced) = written.map_err(|error| error.to_string())?;
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
        self.writer.end()
    }
}
