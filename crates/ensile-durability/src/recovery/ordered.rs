//! The entries of several logs in the order of their TIDs, in the memory of a few epochs.
//!
//! A log is nearly in that order: each worker's entries are, and workers' buffers follow each other within an epoch or
//! two (E2, L1). The headers say how nearly: the smallest epoch of each piece is known, and so that of the remainder of
//! each log. What has a smaller epoch than the remainders of all logs is complete, and only the others are held. The
//! log whose remainder begins with the smallest epoch is read next, so no more is held than the order of the files
//! makes necessary.
//!
//! Neighbours: `examine` found the folder whole and kept the pieces, or a recovery did and `merge` writes the entries
//! again; `replay` reads and parses each.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use ensile_base::sync::Mutex;
use ensile_base::{Epoch, Tid};
use ensile_disk::Disk;

use super::reading::ReadBuffers;
use super::replay::{self, LogPiece};
use crate::{DurabilityError, Entry, EntryKind, Recoverable, Refused};

/// What is left of a log: its pieces, the next one last, each with the smallest epoch from it on.
struct LogRemainder(Vec<(Epoch, LogPiece)>);

impl LogRemainder {
    fn of(pieces: Vec<LogPiece>) -> Self {
        let mut least = Epoch::MAX;
        let with_least = |piece: LogPiece| {
            least = least.min(piece.oldest);
            (least, piece)
        };
        Self(pieces.into_iter().rev().map(with_least).collect())
    }

    /// No entry of it has a smaller epoch. Nothing is left: above every entry's.
    fn least(&self) -> Epoch {
        self.0.last().map_or(Epoch::MAX, |(least, _)| *least)
    }
}

/// Bodies by TID. Transactions that have nothing to do with each other may share one: then in the order of reading.
type Bodies = BTreeMap<(Tid, u64), Box<[u8]>>;

/// Entries that were read and not shown.
struct HeldEntries {
    kind: EntryKind,
    bodies: Mutex<Bodies>,
}

impl Recoverable for HeldEntries {
    fn entries(&self) -> EntryKind {
        self.kind
    }

    fn replay(&self, entries: &[Entry<'_>]) -> Result<(), Refused> {
        // Whole entries go in.
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
    fn show_below(
        &mut self,
        end: Epoch,
        visit: &mut dyn FnMut(Entry<'_>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
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

/// Shows the entries of these logs, which are all of one kind, until `visit` breaks.
pub(super) fn visit(
    disk: &dyn Disk,
    logs: Vec<Vec<LogPiece>>,
    visit: &mut dyn FnMut(Entry<'_>) -> ControlFlow<()>,
) -> Result<(), DurabilityError> {
    let Some(kind) = logs.iter().flatten().map(|piece| piece.kind).next() else { return Ok(()) };
    let mut remainders: Vec<LogRemainder> = logs.into_iter().map(LogRemainder::of).collect();
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
    // `Epoch::MAX` is nobody's, so nothing is left.
    assert!(held.bodies.get_mut().is_empty(), "every entry was shown");
    Ok(())
}
