//! Identity of the run in which a process-safe life's results count: a boot, with the mounts of its folders.
//!
//! ```text
//! half of 64 bits | half of 64 bits
//! of the mounts   | of the boot           where no mount is known: the whole boot
//! ```
//! Invariant: B4: a lost device has lost its cache. A new mount of the device within the boot is another run.
//!
//! Neighbours: an open writes the run into the manifest and into mapped buffers; `recovery::mapped_tail` compares runs.

use ensile_disk::{BootId, Disk, DiskError};

use crate::files::names::log_folder;

/// Identity of the current run, for a life with this number of logs; `None` if the system does not tell its boot.
pub(crate) fn run_of(disk: &dyn Disk, logs: u32) -> Result<Option<BootId>, DiskError> {
    let Some(boot) = disk.boot() else { return Ok(None) };
    let mounts = folders(logs).map(|folder| mount_of(disk, &folder)).collect::<Result<Vec<_>, _>>()?;
    if mounts.iter().all(Option::is_none) {
        return Ok(Some(boot));
    }
    // The mix is one to one for a single folder: an odd factor and a rotation lose no bit.
    let mix = |high: u64, mount: &Option<u64>| {
        (high ^ mount.unwrap_or_default()).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29)
    };
    let high = mounts.iter().fold(0, mix);
    let run = BootId::of_number(u128::from(high) << 64 | half(boot));
    debug_assert!(is_same_boot(run, boot), "B4: a run has the half of its boot");
    Ok(Some(run))
}

/// Paths of the folders whose mounts the system does not tell, for a life with this number of logs.
pub(crate) fn unknown_mounts(disk: &dyn Disk, logs: u32) -> Result<Vec<String>, DiskError> {
    let mut unknown = Vec::new();
    for folder in folders(logs) {
        if mount_of(disk, &folder)?.is_none() {
            unknown.push(disk.folder_place(&folder)?.display().to_string());
        }
    }
    Ok(unknown)
}

/// True if two runs are of the same boot, perhaps with other mounts.
pub(crate) fn is_same_boot(run: BootId, other: BootId) -> bool {
    half(run) == half(other)
}

/// The half of a run that identifies the boot.
fn half(run: BootId) -> u128 {
    u128::from_be_bytes(run.to_bytes()) & u128::from(u64::MAX)
}

fn folders(logs: u32) -> impl Iterator<Item = String> {
    std::iter::once(String::new()).chain((0..logs).map(log_folder))
}

/// Identity of the mount with this folder; `None` if unknown, or if the folder is missing: other checks report that.
fn mount_of(disk: &dyn Disk, folder: &str) -> Result<Option<u64>, DiskError> {
    match disk.mount(folder) {
        Err(error) if error.is_not_found() => Ok(None),
        mount => mount,
    }
}
