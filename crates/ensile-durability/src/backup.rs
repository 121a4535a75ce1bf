//! Backups of a database that may be open, each a database folder of its own; and new databases from them
//! (`docs/protocols/backups.md`).
//!
//! ```text
//! look: lease of the source, target locked --> copy what the target lacks --> directory, root, sync --> verify --> manifest
//!          ^                                            |
//!          +--------- the lease was overrun ------------+         what was copied so far is kept
//! ```
//! A picture is copied by pages, into the free extents of the target's page file, and then the log behind it by files.
//! Any other source is copied by files, log included. Either leaves what the target has already.
//!
//! Invariants:
//! - N16: what is read is leased. A block that was written over all the same is seen by its checksum, and the copy
//!   goes on from the newest root. If there is never less to copy it ends with an error, and says so before.
//! - N12: nothing that the target's manifest reaches is written over. Its manifest is the last step, behind a look at
//!   every byte that it will reach. So a run that is killed leaves the backup that was there.
//! - N22: what a backup has of its source is on the source's medium before the backup counts.
//! - I1: a target is an empty folder, or a backup of this very database that was never opened.
//! - A2, A4, A5: a restore to an epoch has all of it, and nothing else: [`to_epoch`] decides from what.
//!
//! Neighbours: a `Database` and the `ensile` command step a run; `checkpoint::picture` reads and writes blocks, the
//! store has leases, locks and manifests.

mod check;
mod files;
mod known;
mod pages;
mod run;
mod source;
mod tally;
mod target;
mod to_epoch;

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use ensile_base::Epoch;
use ensile_base::clock::Clock;
use ensile_disk::Disk;

use crate::control::pace::WritePace;
use crate::copy_progress::{CopyPhase, CopyProgress};
use crate::not_proven::{NotProven, NotProvenReason};
use crate::recovery::archived::{ArchiveSource, ForwardReach};
use crate::recovery::examine::left_behind;
use crate::{DurabilityError, Recoverable};
use files::FilesCopy;
use pages::{PagesCopy, PagesStep};
pub use run::{RestoreTarget, WatchCopy, ask, copy_target, pause_copy};
use source::{Found, LogBehind, Purpose};
use tally::CopyTally;
pub(crate) use target::TargetFolder;
use to_epoch::{ChosenState, RestoreWay, StateReach};

/// How a backup or a restore is made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CopyOptions {
    /// Bytes a second that it writes, or reads to verify it, at most; `None`: no limit. A backup of an open database
    /// that begins with a picture has that written at this rate too.
    pub bytes_per_second: Option<u64>,
    /// How many states a backup's folder has, the newest among them: pictures, and copies of files. `None`: as many as
    /// it has before, and one at least, so the oldest goes where several are kept.
    pub keep: Option<usize>,
}

/// Told of each piece of a step that has several: how far the run is by now, and bytes that count against its rate.
type SpendPiece<'s> = dyn FnMut(&CopyProgress, u64) -> Result<(), DurabilityError> + 's;

/// Why an ended run does nothing.
const HAS_ENDED: &str = "the copy has ended: begin another one";
/// Most states of a backup.
const KEEP_MAX: usize = 1 << 10;

impl CopyOptions {
    /// Can these work?
    ///
    /// # Errors
    /// [`DurabilityError::Config`].
    pub fn check(self) -> Result<(), DurabilityError> {
        if self.bytes_per_second == Some(0) {
            return Err(DurabilityError::config("a backup that may write 0 bytes a second never ends"));
        }
        match self.keep {
            Some(keep) if keep == 0 || keep > KEEP_MAX => {
                Err(DurabilityError::config(format!("a backup keeps 1 to {KEEP_MAX} states, not {keep}")))
            }
            _ => Ok(()),
        }
    }
}

/// What a run came to.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CopyReport {
    /// The identity of the database in the target, 32 hex digits.
    pub database: String,
    /// That of the database that was copied.
    pub parent: String,
    /// It is the state at the end of this epoch.
    pub epoch: Epoch,
    /// The source's durable epoch when the copy began, as its folder showed it. The copy lacks what the source had in
    /// between if [`CopyReport::epoch`] is smaller: an earlier state was asked for. Of a restore it is the newest epoch
    /// of the backup and the archive.
    pub durable: Epoch,
    /// Its entries; of files 0, as they are not counted.
    pub entries: u64,
    /// Its pages; 0 if files were copied.
    pub pages: u64,
    /// Pages of it that were written now.
    pub pages_written: u64,
    /// Its bytes; those that stayed in the target from earlier backups among them.
    pub bytes: u64,
    /// Bytes that were written now.
    pub bytes_written: u64,
    /// Entries of archived log files that were taken; beside those of the picture.
    pub log_entries: u64,
    /// How often the copy began anew as its lease was overrun.
    pub overruns: u64,
    /// The epochs of the states that the target has, the newest first.
    pub kept: Vec<Epoch>,
    /// Those of the states that it had before and has no more, the newest first ([`CopyOptions::keep`]).
    pub dropped: Vec<Epoch>,
    /// Of a backup: what a process-safe life had returned, and what is not in the backup. It is of a life that had
    /// ended before the run began, or that ended before the source was read to its end.
    pub not_proven: Option<NotProven>,
}

