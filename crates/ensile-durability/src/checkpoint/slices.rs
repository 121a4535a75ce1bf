//! Progress of a checkpointer through the slices of a part, for walks and for pictures.
//!
//! Invariant: K1, N17: a slice is left only after the walk or the taking has reached the slice's end.
//!
//! Neighbours: [`super::fuzzy_part_writer`] and [`super::picture`] write the entries of slices.

use std::sync::Arc;

use super::disk_space::DiskSpace;
use super::request::Ticket;
use super::walk::Slice;

/// Result of a step: a block of a walk, a page, or versions left beside pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PartStep {
    /// The step wrote `bytes` bytes and `entries` entries: no entries if a slice ended without more entries, or a page
    /// is empty. Displaced versions are not paced, because writing them frees memory.
    Written { bytes: u64, entries: u64, is_synced: bool, is_paced: bool },
    /// The next entry needs a large block, and another checkpointer holds the large block.
    Refused,
    /// No slice is left.
    Ended,
}

/// The slices of a part, with one slice under way.
#[derive(Debug)]
pub(super) struct PartSlices {
    /// Slices that are not begun.
    left: std::vec::IntoIter<Slice>,
    current: Option<Slice>,
    /// Position in `current` of the next entry; empty: the beginning.
    resume: Vec<u8>,
    ticket: Arc<Ticket>,
    disk_space: Arc<DiskSpace>,
}

impl PartSlices {
    pub(super) fn new(slices: Vec<Slice>, ticket: Arc<Ticket>, disk_space: Arc<DiskSpace>) -> Self {
        Self { left: slices.into_iter(), current: None, resume: Vec::new(), ticket, disk_space }
    }

    pub(super) fn disk_space(&self) -> &DiskSpace {
        &self.disk_space
    }

    /// The slice under way or the next slice, with the position of the next entry; `None` if no slice is left.
    pub(super) fn current(&mut self) -> Option<(&Slice, &mut Vec<u8>)> {
        if self.current.is_none() {
            self.current = self.left.next();
            self.resume.clear();
        }
        self.current.as_ref().map(|slice| (slice, &mut self.resume))
    }

    /// Ends the slice under way, which has no more entries.
    pub(super) fn end_current(&mut self) {
        assert!(self.current.take().is_some(), "a slice was under way");
        self.ticket.add_slice();
    }

    /// Adds a write to the checkpoint's progress.
    pub(super) fn count(&self, bytes: u64, entries: u64) {
        debug_assert_eq!(entries > 0, bytes > 0, "entries stand in blocks");
        if entries > 0 {
            self.ticket.add_block(bytes, entries);
        }
    }

    /// True if every slice has ended.
    pub(super) fn are_through(&self) -> bool {
        self.current.is_none() && self.left.len() == 0
    }
}
