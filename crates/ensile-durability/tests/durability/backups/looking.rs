//! A source that goes on while a copier looks at it (N20): its log rolls and its hint moves, between the lease and the
//! reading. The disk here lets something else happen once, as another process would.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ensile_disk::{BootId, Disk, DiskError, DiskFile, DiskLock, FileTimes, FolderId, FolderKind, Process};
use ensile_durability::{CopyOptions, backup};
use ensile_sim::SimDisk;

use super::files::{Remembered, outlast_the_lease};
use super::{of, run};

type Beside = Box<dyn FnOnce() + Send>;

/// A disk on which something else happens once, before the first sync of the main folder's names returns.
struct Between {
    disk: Arc<dyn Disk>,
    beside: Mutex<Option<Beside>>,
}

impl fmt::Debug for Between {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Between").field("disk", &self.disk).finish_non_exhaustive()
    }
}

#[test]
fn n20_a_hint_that_moves_while_the_source_is_looked_at_asks_for_nothing_that_the_lease_did_not_open() {
    let disk = SimDisk::new();
    let database = Remembered::open(&disk, 1, 4096);
    let durable = database.life.rig.log.durable_epoch();
    let database = Arc::new(Mutex::new(database));
    let goes_on = Arc::clone(&database);
    let data = disk.at("data");
    let beside = move || {
        let mut database = goes_on.lock().expect("no panic");
        let before = data.bytes("HINT");
        // Files that the lease does not have, and a hint of what is in them.
        (0..20).for_each(|key| database.put(key, vec![2; 900]));
        database.life.rig.clock.advance(Duration::from_secs(2));
        database.life.rig.log.hint_step();
        assert_ne!(data.bytes("HINT"), before, "D has moved");
    };
    let source: Arc<dyn Disk> =
        Arc::new(Between { disk: of(&disk, "data"), beside: Mutex::new(Some(Box::new(beside))) });
    let copy = backup(&source, &of(&disk, "backup"), CopyOptions::default()).expect("begins");
    let mut database = database.lock().expect("no panic");
    outlast_the_lease(&mut database, 3);
    assert!(database.life.rig.log.stats().leases_overrun > 0, "they are gone before they are read");
    let report = run(copy).expect("is made");
    database.assert_is_a_state(&disk, (&report, durable));
}

impl Disk for Between {
    fn open(&self, name: &str) -> Result<Box<dyn DiskFile>, DiskError> {
        self.disk.open(name)
    }

    fn open_to_read(&self, name: &str) -> Result<Box<dyn DiskFile>, DiskError> {
        self.disk.open_to_read(name)
    }

    fn create(&self, name: &str) -> Result<Box<dyn DiskFile>, DiskError> {
        self.disk.create(name)
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

    fn link_folder(&self, name: &str, to: &Path) -> Result<(), DiskError> {
        self.disk.link_folder(name, to)
    }

    fn sync_folder(&self, folder: &str) -> Result<(), DiskError> {
        let beside = self.beside.lock().expect("no panic").take_if(|_| folder.is_empty());
        if let Some(beside) = beside {
            beside();
        }
        self.disk.sync_folder(folder)
    }

    fn lock(&self, name: &str) -> Result<Box<dyn DiskLock>, DiskError> {
        self.disk.lock(name)
    }

    fn lock_to_read(&self, name: &str) -> Result<Option<Box<dyn DiskLock>>, DiskError> {
        self.disk.lock_to_read(name)
    }

    fn lock_folder(&self, folder: &str) -> Result<Box<dyn DiskLock>, DiskError> {
        self.disk.lock_folder(folder)
    }

    fn lock_folder_to_read(&self, folder: &str) -> Result<Box<dyn DiskLock>, DiskError> {
        self.disk.lock_folder_to_read(folder)
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

    fn boot(&self) -> Option<BootId> {
        self.disk.boot()
    }

    fn process(&self) -> Process {
        self.disk.process()
    }
}
