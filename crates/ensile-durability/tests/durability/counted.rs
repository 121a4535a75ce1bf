//! A disk that counts the open handles and locks of a process. A test sees each handle or lock that stays behind.
//!
//! Neighbours: `checkpoints::store` opens lives on it; [`super::checkpoints::ended`] asks at their end.

use std::path::{Path, PathBuf};

use ensile_disk::{
    BootId, DiskError, DiskFile, DiskLock, FileTimes, FolderId, FolderKind, MappedWords, Process,
};

use crate::prelude::*;

/// Number of open handles and of locks by name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Held(Arc<Mutex<BTreeMap<String, u64>>>);

impl Held {
    fn add(&self, name: &str) -> HeldName {
        *self.0.lock().expect("no panic").entry(name.to_owned()).or_default() += 1;
        HeldName { held: self.clone(), name: name.to_owned() }
    }

    /// The held names in order, each once for every handle or lock.
    pub(crate) fn names(&self) -> Vec<String> {
        let held = self.0.lock().expect("no panic");
        held.iter().flat_map(|(name, count)| (0..*count).map(|_| name.clone())).collect()
    }
}

/// A counted handle or lock, uncounted when the value is dropped.
#[derive(Debug)]
struct HeldName {
    held: Held,
    name: String,
}

impl Drop for HeldName {
    fn drop(&mut self) {
        let mut held = self.held.0.lock().expect("no panic");
        let count = held.get_mut(&self.name).expect("it was added");
        *count -= 1;
        held.retain(|_, count| *count > 0);
    }
}

/// The disk of one process, with the counts.
#[derive(Clone, Debug)]
pub(crate) struct CountedDisk {
    disk: Arc<dyn Disk>,
    pub(crate) files: Held,
    pub(crate) locks: Held,
}

impl CountedDisk {
    pub(crate) fn over(disk: Arc<dyn Disk>) -> Self {
        Self { disk, files: Held::default(), locks: Held::default() }
    }

    fn file(&self, name: &str, file: Box<dyn DiskFile>) -> Box<dyn DiskFile> {
        Box::new(CountedFile { file, _held: self.files.add(name) })
    }

    fn lock_of(&self, name: &str, lock: Box<dyn DiskLock>) -> Box<dyn DiskLock> {
        Box::new(CountedLock { lock, _held: self.locks.add(name) })
    }
}

impl Disk for CountedDisk {
    fn open(&self, name: &str) -> Result<Box<dyn DiskFile>, DiskError> {
        Ok(self.file(name, self.disk.open(name)?))
    }

    fn open_to_read(&self, name: &str) -> Result<Box<dyn DiskFile>, DiskError> {
        Ok(self.file(name, self.disk.open_to_read(name)?))
    }

    fn create(&self, name: &str) -> Result<Box<dyn DiskFile>, DiskError> {
        Ok(self.file(name, self.disk.create(name)?))
    }

    fn list(&self, folder: &str) -> Result<Vec<String>, DiskError> {
        self.disk.list(folder)
    }

    fn list_folders(&self, folder: &str) -> Result<Vec<String>, DiskError> {
        self.disk.list_folders(folder)
    }

    fn exists(&self, name: &str) -> Result<bool, DiskError> {
        self.disk.exists(name)
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), DiskError> {
        self.disk.rename(from, to)
    }

    fn add_name(&self, of: &str, name: &str) -> Result<(), DiskError> {
        self.disk.add_name(of, name)
    }

    fn remove(&self, name: &str) -> Result<(), DiskError> {
        self.disk.remove(name)
    }

    fn create_folder(&self, name: &str) -> Result<(), DiskError> {
        self.disk.create_folder(name)
    }

    fn folder_kind(&self, name: &str) -> Result<FolderKind, DiskError> {
        self.disk.folder_kind(name)
    }

    fn folder_place(&self, name: &str) -> Result<PathBuf, DiskError> {
        self.disk.folder_place(name)
    }

    fn show_root(&self) -> Result<(), DiskError> {
        self.disk.show_root()
    }

