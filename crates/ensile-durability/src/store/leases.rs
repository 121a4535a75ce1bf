//! Leases of readers. A process that reads the files of an open database asks the database not to remove files (I3): a
//! shared lock on the file `LEASES`, which ends with the reader. A removal first tries the same lock exclusively.
//!
//! Invariants:
//! - I3: while a lease is held, no file is removed for `LEASE_SECONDS_MAX` from the first refusal on; overruns count.
//! - The exclusive lock is held during the removals, so that no lease begins in the middle of a removal.
//!
//! Neighbours: log and checkpoints ask before a removal; recovery does not wait. `ensile lease` and `backup` hold one.

use std::collections::BTreeSet;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use ensile_base::limits::LEASE_SECONDS_MAX;
use ensile_base::sync::{Mutex, sleep};
use ensile_disk::{Disk, DiskError, DiskFile, DiskLock};

use super::folders::is_folder;
use super::ownership::expect_manifest;
use crate::counter::Counter;
use crate::error::kind::{Returns, into_caller_error};
use crate::files::manifest::Manifest;
use crate::files::manifest::installed_checkpoint::InstalledCheckpoint;
use crate::files::names::{ARCHIVE_FOLDER, FOLDER, HINT, LEASES, MAIN, MANIFEST, SegmentFile, logger_of};
use crate::{DurabilityError, Result, StorageError};

/// Largest number of attempts to take a lease; `PAUSE`: between two. A removal or an open holds the lock for a moment.
const TRIES_MAX: u32 = 500;
const PAUSE: Duration = Duration::from_millis(10);
const _: () = assert!(
    PAUSE.as_millis() as u64 * (TRIES_MAX as u64) < LEASE_SECONDS_MAX * 1000,
    "I3: a lease is taken or refused before a removal goes on despite leases"
);

#[derive(Debug)]
pub(crate) enum Clearance {
    /// No reader holds a lease. No reader can take a lease before the drop of this value.
    Free { _lock: Box<dyn DiskLock> },
    /// A reader holds a lease beyond the limit.
    Overrun,
}

#[derive(Debug, Default)]
pub(crate) struct Leases {
    /// Time of the first refusal of the postponed removal, by the log's clock, in nanoseconds.
    refused_nanos: Mutex<Option<u64>>,
    pub(crate) put_off: Counter,
    pub(crate) overrun: Counter,
}

