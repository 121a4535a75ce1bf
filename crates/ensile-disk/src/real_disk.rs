//! The machine's own files, reached through folder handles that stay open.
//!
//! Invariants:
//! - The disk opens the root and each folder once. Names are relative to these handles
//!   (docs/internals/protocols/files.md). A renamed folder stays part of the disk, and another folder in its place is
//!   never touched.
//! - I4: in a process that was forked from the opener of the disk, nothing is made, changed, locked or synced.
//!
//! Neighbours: `Database` opens the disk; the durability crate sees only the traits.

mod file;
mod folder;
mod lock;
mod mount;
#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "a call that only the C library has")]
mod removed_file;
#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "a call that only the C library has")]
mod write_behind;

use std::collections::BTreeMap;
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use ensile_base::random::Random;
use ensile_base::sync::Mutex;
use rustix::fs::FlockOperation;
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

use crate::error::{DiskError, Operation};
use crate::{BootId, Disk, DiskFile, DiskLock, FileTimes, FolderId, FolderKind, KeptSpace, Process};
use file::RealFile;
use folder::{Folder, NameTarget};
use lock::{LockedEntry, RealLock};

/// A folder of the machine's file system.
#[derive(Debug)]
pub struct RealDisk {
    root: Arc<Folder>,
    /// Folders used so far, by name.
    folders: Mutex<BTreeMap<String, Arc<Folder>>>,
    process: Process,
    /// Set until [`Disk::show_root`], in a disk by [`RealDisk::open_hidden`].
    hidden: Mutex<Option<HiddenRoot>>,
    /// Maximum length of a file by the process's limit, in bytes, read once.
    length_max: u64,
}

/// Present name of a root that is not shown yet.
#[derive(Debug)]
struct HiddenRoot {
    parent: Folder,
    name: String,
}

impl RealDisk {
    /// Opens the disk with the root folder `root`. A missing root is made in an existing folder.
    pub fn open(root: impl AsRef<Path>) -> Result<Self, DiskError> {
        let root = root.as_ref();
        let is_new = make_root(root)?;
        let disk = Self::open_existing(root)?;
        sync_name_of(&disk.root, is_new)?;
        Ok(disk)
    }

    /// Opens the disk with the existing root folder `root`.
    pub fn open_existing(root: impl AsRef<Path>) -> Result<Self, DiskError> {
        let root = root.as_ref();
        let failed = |error| DiskError::io(Operation::Open, root, error);
        let mut folder = Folder::open_path(root).map_err(failed)?;
        folder.set_path(root.canonicalize().map_err(failed)?);
        let length_max = getrlimit(Resource::Fsize).current.unwrap_or(u64::MAX);
        let (root, folders, hidden) = (Arc::new(folder), Mutex::default(), Mutex::default());
        Ok(Self { root, folders, process: Process::current(), hidden, length_max })
    }

    /// Opens the disk with the root folder `root`. A missing root is made under a hidden name beside it, and keeps this
    /// name until [`Disk::show_root`]. So a kill before that leaves nothing at `root`. The drop of the disk removes a
    /// root that is still hidden.
    pub fn open_hidden(root: impl AsRef<Path>) -> Result<Self, DiskError> {
        let root = root.as_ref();
        let is_missing = root.symlink_metadata().is_err_and(|error| error.kind() == io::ErrorKind::NotFound);
        let real = Self::real_path(root)?;
        let (Some(parent), Some(last)) = (real.parent(), real.file_name()) else { return Self::open(root) };
        if !is_missing || !parent.is_dir() {
            return Self::open(root);
        }
        let failed = |error| DiskError::io(Operation::CreateFolder, root, error);
        let (above, name) = (Folder::open_path(parent).map_err(failed)?, hidden_name(last));
        Folder::make_at(&parent.join(&name)).map_err(failed)?;
        let mut disk = Self::open_existing(parent.join(&name))?;
        Arc::get_mut(&mut disk.root).expect("nobody else has it").set_path(real.clone());
        *disk.hidden.lock() = Some(HiddenRoot { parent: above, name });
        Ok(disk)
    }

    /// True if the root folder has its hidden name.
    #[must_use]
    pub fn is_hidden(&self) -> bool {
        self.hidden.lock().is_some()
    }