/// What a step of a run did, and when the next is worth while.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CopyStep {
    /// Something was done: step again.
    Worked,
    /// The rate is used up for so long.
    Paced(Duration),
    /// It has ended, and counts.
    Ended(Box<CopyReport>),
}

#[derive(Debug)]
enum Copying {
    Pages(Box<PagesCopy>),
    Files(Box<FilesCopy>),
    /// What followed the pages could not begin.
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

    /// What is stepped from here on is over.
    fn end(&mut self) {
        match self {
            Self::Pages(copy) => copy.end(),
            Self::Files(copy) => copy.end(),
            Self::Ended(_) => {}
        }
    }

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
                    *self = Self::Files(Box::new(FilesCopy::behind(*copy, *logged)?));
                    Ok(None)
                }
            },
            Self::Files(copy) => copy.step(verifier, spend),
            Self::Ended(_) => Err(DurabilityError::config(HAS_ENDED)),
        }
    }
}

/// What a process-safe life left in a folder that is backed up (B4). A process may open the folder meanwhile, or may
/// have it open and be killed: so it is looked at before the copy begins, and behind the last read of the copy.
#[derive(Debug)]
enum LeftInSource {
    /// The copy is none of a database.
    NotAsked,
    /// It is copied: this was there before.
    Before(Arc<dyn Disk>, Option<NotProven>),
    /// It is copied: this was there before, and this is there now.
    Behind(Option<NotProven>, Option<NotProven>),
}

impl LeftInSource {
    fn look(disk: &Arc<dyn Disk>) -> Result<Self, DurabilityError> {
        Ok(Self::Before(Arc::clone(disk), left_behind(&**disk)?))
    }

    /// The source is read no more.
    fn look_again(&mut self) -> Result<(), DurabilityError> {
        if let Self::Before(disk, before) = self {
            let now = left_behind(&**disk)?;
            *self = Self::Behind(before.take(), now);
        }
        Ok(())
    }

    /// What a backup of the state at the end of `epoch` has not.
    fn not_in(&mut self, epoch: Epoch) -> Option<NotProven> {
        let Self::Behind(before, now) = self else { return None };
        // What an open has taken meanwhile is in the log, and in a state of its last epoch or a later one. Of what no
        // open takes the epochs say nothing.
        let is_lacked = |left: &NotProven| left.reason != NotProvenReason::NotOpened || left.last > epoch;
        now.take().or_else(|| before.take().filter(is_lacked))
    }
}

/// A backup or a restore under way. It is stepped until it has ended. One that is dropped before leaves its target as
/// it was.
#[derive(Debug)]
pub struct CopyRun {
    /// For the report.
    left: LeftInSource,
    /// For the report.
    durable: Epoch,
    copying: Copying,
    pace: WritePace,
}

/// Begins a backup of the database on `source`, which may be open in any process, into the folder on `target`: of its
/// newest checkpoint and the log behind that. So the backup has all that was durable when the copy began. If the target
/// has an earlier backup of the database, what both have is left there.
///
/// # Errors
/// [`DurabilityError::NotItsBackup`] if the target's folder has something else, [`DurabilityError::InUse`] if somebody
/// has it open, [`DurabilityError::TargetFailed`] if it is damaged; what a lease of the source says; the disks'.
pub fn backup(
    source: &Arc<dyn Disk>,
    target: &Arc<dyn Disk>,
    options: CopyOptions,
) -> Result<CopyRun, DurabilityError> {
    CopySource::backup(source, options)?.begin(target)
}

/// Begins to make a new database in the empty folder on `target`, from the backup on `from`: of its newest state, or of
/// the one at the end of epoch `at`.
///
/// # Errors
/// [`DurabilityError::NotABackup`], also if it has no state of that epoch;
/// [`DurabilityError::DatabaseExists`] or [`DurabilityError::NotADatabase`] if the folder is not empty;
/// [`DurabilityError::InUse`] while a backup is made, or somebody has one of both open; the disks'.
pub fn restore(
    from: &Arc<dyn Disk>,
    target: &Arc<dyn Disk>,
    at: Option<Epoch>,
    bytes_per_second: Option<u64>,
) -> Result<CopyRun, DurabilityError> {
    CopySource::restore(from, at, bytes_per_second)?.begin(target)
}

