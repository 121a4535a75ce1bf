//! Files that no manifest gives a meaning to: of attempts that did not end, of earlier checkpoints.
//!
//! Invariants:
//! - Nothing is removed before the manifest that makes it unneeded is durable (K1, L4).
//! - I1: nothing is removed that does not prove to be this database's, nor from a folder that the manifest does not
//!   list.
//!
//! Neighbours: recovery removes at open, `manager` after an attempt that failed and after an install.

use ensile_disk::Disk;

use crate::DurabilityError;
use crate::store::installed::InstalledCheckpoint;
use crate::store::manifest::Manifest;
use crate::store::names::{PartName, checkpoint_folder, checkpointer_of};
use crate::store::whose::{proves_ours, searched};

/// All files of checkpoints in the folders that the manifest lists (I1).
pub(crate) fn list(disk: &dyn Disk, manifest: &Manifest) -> Result<Vec<PartName>, DurabilityError> {
    list_in(disk, manifest.folders.keys())
}

/// All files of checkpoints that say something, also in folders that the manifest does not list.
pub(crate) fn search(disk: &dyn Disk, manifest: &Manifest) -> Result<Vec<PartName>, DurabilityError> {
    list_in(disk, searched(disk, manifest)?.iter())
}

fn list_in<'f>(
    disk: &dyn Disk,
    folders: impl Iterator<Item = &'f String>,
) -> Result<Vec<PartName>, DurabilityError> {
    let mut parts = Vec::new();
    for folder in folders {
        let Some(checkpointer) = checkpointer_of(folder) else { continue };
        if disk.exists(folder)? {
            let names = disk.list(folder)?;
            parts.extend(names.iter().filter_map(|name| PartName::parse(checkpointer, name)));
        }
    }
    parts.sort_unstable_by_key(|part| (part.checkpointer, part.checkpoint, part.file));
    assert!(parts.windows(2).all(|pair| pair[0] != pair[1]), "a name is listed once");
    Ok(parts)
}

/// Looks at the files of checkpoints that are not installed: none is another database's, or a newer version's.
///
/// # Errors
/// [`DurabilityError::NotOurs`], [`DurabilityError::Unknown`], or the disk's.
pub(crate) fn check_unlisted(disk: &dyn Disk, manifest: &Manifest) -> Result<(), DurabilityError> {
    let installed = manifest.checkpoint.as_ref().map(InstalledCheckpoint::number);
    for part in search(disk, manifest)?.into_iter().filter(|part| Some(part.checkpoint) != installed) {
        proves_ours(disk, manifest, &part.to_string())?;
    }
    Ok(())
}

/// Removes the files of checkpoints that `is_unneeded` names and that prove to be this database's, and makes that
/// durable; how many there were. A file that does not say whose it is stays.
///
/// # Errors
/// As [`check_unlisted`], once what could be removed is.
pub(crate) fn remove(
    disk: &dyn Disk,
    manifest: &Manifest,
    is_unneeded: impl Fn(&PartName) -> bool,
) -> Result<u64, DurabilityError> {
    let (mut parts, mut first_error) = (Vec::new(), None);
    let installed = manifest.checkpoint.as_ref().map(InstalledCheckpoint::number);
    for part in list(disk, manifest)?.into_iter().filter(|part| is_unneeded(part)) {
        assert!(Some(part.checkpoint) != installed, "K1: {part} is of the installed checkpoint");
        match proves_ours(disk, manifest, &part.to_string()) {
            Ok(true) => {
                disk.remove(&part.to_string())?;
                parts.push(part);
            }
            Ok(false) => {}
            Err(error) => first_error = first_error.or(Some(error)),
        }
    }
    for folder in parts.chunk_by(|a, b| a.checkpointer == b.checkpointer) {
        disk.sync_folder(&checkpoint_folder(folder[0].checkpointer))?;
    }
    first_error.map_or(Ok(parts.len() as u64), Err)
}