    /// Removes the root folder and its contents. Folders behind links stay. A folder that another process has put at
    /// the path of the root stays.
    pub fn remove_root(&self) -> Result<(), DiskError> {
        let failed = |error| DiskError::io(Operation::Remove, self.root(), error);
        let parent = self.root.parent().map_err(failed)?;
        let Some(last) = self.root().file_name() else {
            return Err(failed(io::ErrorKind::InvalidInput.into()));
        };
        // The check comes after the rename, because another folder may get the path at any time.
        let hidden = hidden_name(last);
        parent.rename_new(Path::new(last), Path::new(&hidden)).map_err(failed)?;
        let is_root = parent.sub_folder(&hidden).is_ok_and(|found| is_same(&found, &self.root));
        if !is_root {
            return parent.rename_new(Path::new(&hidden), Path::new(last)).map_err(failed);
        }
        std::fs::remove_dir_all(parent.path().join(&hidden)).map_err(failed)
    }

    /// Real path of the folder at `path`, even before the folder is made.
    pub fn real_path(path: impl AsRef<Path>) -> Result<PathBuf, DiskError> {
        let path = path.as_ref();
        let failed = |error| DiskError::io(Operation::Open, path, error);
        match (path.canonicalize(), path.file_name()) {
            (Ok(real), _) => Ok(real),
            (Err(error), Some(name)) if error.kind() == io::ErrorKind::NotFound => {
                let above = path.parent().filter(|above| !above.as_os_str().is_empty());
                Ok(above.unwrap_or(Path::new(".")).canonicalize().map_err(failed)?.join(name))
            }
            (Err(error), _) => Err(failed(error)),
        }
    }

    /// Path of the root folder at its opening.
    #[must_use]
    pub fn root(&self) -> &Path {
        self.root.path()
    }

    fn path(&self, name: &str) -> PathBuf {
        if name.is_empty() { self.root().to_owned() } else { self.root().join(name) }
    }

    /// Handle of the folder `name`, opened now or before.
    fn folder(&self, name: &str) -> io::Result<Arc<Folder>> {
        if name.is_empty() {
            return Ok(Arc::clone(&self.root));
        }
        // After another thread's panic, the handles in the map are still right.
        let mut folders = self.folders.lock();
        let mut folder = Arc::clone(&self.root);
        // Each folder is opened from its parent's handle, because the path above may lead to another folder by now.
        for end in name.match_indices('/').map(|(end, _)| end).chain([name.len()]) {
            let above = name[..end].rfind('/').map_or(0, |slash| slash + 1);
            folder = match folders.get(&name[..end]) {
                Some(held) => Arc::clone(held),
                None => {
                    let found = Arc::new(folder.sub_folder(&name[above..end])?);
                    folders.insert(name[..end].to_owned(), Arc::clone(&found));
                    found
                }
            };
        }
        Ok(folder)
    }

    /// Runs `act` on the entry `name`, with the folder of the entry.
    fn with_entry<T>(
        &self,
        operation: Operation,
        name: &str,
        act: impl FnOnce(&Folder, &str) -> io::Result<T>,
    ) -> Result<T, DiskError> {
        let (folder, last) = name.rsplit_once('/').unwrap_or(("", name));
        let last = if last.is_empty() { "." } else { last };
        self.folder(folder)
            .and_then(|folder| act(&folder, last))
            .map_err(|error| DiskError::io(operation, &self.path(name), error))
    }

    fn with_folder<T>(
        &self,
        operation: Operation,
        name: &str,
        act: impl FnOnce(&Folder) -> io::Result<T>,
    ) -> Result<T, DiskError> {
        self.folder(name)
            .and_then(|folder| act(&folder))
            .map_err(|error| DiskError::io(operation, &self.path(name), error))
    }

    /// Checks that this process opened the disk (I4).
    fn check_process(&self, operation: Operation, name: &str) -> Result<(), DiskError> {
        if self.process.is_this() {
            Ok(())
        } else {
            Err(DiskError::Forked { operation, path: self.path(name) })
        }
    }

    fn handle(&self, file: File, name: &str) -> Box<dyn DiskFile> {
        let (process, length_max) = (self.process.clone(), self.length_max);
        Box::new(RealFile { file, path: self.path(name), process, length_max })
    }

    fn status(&self, name: &str) -> Result<rustix::fs::Stat, DiskError> {
        self.with_entry(Operation::Identify, name, |folder, last| folder.status(last))
    }

    fn take_folder(&self, name: &str, how: FlockOperation) -> Result<Box<dyn DiskLock>, DiskError> {
        self.check_process(Operation::Lock, name)?;
        let handle = self.with_folder(Operation::Lock, name, Folder::again)?;
        self.take_lock(handle, LockedEntry::Folder, name, how)
    }

