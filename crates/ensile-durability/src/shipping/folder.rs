//! A shared store in a folder on several machines.
//!
//! An object is written beside its name, as `..new` with a random number, synced, and renamed (H1). A conditional
//! creation adds the name as a hard link; the link fails if the name is taken. File systems, including NFS, do the link
//! for a single caller only (H2), and show the object as a whole.
//!
//! Neighbours: a [`Disk`], real or simulated; [`super::shared_store`] states the promises.

use std::fmt;
use std::marker::PhantomData;
use std::path::Path;
use std::sync::Arc;

use ensile_base::random::Random;
use ensile_disk::{Disk, DiskError, DiskFile, RealDisk};

use super::shared_store::{Creation, SharedObject, SharedStore, SharedStoreError, SharedUpload};
use crate::error::kind::{Returns, into_caller_error};
use crate::error::unless_missing;
use crate::{DurabilityError, StorageError};

/// Suffix of an unfinished file's name.
const UNFINISHED: &str = ".new";

/// A folder on several machines. The folder's file system must support hard links. `E` is the error that
/// [`open`](Self::open) returns: each public crate names its own.
pub struct SharedFolder<E = DurabilityError> {
    disk: Arc<dyn Disk>,
    returns: Returns<E>,
}

impl<E> Clone for SharedFolder<E> {
    fn clone(&self) -> Self {
        Self { disk: Arc::clone(&self.disk), returns: PhantomData }
    }
}

impl<E> fmt::Debug for SharedFolder<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedFolder").field("disk", &self.disk).finish()
    }
}

impl From<DiskError> for SharedStoreError {
    fn from(error: DiskError) -> Self {
        Self::new(error)
    }
}

impl<E: From<StorageError>> SharedFolder<E> {
    /// The existing folder at `path`. A missing folder is not made, because its device may not be mounted.
    ///
    /// # Errors
    /// The folder is missing; the disk's.
    pub fn open(path: &Path) -> Result<Self, E> {
        match RealDisk::open_existing(path) {
            Ok(disk) => Ok(Self::new(Arc::new(disk))),
            Err(error) if error.is_not_found() => Err(into_caller_error(DurabilityError::config(format!(
                "there is no folder {} to ship to: mount its device, or make it",
                path.display()
            )))),
            Err(error) => Err(into_caller_error(error)),
        }
    }
}

impl<E> SharedFolder<E> {
    /// The root folder of this disk.
    #[must_use]
    pub fn new(disk: Arc<dyn Disk>) -> Self {
        Self { disk, returns: PhantomData }
    }

    /// Adds all files below a folder to `found`, with their paths from the root.
    fn walk(&self, folder: &str, found: &mut Vec<String>) -> Result<(), DiskError> {
        for name in self.disk.list(folder)? {
            found.push(format!("{folder}/{name}"));
        }
        for name in self.disk.list_folders(folder)? {
            self.walk(&format!("{folder}/{name}"), found)?;
        }
        Ok(())
    }

    /// The files below a folder, including unfinished files.
    fn list_files(&self, folder: &str) -> Result<Vec<String>, DiskError> {
        let mut found = Vec::new();
        match self.walk(folder, &mut found) {
            Err(error) if error.is_not_found() && !self.disk.exists(folder)? => {}
            walked => walked?,
        }
        found.sort_unstable();
        Ok(found)
    }

    /// Makes the folders of a name, and makes the folders survive a power failure. An earlier process may have made the
    /// folders and ended before the sync.
    fn make_folders(&self, name: &str) -> Result<(), DiskError> {
        let Some((folder, _)) = name.rsplit_once('/') else { return Ok(()) };
        self.disk.create_folder(folder)?;
        ancestor_folders(folder).try_for_each(|folder| self.disk.sync_folder(folder))
    }

    /// Syncs a folder, after all folders below it.
    fn sync_below(&self, folder: &str) -> Result<(), DiskError> {
        let below = self.disk.list_folders(folder)?;
        below.iter().try_for_each(|name| self.sync_below(&format!("{folder}/{name}")))?;
        self.disk.sync_folder(folder)
    }

    /// Name of the unfinished file beside `name`, different for every writer.
    fn temporary_name(name: &str) -> String {
        let beside = format!("{name}.{:016x}{UNFINISHED}", Random::unpredictable().next_u64());
        debug_assert_eq!(folder_of(&beside), folder_of(name), "H1: the rename stays in the folder");
        beside
    }
}

