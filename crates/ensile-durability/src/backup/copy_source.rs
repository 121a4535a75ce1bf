//! Beginning of a copy: the source is examined and held, and the options are checked, before the target's folder
//! exists.
//!
//! Invariants:
//! - A wrong path, or an epoch that is not available, leaves no folder behind.
//! - A2, A4, A5: a restore to an epoch has the complete state at the end of the epoch, and nothing later.
//!   [`restore_choice`] chooses the state of the backup.
//!
//! Neighbours: the engine (`open::folder::backup`) and the objects begin copies here. [`super::source`] has the
//! sources, [`super::copy_run`] the run that begins.

use std::sync::Arc;

use ensile_base::Epoch;
use ensile_disk::Disk;

use super::copy_options::{CopyOptions, check_copy};
use super::copy_run::{CopyRun, Copying, LeftInSource};
use super::files::FilesCopy;
use super::pages::PagesCopy;
use super::restore_choice::{self, ChosenState, RestoreWay, StateReach};
use super::source::{self, Found, LogBehind, Purpose};
use crate::DurabilityError;
use crate::files::manifest::backup_states::KeptState;
use crate::recovery::archive::ArchiveSource;

/// Epochs that [`CopySource::restore_to_epoch`] can restore from the backup on `from`, and from the archive if given:
/// spans with inclusive ends, in order. No span contains a discarded epoch. The spans rest on the headers of files
/// alone; [`archive::verify_archive`](crate::archive::verify_archive) reads each block.
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
    let reach = |state: &KeptState| {
        let forward = archive.as_ref().map(|archive| archive.reach(state.epoch()));
        StateReach::new(state, forward.unwrap_or_default())
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
    /// The database on `source`, for a backup. The database may be open in any process. The backup gets the newest
    /// checkpoint and the log behind the checkpoint, and therefore every result that was durable when the copy began.
    /// If the target has an earlier backup of the database, pages and files that have not changed since are not copied
    /// again.
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

    /// The backup on `from`, for a new database with the newest state of the backup, or with the state at the end of
    /// epoch `at`.
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

    /// The backup on `from` and the database's archive, if given, for a new database with the state at the end of epoch
    /// `to`. A backup offers the epochs of its states. A copy of files also offers the epochs of its log, from the end
    /// of its checkpoint on. The archive offers the epochs after a state.
    ///
    /// # Errors
    /// As for [`CopySource::restore`]. If epoch `to` is not available: [`DurabilityError::NotInArchive`] with an
    /// archive, [`DurabilityError::NotABackup`] without an archive. The text names the available epochs and the missing
    /// data.
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
    /// [`DurabilityError::NotItsBackup`] if the target of a backup holds something else;
    /// [`DurabilityError::DatabaseExists`] or [`DurabilityError::NotADatabase`] if the target of a restore is not
    /// empty; [`DurabilityError::InUse`] if the target is open; [`DurabilityError::TargetFailed`] if the target is
    /// damaged; errors of the disks.
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
        Ok(CopyRun::new(left, durable, copying, options.bytes_per_second))
    }
}
