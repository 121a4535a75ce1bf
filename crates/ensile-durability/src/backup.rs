//! Backups of a database, open or closed, and new databases from a backup (`docs/internals/protocols/backups.md`). A
//! backup is a database folder of its own.
//!
//! ```text
//! look: lease source, lock target --> copy missing pages or files --> directory, root, sync --> verify --> manifest
//!          ^                                    |
//!          +------- the lease was overrun ------+         the copied pages stay
//! ```
//! A picture is copied page by page, into free extents of the target's page file. The log behind the picture is then
//! copied file by file. A source without a picture is copied file by file, log included. Pages and files of the
//! target's earlier states are not copied again.
//!
//! Invariants:
//! - N16: the source is leased while a run reads the source. If a block is overwritten all the same, the checksum shows
//!   the change, and the copy continues from the newest root. The progress counts the new starts. If the missing bytes
//!   do not become fewer, the run ends with an error.
//! - N12: a run overwrites nothing that the target's manifest reaches. The new manifest is the last step, after a read
//!   of every byte that the manifest will reach. A killed run therefore leaves the backup intact.
//! - N22: everything that a backup takes from the source is on the source's medium before the backup counts.
//! - I1: a target is an empty folder, or a backup of the same database that was never opened.
//! - A2, A4, A5: a restore to an epoch has the complete state at the end of the epoch, and nothing later.
//!   [`restore_choice`] chooses the state of the backup.
//!
//! Neighbours: the engine's `Database`, the objects and the `ensile` command step a run; `checkpoint::picture` reads
//! and writes pages; `store` has leases, locks and manifests.

mod check;
mod copy_driver;
mod files;
mod known_files;
mod pages;
mod restore_choice;
mod source;
mod tally;
mod target;

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use ensile_base::Epoch;
use ensile_base::clock::Clock;
use ensile_disk::Disk;

use crate::control::pace::WritePace;
use crate::copy_progress::{CopyPhase, CopyProgress};
use crate::recovery::archive::{ArchiveSource, ForwardReach};
use crate::recovery::examination::left_behind;
use crate::unproven_tail::{NotProven, NotProvenReason};
use crate::{DurabilityError, Recoverable};
pub use copy_driver::{RestoreTarget, WatchCopy, ask, copy_target, pause_copy};
use files::FilesCopy;
use pages::{PagesCopy, PagesStep};
use restore_choice::{ChosenState, RestoreWay, StateReach};
use source::{Found, LogBehind, Purpose};
use tally::CopyTally;
pub(crate) use target::TargetFolder;

/// Options of a backup or a restore.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CopyOptions {
    /// Largest rate of writes and verifying reads together, in bytes a second; `None` for no limit. If a backup of an
    /// open database begins with a picture, the picture is written at the same rate.
    pub bytes_per_second: Option<u64>,
    /// Number of states that the backup's folder keeps, the newest included; pictures and copies of files count alike.
    /// `None` keeps as many states as before, at least 1: the new state takes the place of the oldest.
    pub keep: Option<usize>,
}

/// Call-back after each piece of a step with several pieces, with the progress of the run, and the bytes of the piece
/// that count against the rate.
type SpendPiece<'s> = dyn FnMut(&CopyProgress, u64) -> Result<(), DurabilityError> + 's;

/// Error text of a step after the end of the run.
const HAS_ENDED: &str = "the copy has ended: begin another one";
/// Largest number of states in a backup.
const KEEP_MAX: usize = 1 << 10;

/// Checks the options of a backup.
///
/// # Errors
/// [`DurabilityError::Config`].
pub fn check_copy(options: CopyOptions) -> Result<(), DurabilityError> {
    if options.bytes_per_second == Some(0) {
        return Err(DurabilityError::config("a backup that may write 0 bytes a second never ends"));
    }
    match options.keep {
        Some(keep) if keep == 0 || keep > KEEP_MAX => {
            Err(DurabilityError::config(format!("a backup keeps 1 to {KEEP_MAX} states, not {keep}")))
        }
        _ => Ok(()),
    }
}

