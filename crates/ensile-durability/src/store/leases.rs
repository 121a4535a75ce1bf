//! Readers' leases: a process that reads the files of an open database asks it not to remove them (I3).
//!
//! A reader holds a shared lock on the file `LEASES`. The system gives it back when the reader dies. A thread that
//! removes unneeded files of a running database takes the same lock exclusively first, without waiting.
//!
//! Invariants:
//! - I3: no file is removed while a lease is held, before `LEASE_SECONDS_MAX` have passed since the first refusal.
//! - The exclusive lock is held while files are removed, so that no lease begins in the midst of it.
//! - A removal that goes on beside a lease is counted.
//!
//! Neighbours: the log and the checkpoint manager ask before they remove; recovery does not wait; `ensile lease` holds
//! one.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use ensile_base::limits::LEASE_SECONDS_MAX;
use ensile_base::sync::{Mutex, sleep};
use ensile_disk::{Disk, DiskError, DiskFile, DiskLock};

use super::folders::is_folder;
use super::installed::InstalledCheckpoint;
use super::manifest::Manifest;
use super::names::{ARCHIVE_FOLDER, FOLDER, HINT, LEASES, MAIN, MANIFEST, SegmentFile, logger_of};
use super::unfinished::UnfinishedCopy;
use super::whose::expect_manifest;
use crate::DurabilityError;
use crate::counter::Counter;

/// Times that a lease is tried, and the pause between two tries: a removal or an open takes the lock for a moment.
const TRIES_MAX: u32 = 500;
const PAUSE: Duration = Duration::from_millis(10);

/// Files may be removed now.
#[derive(Debug)]
pub(crate) enum Clearance {
    /// Nobody holds a lease, nor can take one before this is dropped.
    Free { _lock: Box<dyn DiskLock> },
    /// Somebody holds one beyond the limit.
    Overrun,
}

/// What a running database knows of its readers' leases.
#[derive(Debug, Default)]
pub(crate) struct Leases {
    /// When the removal that is put off was refused first, by the log's clock.
    refused_nanos: Mutex<Option<u64>>,
    pub(crate) put_off: Counter,
    pub(crate) overrun: Counter,
}

impl Leases {
    /// May files be removed at `now`? `None`: a lease is held, ask again later.
    ///
    /// # Errors
    /// The disk's.
    pub(crate) fn ask(&self, disk: &dyn Disk, now: u64) -> Result<Option<Clearance>, DiskError> {
        // It holds a number: no panic leaves it half changed.
        let mut refused = self.refused_nanos.lock();
        if let Some(lock) = try_lock(disk)? {
            *refused = None;
            return Ok(Some(Clearance::Free { _lock: lock }));
        }
        let Some(since) = *refused else {
            *refused = Some(now);
            self.put_off.add(1);
            return Ok(None);
        };
        if now.saturating_sub(since) < Duration::from_secs(LEASE_SECONDS_MAX).as_nanos() as u64 {
            return Ok(None);
        }
        *refused = None;
        self.overrun.add(1);
        Ok(Some(Clearance::Overrun))
    }
}