    fn link_folder(&self, name: &str, to: &Path) -> Result<(), DiskError> {
        self.disk.link_folder(name, to)
    }

    fn sync_folder(&self, folder: &str) -> Result<(), DiskError> {
        self.disk.sync_folder(folder)
    }

    fn lock(&self, name: &str) -> Result<Box<dyn DiskLock>, DiskError> {
        Ok(self.lock_of(name, self.disk.lock(name)?))
    }

    fn lock_to_read(&self, name: &str) -> Result<Option<Box<dyn DiskLock>>, DiskError> {
        Ok(self.disk.lock_to_read(name)?.map(|lock| self.lock_of(name, lock)))
    }

    fn lock_folder(&self, folder: &str) -> Result<Box<dyn DiskLock>, DiskError> {
        Ok(self.lock_of(folder, self.disk.lock_folder(folder)?))
    }

    fn lock_folder_to_read(&self, folder: &str) -> Result<Box<dyn DiskLock>, DiskError> {
        Ok(self.lock_of(folder, self.disk.lock_folder_to_read(folder)?))
    }

    fn folder_id(&self, folder: &str) -> Result<FolderId, DiskError> {
        self.disk.folder_id(folder)
    }

    fn is_same_folder(&self, one: &str, other: &str) -> Result<bool, DiskError> {
        self.disk.is_same_folder(one, other)
    }

    fn file_id(&self, name: &str) -> Result<u64, DiskError> {
        self.disk.file_id(name)
    }

    fn file_times(&self, name: &str) -> Result<FileTimes, DiskError> {
        self.disk.file_times(name)
    }

    fn links(&self, name: &str) -> Result<u64, DiskError> {
        self.disk.links(name)
    }

    fn free_bytes(&self, folder: &str) -> Result<Option<u64>, DiskError> {
        self.disk.free_bytes(folder)
    }

    fn mount(&self, folder: &str) -> Result<Option<u64>, DiskError> {
        self.disk.mount(folder)
    }

    fn boot(&self) -> Option<BootId> {
        self.disk.boot()
    }

    fn process(&self) -> Process {
        self.disk.process()
    }
}

#[derive(Debug)]
struct CountedFile {
    file: Box<dyn DiskFile>,
    _held: HeldName,
}

impl DiskFile for CountedFile {
    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<(), DiskError> {
        self.file.write_at(bytes, offset)
    }

    fn read_at(&self, bytes: &mut [u8], offset: u64) -> Result<usize, DiskError> {
        self.file.read_at(bytes, offset)
    }

    fn will_need(&self, offset: u64, bytes: u64) {
        self.file.will_need(offset, bytes);
    }

    fn write_behind(&self, offset: u64, bytes: u64) {
        self.file.write_behind(offset, bytes);
    }

    fn len(&self) -> Result<u64, DiskError> {
        self.file.len()
    }

    fn set_len(&self, bytes: u64) -> Result<(), DiskError> {
        self.file.set_len(bytes)
    }

    fn preallocate(&self, bytes: u64) -> Result<(), DiskError> {
        self.file.preallocate(bytes)
    }

    fn map(&self, bytes: u64) -> Result<MappedWords, DiskError> {
        self.file.map(bytes)
    }

    fn sync_data(&self) -> Result<(), DiskError> {
        self.file.sync_data()
    }

    fn sync_all(&self) -> Result<(), DiskError> {
        self.file.sync_all()
    }

    fn check_named(&self) -> Result<(), DiskError> {
        self.file.check_named()
    }
}

#[derive(Debug)]
struct CountedLock {
    lock: Box<dyn DiskLock>,
    _held: HeldName,
}

impl DiskLock for CountedLock {
    fn file_id(&self) -> Result<u64, DiskError> {
        self.lock.file_id()
    }

    fn links(&self) -> Result<u64, DiskError> {
        self.lock.links()
    }

    fn check_named(&self) -> Result<(), DiskError> {
        self.lock.check_named()
    }
}
