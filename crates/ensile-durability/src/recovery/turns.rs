//! What a thread of a replay does next, as decisions. Pure: what a turn came to goes in, the next turn comes out.
//!
//! ```text
//! files of the checkpoint     Untaken -> under way -> loaded             the log's pieces only once all files are loaded
//! pieces of the log, oldest [ | | | | | | | | | | ] newest
//!                             -> once the state keeps   <- as long as it keeps little for entries
//!                                much for older ones       that may yet come: older versions are skipped
//! ```
//! A thread that finds nothing to take waits for what others are at. A turn that fails, or whose thread panics, fails
//! the whole: who waits for it goes.
//!
//! The *watermark* is the epoch below which every entry of the log is replayed: the least `oldest` of the pieces that
//! are not replayed yet, both those that no thread has taken and those that a thread replays.
//!
//! Invariants:
//! - K1: every file of the checkpoint is loaded before a piece of the log is taken.
//! - L8: a state hears that an epoch has passed only once every entry below that epoch is replayed, in every log.
//! - L8: the newest piece is taken only while what the state keeps for older entries is below
//!   [`REPLAY_WAITING_BYTES_MAX`], and never of operations, each of which waits for all before it.
//! - A file or piece is taken once.
//!
//! Neighbours: `replaying` has the lock, and carries each turn out by `load` and `replay`; the state says what it
//! keeps.

use std::collections::BTreeMap;
use std::ops::Range;

use ensile_base::Epoch;
use ensile_base::limits::REPLAY_WAITING_BYTES_MAX;

use super::reading::AHEAD;
use super::replay::LogPiece;
use crate::EntryKind;

/// What a thread does next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// Load this file of the checkpoint: [`Turns::loaded`].
    Load(usize),
    /// Replay this piece: [`Turns::replayed`]. Those that are to be asked for now, the next one first.
    Replay { piece: usize, ahead: Vec<usize> },
    /// Wait for what others are at.
    Wait,
    /// Nothing is left.
    Ended,
    /// Nothing is left, and another thread's turn failed.
    Failed,
}

/// Files of the checkpoint, and pieces of the log in the order of their epochs: who takes which.
#[derive(Debug)]
pub(super) struct Turns {
    /// Files that no thread has taken, and how many are not loaded.
    files: Range<usize>,
    unloaded: usize,
    /// Pieces that no thread has taken.
    untaken: Range<usize>,
    /// Pieces that were not asked for ahead of their turn, from either end.
    unasked: Range<usize>,
    /// How many pieces that are not replayed begin with each epoch.
    unreplayed: BTreeMap<Epoch, usize>,
    /// The last watermark that a thread heard of.
    passed: Epoch,
    /// The newest piece is taken while the state keeps fewer bytes.
    waiting_bytes_max: u64,
    has_failed: bool,
}

impl Turns {
    /// Of this many files, and no pieces yet.
    pub(super) fn of_files(files: usize) -> Self {
        Self {
            files: 0..files,
            unloaded: files,
            untaken: 0..0,
            unasked: 0..0,
            unreplayed: BTreeMap::new(),
            passed: Epoch::ZERO,
            waiting_bytes_max: 0,
            has_failed: false,
        }
    }

    /// Gives the pieces of all logs and generations their turns, before any thread takes one.
    pub(super) fn order(&mut self, pieces: &mut [LogPiece]) {
        pieces.sort_by_key(|piece| (piece.oldest, piece.newest));
        let in_any_order = pieces.iter().all(|piece| piece.kind == EntryKind::Values);
        self.waiting_bytes_max = if in_any_order { REPLAY_WAITING_BYTES_MAX } else { 0 };
        self.add(pieces.iter().map(|piece| piece.oldest));
    }

    /// Adds pieces whose entries are of these and later epochs.
    fn add(&mut self, oldest: impl Iterator<Item = Epoch>) {
        assert!(self.untaken.is_empty() && self.passed == Epoch::ZERO, "pieces have one order");
        for oldest in oldest {
            *self.unreplayed.entry(oldest).or_default() += 1;
            self.untaken.end += 1;
        }
        assert_eq!(self.unreplayed.values().sum::<usize>(), self.untaken.len(), "L8: every piece counts");
        self.unasked = self.untaken.clone();
    }

