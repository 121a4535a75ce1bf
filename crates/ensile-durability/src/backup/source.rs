//! Source of a copy: a picture, with or without the log behind the picture, or the files of a database. A lease or
//! locks keep the source's files in place during the copy (N16).
//!
//! Invariants:
//! - N22: the manifest that a copy reads is on the source's medium, and so are the logs after their sync. A process
//!   that died before its own syncs may have left both in the system's cache alone.
//! - A5: a state that is taken back to an earlier epoch has no generation, and no file, behind the epoch.
//!
//! Neighbours: [`super::pages`] and [`super::files`] copy; the store has leases and locks.

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::sync::Arc;

use ensile_base::Epoch;
use ensile_disk::{Disk, DiskError, DiskFile};

use crate::DurabilityError;
use crate::error::unless_missing;
use crate::files::hint::Hint;
use crate::files::manifest::backup_states::KeptState;
use crate::files::manifest::installed_checkpoint::{InstalledCheckpoint, PictureCheckpoint};
use crate::files::manifest::lineage::Lineage;
use crate::files::manifest::origin::MadeFrom;
use crate::files::manifest::{Making, Manifest};
use crate::files::names::{SegmentFile, SegmentName, log_folder};
use crate::files::picture::page::PagePlace;
use crate::files::picture::reader::PictureReader;
use crate::identity::Identity;
use crate::recoverable::EntryKind;
use crate::recovery::copied_logs::covered_files;
use crate::store::leases::{Lease, LeasedFile, lease, open_all};
use crate::store::open::lock_existing;
use crate::store::ownership::expect_manifest;
use crate::store::{LockMode, Locks};

/// Largest number of listings of a log's files, until no file is renamed during a listing.
const LISTINGS_MAX: u32 = 100;

/// Treatment of the log behind a picture in a backup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LogBehind {
    /// The log is copied behind the picture.
    Copied,
    /// The log is left out. The caller asked for the picture, which has everything that the backup needs.
    Left,
}

/// Purpose of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Backup of a database: the newest picture alone, or the newest checkpoint with the log behind the checkpoint.
    Backup { log: LogBehind },
    /// Restore of a backup: the newest state, or the state at the end of epoch `at`. With `back`, a state of files is
    /// taken back to the end of epoch `back` by its own log.
    Restore { at: Option<Epoch>, back: Option<Epoch> },
}

/// Guard that keeps the files of the source in place.
#[derive(Debug)]
pub(super) enum SourceHold {
    /// Lease of a database that may be open.
    Lease { _lease: Box<Lease> },
    /// Locks of a backup, which no process has open.
    Locks { _locks: Locks },
}

/// A source, and the durable epoch that the source's folder shows.
#[derive(Debug)]
pub(super) struct FoundSource {
    pub(super) copied: Found,
    /// Durable epoch of the source. For a picture without its log, the epoch of the picture; for a backup, the epoch of
    /// the newest state.
    pub(super) durable: Epoch,
}

/// A database, and its history up to now.
#[derive(Clone, Copy, Debug)]
pub(super) struct DatabaseHistory<'h> {
    pub(super) identity: Identity,
    /// Generations that the database has had.
    pub(super) lives: &'h Lineage,
}

/// Source of a copy, by kind.
#[derive(Debug)]
pub(super) enum Found {
    Picture(Box<PictureSource>),
    Files(Box<FilesSource>),
}

/// A picture whose directory is read.
#[derive(Debug)]
pub(super) struct PictureSource {
    pub(super) disk: Arc<dyn Disk>,
    pub(super) manifest: Manifest,
    /// Generations that the database has had.
    pub(super) lives: Lineage,
    pub(super) entries: EntryKind,
    pub(super) picture: PictureCheckpoint,
    pub(super) reader: PictureReader,
    /// Pages of the picture, by part of the directory.
    pub(super) parts: Vec<Vec<PagePlace>>,
    /// Log behind the picture, if the log is copied too; `hold` guards both.
    pub(super) log: Option<Box<FilesSource>>,
    hold: Option<SourceHold>,
}