    fn take_lock(
        &self,
        file: File,
        entry: LockedEntry,
        name: &str,
        how: FlockOperation,
    ) -> Result<Box<dyn DiskLock>, DiskError> {
        Ok(Box::new(RealLock::take(file, entry, self.path(name), how, self.process.clone())?))
    }
}

/// Hidden name for a folder with the name `last`. The name of a folder has at most 255 bytes.
fn hidden_name(last: &std::ffi::OsStr) -> String {
    let last = last.to_string_lossy();
    let kept = ensile_base::text::cut(&last, 255 - 22);
    format!(".{kept}.{:016x}.new", Random::unpredictable().next_u64())
}

impl Drop for RealDisk {
    fn drop(&mut self) {
        if let Some(HiddenRoot { parent, name }) =
            self.hidden.lock().take().filter(|_| self.process.is_this())
        {
            // A hidden folder that stays behind harms nobody.
            let _ = std::fs::remove_dir_all(parent.path().join(name));
        }
    }
}

/// Makes the link, unless the link exists.
fn link_in(parent: &Folder, name: &str, to: &Path) -> io::Result<()> {
    let target = to.canonicalize()?;
    let folder = Folder::open_path(&target)?;
    match parent.find(name)? {
        NameTarget::Nothing => {}
        NameTarget::Link(_) if parent.sub_folder(name).is_ok_and(|found| is_same(&found, &folder)) => {
            return Ok(());
        }
        _ => return Err(io::ErrorKind::AlreadyExists.into()),
    }
    if !folder.files()?.is_empty() {
        let detail = "it holds files, and may be another database's: choose an empty one";
        return Err(io::Error::new(io::ErrorKind::DirectoryNotEmpty, detail));
    }
    parent.make_link(name, &target)
}

/// Widens a field whose width differs between machines.
fn wide(field: impl Into<u64>) -> u64 {
    field.into()
}

/// Time of birth in nanoseconds since 1970. `None` if the file system keeps no birth time.
fn born(found: &Metadata) -> Option<i128> {
    let at = found.created().ok()?;
    Some(match at.duration_since(UNIX_EPOCH) {
        Ok(after) => after.as_nanos() as i128,
        Err(before) => -(before.duration().as_nanos() as i128),
    })
}

/// True if both handles are of the same folder.
fn is_same(one: &Folder, other: &Folder) -> bool {
    let of = |folder: &Folder| folder.handle().metadata().ok().map(|found| (found.dev(), found.ino()));
    of(one).is_some_and(|one| of(other) == Some(one))
}

/// Makes the last folder of `root` if it is missing. Returns true if the folder is new.
fn make_root(root: &Path) -> Result<bool, DiskError> {
    Folder::make_at(root).map_err(|error| {
        let parent = root.parent().filter(|parent| !parent.as_os_str().is_empty());
        match parent {
            // The folder above is missing, and the error names the folder above.
            Some(parent) if error.kind() == io::ErrorKind::NotFound => {
                DiskError::io(Operation::Open, parent, error)
            }
            _ => DiskError::io(Operation::CreateFolder, root, error),
        }
    })
}

/// Syncs the folder above, so that the folder's name survives a crash. An existing folder needs the sync too, because a
/// process may have been killed between making and syncing. For an existing folder, a folder above without read
/// permission is no error.
fn sync_name_of(folder: &Folder, is_new: bool) -> Result<(), DiskError> {
    let parent = folder.path().parent().unwrap_or(folder.path());
    match folder.parent().and_then(|parent| parent.sync()) {
        Err(error) if !is_new && error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
        synced => synced.map_err(|error| DiskError::io(Operation::SyncFolder, parent, error)),
    }
}

impl Disk for RealDisk {
    fn open(&self, name: &str) -> Result<Box<dyn DiskFile>, DiskError> {
        self.check_process(Operation::Open, name)?;
        let file = self.with_entry(Operation::Open, name, |folder, last| folder.open_file(last, true))?;
        Ok(self.handle(file, name))
    }

    fn open_to_read(&self, name: &str) -> Result<Box<dyn DiskFile>, DiskError> {
        let file = self.with_entry(Operation::Open, name, |folder, last| folder.open_file(last, false))?;
        Ok(self.handle(file, name))
    }

