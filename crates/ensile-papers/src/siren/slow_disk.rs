//! A slow disk over another disk. The slow device has a given rate in bytes a second, and a given time for every write
//! and every sync, over all files together.
//!
//! Invariants:
//! - Writes and syncs take turns on the device: a call begins when the call before has ended, from any thread. Two
//!   files together get the rate of a single file.
//! - A write returns when the slow device would have taken the bytes. No cache takes the bytes earlier.
//! - Unused device time is lost, except for [`LATE_NANOS`]. An idle device is not faster afterwards, and a thread that
//!   sleeps a little too long does not slow the device.
//! - Reads, names, lengths and hints have the costs of the disk below.
//!
//! Neighbours: [`super::device`] measures the slow disk. The disk below keeps the bytes.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::ValueEnum;
use ensile_base::clock::Clock;
use ensile_base::sync::{AtomicBool, AtomicU64, Mutex, Ordering, sleep};
use ensile_disk::{
    BootId, Disk, DiskError, DiskFile, DiskLock, FileTimes, FolderId, FolderKind, MappedWords, Process,
};

/// Largest delay of a call that counts as in time, in nanoseconds.
const LATE_NANOS: u64 = 10_000_000;

/// Speed of a device.
#[derive(Clone, Copy, Debug)]
pub(super) struct Speed {
    /// Write rate in bytes a second; not 0.
    pub(super) bytes_per_s: u64,
    /// Duration of a sync.
    pub(super) sync: Duration,
    /// Duration of a write without the time for the bytes.
    pub(super) write: Duration,
}

/// Files of a database on the slow device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SlowFiles {
    /// All files, with the log.
    All,
    /// Files of checkpoints: the log has a device of its own.
    Checkpoints,
    /// All files except the log: files of checkpoints, and the manifest. Serves to count the bytes written for
    /// checkpoints.
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

/// Time at which the device has finished the requests so far.
#[derive(Debug)]
struct DeviceTime {
    speed: Speed,
    free_at: u64,
}

impl DeviceTime {
    /// Takes device time for a write requested at `now`. Returns the end of the write.
    fn write(&mut self, now: u64, bytes: u64) -> u64 {
        let nanos = u128::from(bytes) * 1_000_000_000 / u128::from(self.speed.bytes_per_s);
        let nanos = nanos + self.speed.write.as_nanos();
        self.take(now, u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// Takes device time for a sync requested at `now`. Returns the end of the sync.
    fn sync(&mut self, now: u64) -> u64 {
        self.take(now, u64::try_from(self.speed.sync.as_nanos()).unwrap_or(u64::MAX))
    }

    fn take(&mut self, now: u64, nanos: u64) -> u64 {
        self.free_at = self.free_at.max(now.saturating_sub(LATE_NANOS)).saturating_add(nanos);
        self.free_at
    }
}

/// State shared by all files.
#[derive(Debug)]
struct Device {
    clock: Clock,
    time: Mutex<DeviceTime>,
    is_slow: AtomicBool,
    written: AtomicU64,
}

impl Device {
    /// Does `work` on the disk below, and waits until the device has also taken its time.
    fn beside<T>(
        &self,
        take: impl FnOnce(&mut DeviceTime, u64) -> u64,
        work: impl FnOnce() -> Result<T, DiskError>,
    ) -> Result<T, DiskError> {
        // Relaxed: the flag guards no data. A call that just misses the change has the speed of the call before.
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

/// The slow disk over another disk.
#[derive(Debug)]
pub(super) struct SlowDisk {
    disk: Box<dyn Disk>,
    files: SlowFiles,
    device: Arc<Device>,
}

impl SlowDisk {
    /// Creates a disk as fast as `disk` until [`slow_down`](Self::slow_down).
    pub(super) fn over(disk: Box<dyn Disk>, files: SlowFiles, speed: Speed, clock: Clock) -> Self {
        let device = Device {
            clock,
            time: Mutex::new(DeviceTime { speed, free_at: 0 }),
            is_slow: AtomicBool::new(false),
            written: AtomicU64::new(0),
        };
        Self { disk, files, device: Arc::new(device) }
    }

    /// Slows the disk down, or restores the speed of the disk below.
    pub(super) fn slow_down(&self, is_slow: bool) {
        // Relaxed: see the load in `Device::beside`.
        self.device.is_slow.store(is_slow, Ordering::Relaxed);
    }

    /// Bytes written to the slow files so far.
    pub(super) fn written(&self) -> u64 {
        // Relaxed: the counter is only reported.
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
        // Relaxed: the counter is only reported.
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