/// Takes the lock under which files are removed, which makes `LEASES`; `None` while a reader holds a lease.
///
/// # Errors
/// The disk's.
pub(crate) fn try_lock(disk: &dyn Disk) -> Result<Option<Box<dyn DiskLock>>, DiskError> {
    match disk.lock(LEASES) {
        Ok(lock) => Ok(Some(lock)),
        Err(DiskError::InUse { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// A file that was opened under a lease. It can be read until this is dropped, even if its name is removed or changed.
#[derive(Debug)]
pub struct LeasedFile {
    name: String,
    file: Box<dyn DiskFile>,
}

impl LeasedFile {
    /// Its name when it was opened, relative to the database's folder. A log file is renamed when it is closed.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its name, and what was opened.
    pub(crate) fn into_parts(self) -> (String, Box<dyn DiskFile>) {
        (self.name, self.file)
    }

    /// Its length in bytes now.
    ///
    /// # Errors
    /// The disk's.
    pub fn bytes(&self) -> Result<u64, DurabilityError> {
        Ok(self.file.len()?)
    }

    /// Reads from `offset` until `bytes` is full or the file ends; returns how many bytes were read.
    ///
    /// # Errors
    /// The disk's.
    pub fn read_at(&self, bytes: &mut [u8], offset: u64) -> Result<usize, DurabilityError> {
        Ok(self.file.read_at(bytes, offset)?)
    }
}

/// Keeps the files of a database from being removed while another process has it open (I3). It ends when this is
/// dropped, or when the process ends.
///
/// The database goes on: it appends to its files and adds new ones. It puts the removal of files off for a minute
/// (`LEASE_SECONDS_MAX`) after a removal was refused first, then goes on; [`Lease::has_all_names`] says so. An open, a
/// repair and an adoption do not wait.
#[derive(Debug)]
pub struct Lease {
    disk: Arc<dyn Disk>,
    manifest: Manifest,
    files: Vec<LeasedFile>,
    _lock: Box<dyn DiskLock>,
}

impl Lease {
    /// The files that the manifest listed when the lease began, opened: `MANIFEST`, `HINT` if there is one, marks of
    /// folders, log files, and the files of the installed checkpoint.
    #[must_use]
    pub fn files(&self) -> &[LeasedFile] {
        &self.files
    }

    /// Its files, which it does not have any more: it goes on keeping names.
    pub(crate) fn take_files(&mut self) -> Vec<LeasedFile> {
        std::mem::take(&mut self.files)
    }

    /// The manifest that listed them.
    pub(crate) fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Are all of [`Lease::files`] still in the folder? A log file may have another name by now, since it was closed.
    ///
    /// # Errors
    /// The disk's.
    pub fn has_all_names(&self) -> Result<bool, DurabilityError> {
        let mut there = BTreeSet::new();
        for name in names(&*self.disk, &self.manifest)? {
            if self.disk.exists(&name)? {
                there.insert(without_end(&name));
            }
        }
        Ok(self.files.iter().all(|file| there.contains(&without_end(&file.name))))
    }
}

/// Takes a lease of the database in this folder, which may be open, and opens all files that its manifest lists. It
/// then looks for them again: if manifest and names are the same, the files are those that it lists; if not, it begins
/// anew. A listing beside which a logger renames a file may have it under neither name.
///
/// # Errors
/// [`DurabilityError::InUse`] if an open or a removal keeps the lock for seconds, or the manifest changes at each try:
/// try again later; [`DurabilityError::NoDatabase`] or [`DurabilityError::NotADatabase`] if there is none;
/// [`DurabilityError::Unfinished`] if a copy into it has not ended; [`DurabilityError::Damaged`] for the manifest; the
/// disk's.
pub fn lease(disk: &Arc<dyn Disk>) -> Result<Lease, DurabilityError> {
    let mut why = DurabilityError::InUse { path: MANIFEST.into() };
    // Before `LEASES` may be made: the folder of something else is left alone.
    UnfinishedCopy::check_none(&**disk, &expect_manifest(&**disk)?)?;
    for tried in 0..TRIES_MAX {
        if tried > 0 {
            sleep(PAUSE);
        }
        let lock = match disk.lock_to_read(LEASES) {
            Ok(Some(lock)) => lock,
            Ok(None) => {
                // No version that knows of leases has opened the database: a lock that is let go of makes the file.
                drop(try_lock(&**disk)?);
                continue;
            }
            Err(error @ DiskError::InUse { .. }) => {
                why = error.into();
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        let manifest = expect_manifest(&**disk)?;
        match open_all(&**disk, &manifest) {
            Ok(files) if is_settled(&**disk, &manifest, &files)? => {
                return Ok(Lease { disk: Arc::clone(disk), manifest, files, _lock: lock });
            }
            Ok(_) => why = DurabilityError::InUse { path: MANIFEST.into() },
            // Renamed by a logger since it was listed; or removed by an open, or beyond the limit.
            Err(DurabilityError::Disk(error)) if error.is_not_found() => why = DurabilityError::Disk(error),
            Err(error) => return Err(error),
        }
    }
    Err(why)
}

/// Are the manifest and the names of its files what they were?
fn is_settled(disk: &dyn Disk, manifest: &Manifest, files: &[LeasedFile]) -> Result<bool, DurabilityError> {
    let is_same = |names: Vec<String>| names.iter().eq(files.iter().map(|file| &file.name));
    Ok(expect_manifest(disk)? == *manifest && is_same(names(disk, manifest)?))
}

/// Opens the files that this manifest lists.
pub(crate) fn open_all(disk: &dyn Disk, manifest: &Manifest) -> Result<Vec<LeasedFile>, DurabilityError> {
    let open = |name: String| Ok(LeasedFile { file: disk.open_to_read(&name)?, name });
    names(disk, manifest)?.into_iter().map(open).collect()
}

/// The files that this manifest lists: the installed checkpoint's by their names, those of logs as they are found.
fn names(disk: &dyn Disk, manifest: &Manifest) -> Result<Vec<String>, DurabilityError> {
    let mut names = vec![MANIFEST.to_owned()];
    if disk.exists(HINT)? {
        names.push(HINT.to_owned());
    }
    let is_archive_or_main = |folder: &&String| [MAIN, ARCHIVE_FOLDER].contains(&folder.as_str());
    for folder in manifest.folders.keys().filter(|folder| !is_archive_or_main(folder)) {
        if !is_folder(disk, folder)? {
            continue;
        }
        let files = disk.list(folder)?;
        if files.iter().any(|file| file == FOLDER) {
            names.push(format!("{folder}/{FOLDER}"));
        }
        let Some(logger) = logger_of(folder) else { continue };
        let is_listed = |file: &SegmentFile| manifest.log_bytes(file.name).is_some();
        let logs = files.iter().filter_map(|file| SegmentFile::parse(logger, file)).filter(is_listed);
        names.extend(logs.map(|file| file.to_string()));
    }
    names.extend(manifest.checkpoint.iter().flat_map(InstalledCheckpoint::files));
    Ok(names)
}

/// The name without what a log file's says once it is closed.
fn without_end(name: &str) -> String {
    name.split("-to-").next().unwrap_or(name).to_owned()
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
