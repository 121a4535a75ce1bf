//! Entries of several logs in the order of their TIDs, in the memory of a few epochs.
//!
//! A log is nearly in TID order (E2, L1). The headers give the smallest epoch of a piece, and so of the log's
//! remainder. Entries below the remainders of all logs are complete; only the other entries are held. The log whose
//! remainder begins with the smallest epoch is read next, so memory holds no more than the order of the files requires.
//!
//! Neighbours: `examination` and `merge` call for the pieces of a whole folder; `replay` reads and parses the pieces.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use ensile_base::sync::Mutex;
use ensile_base::{Epoch, Tid};
use ensile_disk::Disk;

use super::read_ahead::ReadBuffers;
use super::replay::{self, LogPiece};
use crate::{Entry, EntryKind, Recoverable, Refused, Result};

/// Remaining pieces of a log, the next piece last. The epoch beside a piece is the smallest epoch from that piece on.
struct LogRemainder(Vec<(Epoch, LogPiece)>);

impl LogRemainder {
    /// Remainder of a log of which no piece is read. `pieces` are in the order of the log.
    fn from_pieces(pieces: Vec<LogPiece>) -> Self {
        let mut least = Epoch::MAX;
        let with_least = |piece: LogPiece| {
            least = least.min(piece.oldest);
            (least, piece)
        };
        Self(pieces.into_iter().rev().map(with_least).collect())
    }

    /// Lower bound of the epochs of the remaining entries; `Epoch::MAX` if no piece is left.
    fn least(&self) -> Epoch {
        self.0.last().map_or(Epoch::MAX, |(least, _)| *least)
    }
}

/// Visitor of entries; a break ends the visit.
type VisitEntry<'v> = dyn FnMut(Entry<'_>) -> ControlFlow<()> + 'v;
/// Bodies by TID and reading order. Transactions without a common record may share a TID.
type Bodies = BTreeMap<(Tid, u64), Box<[u8]>>;

struct HeldEntries {
    kind: EntryKind,
    bodies: Mutex<Bodies>,
}

impl Recoverable for HeldEntries {
    fn entries(&self) -> EntryKind {
        self.kind
    }

    fn replay(&self, entries: &[Entry<'_>]) -> Result<(), Refused> {
        // Only whole entries are added under this lock.
        let mut held = self.bodies.lock();
        for Entry { tid, body } in entries {
            let same = held.range((*tid, 0)..=(*tid, u64::MAX)).next_back();
            let number = same.map_or(0, |((_, number), _)| number + 1);
            held.insert((*tid, number), (*body).into());
        }
        Ok(())
    }

    fn load(&self, _section: u32, _entries: &[Entry<'_>]) -> Result<(), Refused> {
        Ok(())
    }
}

impl HeldEntries {
    /// Shows and forgets all entries of epochs below `end`.
    fn show_below(&mut self, end: Epoch, visit: &mut VisitEntry<'_>) -> ControlFlow<()> {
        let held = self.bodies.get_mut();
        while let Some(first) = held.first_entry()
            && first.key().0.epoch() < end
        {
            let ((tid, _), body) = first.remove_entry();
            visit(Entry { tid, body: &body })?;
        }
        ControlFlow::Continue(())
    }
}

/// Shows the entries of these logs, all of one kind, until `visit` breaks.
pub(super) fn visit(disk: &dyn Disk, logs: Vec<Vec<LogPiece>>, visit: &mut VisitEntry<'_>) -> Result<()> {
    let Some(kind) = logs.iter().flatten().map(|piece| piece.kind).next() else { return Ok(()) };
    let mut remainders: Vec<LogRemainder> = logs.into_iter().map(LogRemainder::from_pieces).collect();
    let mut complete = Epoch::ZERO;
    let mut held = HeldEntries { kind, bodies: Mutex::default() };
    let mut buffers = ReadBuffers::default();
    while let Some(remainder) = remainders.iter_mut().min_by_key(|remainder| remainder.least())
        && let Some((_, piece)) = remainder.0.pop()
    {
        replay::replay(disk, &piece, &mut buffers, &held)?;
        let before = complete;
        complete = remainders.iter().map(LogRemainder::least).min().unwrap_or(Epoch::MAX);
        assert!(before <= complete, "L8: an epoch that is complete stays so");
        if held.show_below(complete, visit).is_break() {
            return Ok(());
        }
    }
    // No entry has the epoch `Epoch::MAX`, so nothing is left.
    assert!(held.bodies.get_mut().is_empty(), "every entry was shown");
    Ok(())
}