/// Open files of a database or backup, except the page files of a picture.
#[derive(Debug)]
pub(super) struct FilesSource {
    disk: Arc<dyn Disk>,
    pub(super) manifest: Manifest,
    /// Name and handle of each file.
    pub(super) files: Vec<(String, Box<dyn DiskFile>)>,
    /// D that the source's hint showed before the first file was opened; 0 for a backup, because the states of a backup
    /// are closed.
    pub(super) hinted: Epoch,
    /// `None` for the log of a picture whose pages are being copied: [`PictureSource`] has the guard.
    _hold: Option<SourceHold>,
}

/// Result of a sync of the source, without the errors of file systems that have no sync. Linux returns EINVAL for
/// folders and files of squashfs, erofs and iso9660; other read-only file systems may return EROFS or EOPNOTSUPP. A
/// read-only file system has no unsynced bytes. No database is open on a read-only file system, because the syncs of
/// the database would fail too.
fn ignore_unsupported_sync(came_to: Result<(), DiskError>) -> Result<(), DiskError> {
    let without_sync = [ErrorKind::InvalidInput, ErrorKind::ReadOnlyFilesystem, ErrorKind::Unsupported];
    match came_to {
        Err(DiskError::Io { source, .. }) if without_sync.contains(&source.kind()) => Ok(()),
        came_to => came_to,
    }
}

/// Finds the data to copy, and guards the files.
pub(super) fn look(disk: &Arc<dyn Disk>, purpose: Purpose) -> Result<FoundSource, DurabilityError> {
    match purpose {
        Purpose::Backup { log } => look_at_database(disk, log),
        Purpose::Restore { at, back } => look_at_backup(disk, at, back),
    }
}

/// Finds the source in a database that may be open.
fn look_at_database(disk: &Arc<dyn Disk>, log: LogBehind) -> Result<FoundSource, DurabilityError> {
    // N20: the hint is read before the lease opens a file. A later hint may show epochs that only later files have.
    let hint = Hint::read(&**disk)?;
    let mut lease = lease(disk)?;
    let manifest = lease.manifest().clone();
    // N22: the sync comes after the read of the manifest. A manifest that is newer by then is of the same history.
    ignore_unsupported_sync(disk.sync_folder(""))?;
    let files = lease.take_files();
    let hold = SourceHold::Lease { _lease: Box::new(lease) };
    let Some(InstalledCheckpoint::Picture(picture)) = manifest.checkpoint.clone() else {
        let files = FilesSource::new(disk, manifest, hint, files, Some(hold))?;
        let durable = files.durable();
        return Ok(FoundSource { copied: Found::Files(Box::new(files)), durable });
    };
    let log = match log {
        LogBehind::Copied => FilesSource::behind_picture(disk, &manifest, hint, files)?,
        LogBehind::Left => None,
    };
    let durable = log.as_ref().map_or(picture.epoch, FilesSource::durable);
    let copied = PictureSource::open(disk, &manifest, picture, log, hold)?;
    Ok(FoundSource { copied, durable })
}

/// Finds a state of a backup, or the part of the state up to the end of epoch `back`.
fn look_at_backup(
    disk: &Arc<dyn Disk>,
    at: Option<Epoch>,
    back: Option<Epoch>,
) -> Result<FoundSource, DurabilityError> {
    let locks = lock_existing(&**disk, LockMode::Shared, &mut Err)?;
    let manifest = expect_manifest(&**disk)?;
    let folder = disk.folder_place("")?;
    backup_of(&**disk, &manifest)?;
    let newest = manifest.newest_state();
    let states = || newest.iter().chain(&manifest.kept);
    let durable = newest.as_ref().map_or(Epoch::ZERO, KeptState::epoch);
    let copied = match states().find(|state| at.is_none_or(|at| state.epoch() == at)) {
        Some(KeptState::Picture(chosen)) => {
            let hold = SourceHold::Locks { _locks: locks };
            PictureSource::open(disk, &manifest, chosen.clone(), None, hold)?
        }
        Some(KeptState::Files(chosen)) => {
            let chosen = back.map_or_else(|| Some(chosen.clone()), |back| chosen.back_to(back));
            let detail = "a backup was made into it meanwhile: run it again".to_owned();
            let chosen = chosen.ok_or(DurabilityError::NotABackup { folder, detail })?;
            let (alone, hold) = (manifest.with_kept(&chosen), SourceHold::Locks { _locks: locks });
            let files = open_all(&**disk, &alone)?;
            match chosen.picture() {
                Some(picture) => {
                    let log = FilesSource::behind_picture(disk, &alone, None, files)?;
                    PictureSource::open(disk, &alone, picture.clone(), log, hold)?
                }
                None => {
                    let files = FilesSource::new(disk, alone, None, files, Some(hold))?;
                    Found::Files(Box::new(files))
                }
            }
        }
        None => {
            let epochs: Vec<_> = states().map(|state| state.epoch().to_string()).collect();
            let at = at.unwrap_or_default();
            let detail = format!("it has no state at the end of epoch {at}, but of {}", epochs.join(", "));
            return Err(DurabilityError::NotABackup { folder, detail });
        }
    };
    Ok(FoundSource { copied, durable })
}

