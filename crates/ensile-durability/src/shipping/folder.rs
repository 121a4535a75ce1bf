//! A shared store in a folder that several machines see.
//!
//! An object is written beside its name, as `..new`, synced, and renamed. What is created conditionally gets its name
//! as a second one (a hard link), which fails if the name is taken: the one operation that file systems, NFS among
//! them, do for one caller only, and that shows the object as a whole.
//!
//! Invariants:
//! - H2: of all callers one creates a name.
//! - H1: an object that is listed was synced before it got its name, and its name before its upload ended.
//! - Names that are being written are nobody else's: a random number is part of them.
//!
//! Neighbours: any [`Disk`], so a simulated one too; [`super::shared`] says what is promised.

use std::path::Path;
use std::sync::Arc;

use ensile_base::random::Random;
use ensile_disk::{Disk, DiskError, DiskFile, RealDisk};

use super::shared::{Creation, SharedObject, SharedStore, SharedStoreError, SharedUpload};
use crate::DurabilityError;
use crate::error::unless_missing;

/// The end of the name of a file that is being written.
const UNFINISHED: &str = ".new";

/// A folder that several machines see. Its file system must know hard links.
#[derive(Clone, Debug)]
pub struct SharedFolder {
    disk: Arc<dyn Disk>,
}

impl From<DiskError> for SharedStoreError {
    fn from(error: DiskError) -> Self {
        Self::new(error)
    }
}

impl SharedFolder {
    /// The folder at this path, which must be there: an empty one that nobody has mounted is not made.
    ///
    /// # Errors
    /// [`DurabilityError::Config`] if there is no folder; the disk's.
    pub fn open(path: &Path) -> Result<Self, DurabilityError> {
        match RealDisk::existing(path) {
            Ok(disk) => Ok(Self::on(Arc::new(disk))),
            Err(error) if error.is_not_found() => Err(DurabilityError::config(format!(
                "there is no folder {} to ship to: mount its device, or make it",
                path.display()
            ))),
            Err(error) => Err(error.into()),
        }
    }

    /// The root folder of this disk.
    #[must_use]
    pub fn on(disk: Arc<dyn Disk>) -> Self {
        Self { disk }
    }

    fn walk(&self, folder: &str, found: &mut Vec<String>) -> Result<(), DiskError> {
        for name in self.disk.list(folder)? {
            found.push(format!("{folder}/{name}"));
        }
        for name in self.disk.list_folders(folder)? {
            self.walk(&format!("{folder}/{name}"), found)?;
        }
        Ok(())
    }

    /// The files below a folder, unfinished ones among them.
    fn below(&self, folder: &str) -> Result<Vec<String>, DiskError> {
        let mut found = Vec::new();
        match self.walk(folder, &mut found) {
            Err(error) if error.is_not_found() && !self.disk.exists(folder)? => {}
            walked => walked?,
        }
        found.sort_unstable();
        Ok(found)
    }

    /// Makes the folders of this name, and makes them survive a power failure. They may have been made by a process
    /// that ended before it could.
    fn make_folders(&self, name: &str) -> Result<(), DiskError> {
        let Some((folder, _)) = name.rsplit_once('/') else { return Ok(()) };
        self.disk.create_folder(folder)?;
        above(folder).try_for_each(|folder| self.disk.sync_folder(folder))
    }

    fn sync_below(&self, folder: &str) -> Result<(), DiskError> {
        let below = self.disk.list_folders(folder)?;
        below.iter().try_for_each(|name| self.sync_below(&format!("{folder}/{name}")))?;
        self.disk.sync_folder(folder)
    }

    fn beside(name: &str) -> String {
        format!("{name}.{:016x}{UNFINISHED}", Random::unpredictable().next_u64())
    }
}

/// The folders that a folder is in, the root first.
fn above(folder: &str) -> impl Iterator<Item = &str> {
    let above = folder.match_indices('/').map(|(end, _)| &folder[..end]);
    std::iter::once("").chain(above)
}

/// The folder that a name is in.
fn folder_of(name: &str) -> &str {
    name.rsplit_once('/').map_or("", |(folder, _)| folder)
}

impl SharedStore for SharedFolder {
    fn place(&self) -> String {
        self.disk
            .folder_place("")
            .map_or_else(|_| "the shared folder".to_owned(), |at| at.display().to_string())
    }

    fn list(&self, folder: &str) -> Result<Vec<SharedObject>, SharedStoreError> {
        let mut objects = Vec::new();
        for name in self.below(folder)?.into_iter().filter(|name| !name.ends_with(UNFINISHED)) {
            // One that is removed meanwhile is not there.
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
        let beside = Self::beside(name);
        let file = self.disk.create(&beside)?;
        let (disk, name) = (Arc::clone(&self.disk), name.to_owned());
        Ok(Box::new(FolderUpload { disk, name, beside, file, offset: 0, is_over: false }))
    }

    fn create(&self, name: &str, bytes: &[u8]) -> Result<Creation, SharedStoreError> {
        self.make_folders(name)?;
        let beside = Self::beside(name);
        let file = self.disk.create(&beside)?;
        let named = file
            .write_at(bytes, 0)
            .and_then(|()| file.sync_all())
            .and_then(|()| self.disk.add_name(&beside, name));
        // Its other name says nothing.
        let _ = self.disk.remove(&beside);
        match named {
            Ok(()) => {
                self.disk.sync_folder(folder_of(name))?;
                Ok(Creation::Created)
            }
            Err(error) if error.is_already_exists() => {
                // The process that made it may have ended before this sync.
                self.disk.sync_folder(folder_of(name))?;
                Ok(Creation::Taken)
            }
            Err(error) => Err(error.into()),
        }
    }

    fn remove(&self, name: &str) -> Result<(), SharedStoreError> {
        unless_missing(self.disk.remove(name))?;
        Ok(())
    }

    fn unfinished(&self, folder: &str) -> Result<Vec<String>, SharedStoreError> {
        let mut names = self.below(folder)?;
        names.retain(|name| name.ends_with(UNFINISHED));
        Ok(names)
    }

    fn settle(&self, folder: &str) -> Result<(), SharedStoreError> {
        if self.disk.exists(folder)? {
            above(folder).try_for_each(|folder| self.disk.sync_folder(folder))?;
            self.sync_below(folder)?;
        }
        Ok(())
    }
}

/// A file that is being written beside its name.
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
        self.disk.rename(&self.beside, &self.name)?;
        self.is_over = true;
        Ok(self.disk.sync_folder(folder_of(&self.name))?)
    }
}

impl Drop for FolderUpload {
    fn drop(&mut self) {
        if !self.is_over {
            // What stays is removed by a shipper, later.
            let _ = self.disk.remove(&self.beside);
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
