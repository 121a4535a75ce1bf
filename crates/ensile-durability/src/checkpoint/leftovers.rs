//! Files in checkpointers' folders that the installed checkpoint does not have: of attempts that did not end, and of
//! earlier checkpoints.
//!
//! Invariants:
//! - K1, N12: no file of the checkpoint that the manifest names is removed. So nothing is removed before the manifest
//!   that makes it unneeded is durable.
//! - I1: nothing is removed that does not prove to be this database's, nor from a folder that the manifest does not
//!   list.
//!
//! Neighbours: recovery removes at open, `manager` after an attempt that failed and after an install; an examination
//! lists.

use std::collections::BTreeSet;
use std::fmt::Display;

use ensile_disk::Disk;

use crate::DurabilityError;
use crate::store::installed::InstalledCheckpoint;
use crate::store::manifest::Manifest;
use crate::store::names::{PageFileName, PartName, checkpoint_folder, checkpointer_of};
use crate::store::whose::{proves_ours, searched};

/// The name of a file in a checkpointer's folder.
pub(crate) trait CheckpointFile: Copy + Ord + Display {
    /// The file of this name in the folder of `checkpointer`.
    fn parse(checkpointer: u32, name: &str) -> Option<Self>;

    /// In whose folder it is.
    fn checkpointer(self) -> u32;

    /// Does a checkpoint that the manifest names have it, an older one of a backup too?
    fn is_installed(self, manifest: &Manifest) -> bool;
}

impl CheckpointFile for PartName {
    fn parse(checkpointer: u32, name: &str) -> Option<Self> {
        Self::parse(checkpointer, name)
    }

    fn checkpointer(self) -> u32 {
        self.checkpointer
    }

    fn is_installed(self, manifest: &Manifest) -> bool {
        let older = manifest.kept_files().filter_map(|state| state.checkpoint.as_ref());
        manifest.checkpoint.iter().chain(older).any(|installed| installed.has_part(self))
    }
}

impl CheckpointFile for PageFileName {
    fn parse(checkpointer: u32, name: &str) -> Option<Self> {
        Self::parse(checkpointer, name)
    }

    fn checkpointer(self) -> u32 {
        self.folder
    }

    fn is_installed(self, manifest: &Manifest) -> bool {
        let newest = match &manifest.checkpoint {
            Some(InstalledCheckpoint::Picture(newest)) => Some(newest),
            _ => None,
        };
        let mut files = newest.into_iter().chain(manifest.kept_pictures()).flat_map(|picture| &picture.files);
        files.any(|listed| listed.name == self)
    }
}

/// All files of a kind in the folders that the manifest lists (I1), by folder.
pub(crate) fn list<F: CheckpointFile>(
    disk: &dyn Disk,
    manifest: &Manifest,
) -> Result<Vec<F>, DurabilityError> {
    list_in(disk, manifest.folders.keys())
}

/// All files of a kind that say something, also in folders that the manifest does not list.
pub(crate) fn search<F: CheckpointFile>(
    disk: &dyn Disk,
    manifest: &Manifest,
) -> Result<Vec<F>, DurabilityError> {
    list_in(disk, searched(disk, manifest)?.iter())
}

fn list_in<'f, F: CheckpointFile>(
    disk: &dyn Disk,
    folders: impl Iterator<Item = &'f String>,
) -> Result<Vec<F>, DurabilityError> {
    let mut files: Vec<F> = Vec::new();
    for folder in folders {
        let Some(checkpointer) = checkpointer_of(folder) else { continue };
        if disk.exists(folder)? {
            let names = disk.list(folder)?;
            files.extend(names.iter().filter_map(|name| F::parse(checkpointer, name)));
        }
    }
    debug_assert!(files.iter().all(|file| file.to_string().starts_with("checkpoint")), "each has its folder");
    files.sort_unstable_by_key(|file| (file.checkpointer(), *file));
    assert!(files.windows(2).all(|pair| pair[0] != pair[1]), "a name is listed once");
    Ok(files)
}

/// Looks at the files of both kinds that the installed checkpoint does not have: none is another database's, or a newer
/// version's.
///
/// # Errors
/// [`DurabilityError::NotOurs`], [`DurabilityError::Unknown`], or the disk's.
pub(crate) fn check_unlisted(disk: &dyn Disk, manifest: &Manifest) -> Result<(), DurabilityError> {
    check_kind(disk, manifest, search::<PartName>(disk, manifest)?)?;
    check_kind(disk, manifest, search::<PageFileName>(disk, manifest)?)
}

fn check_kind<F: CheckpointFile>(
    disk: &dyn Disk,
    manifest: &Manifest,
    files: Vec<F>,
) -> Result<(), DurabilityError> {
    let unlisted = files.into_iter().filter(|file| !file.is_installed(manifest));
    unlisted.map(|file| file.to_string()).try_for_each(|file| proves_ours(disk, manifest, &file).map(drop))
}

/// Removes the files of a kind that the installed checkpoint does not have, that `is_unneeded` names, and that prove to
/// be this database's, and makes that durable; how many there were. A file that does not say whose it is stays.
///
/// # Errors
/// As [`check_unlisted`], once what could be removed is.
pub(crate) fn remove<F: CheckpointFile>(
    disk: &dyn Disk,
    manifest: &Manifest,
    is_unneeded: impl Fn(F) -> bool,
) -> Result<u64, DurabilityError> {
    let (mut count, mut folders, mut first_error) = (0, BTreeSet::new(), None);
    let may_go = |file: &F| !file.is_installed(manifest) && is_unneeded(*file);
    for file in list::<F>(disk, manifest)?.into_iter().filter(may_go) {
        let name = file.to_string();
        match proves_ours(disk, manifest, &name) {
            Ok(true) => {
                disk.remove(&name)?;
                folders.insert(file.checkpointer());
                count += 1;
            }
            Ok(false) => {}
            Err(error) => first_error = first_error.or(Some(error)),
        }
    }
    debug_assert!(folders.len() as u64 <= count, "a folder has lost a file");
    folders.into_iter().try_for_each(|folder| disk.sync_folder(&checkpoint_folder(folder)))?;
    first_error.map_or(Ok(count), Err)
}