/// Begins to make a new database in the empty folder on `target`, as the one that was backed up was at the end of epoch
/// `to`. A backup has its states' epochs, and a copy of files those of its log from the end of its checkpoint on. What
/// comes behind a state is taken from the database's archive, if one is given.
///
/// # Errors
/// As for [`restore`], and if that epoch cannot be had: with an archive [`DurabilityError::NotInArchive`], without one
/// [`DurabilityError::NotABackup`]. They say which can be had, and what is missing.
pub fn restore_to_epoch(
    (from, archive): (&Arc<dyn Disk>, Option<&Arc<dyn Disk>>),
    target: &Arc<dyn Disk>,
    to: Epoch,
    bytes_per_second: Option<u64>,
) -> Result<CopyRun, DurabilityError> {
    CopySource::restore_to_epoch((from, archive), to, bytes_per_second)?.begin(target)
}

/// Which epochs [`restore_to_epoch`] can have from the backup on `from`, with this archive if one is given: spans with
/// their ends, in order. Each epoch of a span can be had, as far as headers of files show: no span has epochs that were
/// discarded. [`archived::verify_archive`](crate::archived::verify_archive) reads each block.
///
/// # Errors
/// [`DurabilityError::NotABackup`]; [`DurabilityError::NotInArchive`] if the archive is another database's, or of
/// another history; the disks'.
pub fn restorable_epochs(
    from: &Arc<dyn Disk>,
    archive: Option<&Arc<dyn Disk>>,
) -> Result<Vec<(Epoch, Epoch)>, DurabilityError> {
    let (states, _) = reaches((from, archive), Epoch::ZERO)?;
    Ok(to_epoch::reachable(&states))
}

/// Which epochs each state of a backup leads to, the newest first, and the archive up to epoch `to`.
fn reaches(
    (from, archive): (&Arc<dyn Disk>, Option<&Arc<dyn Disk>>),
    to: Epoch,
) -> Result<(Vec<StateReach>, Option<ArchiveSource>), DurabilityError> {
    let (of, states, lineage) = source::states(from)?;
    let archive = archive.map(|archive| ArchiveSource::of_database(archive, of, to)).transpose()?;
    archive.as_ref().map_or(Ok(()), |archive| archive.check_history(&lineage))?;
    let reach = |state| {
        StateReach::of(
            state,
            archive.as_ref().map_or_else(ForwardReach::default, |archive| archive.reach(state.epoch())),
        )
    };
    let states = states.iter().map(reach).collect();
    Ok((states, archive))
}

/// What is to be copied: looked at and held, before there has to be a folder for it. So a wrong path, or an epoch that
/// cannot be had, leaves no folder behind.
#[derive(Debug)]
pub struct CopySource {
    left: LeftInSource,
    /// The durable epoch that the source shows.
    durable: Epoch,
    found: Found,
    purpose: Purpose,
    /// What brings its state to a later epoch.
    archive: Option<ArchiveSource>,
    options: CopyOptions,
}

impl CopySource {
    /// The database on `source`, for a [`backup()`] of it.
    ///
    /// # Errors
    /// What a lease of the source says; the disk's.
    pub fn backup(source: &Arc<dyn Disk>, options: CopyOptions) -> Result<Self, DurabilityError> {
        Self::look((source, Purpose::Backup { log: LogBehind::Copied }), None, options)
    }

    /// The newest picture of the database on `source`, without the log behind it: for a caller that has asked for this
    /// picture, and waited for it. Without a picture it is as [`CopySource::backup`].
    ///
    /// # Errors
    /// As for [`CopySource::backup`].
    pub fn picture(source: &Arc<dyn Disk>, options: CopyOptions) -> Result<Self, DurabilityError> {
        Self::look((source, Purpose::Backup { log: LogBehind::Left }), None, options)
    }

    /// The backup on `from`, for a [`restore`].
    ///
    /// # Errors
    /// [`DurabilityError::NotABackup`], also if it has no state of that epoch; [`DurabilityError::InUse`] while a
    /// backup is made, or somebody has it open; the disk's.
    pub fn restore(
        from: &Arc<dyn Disk>,
        at: Option<Epoch>,
        bytes_per_second: Option<u64>,
    ) -> Result<Self, DurabilityError> {
        let options = CopyOptions { bytes_per_second, keep: Some(1) };
        Self::look((from, Purpose::Restore { at, back: None }), None, options)
    }

