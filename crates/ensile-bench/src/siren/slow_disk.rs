//! A disk that is slowed down: it takes a given number of bytes a second and a given time a write and a sync, over all
//! its files together.
//!
//! Invariants:
//! - Writes and syncs take their turns: each begins when the one before has ended, whichever thread asks. So what two
//!   files get together is what one would get alone.
//! - A write returns when the slow device would have taken its bytes. There is no cache that takes them earlier.
//! - Time that nobody used is gone, but for [`LATE_NANOS`]: a device that was idle is not faster afterwards, and a
//!   thread that sleeps a little too long does not make it slower.
//! - Reads, names, lengths and hints cost what they cost below.
//!
//! Neighbours: [`super::device`] measures it; the disk below keeps the bytes.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::ValueEnum;
use ensile_base::clock::Clock;
use ensile_base::sync::{AtomicBool, AtomicU64, Mutex, Ordering, sleep};
use ensile_disk::{
    BootId, Disk, DiskError, DiskFile, DiskLock, FileTimes, FolderId, FolderKind, MappedWords, Process,
};

/// A call that comes this late, or less, is taken as if it had come in time.
const LATE_NANOS: u64 = 10_000_000;

/// What a device can do.
#[derive(Clone, Copy, Debug)]
pub(super) struct Speed {
    /// Bytes that it takes a second; not 0.
    pub(super) bytes_per_s: u64,
    /// What a sync takes.
    pub(super) sync: Duration,
    /// What a write takes, beside its bytes.
    pub(super) write: Duration,
}

/// Which files of a database are on the slow device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SlowFiles {
    /// All of them, the log's too.
    All,
    /// Those of checkpoints: the log has a device of its own.
    Checkpoints,
    /// All but those of the log: what is written for checkpoints, the manifest too. Bytes of these are counted.
    #[value(skip)]
    AllButLogs,
}

impl SlowFiles {
    fn has(self, name: &str) -> bool {
        match self {
            Self::All => true,
            Self::Checkpoints => name.starts_with("checkpoint"),
            Self::AllButLogs => !name.starts_with("log"),
        }
    }
}

/// When the device is free: what was asked of it so far has been done by then.
#[derive(Debug)]
struct DeviceTime {
    speed: Speed,
    free_at: u64,
}

impl DeviceTime {
    /// Takes the device's time for a write that is asked for at `now`. When it will have been done.
    fn write(&mut self, now: u64, bytes: u64) -> u64 {
        let nanos = u128::from(bytes) * 1_000_000_000 / u128::from(self.speed.bytes_per_s);
        let nanos = nanos + self.speed.write.as_nanos();
        self.take(now, u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// The same for a sync.
    fn sync(&mut self, now: u64) -> u64 {
        self.take(now, u64::try_from(self.speed.sync.as_nanos()).unwrap_or(u64::MAX))
    }

    fn take(&mut self, now: u64, nanos: u64) -> u64 {
        self.free_at = self.free_at.max(now.saturating_sub(LATE_NANOS)).saturating_add(nanos);
        self.free_at
    }
}

/// What all files share.
#[derive(Debug)]
struct Device {
    clock: Clock,
    time: Mutex<DeviceTime>,
    is_slow: AtomicBool,
    written: AtomicU64,
}

impl Device {
    /// Does `work` on the disk below while the device takes its time for it, and waits for the device.
    fn beside<T>(
        &self,
        take: impl FnOnce(&mut DeviceTime, u64) -> u64,
        work: impl FnOnce() -> Result<T, DiskError>,
    ) -> Result<T, DiskError> {
        // Relaxed: a write that just misses the change is as fast, or as slow, as the one before.
        if !self.is_slow.load(Ordering::Relaxed) {
            return work();
        }
        let done = take(&mut self.time.lock(), self.clock.nanos());
        let worked = work()?;
        while let Some(left) = done.checked_sub(self.clock.nanos()).filter(|left| *left > 0) {
            let left = Duration::from_nanos(left);
            if self.clock.is_manual() {
                self.clock.advance(left);
            } else {
                sleep(left);
            }
        }
        Ok(worked)
    }

    fn sync(&self, work: impl FnOnce() -> Result<(), DiskError>) -> Result<(), DiskError> {
        self.beside(DeviceTime::sync, work)
    }
}

/// The slow disk over another one.
#[derive(Debug)]
pub(super) struct SlowDisk {
    disk: Box<dyn Disk>,
    files: SlowFiles,
    device: Arc<Device>,
}

impl SlowDisk {
    /// As fast as `disk` until it is [slowed down](Self::slow_down).
    pub(super) fn over(disk: Box<dyn Disk>, files: SlowFiles, speed: Speed, clock: Clock) -> Self {
        let device = Device {
            clock,
            time: Mutex::new(DeviceTime { speed, free_at: 0 }),
            is_slow: AtomicBool::new(false),
            written: AtomicU64::new(0),
        };
        Self { disk, files, device: Arc::new(device) }
    }

    /// From now on it is slow, or as fast as the disk below again.
    pub(super) fn slow_down(&self, is_slow: bool) {
        // Relaxed: see `wait_for`.
        self.device.is_slow.store(is_slow, Ordering::Relaxed);
    }

    /// Bytes written to the slow files so far.
    pub(super) fn written(&self) -> u64 {
        // Relaxed: a figure.
        self.device.written.load(Ordering::Relaxed)
    }

    fn slowed(&self, name: &str, file: Box<dyn DiskFile>) -> Box<dyn DiskFile> {
        if self.files.has(name) {
            Box::new(SlowFile { file, device: Arc::clone(&self.device) })
        } else {
            file
        }
    }
}

impl Disk for SlowDisk {
    fn open(&self, name: &str) -> Result<Box<dyn DiskFile>, DiskError> {
        Ok(self.slowed(name, self.disk.open(name)?))
    }

    fn open_to_read(&self, name: &str) -> Result<Box<dyn DiskFile>, DiskError> {
        self.disk.open_to_read(name)
    }

    fn create(&self, name: &str) -> Result<Box<dyn DiskFile>, DiskError> {
        Ok(self.slowed(name, self.disk.create(name)?))
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
        let sync = || self.disk.sync_folder(folder);
        if self.files.has(folder) { self.device.sync(sync) } else { sync() }
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

/// A file on the slow device.
#[derive(Debug)]
struct SlowFile {
    file: Box<dyn DiskFile>,
    device: Arc<Device>,
}

impl DiskFile for SlowFile {
    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<(), DiskError> {
        let count = bytes.len() as u64;
        self.device.beside(|time, now| time.write(now, count), || self.file.write_at(bytes, offset))?;
        // Relaxed: a figure.
        self.device.written.fetch_add(count, Ordering::Relaxed);
        Ok(())
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
        self.device.sync(|| self.file.sync_data())
    }

    fn sync_all(&self) -> Result<(), DiskError> {
        self.device.sync(|| self.file.sync_all())
    }

    fn check_named(&self) -> Result<(), DiskError> {
        self.file.check_named()
    }
}

#[cfg(test)]
mod tests;
