//! Check that a checkpoint fits on its disks, beside the log.
//!
//! Invariant: a checkpoint takes no more than its share of the space that was free at its start. The remainder is the
//! log's: a disk with room for the log and less than two checkpoints never refuses a writer because of a checkpoint. An
//! attempt that finds less free space than the log's part gives up, and removes its files.
//!
//! Neighbours: `manager` asks before an attempt and before each block.

use ensile_disk::{Disk, FolderKind};

use crate::files::names::checkpoint_folder;

/// Divisor for the log's part of a device's free space.
const LOG_SHARE: u64 = 8;
/// Least free bytes on a disk, without the log's part, for a checkpoint to begin.
const FREE_BYTES_MIN: u64 = 32 << 10;
const _: () = assert!(LOG_SHARE > 1, "something is left to the checkpoint");

#[derive(Debug)]
struct Device {
    folder: String,
    checkpointers: Vec<usize>,
    /// Bytes left to the log; 0 if the disk does not report free space.
    left_bytes: u64,
}

/// The devices of a checkpoint under way, each with the bytes left to the log.
#[derive(Debug, Default)]
pub(crate) struct DiskSpace {
    devices: Vec<Device>,
}

impl DiskSpace {
    /// Checks that a checkpoint of about this size, in bytes, fits.
    pub(crate) fn look(disk: &dyn Disk, checkpointers: usize, bytes: u64) -> Result<Self, String> {
        let mut space = Self { devices: Vec::new() };
        for checkpointer in 0..checkpointers {
            space.add(disk, checkpointer);
        }
        let covered: usize = space.devices.iter().map(|device| device.checkpointers.len()).sum();
        assert_eq!(covered, checkpointers, "each checkpointer writes to one device");
        for device in &mut space.devices {
            let Some(free) = free_bytes(disk, &device.folder) else { continue };
            device.left_bytes = free / LOG_SHARE;
            let expected = bytes / checkpointers as u64 * device.checkpointers.len() as u64;
            let needed = expected.max(FREE_BYTES_MIN);
            assert!(device.left_bytes < free.max(1), "something is left to the checkpoint");
            if free - device.left_bytes < needed {
                return Err(format!(
                    "the next checkpoint takes {needed} bytes or more in {}, where {free} are free and {} of them are left \
                     to the log; free some space, or give checkpoints a device of their own",
                    place(disk, &device.folder),
                    device.left_bytes
                ));
            }
        }
        Ok(space)
    }

    /// Adds the checkpointer's device: the database's own device for a plain folder; a link may lead to another.
    fn add(&mut self, disk: &dyn Disk, checkpointer: usize) {
        let folder = checkpoint_folder(checkpointer as u32);
        let is_link = matches!(disk.folder_kind(&folder), Ok(FolderKind::Link { .. }));
        let folder = if is_link { folder } else { String::new() };
        match self.devices.iter_mut().find(|device| device.folder == folder) {
            Some(device) => device.checkpointers.push(checkpointer),
            None => self.devices.push(Device { folder, checkpointers: vec![checkpointer], left_bytes: 0 }),
        }
    }

    /// Checks that the log's part is still free on this checkpointer's device; the error has the free bytes. True if
    /// half of the free space at the start has gone: this checkpoint must end before the other half has gone too.
    pub(crate) fn check(&self, disk: &dyn Disk, checkpointer: usize) -> Result<bool, String> {
        let is_its = |device: &&Device| device.checkpointers.contains(&checkpointer);
        let Some(device) = self.devices.iter().find(is_its).filter(|device| device.left_bytes > 0) else {
            return Ok(false);
        };
        match free_bytes(disk, &device.folder) {
            Some(free) if free < device.left_bytes => Err(format!(
                "it does not fit: {free} bytes are free, which are left to the log; free some space, or give checkpoints a \
                 device of their own"
            )),
            free => Ok(free.is_some_and(|free| free < device.left_bytes * (LOG_SHARE / 2))),
        }
    }
}

/// Path of a folder, for an error.
fn place(disk: &dyn Disk, folder: &str) -> String {
    disk.folder_place(folder)
        .map_or_else(|_| format!("folder {folder:?}"), |place| place.display().to_string())
}

/// Free bytes on the device of this folder; `None` if the disk does not report free space.
fn free_bytes(disk: &dyn Disk, folder: &str) -> Option<u64> {
    // A disk that cannot report free space is tried: a refused write ends the attempt.
    disk.free_bytes(folder).ok().flatten()
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
