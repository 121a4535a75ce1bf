//! How far every log has come, and the durable epoch D as the minimum over logs (L1, L3).
//!
//! Every logger publishes these numbers here, and any thread can work D out from them:
//! - `high`: no entry of a larger epoch is in its log. It is raised before the write, and before the appended frontier.
//! - a number for each [`Frontier`]: appended, written, synced. Later frontiers (a quorum's, say) are further numbers.
//!
//! Invariants:
//! - In each log synced <= written <= appended, and no frontier goes back.
//! - L3: the least synced frontier is durable: recovery finds at least that D.
//! - L3, epochs without entries: if the largest `high` is at most the least synced frontier, then D is the least
//!   appended one, without any write. All entries of epochs up to the least appended frontier are counted in some
//!   `high`. So they have epochs at most the least synced one, and recovery to that gives the very state that all
//!   epochs up to the appended one left. Those epochs get no further entry, so this stays true. For this the appended
//!   frontiers are read before `high`.
//! - K1: a D that no mark shows is not found by a recovery. A caller that rests on D after a crash asks for a mark.
//! - L5: blocks carry the least synced frontier only, never a D that was reached without a write: recovery could not
//!   tell the latter from damage.
//!
//! Neighbours: loggers publish and ask; `waiters` holds the D that was announced.

use crossbeam_utils::CachePadded;
use ensile_base::Epoch;
use ensile_base::sync::{AtomicU64, Ordering};

/// How far the entries of epochs have come on their way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Frontier {
    /// All entries of epochs up to this are with the logger and counted in `high`: its claim (L1's d).
    Appended,
    /// The file has a mark of it, and all that stands before that mark.
    Written,
    /// That mark is on stable storage (L3).
    Synced,
}

impl Frontier {
    const COUNT: usize = 3;

    /// The frontier that a log passes before this one.
    const fn before(self) -> Option<Self> {
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
    /// Synced marks of this epoch are asked for, entries or not.
    asked: AtomicU64,
}

impl MarkTable {
    /// `loggers` rows; everything up to `durable` is durable. A log without loggers has one, of the pictures that are
    /// installed.
    pub(crate) fn new(loggers: usize, durable: Epoch) -> Self {
        assert!(loggers > 0, "a log has a logger");
        let start = || AtomicU64::new(durable.number());
        let row = |_| LoggerMarks { high: start(), frontiers: std::array::from_fn(|_| start()) };
        let rows = (0..loggers).map(row).map(CachePadded::new).collect();
        Self { rows, asked: AtomicU64::new(0) }
    }

    /// How far this log has come.
    pub(crate) fn at(&self, logger: usize, frontier: Frontier) -> Epoch {
        // Acquire: partner is the Release in `advance`.
        Epoch::new(self.rows[logger].frontiers[frontier as usize].load(Ordering::Acquire))
    }

    /// How far every log has come.
    pub(crate) fn of_all(&self, frontier: Frontier) -> Epoch {
        let all = (0..self.rows.len()).map(|logger| self.at(logger, frontier));
        all.min().expect("a log has a logger")
    }

    /// The largest epoch with an entry in any log, written or about to be.
    pub(crate) fn high(&self) -> Epoch {
        // Acquire: partner is the Release in `raise_high`.
        let numbers = self.rows.iter().map(|row| row.high.load(Ordering::Acquire));
        Epoch::new(numbers.max().expect("a log has a logger"))
    }

    /// Entries up to `epoch` are about to be written to this log. Only its logger calls this.
    pub(crate) fn raise_high(&self, logger: usize, epoch: Epoch) {
        // Release: before the frontier that rests on it (partner: the Acquire in `high`).
        self.rows[logger].high.fetch_max(epoch.number(), Ordering::Release);
    }

    /// This log has come so far. Only its logger calls this, and never with less than before.
    pub(crate) fn advance(&self, logger: usize, frontier: Frontier, epoch: Epoch) {
        if let Some(before) = frontier.before() {
            assert!(epoch <= self.at(logger, before), "{frontier:?} up to {epoch}, ahead of {before:?}");
        }
        // Release: a thread that reads the frontier sees the `high` behind it, and the sync that it rests on
        // (partner: the Acquire in `at`).
        let was = self.rows[logger].frontiers[frontier as usize].fetch_max(epoch.number(), Ordering::Release);
        debug_assert!(was <= epoch.number(), "{frontier:?} goes back from {was} to {epoch}");
    }

    /// Must this logger write a mark before `claim` may count (L3)?
    pub(crate) fn needs_mark(&self, logger: usize, claim: Epoch) -> bool {
        let synced = self.at(logger, Frontier::Synced);
        // Acquire: partner is the Release in `ask`.
        claim > synced && (self.high() > synced || self.asked.load(Ordering::Acquire) > synced.number())
    }

    /// Synced marks of at least `epoch` are wanted in every log.
    pub(crate) fn ask(&self, epoch: Epoch) {
        // Release: partner is the Acquire in `needs_mark`.
        self.asked.fetch_max(epoch.number(), Ordering::Release);
    }

    /// The largest epoch that may be announced now to callers that wait for this frontier: D for [`Frontier::Synced`].
    pub(crate) fn reached(&self, frontier: Frontier) -> Epoch {
        let appended = self.of_all(Frontier::Appended);
        let high = self.high();
        let passed = self.of_all(frontier);
        if high <= passed { appended.max(passed) } else { passed }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
