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
    /// The boundary that was served at the last tick.
    served: Epoch,
}

impl GarbageLimit {
    pub(crate) fn new(bytes_max: u64) -> Self {
        Self { bytes_max, ticks: VecDeque::with_capacity(TICKS_MAX), served: Epoch::ZERO }
    }

    /// A tick in epoch `now`, when `made` bytes had ever been made and `waiting` bytes might wait for readers. Returns
    /// who is to be ended, if that is too much. Readers of the last two epochs are spared: they will be gone before an
    /// expiry reaches them. So are readers of the boundary that was `served` at the last tick, or of a newer one:
    /// versions wait for those boundaries with or without a reader. And nobody is ended for a kind of garbage of which
    /// no more than half of the limit waits.
    pub(crate) fn tick(
        &mut self,
        (now, served): (Epoch, Epoch),
        made: GarbageBytes,
        waiting: GarbageBytes,
    ) -> Option<EndedBefore> {
        debug_assert!(
            self.ticks.back().is_none_or(|(last, before)| *last <= now
                && before.pins <= made.pins
                && before.snapshots <= made.snapshots),
            "epochs and what was ever made only grow"
        );
        let served_before = std::mem::replace(&mut self.served, served);
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
        let since = |waits: u64, made_since: &dyn Fn(&GarbageBytes) -> u64| {
            if waits <= half {
                return Epoch::ZERO;
            }
            let first = self.ticks.iter().find(|(_, then)| made_since(then) <= half);
            first.map_or(old, |(epoch, _)| epoch.next().min(old))
        };
        let pins = since(waiting.pins, &|then| made.pins - then.pins);
        let snapshots = since(waiting.snapshots, &|then| made.snapshots - then.snapshots);
        Some(EndedBefore { pins, snapshots: snapshots.min(served_before) })
    }

    /// At most how many bytes were made for snapshots in epochs above `durable`, when `made` had ever been made.
    pub(crate) fn made_above(&self, durable: Epoch, made: GarbageBytes) -> u64 {
        let then = self.ticks.iter().rev().find(|(epoch, _)| *epoch <= durable);
        made.snapshots - then.map_or(0, |(_, then)| then.snapshots)
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