impl Leases {
    /// Asks for the permission to remove files at `now`, in nanoseconds. `None` while a lease is held: ask again later.
    pub(crate) fn ask(&self, disk: &dyn Disk, now: u64) -> Result<Option<Clearance>, DiskError> {
        // The lock guards a number: no panic leaves the number half changed.
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

/// Takes the lock for removals, and makes `LEASES` if it is missing. `None` while a reader holds a lease.
pub(crate) fn try_lock(disk: &dyn Disk) -> Result<Option<Box<dyn DiskLock>>, DiskError> {
    match disk.lock(LEASES) {
        Ok(lock) => Ok(Some(lock)),
        Err(DiskError::InUse { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// A file that was opened under a lease. The file can be read until the drop of this value, even after a removal or a
/// change of its name. `E` is the error that the calls return: a public crate names its own.
#[derive(Debug)]
pub struct LeasedFile<E = DurabilityError> {
    name: String,
    file: Box<dyn DiskFile>,
    returns: Returns<E>,
}

impl LeasedFile {
    pub(crate) fn into_parts(self) -> (String, Box<dyn DiskFile>) {
        (self.name, self.file)
    }
}

impl<E> LeasedFile<E> {
    /// Name of the file at its opening, relative to the database's folder. A log file is renamed when it is closed.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl<E: From<StorageError>> LeasedFile<E> {
    /// Current length of the file in bytes.
    ///
    /// # Errors
    /// The disk's.
    pub fn bytes(&self) -> Result<u64, E> {
        self.file.len().map_err(into_caller_error)
    }

    /// Reads from `offset` until `bytes` is full or the file ends. Returns the number of bytes read.
    ///
    /// # Errors
    /// The disk's.
    pub fn read_at(&self, bytes: &mut [u8], offset: u64) -> Result<usize, E> {
        self.file.read_at(bytes, offset).map_err(into_caller_error)
    }
}

/// Keeps the files of a database that another process has open from being removed (I3), until the drop of this value.
///
/// Meanwhile the database appends to its files and adds new files. It postpones removals for a minute
/// (`LEASE_SECONDS_MAX`) after the first refusal; [`Lease::has_all_names`] reports missing files. An open, a repair and
/// an adoption do not wait.
///
/// `E` is the error that the calls return: a public crate names its own.
#[derive(Debug)]
pub struct Lease<E = DurabilityError> {
    disk: Arc<dyn Disk>,
    manifest: Manifest,
    files: Vec<LeasedFile<E>>,
    _lock: Box<dyn DiskLock>,
}

impl Lease {
    /// The lease, with calls that return errors of type `F`.
    #[doc(hidden)]
    #[must_use]
    pub fn returning<F>(self) -> Lease<F> {
        let Self { disk, manifest, files, _lock } = self;
        let files = files.into_iter().map(|LeasedFile { name, file, .. }| LeasedFile {
            name,
            file,
            returns: PhantomData,
        });
        Lease { disk, manifest, files: files.collect(), _lock }
    }

    /// Takes the opened files out of the lease. The lease still protects the files from removal.
    pub(crate) fn take_files(&mut self) -> Vec<LeasedFile> {
        std::mem::take(&mut self.files)
    }

    pub(crate) fn manifest(&self) -> &Manifest {
        &self.manifest
    }
}

impl<E> Lease<E> {
    /// Files in the manifest at the beginning of the lease, opened, with `MANIFEST`, `HINT` and marks of folders.
    #[must_use]
    pub fn files(&self) -> &[LeasedFile<E>] {
        &self.files
    }

    /// True if every leased file still has a name in the folder, perhaps the name of a closed log file.
    fn look_for_names(&self) -> Result<bool> {
        let mut there = BTreeSet::new();
        for name in names(&*self.disk, &self.manifest)? {
            if self.disk.exists(&name)? {
                there.insert(without_end(&name));
            }
        }
        Ok(self.files.iter().all(|file| there.contains(&without_end(&file.name))))
    }
}

impl<E: From<StorageError>> Lease<E> {
    /// True if [`Lease::files`] are still complete in the folder. A closed log file may have a new name.
    ///
    /// # Errors
    /// The disk's.
    pub fn has_all_names(&self) -> Result<bool, E> {
        self.look_for_names().map_err(into_caller_error)
    }
}

/// Takes a lease of the database in this folder, which may be open, and opens the files in its manifest. If manifest
/// and names have changed then, the call begins anew: a listing beside a rename may miss the file under both names.
///
/// # Errors
/// [`DurabilityError::InUse`] if an open or a removal keeps the lock for seconds, or if the manifest changes at every
/// try. [`DurabilityError::NoDatabase`] or [`DurabilityError::NotADatabase`]. [`DurabilityError::Unfinished`] for an
/// unfinished copy. [`DurabilityError::Damaged`] for the manifest. The disk's.
pub fn lease(disk: &Arc<dyn Disk>) -> Result<Lease> {
    let mut why = DurabilityError::InUse { path: MANIFEST.into() };
    // The check comes before `LEASES` may be made: a folder without a database stays unchanged.
    expect_manifest(&**disk)?.check_no_copy(&**disk)?;
    for tried in 0..TRIES_MAX {
        if tried > 0 {
            sleep(PAUSE);
        }
        let lock = match disk.lock_to_read(LEASES) {
            Ok(Some(lock)) => lock,
            Ok(None) => {
                // No version with leases has opened the database. Taking and releasing the lock makes the file.
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
            // A logger has renamed the file since the listing, or the file was removed by an open or beyond the limit.
            Err(DurabilityError::Disk(error)) if error.is_not_found() => why = DurabilityError::Disk(error),
            Err(error) => return Err(error),
        }
    }
    Err(why)
}

/// True if the manifest and the names of its files are the same as before the files were opened.
fn is_settled(disk: &dyn Disk, manifest: &Manifest, files: &[LeasedFile]) -> Result<bool> {
    let is_same = |names: Vec<String>| names.iter().eq(files.iter().map(|file| &file.name));
    Ok(expect_manifest(disk)? == *manifest && is_same(names(disk, manifest)?))
}

pub(crate) fn open_all(disk: &dyn Disk, manifest: &Manifest) -> Result<Vec<LeasedFile>> {
    let open = |name: String| Ok(LeasedFile { file: disk.open_to_read(&name)?, name, returns: PhantomData });
    names(disk, manifest)?.into_iter().map(open).collect()
}

/// Names of the files in this manifest. Log files have the names found in their folders.
fn names(disk: &dyn Disk, manifest: &Manifest) -> Result<Vec<String>> {
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

/// Name of a file without the epoch in the name of a closed log file.
fn without_end(name: &str) -> String {
    name.split("-to-").next().unwrap_or(name).to_owned()
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
