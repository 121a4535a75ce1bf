//! The durable epoch D as the minimum over logs (L1, L3).
//!
//! Every logger publishes three numbers here, and anybody can work D out from them:
//! - `high`: no entry of a larger epoch is in its log. Raised before the write and before `claimed`.
//! - `claimed`: every entry of epochs up to this, of its workers, is counted in `high` (L1's d, before it is synced).
//! - `synced`: the d of its last synced mark (L3).
//!
//! Invariants:
//! - L3: `min synced` is durable: recovery finds at least that D.
//! - L3, epochs without entries: if the largest `high` is at most `min synced`, then D is `min claimed`, without any
//!   write. For all entries of epochs up to `min claimed` are counted in some `high`, so they have epochs at most
//!   `min synced`, and recovery to `min synced` gives the very state that all epochs up to `min claimed` left. Epochs
//!   at most `min claimed` get no further entry, so this stays true. `claimed` is read before `high` for this.
//! - K1: a D that no mark shows is not found by a recovery, so whoever rests on it after a crash asks for a mark.
//! - L5: blocks carry `min synced` only, never a D that was reached without a write, as recovery could not tell the
//!   latter from damage.
//!
//! Neighbours: loggers publish and ask; `waiters` holds the D that was announced.

use crossbeam_utils::CachePadded;
use ensile_base::Epoch;
use ensile_base::sync::{AtomicU64, Ordering};

#[derive(Debug)]
struct LoggerMarks {
    high: AtomicU64,
    claimed: AtomicU64,
    synced: AtomicU64,
}

/// One row of marks per logger.
#[derive(Debug)]
pub(crate) struct MarkTable {
    rows: Box<[CachePadded<LoggerMarks>]>,
    /// Synced marks of this epoch are asked for, entries or not.
    asked: AtomicU64,
}

impl MarkTable {
    /// `loggers` rows; everything up to `durable` is durable.
    pub(crate) fn new(loggers: usize, durable: Epoch) -> Self {
        let start = || AtomicU64::new(durable.number());
        let rows = (0..loggers)
            .map(|_| CachePadded::new(LoggerMarks { high: start(), claimed: start(), synced: start() }))
            .collect();
        Self { rows, asked: AtomicU64::new(0) }
    }

    fn min(&self, of: impl Fn(&LoggerMarks) -> &AtomicU64) -> Epoch {
        // Acquire: partners are the Release stores of `raise_high`, `claim` and `note_synced`.
        let numbers = self.rows.iter().map(|row| of(row).load(Ordering::Acquire));
        Epoch::new(numbers.min().expect("a log has a logger"))
    }

    /// The largest epoch with an entry in any log, written or about to be.
    pub(crate) fn high(&self) -> Epoch {
        // Acquire: partner is the Release in `raise_high`.
        let numbers = self.rows.iter().map(|row| row.high.load(Ordering::Acquire));
        Epoch::new(numbers.max().expect("a log has a logger"))
    }

    /// What every log's synced marks allow.
    pub(crate) fn synced_by_all(&self) -> Epoch {
        self.min(|row| &row.synced)
    }

    /// The d of this logger's last synced mark.
    pub(crate) fn synced(&self, logger: usize) -> Epoch {
        // Acquire: partner is the Release in `note_synced`.
        Epoch::new(self.rows[logger].synced.load(Ordering::Acquire))
    }

    /// This logger's last claim.
    pub(crate) fn claimed(&self, logger: usize) -> Epoch {
        // Acquire: partner is the Release in `claim`.
        Epoch::new(self.rows[logger].claimed.load(Ordering::Acquire))
    }

    /// Entries up to `epoch` are about to be written to this log. Only its logger calls this.
    pub(crate) fn raise_high(&self, logger: usize, epoch: Epoch) {
        // Release: before the claim that rests on it (partner: the Acquire in `high`).
        self.rows[logger].high.fetch_max(epoch.number(), Ordering::Release);
    }

    /// All entries of epochs up to `epoch` are counted in `high`. Only its logger calls this.
    pub(crate) fn claim(&self, logger: usize, epoch: Epoch) {
        // Release: who reads the claim sees the `high` behind it (partner: the Acquire in `min`).
        self.rows[logger].claimed.fetch_max(epoch.number(), Ordering::Release);
    }

    /// A mark of `epoch` is on stable storage, and with it all that this log wrote before. Only its logger calls this.
    pub(crate) fn note_synced(&self, logger: usize, epoch: Epoch) {
        // Release: after the sync (partner: the Acquire in `min`).
        self.rows[logger].synced.fetch_max(epoch.number(), Ordering::Release);
    }

    /// Must this logger write a mark before `claim` may count (L3)?
    pub(crate) fn needs_mark(&self, logger: usize, claim: Epoch) -> bool {
        let synced = self.synced(logger);
        // Acquire: partner is the Release in `ask`.
        claim > synced && (self.high() > synced || self.asked.load(Ordering::Acquire) > synced.number())
    }

    /// Synced marks of at least `epoch` are wanted in every log.
    pub(crate) fn ask(&self, epoch: Epoch) {
        // Release: partner is the Acquire in `needs_mark`.
        self.asked.fetch_max(epoch.number(), Ordering::Release);
    }

    /// The largest epoch that may be reported durable now.
    pub(crate) fn durable(&self) -> Epoch {
        let claimed = self.min(|row| &row.claimed);
        let high = self.high();
        let synced = self.synced_by_all();
        if high <= synced { claimed.max(synced) } else { synced }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::MarkTable;
    use ensile_base::Epoch;

    const fn e(number: u64) -> Epoch {
        Epoch::new(number)
    }

    #[test]
    fn epochs_without_entries_pass_without_a_mark() {
        let marks = MarkTable::new(2, e(4));
        marks.claim(0, e(9));
        assert_eq!(marks.durable(), e(4), "the other logger has not looked yet (L1)");
        marks.claim(1, e(7));
        assert!(!marks.needs_mark(0, e(9)));
        assert_eq!(marks.durable(), e(7));
        assert_eq!(marks.synced_by_all(), e(4), "blocks never carry a D without a mark (L5)");
    }

    #[test]
    fn a_mark_that_is_asked_for_is_written_without_an_entry() {
        let marks = MarkTable::new(2, e(4));
        marks.claim(0, e(9));
        marks.claim(1, e(9));
        marks.ask(e(7));
        assert!(marks.needs_mark(0, e(9)) && marks.needs_mark(1, e(9)));
        marks.note_synced(0, e(9));
        assert!(!marks.needs_mark(0, e(10)), "it stands");
        assert_eq!(marks.synced_by_all(), e(4));
    }

    #[test]
    fn an_entry_in_one_log_asks_every_log_for_a_mark() {
        let marks = MarkTable::new(2, e(4));
        marks.raise_high(0, e(6));
        marks.claim(0, e(6));
        marks.claim(1, e(6));
        assert!(marks.needs_mark(0, e(6)) && marks.needs_mark(1, e(6)));
        marks.note_synced(0, e(6));
        assert_eq!(marks.durable(), e(4), "the log without entries has no mark yet (L3)");
        marks.note_synced(1, e(6));
        assert_eq!(marks.durable(), e(6));
    }
}