/// The folders that contain a folder, the root first.
fn ancestor_folders(folder: &str) -> impl Iterator<Item = &str> {
    let above = folder.match_indices('/').map(|(end, _)| &folder[..end]);
    std::iter::once("").chain(above)
}

/// The folder that contains a name.
fn folder_of(name: &str) -> &str {
    name.rsplit_once('/').map_or("", |(folder, _)| folder)
}

impl<E> SharedStore for SharedFolder<E> {
    fn place(&self) -> String {
        self.disk
            .folder_place("")
            .map_or_else(|_| "the shared folder".to_owned(), |at| at.display().to_string())
    }

    fn list(&self, folder: &str) -> Result<Vec<SharedObject>, SharedStoreError> {
        let mut objects = Vec::new();
        for name in self.list_files(folder)?.into_iter().filter(|name| !name.ends_with(UNFINISHED)) {
            // A file removed meanwhile is omitted.
            if let Some(file) = unless_missing(self.disk.open_to_read(&name))? {
                objects.push(SharedObject { bytes: file.len()?, name });
            }
        }
        Ok(objects)
    }

    fn read_at(&self, name: &str, bytes: &mut [u8], offset: u64) -> Result<Option<usize>, SharedStoreError> {
        match unless_missing(self.disk.open_to_read(name))? {
            Some(file) => Ok(Some(file.read_at(bytes, offset)?)),
            None => Ok(None),
        }
    }

    fn upload(&self, name: &str) -> Result<Box<dyn SharedUpload>, SharedStoreError> {
        self.make_folders(name)?;
        let beside = Self::temporary_name(name);
        let file = self.disk.create(&beside)?;
        let (disk, name) = (Arc::clone(&self.disk), name.to_owned());
        Ok(Box::new(FolderUpload { disk, name, beside, file, offset: 0, is_over: false }))
    }

    fn create(&self, name: &str, bytes: &[u8]) -> Result<Creation, SharedStoreError> {
        self.make_folders(name)?;
        let beside = Self::temporary_name(name);
        let file = self.disk.create(&beside)?;
        let named = file
            .write_at(bytes, 0)
            .and_then(|()| file.sync_all())
            .and_then(|()| self.disk.add_name(&beside, name));
        debug_assert!(
            named.is_err() || file.len().ok().is_none_or(|length| length == bytes.len() as u64),
            "H1: {name} is whole"
        );
        // The other name has no further use.
        let _ = self.disk.remove(&beside);
        let creation = match named {
            Ok(()) => Creation::Created,
            // The maker of the name may have ended before its sync.
            Err(error) if error.is_already_exists() => Creation::Taken,
            Err(error) => return Err(error.into()),
        };
        self.disk.sync_folder(folder_of(name))?;
        Ok(creation)
    }

    fn remove(&self, name: &str) -> Result<(), SharedStoreError> {
        unless_missing(self.disk.remove(name))?;
        Ok(())
    }

    fn list_unfinished(&self, folder: &str) -> Result<Vec<String>, SharedStoreError> {
        let mut names = self.list_files(folder)?;
        names.retain(|name| name.ends_with(UNFINISHED));
        Ok(names)
    }

    fn settle(&self, folder: &str) -> Result<(), SharedStoreError> {
        if self.disk.exists(folder)? {
            ancestor_folders(folder).try_for_each(|folder| self.disk.sync_folder(folder))?;
            self.sync_below(folder)?;
        }
        Ok(())
    }
}

/// A file on its way, written beside its name.
#[derive(Debug)]
struct FolderUpload {
    disk: Arc<dyn Disk>,
    name: String,
    beside: String,
    file: Box<dyn DiskFile>,
    offset: u64,
    is_over: bool,
}

impl SharedUpload for FolderUpload {
    fn write(&mut self, bytes: &[u8]) -> Result<(), SharedStoreError> {
        self.file.write_at(bytes, self.offset)?;
        self.offset += bytes.len() as u64;
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<(), SharedStoreError> {
        self.file.sync_all()?;
        debug_assert!(
            self.file.len().ok().is_none_or(|bytes| bytes == self.offset),
            "H1: {} is whole",
            self.name
        );
        self.disk.rename(&self.beside, &self.name)?;
        self.is_over = true;
        Ok(self.disk.sync_folder(folder_of(&self.name))?)
    }
}

impl Drop for FolderUpload {
    fn drop(&mut self) {
        if !self.is_over {
            // A later shipper removes the remains.
            let _ = self.disk.remove(&self.beside);
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
