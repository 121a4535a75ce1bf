//! What is copied: a picture, with or without the log behind it, or the files of a database; and what keeps them from
//! being changed meanwhile.
//!
//! Invariants:
//! - N16: a database is leased, a backup is locked: no file of either is removed while it is read, up to the limit that
//!   leases have.
//! - N22: the manifest that is read stands on the source's medium, and so do the logs once they are synced. A process
//!   that died before its sync has left them in the system's cache.
//! - A restore is made of a backup only.
//! - A5: what is taken back to an earlier epoch has neither a generation behind it nor its files.
//!
//! Neighbours: [`super::pages`] and [`super::files`] copy; the store has leases and locks.

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::sync::Arc;

use ensile_base::Epoch;
use ensile_disk::{Disk, DiskError, DiskFile};

use crate::DurabilityError;
use crate::checkpoint::picture::page::PagePlace;
use crate::checkpoint::picture::read::PictureReader;
use crate::error::unless_missing;
use crate::identity::Identity;
use crate::recoverable::EntryKind;
use crate::recovery::copied::covered_files;
use crate::store::application::ApplicationName;
use crate::store::hint::Hint;
use crate::store::installed::{InstalledCheckpoint, PictureCheckpoint};
use crate::store::kept::KeptState;
use crate::store::leases::{Lease, LeasedFile, lease, open_all};
use crate::store::lineage::Lineage;
use crate::store::manifest::{Making, Manifest};
use crate::store::names::{SegmentFile, SegmentName, log_folder};
use crate::store::open::lock_existing;
use crate::store::whose::expect_manifest;
use crate::store::{Hold, Locks, MadeFrom};

/// Times that the files of a log are listed until none is renamed meanwhile.
const LISTINGS_MAX: u32 = 100;

/// The log behind a picture, in a backup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LogBehind {
    /// It is copied beside the picture.
    Copied,
    /// It is left out: the picture was asked for, and has all that the backup is to have.
    Left,
}

/// What a copy is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Of a database: its newest picture alone, or with all that its log has behind the checkpoint.
    Backup { log: LogBehind },
    /// Of a backup: its newest state, or the one at the end of epoch `at`; of files, taken back to the end of `back` by
    /// its own log.
    Restore { at: Option<Epoch>, back: Option<Epoch> },
}

/// What keeps the source as it is.
#[derive(Debug)]
pub(super) enum SourceHold {
    /// Of a database that may be open.
    Lease { _lease: Box<Lease> },
    /// Of a backup, which nobody has open.
    Locks { _locks: Locks },
}

/// The source as it was found.
#[derive(Debug)]
pub(super) struct FoundSource {
    pub(super) copied: Found,
    /// The durable epoch that it shows: of a picture that was asked for its own, of a backup that of its newest state.
    pub(super) durable: Epoch,
}

/// What was found.
#[derive(Debug)]
pub(super) enum Found {
    Picture(Box<PictureSource>),
    Files(Box<FilesSource>),
}

/// A picture, whose directory is read.
#[derive(Debug)]
pub(super) struct PictureSource {
    pub(super) disk: Arc<dyn Disk>,
    /// Whose it is.
    pub(super) database: Identity,
    /// The generations that it has had.
    pub(super) lives: Lineage,
    /// No epoch at or above this was ever shown there.
    pub(super) reserved: Epoch,
    /// I5: its application's name.
    pub(super) application: Option<ApplicationName>,
    pub(super) entries: EntryKind,
    pub(super) picture: PictureCheckpoint,
    pub(super) reader: PictureReader,
    /// Its pages, by part of its directory.
    pub(super) parts: Vec<Vec<PagePlace>>,
    /// The log behind it, if that is copied: under the same hold.
    pub(super) log: Option<Box<FilesSource>>,
    _hold: SourceHold,
}

/// The files of a database or backup but for those of a picture, opened.
#[derive(Debug)]
pub(super) struct FilesSource {
    disk: Arc<dyn Disk>,
    pub(super) manifest: Manifest,
    /// By name.
    pub(super) files: Vec<(String, Box<dyn DiskFile>)>,
    /// The D that its hint showed before a file was opened; 0 of a backup, whose states are closed.
    pub(super) hinted: Epoch,
    /// `None` beside a picture, which has it.
    _hold: Option<SourceHold>,
}

