//! Progress of every log, and the durable epoch D as the minimum over logs (L1, L3). Every logger publishes here, and
//! any thread can compute D:
//! - `high`: no entry of a larger epoch is in the log. `high` rises before the write, and before the appended frontier.
//! - an epoch for each [`Frontier`]: in each log synced <= written <= appended, and no frontier goes back.
//!
//! Invariants:
//! - L3: the least synced frontier is durable. If the largest `high` is at most this epoch, then D is the least
//!   appended frontier, without any write: the epochs between have no entry, and get none. For this the appended
//!   frontiers are read before `high`.
//! - K1: a recovery does not find a D that no mark shows. A caller that relies on D after a crash asks for a mark.
//! - L5: blocks carry the least synced frontier only: recovery could not tell a D reached without a write from damage.
//!
//! Neighbours: loggers publish progress; checkpoints ask for marks; `waiters` has the announced D.

use crossbeam_utils::CachePadded;
use ensile_base::Epoch;
use ensile_base::sync::{AtomicU64, Ordering};

/// Stage of the entries of an epoch on their way to the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Frontier {
    /// The logger has all entries of epochs up to this epoch, and `high` counts the entries: the epoch d that a mark
    /// may claim (L1).
    Appended,
    /// The file has a mark of this epoch, and everything before the mark.
    Written,
    /// The mark is on stable storage (L3).
    Synced,
}

impl Frontier {
    const COUNT: usize = 3;

    /// The frontier that a log passes just before.
    const fn previous(self) -> Option<Self> {
        match self {
            Self::Appended => None,
            Self::Written => Some(Self::Appended),
            Self::Synced => Some(Self::Written),
        }
    }
}

#[derive(Debug)]
struct LoggerMarks {
    high: AtomicU64,
    frontiers: [AtomicU64; Frontier::COUNT],
}

const _: () = assert!(Frontier::Synced as usize + 1 == Frontier::COUNT);

/// One row of marks per logger.
#[derive(Debug)]
pub(crate) struct MarkTable {
    rows: Box<[CachePadded<LoggerMarks>]>,
    /// Epoch up to which callers want synced marks, with or without entries.
    asked: AtomicU64,
}

impl MarkTable {
    /// Table of `loggers` rows; all epochs up to `durable` are durable. A log without loggers has one row, for its
    /// installed pictures.
    pub(crate) fn new(loggers: usize, durable: Epoch) -> Self {
        assert!(loggers > 0, "a log has a logger");
        let start = || AtomicU64::new(durable.number());
        let row = |_| LoggerMarks { high: start(), frontiers: std::array::from_fn(|_| start()) };
        let rows = (0..loggers).map(row).map(CachePadded::new).collect();
        Self { rows, asked: AtomicU64::new(0) }
    }

    /// Epoch that this log has reached at this frontier.
    pub(crate) fn frontier_epoch(&self, logger: usize, frontier: Frontier) -> Epoch {
        // Acquire: partner is the Release in `advance`.
        Epoch::new(self.rows[logger].frontiers[frontier as usize].load(Ordering::Acquire))
    }

    /// Least epoch of this frontier over all logs.
    pub(crate) fn of_all(&self, frontier: Frontier) -> Epoch {
        let all = (0..self.rows.len()).map(|logger| self.frontier_epoch(logger, frontier));
        all.min().expect("a log has a logger")
    }

    /// Largest epoch with an entry in any log, written or about to be.
    pub(crate) fn high(&self) -> Epoch {
        // Acquire: partner is the Release in `raise_high`.
        let numbers = self.rows.iter().map(|row| row.high.load(Ordering::Acquire));
        Epoch::new(numbers.max().expect("a log has a logger"))
    }

    /// Announces that entries up to `epoch` are about to be written to the log. Only the log's logger calls the
    /// function.
    pub(crate) fn raise_high(&self, logger: usize, epoch: Epoch) {
        // Release: before the frontier that rests on it (partner: the Acquire in `high`).
        self.rows[logger].high.fetch_max(epoch.number(), Ordering::Release);
    }

    /// Records the progress of a log. Only the log's logger calls the function, and never with less than before.
    pub(crate) fn advance(&self, logger: usize, frontier: Frontier, epoch: Epoch) {
        if let Some(before) = frontier.previous() {
            assert!(
                epoch <= self.frontier_epoch(logger, before),
                "{frontier:?} up to {epoch}, ahead of {before:?}"
            );
        }
        // Release: a thread that reads the frontier also sees the earlier `high`, and the sync on which the frontier
        // rests (partner: the Acquire in `frontier_epoch`).
        let was = self.rows[logger].frontiers[frontier as usize].fetch_max(epoch.number(), Ordering::Release);
        debug_assert!(was <= epoch.number(), "{frontier:?} goes back from {was} to {epoch}");
    }

    /// True if a logger must write a mark before `claim` may count: a log has an entry above the logger's synced mark,
    /// or a caller asks for a mark (L3).
    pub(crate) fn needs_mark(&self, logger: usize, claim: Epoch) -> bool {
        let synced = self.frontier_epoch(logger, Frontier::Synced);
        // Acquire: partner is the Release in `ask`.
        claim > synced && (self.high() > synced || self.asked.load(Ordering::Acquire) > synced.number())
    }

    /// Asks for synced marks of at least `epoch` in every log.
    pub(crate) fn ask(&self, epoch: Epoch) {
        // Release: partner is the Acquire in `needs_mark`.
        self.asked.fetch_max(epoch.number(), Ordering::Release);
    }

    /// Largest epoch to announce now to waiters of a frontier: D for [`Frontier::Synced`].
    pub(crate) fn announceable_epoch(&self, frontier: Frontier) -> Epoch {
        let appended = self.of_all(Frontier::Appended);
        let high = self.high();
        let passed = self.of_all(frontier);
        if high <= passed { appended.max(passed) } else { passed }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