/// Report of a run at its end.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CopyReport {
    /// Identity of the database in the target, 32 hex digits.
    pub database: String,
    /// Identity of the copied database, 32 hex digits.
    pub parent: String,
    /// Epoch of the copy: the target has the state at the end of this epoch.
    pub epoch: Epoch,
    /// Durable epoch in the source's folder when the copy began. For a restore, the newest epoch of the backup and the
    /// archive. If [`CopyReport::epoch`] is smaller, the caller asked for an earlier state, and the copy lacks the
    /// epochs in between.
    pub durable: Epoch,
    /// Number of entries in the checkpoint, which may be a picture; 0 without a checkpoint. Entries of logs are not
    /// counted.
    pub entries: u64,
    /// Number of pages in the picture; 0 without a picture.
    pub pages: u64,
    /// Number of pages that this run wrote.
    pub pages_written: u64,
    /// Bytes of the copied state, including bytes that stayed in the target from earlier backups.
    pub bytes: u64,
    /// Bytes that this run wrote.
    pub bytes_written: u64,
    /// Number of entries that a restore took from archived log files, in addition to `entries`.
    pub log_entries: u64,
    /// Number of times that the copy began anew because the lease was overrun.
    pub overruns: u64,
    /// Epochs of the states in the target, the newest first.
    pub kept: Vec<Epoch>,
    /// Epochs of the states that this run dropped, the newest first ([`CopyOptions::keep`]).
    pub dropped: Vec<Epoch>,
    /// Entries that a process-safe life returned, and that the backup lacks. The life ended before the run had read the
    /// source to the end. `None` for a restore.
    pub not_proven: Option<NotProven>,
}

/// Result of a step of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CopyStep {
    /// The step did a part of the work: step again.
    Worked,
    /// The rate is used up for this duration.
    Paced(Duration),
    /// The run has ended, and the copy counts.
    Ended(Box<CopyReport>),
}