/// What a sync of the source came to. Linux has none for folders and files of squashfs, erofs and iso9660, and says
/// EINVAL; others that can only be read may say EROFS or EOPNOTSUPP. Nothing was written there, so nothing waits to be
/// synced. No database is open on such a file system: its own syncs would fail alike.
fn synced(came_to: Result<(), DiskError>) -> Result<(), DiskError> {
    let without_sync = [ErrorKind::InvalidInput, ErrorKind::ReadOnlyFilesystem, ErrorKind::Unsupported];
    match came_to {
        Err(DiskError::Io { source, .. }) if without_sync.contains(&source.kind()) => Ok(()),
        came_to => came_to,
    }
}

/// Looks at what is to be copied, and holds it.
pub(super) fn look(disk: &Arc<dyn Disk>, purpose: Purpose) -> Result<FoundSource, DurabilityError> {
    match purpose {
        Purpose::Backup { log } => look_at_database(disk, log),
        Purpose::Restore { at, back } => look_at_backup(disk, at, back),
    }
}

/// Looks at a database that may be open.
fn look_at_database(disk: &Arc<dyn Disk>, log: LogBehind) -> Result<FoundSource, DurabilityError> {
    // N20: before the lease opens a file. A later one may show what only files behind those have.
    let hint = Hint::read(&**disk)?;
    let mut lease = lease(disk)?;
    let manifest = lease.manifest().clone();
    // N22: behind the look at it. A later manifest is of the same history.
    synced(disk.sync_folder(""))?;
    let files = lease.take_files();
    let hold = SourceHold::Lease { _lease: Box::new(lease) };
    let Some(InstalledCheckpoint::Picture(picture)) = manifest.checkpoint.clone() else {
        let files = FilesSource::of(disk, (manifest, hint), files, Some(hold));
        let durable = files.durable();
        return Ok(FoundSource { copied: Found::Files(Box::new(files)), durable });
    };
    let has_log = manifest.generations.iter().any(|generation| generation.logs > 0);
    let log = (log == LogBehind::Copied && has_log)
        .then(|| FilesSource::of(disk, (manifest.clone(), hint), files, None));
    let durable = log.as_ref().map_or(picture.epoch, FilesSource::durable);
    let copied = PictureSource::open(disk, &manifest, picture, (log, hold))?;
    Ok(FoundSource { copied, durable })
}

