//! Whose turn it is: pieces of the log that no thread has taken, in the order of their epochs, taken from either end.
//!
//! ```text
//! oldest [ | | | | | | | | | | | | ] newest
//!         ->  once the state keeps    <-  as long as it keeps little for entries
//!             much for older ones          that may yet come: older versions are skipped
//! ```
//! Invariants:
//! - L8: the newest piece is taken only while what the state keeps for older entries is below
//!   [`REPLAY_WAITING_BYTES_MAX`], and never of operations, each of which waits for all before it.
//! - A piece is taken once. When it is has no part in what has passed: `watermark` counts untaken pieces, wherever they
//!   are.
//!
//! Neighbours: `recovery` fills it before any thread replays; `replay` cuts pieces and reads them; the state says what
//! it keeps.

use std::ops::Range;

use ensile_base::limits::REPLAY_WAITING_BYTES_MAX;
use ensile_base::sync::{Mutex, MutexGuard};

use super::reading::AHEAD;
use super::replay::LogPiece;
use crate::{EntryKind, Recoverable};

/// The pieces of all logs and generations, and which of them are taken.
#[derive(Debug, Default)]
pub(super) struct Turns {
    /// The oldest first.
    pieces: Vec<LogPiece>,
    ends: Mutex<Ends>,
    /// The newest piece is taken while the state keeps fewer bytes.
    waiting_bytes_max: u64,
}

#[derive(Debug, Default)]
struct Ends {
    /// Pieces that no thread has taken.
    untaken: Range<usize>,
    /// Pieces that were not asked for ahead of their turn, from either end.
    unasked: Range<usize>,
}

/// A piece that a thread has taken, and those to ask for now, the next one first.
#[derive(Debug)]
pub(super) struct PieceTurn<'t> {
    pub(super) piece: &'t LogPiece,
    pub(super) ahead: Vec<&'t LogPiece>,
}

impl Turns {
    /// Adds pieces, before any thread takes one.
    pub(super) fn add(&mut self, pieces: Vec<LogPiece>) {
        assert!(self.ends.get_mut().untaken.is_empty(), "pieces are added before they have an order");
        self.pieces.extend(pieces);
    }

    /// Gives all that were added their turns.
    pub(super) fn order(&mut self) {
        let Self { pieces, ends, waiting_bytes_max } = self;
        pieces.sort_by_key(|piece| (piece.oldest, piece.newest));
        let in_any_order = pieces.iter().all(|piece| piece.kind == EntryKind::Values);
        *waiting_bytes_max = if in_any_order { REPLAY_WAITING_BYTES_MAX } else { 0 };
        *ends = Mutex::new(Ends { untaken: 0..pieces.len(), unasked: 0..pieces.len() });
    }

    /// As if the state might keep this much of values: nothing is oldest first, and anything SiloR's order.
    #[cfg(feature = "experiments")]
    pub(super) fn limit_waiting(&mut self, bytes_max: u64) {
        if self.waiting_bytes_max > 0 {
            self.waiting_bytes_max = bytes_max;
        }
    }

    /// All of them, the oldest first.
    pub(super) fn pieces(&self) -> &[LogPiece] {
        &self.pieces
    }

    fn lock(&self) -> MutexGuard<'_, Ends> {
        // Two ranges, each moved in one step; a piece that is taken or asked for stays so.
        self.ends.lock()
    }

    /// Takes the piece whose turn it is for a state that keeps what it says now. `None` if none is left.
    pub(super) fn take(&self, target: &dyn Recoverable) -> Option<PieceTurn<'_>> {
        // Asked before the lock is taken: the state has locks of its own.
        let is_newest = target.waiting() < self.waiting_bytes_max;
        let mut ends = self.lock();
        let (taken, ahead) = if is_newest { ends.take_newest()? } else { ends.take_oldest()? };
        drop(ends);
        let mut ahead: Vec<_> = self.pieces[ahead].iter().collect();
        if is_newest {
            ahead.reverse();
        }
        Some(PieceTurn { piece: &self.pieces[taken], ahead })
    }
}

impl Ends {
    /// The place of the oldest piece, and of those behind it that are to be asked for.
    fn take_oldest(&mut self) -> Option<(usize, Range<usize>)> {
        let taken = self.untaken.next()?;
        let start = self.unasked.start.max(taken + 1);
        let ahead = start..self.unasked.end.min(taken + 1 + AHEAD).max(start);
        assert!(
            ahead.is_empty() || ahead.start > taken && ahead.end <= self.untaken.end,
            "asked for before its turn"
        );
        self.unasked.start = ahead.end.min(self.unasked.end);
        Some((taken, ahead))
    }

    /// The place of the newest piece, and of those before it that are to be asked for.
    fn take_newest(&mut self) -> Option<(usize, Range<usize>)> {
        let taken = self.untaken.next_back()?;
        let end = self.unasked.end.min(taken);
        let ahead = self.unasked.start.max(taken.saturating_sub(AHEAD)).min(end)..end;
        assert!(
            ahead.is_empty() || ahead.end <= taken && ahead.start >= self.untaken.start,
            "before its turn"
        );
        self.unasked.end = ahead.start.max(self.unasked.start);
        Some((taken, ahead))
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
