//! A backup or a restore in progress: a copy of pages, then of files, within a rate.
//!
//! Invariants:
//! - B4: a run looks for entries that a process-safe life left in the source, before the copy and after the last read.
//! - Bytes of every phase count against the rate. A step of several pieces spends the bytes of each piece.
//!
//! Neighbours: [`super::copy_source`] begins a run, and [`super::copy_driver`] steps it to its end.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use ensile_base::Epoch;
use ensile_base::clock::Clock;
use ensile_disk::Disk;

use super::copy_report::{CopyReport, CopyStep, HAS_ENDED};
use super::files::FilesCopy;
use super::pages::{PagesCopy, PagesStep};
use super::tally::{CopyTally, SpendPiece};
use crate::control::pace::WritePace;
use crate::copy_progress::{CopyPhase, CopyProgress};
use crate::recovery::examination::left_behind;
use crate::unproven_tail::{NotProven, NotProvenReason};
use crate::{DurabilityError, Recoverable};

/// State of a run's copy, by the kind of data that the run copies now.
#[derive(Debug)]
pub(super) enum Copying {
    Pages(Box<PagesCopy>),
    Files(Box<FilesCopy>),
    /// The pages are copied, and the copy of the log behind the picture could not begin.
    Ended(CopyTally),
}

impl Copying {
    fn tally(&self) -> &CopyTally {
        match self {
            Self::Pages(copy) => copy.tally(),
            Self::Files(copy) => copy.tally(),
            Self::Ended(tally) => tally,
        }
    }

    /// Ends the copy: every later step is an error.
    fn end(&mut self) {
        match self {
            Self::Pages(copy) => copy.end(),
            Self::Files(copy) => copy.end(),
            Self::Ended(_) => {}
        }
    }

    /// Takes a step of the copy. Returns the report once the copy counts.
    fn step(
        &mut self,
        verifier: &dyn Recoverable,
        spend: &mut SpendPiece<'_>,
    ) -> Result<Option<CopyReport>, DurabilityError> {
        match self {
            Self::Pages(copy) => match copy.step(verifier, spend)? {
                PagesStep::Worked => Ok(None),
                PagesStep::Ended(report) => Ok(Some(*report)),
                PagesStep::Closed(logged) => {
                    let ended = Self::Ended(copy.tally().clone());
                    let Self::Pages(copy) = std::mem::replace(self, ended) else {
                        unreachable!("it was matched")
                    };
                    *self = Self::Files(Box::new(FilesCopy::from_pages_copy(*copy, *logged)?));
                    Ok(None)
                }
            },
            Self::Files(copy) => copy.step(verifier, spend),
            Self::Ended(_) => Err(DurabilityError::config(HAS_ENDED)),
        }
    }
}

/// Entries that a process-safe life left in the source of a backup (B4). During the copy a process may open the folder,
/// or be killed with the folder open. A run therefore looks for entries before the copy begins, and again after the
/// last read of the source.
#[derive(Debug)]
pub(super) enum LeftInSource {
    /// The run is a restore.
    NotAsked,
    /// Source disk, and the entries found before the copy.
    Before(Arc<dyn Disk>, Option<NotProven>),
    /// Entries found before the copy, and entries found after the last read.
    Behind(Option<NotProven>, Option<NotProven>),
}

impl LeftInSource {
    /// Looks for entries before the copy begins.
    pub(super) fn look(disk: &Arc<dyn Disk>) -> Result<Self, DurabilityError> {
        Ok(Self::Before(Arc::clone(disk), left_behind(&**disk)?))
    }

    /// Looks for entries again, once, after the last read of the source.
    fn look_again(&mut self) -> Result<(), DurabilityError> {
        if let Self::Before(disk, before) = self {
            let now = left_behind(&**disk)?;
            *self = Self::Behind(before.take(), now);
        }
        Ok(())
    }

