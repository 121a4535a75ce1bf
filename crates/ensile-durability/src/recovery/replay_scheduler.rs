//! Turns of a replay's threads as a pure state machine: the outcome of a turn goes in, the next turn comes out.
//!
//! ```text
//! files of the checkpoint     Untaken -> under way -> loaded             the log's pieces only once all files are loaded
//! pieces of the log, oldest [ | | | | | | | | | | ] newest
//!                             -> once the state keeps   <- as long as it keeps little for entries
//!                                much for older ones       that may yet come: older versions are skipped
//! ```
//! A thread without a piece to take waits. If a turn fails, or its thread panics, the whole replay fails: waiting
//! threads return. The *watermark*, the epoch below which every entry is replayed, is the smallest `oldest` of the
//! pieces not yet replayed, both untaken pieces and pieces under way.
//!
//! Invariants: K1: every file is loaded before a piece is taken. L8: an epoch has passed once every entry below is
//! replayed; the newest piece is taken only while the state keeps less than [`REPLAY_WAITING_BYTES_MAX`], and never of
//! operations, because an operation waits for all earlier operations.
//!
//! Neighbours: `replay_state` has the lock, and carries turns out; the state reports the bytes that it keeps.

use std::collections::BTreeMap;
use std::ops::Range;

use ensile_base::Epoch;
use ensile_base::limits::REPLAY_WAITING_BYTES_MAX;

use super::read_ahead::AHEAD;
use super::replay::LogPiece;
use crate::EntryKind;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// Load this file of the checkpoint: [`Turns::record_load`].
    Load(usize),
    /// Replay this piece: [`Turns::record_replay`]. `ahead` lists the pieces to prefetch now, the next piece first.
    Replay {
        piece: usize,
        ahead: Vec<usize>,
    },
    Wait,
    Ended,
    /// Nothing is left, and another thread's turn failed.
    Failed,
}

/// Assignment of the checkpoint's files, and of the log's pieces in the order of their epochs, to threads.
#[derive(Debug)]
pub(super) struct Turns {
    /// Files that no thread has taken, and number of files not yet loaded.
    files: Range<usize>,
    unloaded: usize,
    untaken: Range<usize>,
    /// Pieces not prefetched yet. The range shrinks from both ends.
    unasked: Range<usize>,
    /// Number of unreplayed pieces by first epoch.
    unreplayed: BTreeMap<Epoch, usize>,
    /// Last watermark that [`Turns::record_replay`] returned.
    passed: Epoch,
    /// Bytes below which the newest piece is taken.
    waiting_bytes_max: u64,
    has_failed: bool,
}

impl Turns {
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

    /// Gives the pieces of all logs and generations their turns, before a thread takes a piece.
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

    pub(super) fn is_loaded(&self) -> bool {
        self.unloaded == 0
    }

    pub(super) fn has_ended(&self) -> bool {
        self.is_loaded() && self.unreplayed.is_empty()
    }

    /// Next turn while the checkpoint is loaded; no piece is taken.
    pub(super) fn take_file(&mut self) -> Turn {
        let file = self.files.next();
        assert!(file.is_none() || !self.is_loaded(), "a file is loaded once");
        file.map_or_else(|| self.idle(self.is_loaded()), Turn::Load)
    }

    /// Next turn of a thread whose state keeps `waiting` bytes for older entries.
    pub(super) fn take(&mut self, waiting: u64) -> Turn {
        if !self.is_loaded() {
            return self.take_file();
        }
        let piece = if waiting < self.waiting_bytes_max { self.take_newest() } else { self.take_oldest() };
        piece.unwrap_or_else(|| self.idle(self.unreplayed.is_empty()))
    }

    /// Turn of a thread when no file or piece is left to take.
    fn idle(&self, has_ended: bool) -> Turn {
        assert!(self.files.is_empty(), "a file is there to take");
        match (self.has_failed, has_ended) {
            (true, _) => Turn::Failed,
            (false, true) => Turn::Ended,
            (false, false) => Turn::Wait,
        }
    }

    /// Takes the oldest untaken piece; `None` without one. The turn names the later pieces to prefetch.
    fn take_oldest(&mut self) -> Option<Turn> {
        let piece = self.untaken.next()?;
        let start = self.unasked.start.max(piece + 1);
        let ahead = start..self.unasked.end.min(piece + 1 + AHEAD).max(start);
        assert!(ahead.is_empty() || ahead.start > piece && ahead.end <= self.untaken.end, "in front");
        self.unasked.start = ahead.end.min(self.unasked.end);
        Some(Turn::Replay { piece, ahead: ahead.collect() })
    }

    /// Takes the newest untaken piece; `None` without one. The turn names the earlier pieces to prefetch.
    fn take_newest(&mut self) -> Option<Turn> {
        let piece = self.untaken.next_back()?;
        let end = self.unasked.end.min(piece);
        let ahead = self.unasked.start.max(piece.saturating_sub(AHEAD)).min(end)..end;
        assert!(ahead.is_empty() || ahead.end <= piece && ahead.start >= self.untaken.start, "behind");
        self.unasked.end = ahead.start.max(self.unasked.start);
        Some(Turn::Replay { piece, ahead: ahead.rev().collect() })
    }

    pub(super) fn record_load(&mut self) {
        assert!(self.unloaded > self.files.len(), "a file that no thread has taken is not loaded");
        self.unloaded -= 1;
    }

    /// Records that all entries of a taken piece with this first epoch are replayed. Returns the new watermark.
    pub(super) fn record_replay(&mut self, oldest: Epoch) -> Epoch {
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

    pub(super) fn record_failure(&mut self) {
        self.has_failed = true;
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