/// Identity of the database that was backed up into this folder.
fn backup_of(disk: &dyn Disk, manifest: &Manifest) -> Result<Identity, DurabilityError> {
    if let Some(MadeFrom::Backup { of }) = manifest.made_from {
        return Ok(of);
    }
    let detail = match manifest.state {
        Making::Creating => {
            "nothing has been backed up into it yet: the first backup has not ended, so run it again"
        }
        Making::Created => {
            "it is no backup, or was one and has been opened since, so it is a database of its own: `ensile backup` \
             makes a backup of it, and a copy of the folder is one behind `ensile adopt`"
        }
    };
    Err(DurabilityError::NotABackup { folder: disk.folder_place("")?, detail: detail.to_owned() })
}

/// Identity of the database that was backed up, the states of the backup, newest first, and the lineage of the newest
/// state.
pub(super) fn states(disk: &Arc<dyn Disk>) -> Result<(Identity, Vec<KeptState>, Lineage), DurabilityError> {
    let _locks = lock_existing(&**disk, LockMode::Shared, &mut Err)?;
    let manifest = expect_manifest(&**disk)?;
    let of = backup_of(&**disk, &manifest)?;
    let states = manifest.newest_state().into_iter().chain(manifest.kept.iter().cloned());
    Ok((of, states.collect(), manifest.lives()))
}

impl FilesSource {
    /// Source of these files, which belong to a database with this manifest.
    fn new(
        disk: &Arc<dyn Disk>,
        manifest: Manifest,
        hint: Option<Hint>,
        files: Vec<LeasedFile>,
        hold: Option<SourceHold>,
    ) -> Result<Self, DurabilityError> {
        let open = manifest.generations.last();
        let hint = hint.filter(|hint| hint.database == manifest.identity);
        let hint = hint.filter(|hint| open.is_some_and(|generation| hint.belongs_to(generation)));
        let hinted = hint.map_or(Epoch::ZERO, |hint| hint.durable);
        let picture = manifest.checkpoint.iter().filter(|checkpoint| checkpoint.is_picture());
        let pages: BTreeSet<String> = picture.flat_map(InstalledCheckpoint::files).collect();
        let files = files.into_iter().map(LeasedFile::into_parts);
        let files = files.filter(|(name, _)| !pages.contains(name)).collect();
        let mut source = Self { disk: Arc::clone(disk), manifest, files, hinted, _hold: hold };
        source.drop_covered()?;
        Ok(source)
    }

    /// Source of the log behind a picture; `None` for a database without a log.
    fn behind_picture(
        disk: &Arc<dyn Disk>,
        manifest: &Manifest,
        hint: Option<Hint>,
        files: Vec<LeasedFile>,
    ) -> Result<Option<Self>, DurabilityError> {
        let has_log = manifest.generations.iter().any(|generation| generation.logs > 0);
        has_log.then(|| Self::new(disk, manifest.clone(), hint, files, None)).transpose()
    }

    /// Durable epoch that the folder showed when the source was found. The source lacks no entry up to this epoch.
    fn durable(&self) -> Epoch {
        let Manifest { checkpoint, generations, .. } = &self.manifest;
        let pictured = checkpoint.as_ref().map_or(Epoch::ZERO, InstalledCheckpoint::durable_min);
        let ended = generations.iter().filter_map(|generation| generation.durable).max();
        self.hinted.max(pictured).max(ended.unwrap_or_default())
    }