    /// As if the state might keep this much of values: nothing is oldest first, and anything SiloR's order.
    #[cfg(feature = "experiments")]
    pub(super) fn limit_waiting(&mut self, bytes_max: u64) {
        if self.waiting_bytes_max > 0 {
            self.waiting_bytes_max = bytes_max;
        }
    }

    /// Is every file loaded?
    pub(super) fn is_loaded(&self) -> bool {
        self.unloaded == 0
    }

    /// Is every piece replayed, and every file loaded?
    pub(super) fn has_ended(&self) -> bool {
        self.is_loaded() && self.unreplayed.is_empty()
    }

    /// The next turn while the checkpoint is loaded; no piece is taken.
    pub(super) fn take_file(&mut self) -> Turn {
        let file = self.files.next();
        assert!(file.is_none() || !self.is_loaded(), "a file is loaded once");
        file.map_or_else(|| self.idle(self.is_loaded()), Turn::Load)
    }

    /// The next turn of a thread whose state keeps `waiting` bytes for older entries.
    pub(super) fn take(&mut self, waiting: u64) -> Turn {
        if !self.is_loaded() {
            return self.take_file();
        }
        let piece = if waiting < self.waiting_bytes_max { self.take_newest() } else { self.take_oldest() };
        piece.unwrap_or_else(|| self.idle(self.unreplayed.is_empty()))
    }

    /// Nothing is left to take.
    fn idle(&self, has_ended: bool) -> Turn {
        assert!(self.files.is_empty(), "a file is there to take");
        match (self.has_failed, has_ended) {
            (true, _) => Turn::Failed,
            (false, true) => Turn::Ended,
            (false, false) => Turn::Wait,
        }
    }

    fn take_oldest(&mut self) -> Option<Turn> {
        let piece = self.untaken.next()?;
        let start = self.unasked.start.max(piece + 1);
        let ahead = start..self.unasked.end.min(piece + 1 + AHEAD).max(start);
        assert!(
            ahead.is_empty() || ahead.start > piece && ahead.end <= self.untaken.end,
            "asked for before its turn"
        );
        self.unasked.start = ahead.end.min(self.unasked.end);
        Some(Turn::Replay { piece, ahead: ahead.collect() })
    }

    fn take_newest(&mut self) -> Option<Turn> {
        let piece = self.untaken.next_back()?;
        let end = self.unasked.end.min(piece);
        let ahead = self.unasked.start.max(piece.saturating_sub(AHEAD)).min(end)..end;
        assert!(
            ahead.is_empty() || ahead.end <= piece && ahead.start >= self.untaken.start,
            "before its turn"
        );
        self.unasked.end = ahead.start.max(self.unasked.start);
        Some(Turn::Replay { piece, ahead: ahead.rev().collect() })
    }

    /// A file that was taken is loaded.
    pub(super) fn loaded(&mut self) {
        assert!(self.unloaded > self.files.len(), "a file that no thread has taken is not loaded");
        self.unloaded -= 1;
    }

    /// All entries of a piece that was taken and begins with this epoch are replayed. The new watermark.
    pub(super) fn replayed(&mut self, oldest: Epoch) -> Epoch {
        assert!(self.is_loaded(), "K1: the checkpoint is loaded before the log is replayed");
        let pieces = self.unreplayed.get_mut(&oldest).expect("the piece was added, and is not replayed");
        *pieces -= 1;
        if *pieces == 0 {
            self.unreplayed.remove(&oldest);
        }
        let now = self.unreplayed.first_key_value().map_or(Epoch::MAX, |(oldest, _)| *oldest);
        assert!(self.passed <= now, "L8: what has passed has passed");
        self.passed = now;
        now
    }

    /// A turn could not be carried out.
    pub(super) fn failed(&mut self) {
        self.has_failed = true;
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