    /// Entries that a backup of the state at the end of `epoch` lacks.
    fn not_in(&mut self, epoch: Epoch) -> Option<NotProven> {
        debug_assert!(!matches!(self, Self::Before(..)), "B4: the source is looked at after the last read");
        let Self::Behind(before, now) = self else { return None };
        // If an open during the copy took the entries, the log has them, and so does every state of `left.last` or a
        // later epoch. For entries that no open takes, the epochs prove nothing.
        let is_lacked = |left: &NotProven| left.reason != NotProvenReason::NotOpened || left.last > epoch;
        now.take().or_else(|| before.take().filter(is_lacked))
    }
}

/// A backup or a restore in progress. The caller steps the run until the end. If a run is dropped earlier, the target
/// keeps its previous states.
#[derive(Debug)]
pub struct CopyRun {
    /// State of the search for entries that the backup lacks, for the report.
    left: LeftInSource,
    /// Durable epoch of the source, for the report.
    durable: Epoch,
    copying: Copying,
    pace: WritePace,
}

impl CopyRun {
    /// The run of this copy, at a rate of at most `bytes_per_second`. `durable` is the durable epoch of the source.
    pub(super) fn new(
        left: LeftInSource,
        durable: Epoch,
        copying: Copying,
        bytes_per_second: Option<u64>,
    ) -> Self {
        Self { left, durable, copying, pace: WritePace::new(bytes_per_second) }
    }

    /// Copies or verifies a page, a file or a piece of a file, unless the rate is used up at the time of `clock`.
    /// `verifier` receives the entries that will count, as from a recovery. The entries of an archive are one step,
    /// with a call of `pause` after each piece. `pause` receives the progress, and the time until the rate has room for
    /// the next piece. `pause` waits for this time or less, and is called again until the rate has room. If `pause`
    /// breaks, the run is over.
    ///
    /// # Errors
    /// [`DurabilityError::Damaged`] with file and offset for the source; [`DurabilityError::TargetFailed`] for the
    /// target; [`DurabilityError::TooSlow`] if the database changes faster than the run copies;
    /// [`DurabilityError::Cancelled`]; errors of the disk. After an error the run is over, and the target keeps its
    /// previous states.
    pub fn step(
        &mut self,
        verifier: &dyn Recoverable,
        clock: &Clock,
        pause: &mut dyn FnMut(&CopyProgress, Duration) -> ControlFlow<()>,
    ) -> Result<CopyStep, DurabilityError> {
        let Self { copying, pace, left, durable } = self;
        let wait = pace.wait(clock.nanos());
        if !wait.is_zero() {
            return Ok(CopyStep::Paced(wait));
        }
        if copying.tally().progress().phase == CopyPhase::Verifying {
            left.look_again().inspect_err(|_| copying.end())?;
        }
        let (before, mut by_pieces) = (copying.tally().paced_bytes(), 0);
        let mut spend_piece = |progress: &CopyProgress, bytes| {
            by_pieces += bytes;
            match pace.spend_by_pieces(bytes, clock, &mut |wait| pause(progress, wait)) {
                ControlFlow::Continue(()) => Ok(()),
                ControlFlow::Break(()) => Err(DurabilityError::Cancelled),
            }
        };
        let report = copying.step(verifier, &mut spend_piece)?;
        let after = copying.tally().paced_bytes();
        debug_assert!(after >= before, "bytes that count against the rate only grow");
        let spent = after - before;
        // The pieces have already spent `by_pieces`, which `spent` includes.
        pace.spend(spent.saturating_sub(by_pieces));
        Ok(match report {
            Some(report) => {
                let not_proven = left.not_in(report.epoch);
                CopyStep::Ended(Box::new(CopyReport { durable: *durable, not_proven, ..report }))
            }
            None => CopyStep::Worked,
        })
    }

    /// Progress of the run.
    #[must_use]
    pub fn progress(&self) -> CopyProgress {
        self.copying.tally().progress()
    }
}
