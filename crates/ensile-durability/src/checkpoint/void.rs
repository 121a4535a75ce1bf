//! Files that no manifest gives a meaning to: of attempts that did not end, of earlier checkpoints.
//!
//! Invariant: nothing is removed before the manifest that makes it void is durable (K1, L4).
//!
//! Neighbours: recovery removes at open, `manager` after an attempt that failed and after an install.

use ensile_disk::{Disk, DiskError};

use crate::store::names::PartName;

/// Most checkpointers of a database, so that a folder can be searched for what more of them left.
pub(crate) const CHECKPOINTERS_MAX: u32 = 32;

/// All files of checkpoints in this folder.
pub(crate) fn list_parts(disk: &dyn Disk) -> Result<Vec<PartName>, DiskError> {
    let mut parts = Vec::new();
    for checkpointer in 0..CHECKPOINTERS_MAX {
        let folder = PartName::folder(checkpointer);
        if disk.exists(&folder)? {
            let names = disk.list(&folder)?;
            parts.extend(names.iter().filter_map(|name| PartName::parse(checkpointer, name)));
        }
    }
    Ok(parts)
}

/// Removes the files of checkpoints that `is_void` names, and makes that durable; how many there were.
pub(crate) fn remove_parts(disk: &dyn Disk, is_void: impl Fn(&PartName) -> bool) -> Result<u64, DiskError> {
    let parts: Vec<_> = list_parts(disk)?.into_iter().filter(|part| is_void(part)).collect();
    for part in &parts {
        disk.remove(&part.to_string())?;
    }
    for folder in parts.chunk_by(|a, b| a.checkpointer == b.checkpointer) {
        disk.sync_folder(&PartName::folder(folder[0].checkpointer))?;
    }
    Ok(parts.len() as u64)
}
