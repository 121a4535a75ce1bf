//! Page files that no manifest reaches: of attempts that did not end, of lives before.
//!
//! Invariants:
//! - N12: nothing is removed before the manifest that makes it unneeded is durable.
//! - I1: nothing is removed that does not prove to be this database's, nor from a folder that the manifest does not
//!   list.
//!
//! Neighbours: recovery removes at open, `manager` after an attempt that failed and after an install.

use std::collections::BTreeSet;

use ensile_base::Epoch;
use ensile_disk::Disk;

use crate::DurabilityError;
use crate::block::BlockKind;
use crate::block::extent::UNIT_BYTES;
use crate::block::scan::{At, Scanner};
use crate::store::installed::InstalledCheckpoint;
use crate::store::manifest::Manifest;
use crate::store::names::{PageFileName, checkpoint_folder, checkpointer_of};
use crate::store::whose::{proves_ours, searched};

/// All page files in the folders that the manifest lists (I1), sorted.
pub(crate) fn list(disk: &dyn Disk, manifest: &Manifest) -> Result<Vec<PageFileName>, DurabilityError> {
    list_in(disk, manifest.folders.keys())
}

/// All page files that say something, also in folders that the manifest does not list.
pub(crate) fn search(disk: &dyn Disk, manifest: &Manifest) -> Result<Vec<PageFileName>, DurabilityError> {
    list_in(disk, searched(disk, manifest)?.iter())
}

fn list_in<'f>(
    disk: &dyn Disk,
    folders: impl Iterator<Item = &'f String>,
) -> Result<Vec<PageFileName>, DurabilityError> {
    let mut files = Vec::new();
    for folder in folders {
        let Some(checkpointer) = checkpointer_of(folder) else { continue };
        if disk.exists(folder)? {
            let names = disk.list(folder)?;
            files.extend(names.iter().filter_map(|name| PageFileName::parse(checkpointer, name)));
        }
    }
    files.sort_unstable();
    assert!(files.windows(2).all(|pair| pair[0] != pair[1]), "a name is listed once");
    Ok(files)
}

/// The number of the installed checkpoint, if this is a file of it.
pub(crate) fn reached_by(manifest: &Manifest, file: PageFileName) -> Option<u64> {
    let Some(InstalledCheckpoint::Picture(picture)) = &manifest.checkpoint else { return None };
    let is_listed = picture.files.iter().any(|listed| listed.name == file);
    is_listed.then_some(picture.number)
}

/// A page file that the installed checkpoint does not reach, and in which a root of a checkpoint above `known` stands
/// that shows more than the end of `durable`: the one that shows most.
pub(crate) fn later_than(
    disk: &dyn Disk,
    manifest: &Manifest,
    (known, durable): (u64, Epoch),
) -> Result<Option<PageFileName>, DurabilityError> {
    let mut latest = None;
    for file in search(disk, manifest)?.into_iter().filter(|file| reached_by(manifest, *file).is_none()) {
        let mut scanner = Scanner::new(disk.open_to_read(&file.to_string())?)?;
        // One that does not say whose it is holds nothing that can be read.
        let Ok(opened) = scanner.opening()? else { continue };
        for unit in 1..scanner.length().div_ceil(UNIT_BYTES as u64) {
            let found = scanner.header(unit * UNIT_BYTES as u64, opened.origin.salt)?;
            let At::Block(header, _) = found else { continue };
            let (is_root, epoch) = (header.kind == BlockKind::Root, header.epoch_max);
            if is_root && header.checkpoint > known && epoch > durable {
                latest = latest.max(Some((epoch, file)));
            }
        }
    }
    Ok(latest.map(|(_, file)| file))
}

/// Looks at the page files that the installed checkpoint does not reach: none is another database's, or a newer
/// version's.
///
/// # Errors
/// [`DurabilityError::NotOurs`], [`DurabilityError::Unknown`], or the disk's.
pub(crate) fn check_unlisted(disk: &dyn Disk, manifest: &Manifest) -> Result<(), DurabilityError> {
    for file in search(disk, manifest)?.into_iter().filter(|file| reached_by(manifest, *file).is_none()) {
        proves_ours(disk, manifest, &file.to_string())?;
    }
    Ok(())
}

/// Removes the page files that the installed checkpoint does not reach, that `is_unneeded` names, and that prove to be
/// this database's, and makes that durable; how many there were. A file that does not say whose it is stays.
///
/// # Errors
/// As [`check_unlisted`], once what could be removed is.
pub(crate) fn remove(
    disk: &dyn Disk,
    manifest: &Manifest,
    is_unneeded: impl Fn(PageFileName) -> bool,
) -> Result<u64, DurabilityError> {
    let (mut removed, mut first_error) = (Vec::new(), None);
    let unneeded = |file: &PageFileName| is_unneeded(*file) && reached_by(manifest, *file).is_none();
    for file in list(disk, manifest)?.into_iter().filter(unneeded) {
        match proves_ours(disk, manifest, &file.to_string()) {
            Ok(true) => {
                disk.remove(&file.to_string())?;
                removed.push(file);
            }
            Ok(false) => {}
            Err(error) => first_error = first_error.or(Some(error)),
        }
    }
    let folders: BTreeSet<u32> = removed.iter().map(|file| file.folder).collect();
    folders.into_iter().try_for_each(|folder| disk.sync_folder(&checkpoint_folder(folder)))?;
    first_error.map_or(Ok(removed.len() as u64), Err)
}
