//! Counters of one worker in one slice of one round: transactions, conflicts, and sampled latencies.
//!
//! Counting must cost every system the same and next to nothing: two additions and a compare per step. The clock is
//! read for only one step in [`SAMPLE_EVERY`] transactions.
//!
//! Invariants:
//! - *Durable counting*: a transaction counts when its result may be shown. A transaction that has to wait for the log
//!   belongs to the epoch of its receipt. The driver notes the durable epoch at both ends of the timed window, and the
//!   epochs made durable in between count (`Tally::released`). A transaction with nothing to wait for (a read of
//!   durable rows only, or no log) counts at commit.
//! - A sampled latency is complete when the result could be released: at commit, or at durability.
//!
//! Neighbours: [`crate::driver::Slice`] fills a tally; the driver sums tallies into `report`'s rounds.

use std::collections::VecDeque;

use ensile_base::Epoch;
use hdrhistogram::Histogram;

/// Number of transactions per sampled latency.
pub const SAMPLE_EVERY: u32 = 64;
/// Largest latency of the histogram: ten minutes, in nanoseconds.
const LATENCY_NANOS_MAX: u64 = 600_000_000_000;

/// Result of one step of a workload: one transaction, or one batch.
#[derive(Clone, Copy, Debug, Default)]
pub struct Step {
    /// Transactions that ended as the workload intends (TPC-C's rolled back new-orders included).
    pub committed: u32,
    /// Attempts that ended in a conflict and were run again.
    pub conflicts: u32,
    /// The epoch that has to become durable first; 0 when the results can be shown at once. See [`epoch_to_wait_for`].
    pub epoch: u64,
}

/// The epoch to wait for before a result of `epoch` can be shown; 0 if the epoch is durable.
#[inline]
pub fn epoch_to_wait_for(epoch: Epoch, durable: Epoch) -> u64 {
    if epoch <= durable { 0 } else { epoch.number() }
}

/// An empty histogram of nanoseconds.
pub fn new_histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LATENCY_NANOS_MAX, 3).expect("constant bounds in order, three digits")
}

/// A started, not yet durable sample.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    epoch: u64,
    started: u64,
}

/// The counters of one worker in one slice.
#[derive(Debug)]
pub(crate) struct Tally {
    committed: u64,
    conflicts: u64,
    latencies: Histogram<u64>,
    /// Part of `committed` with nothing to wait for.
    at_once: u64,
    /// Other transactions by epoch, including transactions before the window, in the order of first sight of the
    /// epochs.
    per_epoch: Vec<(u64, u64)>,
    waiting: VecDeque<Waiting>,
}

impl Tally {
    pub(crate) fn new() -> Self {
        Self {
            committed: 0,
            conflicts: 0,
            at_once: 0,
            latencies: new_histogram(),
            per_epoch: Vec::new(),
            waiting: VecDeque::new(),
        }
    }

    /// Adds one step.
    #[inline]
    pub(crate) fn note(&mut self, step: Step) {
        self.committed += u64::from(step.committed);
        self.conflicts += u64::from(step.conflicts);
        if step.epoch == 0 {
            self.at_once += u64::from(step.committed);
        } else {
            self.note_epoch(step);
        }
    }

    #[inline]
    fn note_epoch(&mut self, step: Step) {
        match self.per_epoch.last_mut() {
            Some((epoch, count)) if *epoch == step.epoch => *count += u64::from(step.committed),
            _ => self.per_epoch.push((step.epoch, u64::from(step.committed))),
        }
    }

    /// Resets the counters of the lead-in. Epochs stay, as the window is cut out of them by number.
    pub(crate) fn open_window(&mut self) {
        self.committed = 0;
        self.conflicts = 0;
        self.at_once = 0;
        self.latencies.reset();
        self.waiting.clear();
    }

    /// Adds the latency of a sampled step from `started` to `now`. `durable` is the durable epoch now, for a system
    /// whose results wait for durability.
    pub(crate) fn sample(&mut self, step: Step, started: u64, now: u64, durable: Option<u64>) {
        match durable {
            Some(durable) if step.epoch > 0 => {
                self.waiting.push_back(Waiting { epoch: step.epoch, started });
                self.release(durable, now);
            }
            _ => self.latencies.saturating_record(now.saturating_sub(started)),
        }
    }

    /// Completes the samples of epochs durable by `now`.
    fn release(&mut self, durable: u64, now: u64) {
        while let Some(first) = self.waiting.front().filter(|first| first.epoch <= durable) {
            self.latencies.saturating_record(now.saturating_sub(first.started));
            self.waiting.pop_front();
        }
    }

    /// Transactions that committed in the window.
    pub(crate) fn committed(&self) -> u64 {
        self.committed
    }

    /// Transactions whose results could be shown within the window, during which the durable epoch went from `after` to
    /// `up_to`.
    pub(crate) fn released(&self, after: u64, up_to: u64) -> u64 {
        let became_durable = self.per_epoch.iter().filter(|(epoch, _)| *epoch > after && *epoch <= up_to);
        self.at_once + became_durable.map(|(_, count)| count).sum::<u64>()
    }

    /// Attempts in the window that were run again.
    pub(crate) fn conflicts(&self) -> u64 {
        self.conflicts
    }

    /// Sampled latencies in nanoseconds.
    pub(crate) fn latencies(&self) -> &Histogram<u64> {
        &self.latencies
    }
}

#[cfg(test)]
mod tests;
