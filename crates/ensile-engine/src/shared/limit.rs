//! Which readers are ended when too much garbage waits (E6).
//!
//! A reader that pinned epoch p holds back what was unlinked in p or later, and a snapshot S the versions that were
//! superseded in S or later. So what readers hold back that are younger than an epoch is at most what was made since.
//! The heartbeat notes at each tick how much was ever made. If more waits than may, it looks for the oldest tick since
//! which no more than half of the limit was made, and ends all readers that are older.
//!
//! Invariant: nothing here waits, measures time, or reaches a reader: figures in, epochs out.
//!
//! Neighbours: `collection` sums the figures; the epochs ask the readers to end.

use std::collections::VecDeque;

use ensile_base::Epoch;

/// Ticks that are remembered. Older readers hold back at least what was made before the first of them.
const TICKS_MAX: usize = 64;

/// Bytes for two kinds of readers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct GarbageBytes {
    /// Of pins.
    pub(crate) pins: u64,
    /// Of snapshots.
    pub(crate) snapshots: u64,
}

/// Readers older than these are ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EndedBefore {
    pub(crate) pins: Epoch,
    pub(crate) snapshots: Epoch,
}

/// The limit, and what was made tick by tick.
#[derive(Debug)]
pub(crate) struct GarbageLimit {
    bytes_max: u64,
    ticks: VecDeque<(Epoch, GarbageBytes)>,
}

impl GarbageLimit {
    pub(crate) fn new(bytes_max: u64) -> Self {
        Self { bytes_max, ticks: VecDeque::with_capacity(TICKS_MAX) }
    }

    /// A tick in epoch `now`, when `made` bytes had ever been made and `waiting` of them might wait for readers.
    /// Returns who is to be ended, if that is too much. Readers of the last two epochs are spared: they will be gone
    /// before an expiry reaches them.
    pub(crate) fn tick(
        &mut self,
        now: Epoch,
        made: GarbageBytes,
        waiting: GarbageBytes,
    ) -> Option<EndedBefore> {
        debug_assert!(
            self.ticks.back().is_none_or(|(last, before)| *last <= now
                && before.pins <= made.pins
                && before.snapshots <= made.snapshots),
            "epochs and what was ever made only grow"
        );
        if self.ticks.back().is_none_or(|(last, _)| *last < now) {
            if self.ticks.len() == TICKS_MAX {
                self.ticks.pop_front();
            }
            self.ticks.push_back((now, made));
        }
        if waiting.pins + waiting.snapshots <= self.bytes_max {
            return None;
        }
        let old = now.previous().previous();
        let half = self.bytes_max / 2;
        let since = |enough: &dyn Fn(&GarbageBytes) -> bool| {
            let first = self.ticks.iter().find(|(_, then)| enough(then));
            first.map_or(old, |(epoch, _)| epoch.next().min(old))
        };
        let pins = since(&|then| made.pins - then.pins <= half);
        let snapshots = since(&|then| made.snapshots - then.snapshots <= half);
        Some(EndedBefore { pins, snapshots })
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