    /// The backup on `from`, and an archive, for a [`restore_to_epoch`].
    ///
    /// # Errors
    /// As for [`CopySource::restore`], and if that epoch cannot be had.
    pub fn restore_to_epoch(
        (from, archive): (&Arc<dyn Disk>, Option<&Arc<dyn Disk>>),
        to: Epoch,
        bytes_per_second: Option<u64>,
    ) -> Result<Self, DurabilityError> {
        let options = CopyOptions { bytes_per_second, keep: Some(1) };
        let (states, archive) = reaches((from, archive), to)?;
        let counted = archive.as_ref().map_or(Ok(()), ArchiveSource::counted);
        let ChosenState { at, way } = to_epoch::choose(&states, to, counted).map_err(|why| {
            let begins = archive.as_ref().map(|archive| (archive.begins_behind(), archive.missing()));
            let detail = to_epoch::explained(&why, (&states, to), begins);
            match &archive {
                Some(archive) => archive.refused(&detail),
                None => {
                    DurabilityError::NotABackup { folder: from.folder_place("").unwrap_or_default(), detail }
                }
            }
        })?;
        let back = (way == RestoreWay::Back).then_some(to);
        let archive = archive.filter(|_| way == RestoreWay::Forward);
        Self::look((from, Purpose::Restore { at: Some(at), back }), archive, options)
    }

    fn look(
        (source, purpose): (&Arc<dyn Disk>, Purpose),
        archive: Option<ArchiveSource>,
        options: CopyOptions,
    ) -> Result<Self, DurabilityError> {
        options.check()?;
        let found = source::look(source, purpose)?;
        let left = match purpose {
            Purpose::Backup { .. } => LeftInSource::look(source)?,
            Purpose::Restore { .. } => LeftInSource::NotAsked,
        };
        let durable = found.durable.max(archive.as_ref().map_or(Epoch::ZERO, ArchiveSource::durable));
        Ok(Self { left, durable, found: found.copied, purpose, archive, options })
    }

    /// Begins to copy it into the folder on `target`.
    ///
    /// # Errors
    /// What the target says: those of [`backup()`] or [`restore`].
    pub fn begin(self, target: &Arc<dyn Disk>) -> Result<CopyRun, DurabilityError> {
        let Self { left, durable, found, purpose, archive, options } = self;
        let copying = match found {
            Found::Picture(found) => {
                Copying::Pages(Box::new(PagesCopy::begin(*found, (target, archive), (purpose, options))?))
            }
            Found::Files(found) => Copying::Files(Box::new(FilesCopy::begin(
                *found,
                (target, archive),
                (purpose, options.keep),
            )?)),
        };
        Ok(CopyRun { left, durable, copying, pace: WritePace::new(options.bytes_per_second) })
    }
}

impl CopyRun {
    /// As [`step`](Self::step), at the time of this clock. What an archive has is one step. Behind each piece of it
    /// `pause` is shown how far the run is, and for how long the rate has no room for the next piece. It waits for that
    /// time or for less, and is asked again until there is room. The run is over if it breaks.
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

    /// Copies or reads a page, a file or a piece of one, unless the rate is used up at this time. Entries that will
    /// count are shown to `verifier` as a recovery would show them.
    ///
    /// # Errors
    /// [`DurabilityError::Damaged`] with file and offset for the source, [`DurabilityError::TargetFailed`] for the
    /// target, [`DurabilityError::TooSlow`] if the database changes faster than it is copied, or the disk's. The target
    /// has what it had, and the run is over.
    pub fn step(&mut self, verifier: &dyn Recoverable, now_nanos: u64) -> Result<CopyStep, DurabilityError> {
        let spend = &mut |pace: &mut WritePace, _: &CopyProgress, bytes| {
            pace.spend(bytes);
            ControlFlow::Continue(())
        };
        self.step_at(verifier, now_nanos, spend)
    }

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
        let (before, mut by_pieces) = (copying.tally().spent(), 0);
        let mut spend_piece = |progress: &CopyProgress, bytes| {
            by_pieces += bytes;
            match spend(pace, progress, bytes) {
                ControlFlow::Continue(()) => Ok(()),
                ControlFlow::Break(()) => Err(DurabilityError::Cancelled),
            }
        };
        let report = copying.step(verifier, &mut spend_piece)?;
        let spent = copying.tally().spent() - before;
        // Pieces have spent theirs, and are counted too.
        pace.spend(spent.saturating_sub(by_pieces));
        Ok(match report {
            Some(report) => {
                let not_proven = left.not_in(report.epoch);
                CopyStep::Ended(Box::new(CopyReport { durable: *durable, not_proven, ..report }))
            }
            None => CopyStep::Worked,
        })
    }

    /// How far it is.
    #[must_use]
    pub fn progress(&self) -> CopyProgress {
        self.copying.tally().progress()
    }
}
