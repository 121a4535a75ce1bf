//! A cursor through the side index of a table, for the merge of a snapshot's scan.
//!
//! Invariants (U3):
//! - The merge reads its leaf first. The cursor's keys come from a later look at the side index. So a key that has left
//!   the leaf is among the cursor's keys.
//! - A look begins behind the last shown row: the row may have moved from its leaf to the side index since.
//!
//! Neighbours: the scan of `read_path` merges; `tables::side_index` has the keys.

use std::cmp::Ordering;
use std::collections::VecDeque;
use std::ops::{Bound, ControlFlow};

use ensile_epoch::Pinned;
use ensile_index::{Direction, Range};

use crate::tables::side_index::SideTree;

/// Number of keys that the cursor looks up at once: about as many as a leaf has.
const AHEAD: usize = 16;

/// Keys of the side index, in the order of a scan.
pub(super) struct SideCursor<'m> {
    range: Range<'m>,
    direction: Direction,
    /// Later of two keys: the key that the cursor last returned, and the key of the last shown row. Empty before the
    /// first.
    behind: Vec<u8>,
    has_behind: bool,
    /// The next keys, in scan order.
    ahead: VecDeque<Vec<u8>>,
    /// Number of burials at the look that found the keys ahead; `None` before the first look.
    burials: Option<u64>,
    /// True if no key follows the keys ahead.
    is_at_end: bool,
}

impl<'m> SideCursor<'m> {
    #[inline(always)]
    pub(super) fn new(range: Range<'m>, direction: Direction) -> Self {
        let (behind, has_behind, is_at_end) = (Vec::new(), false, false);
        Self { range, direction, behind, has_behind, ahead: VecDeque::new(), burials: None, is_at_end }
    }

    /// Notes the key of a row that the scan has shown, or of a key that the cursor has returned.
    #[inline]
    pub(super) fn set_last_key(&mut self, key: &[u8]) {
        self.behind.clear();
        // Most keys are a number: eight bytes are one store.
        match <[u8; 8]>::try_from(key) {
            Ok(number) => self.behind.extend_from_slice(&number),
            Err(_) => self.behind.extend_from_slice(key),
        }
        self.has_behind = true;
    }

    /// Returns the cursor's next key, if the key comes before `key` in scan order. Without `key`, returns the next key.
    /// The cursor skips a key equal to `key`, since the caller looks `key` up.
    pub(super) fn next_before(
        &mut self,
        side: SideTree<'_>,
        key: Option<&[u8]>,
        pinned: Pinned<'_>,
    ) -> Option<Vec<u8>> {
        if self.burials != Some(side.burials) {
            self.ahead.clear();
            (self.burials, self.is_at_end) = (Some(side.burials), false);
        }
        loop {
            if self.ahead.is_empty() && !self.is_at_end {
                self.look(side, pinned);
            }
            let order = match (self.ahead.front(), key) {
                (None, _) => return None,
                (Some(_), None) => Ordering::Less,
                (Some(next), Some(key)) => match self.direction {
                    Direction::Forward => next.as_slice().cmp(key),
                    Direction::Reverse => key.cmp(next),
                },
            };
            if order == Ordering::Greater {
                return None;
            }
            let next = self.ahead.pop_front()?;
            self.set_last_key(&next);
            if order == Ordering::Less {
                return Some(next);
            }
        }
    }

    /// Fetches the next keys in scan order, [`AHEAD`] at most.
    fn look(&mut self, side: SideTree<'_>, pinned: Pinned<'_>) {
        let Self { range, direction, behind, ahead, .. } = self;
        let mut range = *range;
        if self.has_behind {
            match direction {
                Direction::Forward => range.lower = Bound::Excluded(behind),
                Direction::Reverse => range.upper = Bound::Excluded(behind),
            }
        }
        debug_assert!(ahead.is_empty(), "keys come out in order");
        side.each_key(range, *direction, pinned, |key| {
            ahead.push_back(key);
            if ahead.len() < AHEAD { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        self.is_at_end = self.ahead.len() < AHEAD;
    }
}