    /// Opened log files of the open generation, by logger, in order.
    pub(super) fn logs(&self) -> BTreeMap<u32, Vec<SegmentFile>> {
        self.logs_of(self.manifest.generations.last().map_or(0, |generation| generation.number))
    }

    /// Opened log files of the generation with this number, by logger, in order.
    pub(super) fn logs_of(&self, generation: u64) -> BTreeMap<u32, Vec<SegmentFile>> {
        let mut logs = BTreeMap::<u32, Vec<SegmentFile>>::new();
        for file in self.files.iter().filter_map(|(name, _)| SegmentFile::parse_path(name)) {
            if file.name.generation == generation {
                logs.entry(file.name.logger).or_default().push(file);
            }
        }
        logs.values_mut().for_each(|files| files.sort_unstable_by_key(|file| file.name));
        logs
    }

    /// Number of folders of one kind, up to the folder with the largest number.
    pub(super) fn folders(&self, number: fn(&str) -> Option<u32>) -> usize {
        let folders = self.manifest.folders.keys();
        folders.filter_map(|folder| number(folder)).max().map_or(0, |last| last as usize + 1)
    }

    /// Syncs the log files that are still open (N22). Closed log files were synced before.
    pub(super) fn sync_logs(&self) -> Result<(), DurabilityError> {
        let open = self.manifest.generations.last().map_or(0, |generation| generation.number);
        let is_open = |file: SegmentFile| file.name.generation == open && file.to.is_none();
        let logs = self.files.iter().filter(|(name, _)| SegmentFile::parse_path(name).is_some_and(is_open));
        Ok(logs.map(|(_, file)| file).try_for_each(|file| ignore_unsupported_sync(file.sync_data()))?)
    }

    /// Drops the log files that the checkpoint covers, as far as the next file of the log proves the coverage.
    fn drop_covered(&mut self) -> Result<(), DurabilityError> {
        let logs: Vec<SegmentFile> =
            self.files.iter().filter_map(|(name, _)| SegmentFile::parse_path(name)).collect();
        let covered = covered_files(&*self.disk, &self.manifest, logs.into_iter())?;
        let before = self.files.len();
        self.files
            .retain(|(name, _)| SegmentFile::parse_path(name).is_none_or(|file| !covered.contains(&file)));
        debug_assert_eq!(before - self.files.len(), covered.len(), "K5: the covered files are dropped");
        Ok(())
    }