/// Copy of a run, by the kind of data that the run copies now.
#[derive(Debug)]
enum Copying {
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
enum LeftInSource {
    /// The run is a restore.
    NotAsked,
    /// Source disk, and the entries found before the copy.
    Before(Arc<dyn Disk>, Option<NotProven>),
    /// Entries found before the copy, and entries found after the last read.
    Behind(Option<NotProven>, Option<NotProven>),
}

impl LeftInSource {
    /// Looks for entries before the copy begins.
    fn look(disk: &Arc<dyn Disk>) -> Result<Self, DurabilityError> {
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

/// Begins a backup of the database on `source` into the folder on `target`. The database may be open in any process.
/// The backup gets the newest checkpoint and the log behind the checkpoint, so everything that was durable when the
/// copy began. If the target has an earlier backup of the database, pages and files that have not changed since are not
/// copied again.
///
/// # Errors
/// [`DurabilityError::NotItsBackup`] if the target holds something else; [`DurabilityError::InUse`] if the target is
/// open; [`DurabilityError::TargetFailed`] if the target is damaged; errors of a lease of the source; errors of the
/// disks.
pub fn backup(
    source: &Arc<dyn Disk>,
    target: &Arc<dyn Disk>,
    options: CopyOptions,
) -> Result<CopyRun, DurabilityError> {
    CopySource::backup(source, options)?.begin(target)
}

/// Begins to make a new database in the empty folder on `target` from the backup on `from`. The database gets the
/// newest state of the backup, or the state at the end of epoch `at`.
///
/// # Errors
/// [`DurabilityError::NotABackup`], also if the backup has no state of epoch `at`; [`DurabilityError::DatabaseExists`]
/// or [`DurabilityError::NotADatabase`] if the target is not empty; [`DurabilityError::InUse`] during a backup into
/// `from`, or if `from` or `target` is open; errors of the disks.
pub fn restore(
    from: &Arc<dyn Disk>,
    target: &Arc<dyn Disk>,
    at: Option<Epoch>,
    bytes_per_second: Option<u64>,
) -> Result<CopyRun, DurabilityError> {
    CopySource::restore(from, at, bytes_per_second)?.begin(target)
}

/// Begins to make a new database in the empty folder on `target`, with the state at the end of epoch `to`. A backup
/// offers the epochs of its states. A copy of files also offers the epochs of its log, from the end of its checkpoint
/// on. The database's archive, if given, offers the epochs after a state.
///
/// # Errors
/// As for [`restore`]. If epoch `to` is not available: [`DurabilityError::NotInArchive`] with an archive,
/// [`DurabilityError::NotABackup`] without an archive. The text names the available epochs and the missing data.
pub fn restore_to_epoch(
    from: &Arc<dyn Disk>,
    archive: Option<&Arc<dyn Disk>>,
    target: &Arc<dyn Disk>,
    to: Epoch,
    bytes_per_second: Option<u64>,
) -> Result<CopyRun, DurabilityError> {
    CopySource::restore_to_epoch(from, archive, to, bytes_per_second)?.begin(target)
}

/// Epochs that [`restore_to_epoch`] can restore from the backup on `from`, and from the archive if given: spans with
/// inclusive ends, in order. No span contains a discarded epoch. The spans rest on the headers of files alone;
/// [`archive::verify_archive`](crate::archive::verify_archive) reads each block.
///
/// # Errors
/// [`DurabilityError::NotABackup`]; [`DurabilityError::NotInArchive`] if the archive belongs to another database, or to
/// another history; errors of the disks.
pub fn restorable_epochs(
    from: &Arc<dyn Disk>,
    archive: Option<&Arc<dyn Disk>>,
) -> Result<Vec<(Epoch, Epoch)>, DurabilityError> {
    let (states, _) = reaches(from, archive, Epoch::ZERO)?;
    Ok(restore_choice::reachable(&states))
}

/// Returns the reachable epochs of each state of a backup, the newest state first. Also returns the archive, if given,
/// opened for a restore up to epoch `to`.
fn reaches(
    from: &Arc<dyn Disk>,
    archive: Option<&Arc<dyn Disk>>,
    to: Epoch,
) -> Result<(Vec<StateReach>, Option<ArchiveSource>), DurabilityError> {
    let (of, states, lineage) = source::states(from)?;
    let archive = archive.map(|archive| ArchiveSource::of_database(archive, of, to)).transpose()?;
    archive.as_ref().map_or(Ok(()), |archive| archive.check_history(&lineage))?;
    let reach = |state| {
        StateReach::new(
            state,
            archive.as_ref().map_or_else(ForwardReach::default, |archive| archive.reach(state.epoch())),
        )
    };
    let states = states.iter().map(reach).collect();
    Ok((states, archive))
}

/// Source of a copy, examined and held before the target's folder has to exist. A wrong path, or an epoch that is not
/// available, therefore leaves no folder behind.
#[derive(Debug)]
pub struct CopySource {
    left: LeftInSource,
    /// Durable epoch of the source.
    durable: Epoch,
    found: Found,
    purpose: Purpose,
    /// Archive that brings the state to a later epoch.
    archive: Option<ArchiveSource>,
    options: CopyOptions,
}

impl CopySource {
    /// The database on `source`, for a [`backup()`].
    ///
    /// # Errors
    /// Errors of a lease of the source, and of the disk.
    pub fn backup(source: &Arc<dyn Disk>, options: CopyOptions) -> Result<Self, DurabilityError> {
        Self::look(source, Purpose::Backup { log: LogBehind::Copied }, None, options)
    }

    /// The newest picture of the database on `source`, without the log behind the picture. The caller has asked for the
    /// picture, and has waited for it. Without a picture, the same as [`CopySource::backup`].
    ///
    /// # Errors
    /// As for [`CopySource::backup`].
    pub fn picture(source: &Arc<dyn Disk>, options: CopyOptions) -> Result<Self, DurabilityError> {
        Self::look(source, Purpose::Backup { log: LogBehind::Left }, None, options)
    }

    /// The backup on `from`, for a [`restore`].
    ///
    /// # Errors
    /// [`DurabilityError::NotABackup`], also if the backup has no state of epoch `at`; [`DurabilityError::InUse`]
    /// during a backup into `from`, or if `from` is open; errors of the disk.
    pub fn restore(
        from: &Arc<dyn Disk>,
        at: Option<Epoch>,
        bytes_per_second: Option<u64>,
    ) -> Result<Self, DurabilityError> {
        let options = CopyOptions { bytes_per_second, keep: Some(1) };
        Self::look(from, Purpose::Restore { at, back: None }, None, options)
    }

    /// The backup on `from` and an archive, for a [`restore_to_epoch`].
    ///
    /// # Errors
    /// As for [`CopySource::restore`], and as for [`restore_to_epoch`] if epoch `to` is not available.
    pub fn restore_to_epoch(
        from: &Arc<dyn Disk>,
        archive: Option<&Arc<dyn Disk>>,
        to: Epoch,
        bytes_per_second: Option<u64>,
    ) -> Result<Self, DurabilityError> {
        let options = CopyOptions { bytes_per_second, keep: Some(1) };
        let (states, archive) = reaches(from, archive, to)?;
        let counted = archive.as_ref().map_or(Ok(()), ArchiveSource::check_target_epoch);
        let ChosenState { at, way } = restore_choice::choose(&states, to, counted).map_err(|why| {
            let begins =
                archive.as_ref().map(|archive| (archive.begins_behind(), archive.describe_missing()));
            let detail = restore_choice::format_reason(&why, &states, to, begins);
            match &archive {
                Some(archive) => archive.not_in_archive(&detail),
                None => {
                    DurabilityError::NotABackup { folder: from.folder_place("").unwrap_or_default(), detail }
                }
            }
        })?;
        let back = (way == RestoreWay::Back).then_some(to);
        let archive = archive.filter(|_| way == RestoreWay::Forward);
        Self::look(from, Purpose::Restore { at: Some(at), back }, archive, options)
    }

    /// Finds and holds the source of a copy with this purpose.
    fn look(
        source: &Arc<dyn Disk>,
        purpose: Purpose,
        archive: Option<ArchiveSource>,
        options: CopyOptions,
    ) -> Result<Self, DurabilityError> {
        check_copy(options)?;
        let found = source::look(source, purpose)?;
        let left = match purpose {
            Purpose::Backup { .. } => LeftInSource::look(source)?,
            Purpose::Restore { .. } => LeftInSource::NotAsked,
        };
        let durable = found.durable.max(archive.as_ref().map_or(Epoch::ZERO, ArchiveSource::durable));
        Ok(Self { left, durable, found: found.copied, purpose, archive, options })
    }

    /// Begins the copy into the folder on `target`.
    ///
    /// # Errors
    /// Errors of the target, as for [`backup()`] or [`restore`].
    pub fn begin(self, target: &Arc<dyn Disk>) -> Result<CopyRun, DurabilityError> {
        let Self { left, durable, found, purpose, archive, options } = self;
        let copying = match found {
            Found::Picture(found) => {
                Copying::Pages(Box::new(PagesCopy::begin(*found, target, archive, purpose, options)?))
            }
            Found::Files(found) => {
                Copying::Files(Box::new(FilesCopy::begin(*found, target, archive, purpose, options.keep)?))
            }
        };
        Ok(CopyRun { left, durable, copying, pace: WritePace::new(options.bytes_per_second) })
    }
}

impl CopyRun {
    /// As [`step`](Self::step), at the time of `clock`. The entries of an archive are one step, with a call of `pause`
    /// after each piece. `pause` receives the progress, and the time until the rate has room for the next piece.
    /// `pause` waits for this time or less, and is called again until the rate has room. If `pause` breaks, the run is
    /// over.
    ///
    /// # Errors
    /// As for [`step`](Self::step); [`DurabilityError::Cancelled`].
    pub fn step_by(
        &mut self,
        verifier: &dyn Recoverable,
        clock: &Clock,
        pause: &mut dyn FnMut(&CopyProgress, Duration) -> ControlFlow<()>,
    ) -> Result<CopyStep, DurabilityError> {
        let spend = &mut |pace: &mut WritePace, progress: &CopyProgress, bytes| {
            pace.spend_by_pieces(bytes, clock, &mut |wait| pause(progress, wait))
        };
        self.step_at(verifier, clock.nanos(), spend)
    }

    /// Copies or verifies a page, a file or a piece of a file, unless the rate is used up at `now_nanos`. `verifier`
    /// receives the entries that will count, as from a recovery.
    ///
    /// # Errors
    /// [`DurabilityError::Damaged`] with file and offset for the source; [`DurabilityError::TargetFailed`] for the
    /// target; [`DurabilityError::TooSlow`] if the database changes faster than the run copies; errors of the disk.
    /// After an error the run is over, and the target keeps its previous states.
    pub fn step(&mut self, verifier: &dyn Recoverable, now_nanos: u64) -> Result<CopyStep, DurabilityError> {
        let spend = &mut |pace: &mut WritePace, _: &CopyProgress, bytes| {
            pace.spend(bytes);
            ControlFlow::Continue(())
        };
        self.step_at(verifier, now_nanos, spend)
    }

    /// Takes a step, unless the rate is used up at `now_nanos`. `spend` receives the bytes of each piece, and cancels
    /// the run by a break.
    fn step_at(
        &mut self,
        verifier: &dyn Recoverable,
        now_nanos: u64,
        spend: &mut dyn FnMut(&mut WritePace, &CopyProgress, u64) -> ControlFlow<()>,
    ) -> Result<CopyStep, DurabilityError> {
        let Self { copying, pace, left, durable } = self;
        let wait = pace.wait(now_nanos);
        if !wait.is_zero() {
            return Ok(CopyStep::Paced(wait));
        }
        if copying.tally().progress().phase == CopyPhase::Verifying {
            left.look_again().inspect_err(|_| copying.end())?;
        }
        let (before, mut by_pieces) = (copying.tally().paced_bytes(), 0);
        let mut spend_piece = |progress: &CopyProgress, bytes| {
            by_pieces += bytes;
            match spend(pace, progress, bytes) {
                ControlFlow::Continue(()) => Ok(()),
                ControlFlow::Break(()) => Err(DurabilityError::Cancelled),
            }
        };
        let report = copying.step(verifier, &mut spend_piece)?;
        let spent = copying.tally().paced_bytes() - before;
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