    fn create(&self, name: &str) -> Result<Box<dyn DiskFile>, DiskError> {
        self.check_process(Operation::Create, name)?;
        let file = self.with_entry(Operation::Create, name, |folder, last| folder.make_file(last, true))?;
        Ok(self.handle(file, name))
    }

    fn list(&self, folder: &str) -> Result<Vec<String>, DiskError> {
        self.with_folder(Operation::List, folder, Folder::files)
    }

    fn list_folders(&self, folder: &str) -> Result<Vec<String>, DiskError> {
        self.with_folder(Operation::List, folder, Folder::folders)
    }

    fn exists(&self, name: &str) -> Result<bool, DiskError> {
        match self.with_entry(Operation::List, name, |folder, last| folder.exists(last)) {
            Err(error) if error.is_not_found() => Ok(false),
            found => found,
        }
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), DiskError> {
        self.check_process(Operation::Rename, from)?;
        let (to_folder, to) = to.rsplit_once('/').unwrap_or(("", to));
        let fail = |error| DiskError::io(Operation::Rename, &self.path(from), error);
        let to_folder = self.folder(to_folder).map_err(fail)?;
        self.with_entry(Operation::Rename, from, |folder, last| folder.rename(last, &to_folder, to))
    }

    fn add_name(&self, of: &str, name: &str) -> Result<(), DiskError> {
        self.check_process(Operation::AddName, of)?;
        let (to_folder, to) = name.rsplit_once('/').unwrap_or(("", name));
        let fail = |error| DiskError::io(Operation::AddName, &self.path(of), error);
        let to_folder = self.folder(to_folder).map_err(fail)?;
        self.with_entry(Operation::AddName, of, |folder, last| folder.add_name(last, &to_folder, to))
    }

    fn remove(&self, name: &str) -> Result<(), DiskError> {
        self.check_process(Operation::Remove, name)?;
        self.with_entry(Operation::Remove, name, |folder, last| folder.remove(last))
    }

    #[cfg(target_os = "linux")]
    fn remove_slowly(&self, name: &str) -> Result<Option<Box<dyn KeptSpace>>, DiskError> {
        self.check_process(Operation::Remove, name)?;
        self.with_entry(Operation::Remove, name, |folder, last| {
            // A file that cannot be opened is removed as a whole.
            let file = folder.open_file(last, true).ok();
            folder.remove(last)?;
            let kept = file.and_then(removed_file::RemovedFile::new);
            Ok(kept.map(|kept| Box::new(kept) as Box<dyn KeptSpace>))
        })
    }

    fn create_folder(&self, name: &str) -> Result<(), DiskError> {
        self.check_process(Operation::CreateFolder, name)?;
        let ends = name.match_indices('/').map(|(end, _)| end).chain([name.len()]);
        for folder in ends.map(|end| &name[..end]).filter(|folder| !folder.is_empty()) {
            self.with_entry(Operation::CreateFolder, folder, |parent, last| parent.make_folder(last))?;
            // The existing name may be a file's.
            self.with_folder(Operation::CreateFolder, folder, |_| Ok(()))?;
        }
        Ok(())
    }

    fn folder_kind(&self, name: &str) -> Result<FolderKind, DiskError> {
        let found = self.with_entry(Operation::List, name, |folder, last| {
            Ok(match folder.find(last)? {
                NameTarget::Nothing => FolderKind::Missing,
                NameTarget::Folder => FolderKind::Plain,
                NameTarget::Link(to) => FolderKind::Link { to, is_there: folder.sub_folder(last).is_ok() },
                NameTarget::File => return Err(io::ErrorKind::NotADirectory.into()),
            })
        });
        match found {
            Err(error) if error.is_not_found() => Ok(FolderKind::Missing),
            found => found,
        }
    }

    fn folder_place(&self, name: &str) -> Result<PathBuf, DiskError> {
        let path = self.path(name);
        if name.is_empty() && self.is_hidden() {
            return Ok(path);
        }
        path.canonicalize().map_err(|error| DiskError::io(Operation::List, &path, error))
    }

    fn show_root(&self) -> Result<(), DiskError> {
        self.check_process(Operation::Rename, "")?;
        let mut hidden = self.hidden.lock();
        let (Some(HiddenRoot { parent, name }), Some(last)) = (&*hidden, self.root().file_name()) else {
            return Ok(());
        };
        let shown = parent.rename_new(Path::new(name), Path::new(last));
        shown.map_err(|error| DiskError::io(Operation::Rename, self.root(), error))?;
        *hidden = None;
        sync_name_of(&self.root, true)
    }