/// Looks at a state of a backup, or at what its own log has up to the end of `back`.
fn look_at_backup(
    disk: &Arc<dyn Disk>,
    at: Option<Epoch>,
    back: Option<Epoch>,
) -> Result<FoundSource, DurabilityError> {
    let locks = lock_existing(&**disk, Hold::Shared, &mut Err)?;
    let manifest = expect_manifest(&**disk)?;
    let folder = disk.folder_place("")?;
    backup_of(&**disk, &manifest)?;
    let newest = KeptState::newest(&manifest);
    let states = || newest.iter().chain(&manifest.kept);
    let durable = newest.as_ref().map_or(Epoch::ZERO, KeptState::epoch);
    let copied = match states().find(|state| at.is_none_or(|at| state.epoch() == at)) {
        Some(KeptState::Picture(chosen)) => {
            let hold = SourceHold::Locks { _locks: locks };
            PictureSource::open(disk, &manifest, chosen.clone(), (None, hold))?
        }
        Some(KeptState::Files(chosen)) => {
            let chosen = match back {
                Some(back) => chosen.back_to(back),
                None => Some(chosen.clone()),
            };
            let changed = || DurabilityError::NotABackup {
                folder,
                detail: "a backup was made into it meanwhile: run it again".to_owned(),
            };
            let chosen = chosen.ok_or_else(changed)?;
            let (alone, hold) = (manifest.with_kept(&chosen), SourceHold::Locks { _locks: locks });
            let files = open_all(&**disk, &alone)?;
            match chosen.picture() {
                Some(picture) => {
                    let log = FilesSource::of(disk, (alone.clone(), None), files, None);
                    PictureSource::open(disk, &alone, picture.clone(), (Some(log), hold))?
                }
                None => {
                    let files = FilesSource::of(disk, (alone, None), files, Some(hold));
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

/// Whose backup this is.
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

/// Whose backup this is, its states, the newest first, and the history of the newest.
pub(super) fn states(disk: &Arc<dyn Disk>) -> Result<(Identity, Vec<KeptState>, Lineage), DurabilityError> {
    let _locks = lock_existing(&**disk, Hold::Shared, &mut Err)?;
    let manifest = expect_manifest(&**disk)?;
    let of = backup_of(&**disk, &manifest)?;
    let states = KeptState::newest(&manifest).into_iter().chain(manifest.kept.iter().cloned());
    Ok((of, states.collect(), manifest.lives()))
}

impl FilesSource {
    /// These files of a database with this manifest.
    fn of(
        disk: &Arc<dyn Disk>,
        (manifest, hint): (Manifest, Option<Hint>),
        files: Vec<LeasedFile>,
        hold: Option<SourceHold>,
    ) -> Self {
        let open = manifest.generations.last();
        let hint = hint.filter(|hint| hint.database == manifest.identity);
        let hint = hint.filter(|hint| open.is_some_and(|generation| hint.is_of(generation)));
        let hinted = hint.map_or(Epoch::ZERO, |hint| hint.durable);
        let picture = manifest.checkpoint.iter().filter(|checkpoint| checkpoint.is_picture());
        let pages: BTreeSet<String> = picture.flat_map(InstalledCheckpoint::files).collect();
        let files = files.into_iter().map(LeasedFile::into_parts);
        let files = files.filter(|(name, _)| !pages.contains(name)).collect();
        Self { disk: Arc::clone(disk), manifest, files, hinted, _hold: hold }
    }

    /// The durable epoch that it showed when it was looked at: nothing of a smaller one is lacking in its logs.
    fn durable(&self) -> Epoch {
        let Manifest { checkpoint, generations, .. } = &self.manifest;
        let pictured = checkpoint.as_ref().map_or(Epoch::ZERO, InstalledCheckpoint::durable_min);
        let ended = generations.iter().filter_map(|generation| generation.durable).max();
        self.hinted.max(pictured).max(ended.unwrap_or_default())
    }

    /// The log files of the open generation that it has opened, by logger, in order.
    pub(super) fn logs(&self) -> BTreeMap<u32, Vec<SegmentFile>> {
        self.logs_of(self.manifest.generations.last().map_or(0, |generation| generation.number))
    }

    /// The same of the generation with this number.
    pub(super) fn logs_of(&self, generation: u64) -> BTreeMap<u32, Vec<SegmentFile>> {
        let mut logs = BTreeMap::<u32, Vec<SegmentFile>>::new();
        for file in self.files.iter().filter_map(|(name, _)| SegmentFile::at(name)) {
            if file.name.generation == generation {
                logs.entry(file.name.logger).or_default().push(file);
            }
        }
        logs.values_mut().for_each(|files| files.sort_unstable_by_key(|file| file.name));
        logs
    }

    /// How many folders of a kind it needs: up to the last one of them, by its number.
    pub(super) fn folders(&self, number: fn(&str) -> Option<u32>) -> usize {
        let folders = self.manifest.folders.keys();
        folders.filter_map(|folder| number(folder)).max().map_or(0, |last| last as usize + 1)
    }

    /// Syncs what its logs have by now (N22). A file that was closed was synced before.
    pub(super) fn sync_logs(&self) -> Result<(), DurabilityError> {
        let open = self.manifest.generations.last().map_or(0, |generation| generation.number);
        let is_open = |file: SegmentFile| file.name.generation == open && file.to.is_none();
        let logs = self.files.iter().filter(|(name, _)| SegmentFile::at(name).is_some_and(is_open));
        Ok(logs.map(|(_, file)| file).try_for_each(|file| synced(file.sync_data()))?)
    }

    /// Drops the log files that the checkpoint covers, as far as they say so.
    pub(super) fn drop_covered(&mut self) -> Result<(), DurabilityError> {
        let logs: Vec<SegmentFile> =
            self.files.iter().filter_map(|(name, _)| SegmentFile::at(name)).collect();
        let covered = covered_files(&*self.disk, &self.manifest, logs.into_iter())?;
        self.files.retain(|(name, _)| SegmentFile::at(name).is_none_or(|file| !covered.contains(&file)));
        Ok(())
    }

    /// Drops the files of this log that come behind `last`; their names.
    pub(super) fn drop_behind(&mut self, last: SegmentName) -> Vec<String> {
        let is_behind = |name: &str| {
            let later = SegmentFile::at(name).map(|file| file.name);
            later.is_some_and(|name| {
                (name.generation, name.logger) == (last.generation, last.logger) && name.number > last.number
            })
        };
        let (behind, kept): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.files).into_iter().partition(|(name, _)| is_behind(name));
        self.files = kept;
        behind.into_iter().map(|(name, _)| name).collect()
    }

    /// Opens the files with which this log has gone on behind `last` since the copy began. In a copy none of them is a
    /// closed one. False, and none is opened, if the one that follows was removed: the lease was overrun. If no later
    /// one is there, that is so if `last` itself was removed, or its whole generation: an open that came meanwhile has
    /// begun another one, and a checkpoint covers this.
    pub(super) fn go_on(&mut self, last: SegmentName) -> Result<bool, DurabilityError> {
        let is_of_log = |file: &SegmentFile| {
            file.name.generation == last.generation && !file.is_merged && file.name >= last
        };
        let listed = |disk: &dyn Disk| -> Result<BTreeSet<SegmentFile>, DiskError> {
            // Without its folder the log has no file.
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
                // A generation leaves the list before its files go: a listing before that has them all.
                None => own.is_empty() || !expect_manifest(&*self.disk)?.lists(last.generation),
            };
            let open = |file: &SegmentFile| {
                Ok((SegmentFile::from(file.name).to_string(), self.disk.open_to_read(&file.to_string())?))
            };
            match files.iter().map(open).collect::<Result<Vec<_>, DiskError>>() {
                // A listing beside which a file is renamed may have it under neither name.
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

    /// No epoch at or above this was shown by now: loggers go on beside a copy, and reserve more (L6).
    pub(super) fn reserved(&self) -> Result<Epoch, DurabilityError> {
        let now = expect_manifest(&*self.disk)?;
        check_same(
            &*self.disk,
            (now.identity, &now.lives()),
            (self.manifest.identity, &self.manifest.lives()),
        )?;
        Ok(now.reserved.max(self.manifest.reserved))
    }
}

/// Is what stands there now the database that stood there before, however it has gone on?
fn check_same(
    disk: &dyn Disk,
    (database, lives): (Identity, &Lineage),
    (before, lives_before): (Identity, &Lineage),
) -> Result<(), DurabilityError> {
    if database == before && lives.is_behind(lives_before).is_ok() {
        return Ok(());
    }
    let folder = disk.folder_place("")?;
    Err(DurabilityError::config(format!(
        "{} was exchanged for another database, or an older copy, while it was copied: nothing counts that was; begin again",
        folder.display()
    )))
}

impl PictureSource {
    /// Is this the same database, however it has gone on since `before` was looked at?
    pub(super) fn check_follows(&self, before: &Self) -> Result<(), DurabilityError> {
        check_same(&*self.disk, (self.database, &self.lives), (before.database, &before.lives))
    }

    fn open(
        disk: &Arc<dyn Disk>,
        manifest: &Manifest,
        picture: PictureCheckpoint,
        (log, hold): (Option<FilesSource>, SourceHold),
    ) -> Result<Found, DurabilityError> {
        let reader = PictureReader::open(&**disk, &picture)?;
        let parts = reader.directory()?;
        assert!(picture.is_whole(), "a manifest that is read is whole");
        Ok(Found::Picture(Box::new(Self {
            disk: Arc::clone(disk),
            database: manifest.identity,
            lives: manifest.lives(),
            reserved: manifest.reserved,
            application: manifest.application.clone(),
            entries: reader.entry_kind().expect("its root is in a file"),
            picture,
            reader,
            parts,
            log: log.map(Box::new),
            _hold: hold,
        })))
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
