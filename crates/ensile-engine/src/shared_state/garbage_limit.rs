//! Selection of the readers to end when too much garbage waits (E6).
//!
//! A reader with pinned epoch p holds back memory unlinked in p or later. A snapshot S holds back versions superseded
//! in S or later. So readers younger than an epoch hold back at most the garbage made since this epoch. At each tick
//! the heartbeat notes the garbage made since the open. If too much garbage waits, the heartbeat finds the oldest tick
//! with at most half of the limit made since, and ends all older readers.
//!
//! Invariant: This module neither waits, nor measures time, nor accesses a reader: the input is figures, the output is
//! epochs.
//!
//! Neighbours: `garbage_collector` sums the figures; the epochs ask the readers to end.

use std::collections::VecDeque;

use ensile_base::Epoch;

/// Number of remembered ticks. Older readers hold back at least the garbage made before the first of these ticks.
const TICKS_MAX: usize = 64;

/// Bytes of garbage for two kinds of readers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct GarbageBytes {
    /// Bytes that wait for pins.
    pub(crate) pins: u64,
    /// Bytes that wait for snapshots.
    pub(crate) snapshots: u64,
}

/// Readers older than these epochs are ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EndedBefore {
    pub(crate) pins: Epoch,
    pub(crate) snapshots: Epoch,
}

/// The limit, and the garbage made tick by tick.
#[derive(Debug)]
pub(crate) struct GarbageLimit {
    bytes_max: u64,
    ticks: VecDeque<(Epoch, GarbageBytes)>,
    /// The boundary served at the last tick.
    served: Epoch,
}

impl GarbageLimit {
    pub(crate) fn new(bytes_max: u64) -> Self {
        Self { bytes_max, ticks: VecDeque::with_capacity(TICKS_MAX), served: Epoch::ZERO }
    }

    /// Runs a tick in epoch `now`: `served` is the boundary served last, `made` is the garbage made since the open, and
    /// `waiting` is the garbage that may wait for readers. Returns the readers to end if too much garbage waits.
    /// Readers of the last two epochs are spared: they end before an expiry reaches them. Readers of the boundary
    /// served at the tick before, or of a newer boundary, are spared, too: versions wait for these boundaries with or
    /// without a reader. No reader is ended for a kind of garbage with at most half of the limit waiting.
    pub(crate) fn tick(
        &mut self,
        now: Epoch,
        served: Epoch,
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

    /// Upper bound of the bytes made for snapshots in epochs above `durable`; `made` is the garbage made since the
    /// open.
    pub(crate) fn made_above(&self, durable: Epoch, made: GarbageBytes) -> u64 {
        let then = self.ticks.iter().rev().find(|(epoch, _)| *epoch <= durable);
        made.snapshots - then.map_or(0, |(_, then)| then.snapshots)
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