    /// Drops the files of this log behind `last`. Returns their names.
    pub(super) fn drop_behind(&mut self, last: SegmentName) -> Vec<String> {
        let is_behind = |name: &str| {
            let later = SegmentFile::parse_path(name).map(|file| file.name);
            later.is_some_and(|name| {
                (name.generation, name.logger) == (last.generation, last.logger) && name.number > last.number
            })
        };
        let (behind, kept): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.files).into_iter().partition(|(name, _)| is_behind(name));
        self.files = kept;
        let logs = self.logs_of(last.generation);
        let newest = logs.get(&last.logger).and_then(|files| files.last());
        debug_assert!(newest.is_none_or(|newest| newest.name <= last), "N20: the log ends with {last}");
        behind.into_iter().map(|(name, _)| name).collect()
    }

    /// Opens the files behind `last` that this log has begun since the copy began. The names of the opened files have
    /// no end epoch, because a copy treats no opened file as closed. Returns false, and opens no file, if the next file
    /// was removed: the lease was overrun. If the log has no later file, the next file counts as removed if `last` or
    /// the whole generation was removed. In this case an open has begun a new generation meanwhile, and a checkpoint
    /// covers the old generation.
    pub(super) fn open_later_files(&mut self, last: SegmentName) -> Result<bool, DurabilityError> {
        let is_of_log = |file: &SegmentFile| {
            file.name.generation == last.generation && !file.is_merged && file.name >= last
        };
        let listed = |disk: &dyn Disk| -> Result<BTreeSet<SegmentFile>, DiskError> {
            // A log without a folder has no file.
            let names = unless_missing(disk.list(&log_folder(last.logger)))?.unwrap_or_default();
            Ok(names
                .iter()
                .filter_map(|name| SegmentFile::parse(last.logger, name))
                .filter(is_of_log)
                .collect())
        };
        for _ in 0..LISTINGS_MAX {
            let listing = listed(&*self.disk)?;
            let (own, files): (BTreeSet<_>, BTreeSet<_>) =
                listing.iter().copied().partition(|file| file.name == last);
            let is_removed = match files.first() {
                Some(next) => next.name.number != last.number + 1,
                // A generation leaves the manifest before its files are removed. If the manifest still lists the
                // generation, the listing above is complete.
                None => own.is_empty() || !expect_manifest(&*self.disk)?.lists(last.generation),
            };
            let open = |file: &SegmentFile| {
                Ok((SegmentFile::from(file.name).to_string(), self.disk.open_to_read(&file.to_string())?))
            };
            match files.iter().map(open).collect::<Result<Vec<_>, DiskError>>() {
                // If a file is renamed during a listing, the listing may have neither name.
                Ok(_) if listed(&*self.disk)? != listing => {}
                Ok(_) if is_removed => return Ok(false),
                Ok(opened) => {
                    self.files.extend(opened);
                    return Ok(true);
                }
                Err(error) if error.is_not_found() => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(DurabilityError::InUse { path: self.disk.folder_place(&log_folder(last.logger))? })
    }

    /// Upper bound of the epochs that the source has shown by now. Loggers continue during a copy, and reserve more
    /// epochs (L6).
    pub(super) fn reserved_epoch(&self) -> Result<Epoch, DurabilityError> {
        let now = expect_manifest(&*self.disk)?;
        let (lives, lives_before) = (now.lives(), self.manifest.lives());
        check_same(
            &*self.disk,
            DatabaseHistory { identity: now.identity, lives: &lives },
            DatabaseHistory { identity: self.manifest.identity, lives: &lives_before },
        )?;
        Ok(now.reserved.max(self.manifest.reserved))
    }
}

/// Checks that the folder still has the earlier database, possibly in a later state.
fn check_same(
    disk: &dyn Disk,
    now: DatabaseHistory<'_>,
    before: DatabaseHistory<'_>,
) -> Result<(), DurabilityError> {
    if now.identity == before.identity && now.lives.check_continues(before.lives).is_ok() {
        return Ok(());
    }
    let folder = disk.folder_place("")?;
    Err(DurabilityError::config(format!(
        "{} was exchanged for another database, or an older copy, while it was copied: nothing counts that was; begin again",
        folder.display()
    )))
}

impl PictureSource {
    /// Checks that the folder still has the database of `before`, possibly in a later state.
    pub(super) fn check_follows(&self, before: &Self) -> Result<(), DurabilityError> {
        check_same(&*self.disk, self.history(), before.history())
    }

    /// Takes the log behind the picture, with the guard of both: no page is read any more.
    pub(super) fn take_log(&mut self) -> Option<FilesSource> {
        let log = *self.log.take()?;
        Some(FilesSource { _hold: self.hold.take(), ..log })
    }

    /// The database in the source's folder.
    pub(super) fn history(&self) -> DatabaseHistory<'_> {
        DatabaseHistory { identity: self.manifest.identity, lives: &self.lives }
    }

    /// Reads the root and the directory of the picture. `log` is the log behind the picture, if it is copied too.
    fn open(
        disk: &Arc<dyn Disk>,
        manifest: &Manifest,
        picture: PictureCheckpoint,
        log: Option<FilesSource>,
        hold: SourceHold,
    ) -> Result<Found, DurabilityError> {
        let reader = PictureReader::open(&**disk, &picture)?;
        let parts = reader.directory()?;
        assert!(picture.is_whole(), "a manifest that is read is whole");
        Ok(Found::Picture(Box::new(Self {
            disk: Arc::clone(disk),
            lives: manifest.lives(),
            manifest: manifest.clone(),
            entries: reader.entry_kind().expect("its root is in a file"),
            picture,
            reader,
            parts,
            log: log.map(Box::new),
            hold: Some(hold),
        })))
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
