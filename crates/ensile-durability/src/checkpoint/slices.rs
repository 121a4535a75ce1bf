//! How far a checkpointer is with the slices of its part, whatever it writes of them.
//!
//! Invariant: K1, N17: a slice is left once it was walked, or taken, to its end.
//!
//! Neighbours: [`super::files`] and [`super::picture`] write what stands in slices; [`super::part`] has either.

use std::sync::Arc;

use ensile_disk::Disk;

use super::room::Room;
use super::ticket::Ticket;
use super::walk::Slice;

/// What came of a turn: a block of a walk, or a page, or what commits have left beside pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PartStep {
    /// So much was written; no entries if a slice ended that had no more, or a page has none. What was displaced is not
    /// paced: to write it empties memory.
    Written { bytes: u64, entries: u64, is_synced: bool, is_paced: bool },
    /// The next entry needs a large block, and another checkpointer has one.
    Refused,
    /// No slice is left.
    Ended,
}

/// The slices of a part, of which one is under way.
#[derive(Debug)]
pub(super) struct PartSlices {
    left: std::vec::IntoIter<Slice>,
    current: Option<Slice>,
    /// Where `current` goes on; empty: at its beginning.
    resume: Vec<u8>,
    ticket: Arc<Ticket>,
    room: Arc<Room>,
}

impl PartSlices {
    pub(super) fn new(slices: Vec<Slice>, (ticket, room): (Arc<Ticket>, Arc<Room>)) -> Self {
        Self { left: slices.into_iter(), current: None, resume: Vec::new(), ticket, room }
    }

    /// Looks whether there is still room for a block. True: half of what was free has gone.
    ///
    /// # Errors
    /// Why not.
    pub(super) fn check_room(&self, disk: &dyn Disk, checkpointer: usize) -> Result<bool, String> {
        self.room.check(disk, checkpointer)
    }

    /// The slice under way, or the next one, and where it goes on; `None` if none is left.
    pub(super) fn current(&mut self) -> Option<(&Slice, &mut Vec<u8>)> {
        if self.current.is_none() {
            self.current = self.left.next();
            self.resume.clear();
        }
        self.current.as_ref().map(|slice| (slice, &mut self.resume))
    }

    /// The slice under way has nothing more.
    pub(super) fn end_current(&mut self) {
        assert!(self.current.take().is_some(), "a slice was under way");
        self.ticket.add_slice();
    }

    /// Counts what was written.
    pub(super) fn count(&self, bytes: u64, entries: u64) {
        debug_assert_eq!(entries > 0, bytes > 0, "entries stand in blocks");
        if entries > 0 {
            self.ticket.add_block(bytes, entries);
        }
    }

    /// Was every slice left at its end?
    pub(super) fn are_through(&self) -> bool {
        self.current.is_none() && self.left.len() == 0
    }
}