    fn link_folder(&self, name: &str, to: &Path) -> Result<(), DiskError> {
        self.check_process(Operation::LinkFolder, name)?;
        let fail = |error| DiskError::io(Operation::LinkFolder, to, error);
        let is_new = Folder::make_at(to).map_err(fail)?;
        let (parent, last) = name.rsplit_once('/').unwrap_or(("", name));
        // The sync comes first, or a crash could leave a link without a target.
        sync_name_of(&Folder::open_path(to).map_err(fail)?, is_new)?;
        self.folder(parent).and_then(|parent| link_in(&parent, last, to)).map_err(fail)
    }

    fn sync_folder(&self, folder: &str) -> Result<(), DiskError> {
        self.check_process(Operation::SyncFolder, folder)?;
        self.with_folder(Operation::SyncFolder, folder, Folder::sync)
    }

    fn lock(&self, name: &str) -> Result<Box<dyn DiskLock>, DiskError> {
        self.check_process(Operation::Lock, name)?;
        let file = self.with_entry(Operation::Lock, name, |folder, last| folder.make_file(last, false))?;
        self.take_lock(file, LockedEntry::File, name, FlockOperation::NonBlockingLockExclusive)
    }

    fn lock_to_read(&self, name: &str) -> Result<Option<Box<dyn DiskLock>>, DiskError> {
        self.check_process(Operation::Lock, name)?;
        let how = FlockOperation::NonBlockingLockShared;
        match self.with_entry(Operation::Lock, name, |folder, last| folder.open_file(last, false)) {
            Err(error) if error.is_not_found() => Ok(None),
            file => self.take_lock(file?, LockedEntry::File, name, how).map(Some),
        }
    }

    fn lock_folder(&self, folder: &str) -> Result<Box<dyn DiskLock>, DiskError> {
        self.take_folder(folder, FlockOperation::NonBlockingLockExclusive)
    }

    fn lock_folder_to_read(&self, folder: &str) -> Result<Box<dyn DiskLock>, DiskError> {
        self.take_folder(folder, FlockOperation::NonBlockingLockShared)
    }

    fn folder_id(&self, folder: &str) -> Result<FolderId, DiskError> {
        let found = self.with_folder(Operation::Identify, folder, |folder| folder.handle().metadata())?;
        Ok(FolderId { inode: found.ino(), born_nanos: born(&found) })
    }

    fn is_same_folder(&self, one: &str, other: &str) -> Result<bool, DiskError> {
        let of = |name| self.with_folder(Operation::Identify, name, |folder| folder.handle().metadata());
        let (one, other) = (of(one)?, of(other)?);
        Ok((one.dev(), one.ino()) == (other.dev(), other.ino()))
    }

    fn file_id(&self, name: &str) -> Result<u64, DiskError> {
        Ok(wide(self.status(name)?.st_ino))
    }

    fn file_times(&self, name: &str) -> Result<FileTimes, DiskError> {
        let found = self.with_entry(Operation::Identify, name, |folder, last| {
            folder.open_file(last, false)?.metadata()
        })?;
        let changed = i128::from(found.ctime()) * 1_000_000_000 + i128::from(found.ctime_nsec());
        Ok(FileTimes { born_nanos: born(&found), changed_nanos: Some(changed) })
    }

    fn links(&self, name: &str) -> Result<u64, DiskError> {
        Ok(wide(self.status(name)?.st_nlink))
    }

    fn free_bytes(&self, folder: &str) -> Result<Option<u64>, DiskError> {
        self.with_folder(Operation::FreeSpace, folder, |folder| match rustix::fs::fstatvfs(folder.handle()) {
            Ok(found) => Ok(Some(found.f_bavail.saturating_mul(found.f_frsize))),
            Err(Errno::NOSYS | Errno::OPNOTSUPP) => Ok(None),
            Err(error) => Err(error.into()),
        })
    }

    fn mount(&self, name: &str) -> Result<Option<u64>, DiskError> {
        let fail = |error| DiskError::io(Operation::Identify, &self.path(name), error);
        let folder = self.folder(name).map_err(fail)?;
        #[cfg(target_os = "linux")]
        return Ok(mount::instance(folder.handle()));
        #[cfg(not(target_os = "linux"))]
        {
            drop(folder);
            Ok(None)
        }
    }

    fn boot(&self) -> Option<BootId> {
        BootId::of_machine()
    }

    fn process(&self) -> Process {
        self.process.clone()
    }
}

#[cfg(test)]
mod tests;
