//! Files that no manifest gives a meaning to: of attempts that did not end, of earlier checkpoints.
//!
//! Invariants: nothing is removed before the manifest that makes it void is durable (K1, L4), nor from a folder that the manifest does
//! not list (I1).
//!
//! Neighbours: recovery removes at open, `manager` after an attempt that failed and after an install.

use ensile_disk::{Disk, DiskError};

use crate::store::manifest::Manifest;
use crate::store::names::PartName;

/// Most checkpointers of a database: together they stay within the memory that a checkpoint may take.
pub(crate) const CHECKPOINTERS_MAX: u32 = 32;

/// All files of checkpoints in the folders that are this database's (I1).
pub(crate) fn list_parts(disk: &dyn Disk, manifest: &Manifest) -> Result<Vec<PartName>, DiskError> {
    let mut parts = Vec::new();
    for folder in manifest.folders.keys() {
        let Some(checkpointer) = PartName::checkpointer_of(folder) else { continue };
        if disk.exists(folder)? {
            let names = disk.list(folder)?;
            parts.extend(names.iter().filter_map(|name| PartName::parse(checkpointer, name)));
        }
    }
    parts.sort_unstable_by_key(|part| (part.checkpointer, part.checkpoint, part.file));
    Ok(parts)
}

/// Removes the files of checkpoints that `is_void` names, and makes that durable; how many there were.
pub(crate) fn remove_parts(
    disk: &dyn Disk,
    manifest: &Manifest,
    is_void: impl Fn(&PartName) -> bool,
) -> Result<u64, DiskError> {
    let parts: Vec<_> = list_parts(disk, manifest)?.into_iter().filter(|part| is_void(part)).collect();
    for part in &parts {
        disk.remove(&part.to_string())?;
    }
    for folder in parts.chunk_by(|a, b| a.checkpointer == b.checkpointer) {
        disk.sync_folder(&PartName::folder(folder[0].checkpointer))?;
    }
    Ok(parts.len() as u64)
}
