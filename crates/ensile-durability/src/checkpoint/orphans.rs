//! Files in checkpointers' folders of unfinished attempts and of earlier checkpoints.
//!
//! Invariants: K1, N12: no file is removed before the manifest that makes the file unneeded is durable. I1: a file is
//! removed only if the file proves to be this database's, and only from a folder that the manifest lists.
//!
//! Neighbours: recovery removes files at open, `manager` after a failed attempt and after an install, `backup::target`
//! before a copy. An examination and a repair list files alone.

use std::collections::BTreeMap;
use std::fmt::Display;

use ensile_disk::{Disk, KeptSpace};

use crate::Result;
use crate::files::manifest::Manifest;
use crate::files::manifest::installed_checkpoint::InstalledCheckpoint;
use crate::files::names::{PageFileName, PartName, checkpoint_folder, checkpointer_of};
use crate::store::ownership::{folders_to_search, proves_ours};

/// The name of a file in a checkpointer's folder.
pub(crate) trait CheckpointFile: Copy + Ord + Display {
    fn parse(checkpointer: u32, name: &str) -> Option<Self>;

    fn checkpointer(self) -> u32;

    /// True if a checkpoint that the manifest names has the file, including an older checkpoint of a backup.
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

/// Lists the files of a kind in the folders that the manifest lists (I1), sorted by folder.
pub(crate) fn list<F: CheckpointFile>(disk: &dyn Disk, manifest: &Manifest) -> Result<Vec<F>> {
    list_in(disk, manifest.folders.keys())
}

/// As [`list`]; also lists files in unlisted folders with this database's mark. A repair searches these folders too.
pub(crate) fn search<F: CheckpointFile>(disk: &dyn Disk, manifest: &Manifest) -> Result<Vec<F>> {
    list_in(disk, folders_to_search(disk, manifest)?.iter())
}

/// Lists the files of a kind in these folders, sorted by folder.
fn list_in<'f, F: CheckpointFile>(
    disk: &dyn Disk,
    folders: impl Iterator<Item = &'f String>,
) -> Result<Vec<F>> {
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

/// Checks the files of either kind that the installed checkpoint does not have, before any file is removed: no file
/// belongs to another database, or to a newer version.
pub(crate) fn check_unlisted(disk: &dyn Disk, manifest: &Manifest) -> Result<()> {
    check_kind(disk, manifest, search::<PartName>(disk, manifest)?)?;
    check_kind(disk, manifest, search::<PageFileName>(disk, manifest)?)
}

/// As [`check_unlisted`], for the files of one kind.
fn check_kind<F: CheckpointFile>(disk: &dyn Disk, manifest: &Manifest, files: Vec<F>) -> Result<()> {
    let unlisted = files.into_iter().filter(|file| !file.is_installed(manifest));
    unlisted.map(|file| file.to_string()).try_for_each(|file| proves_ours(disk, manifest, &file).map(drop))
}

#[derive(Debug, Default)]
pub(crate) struct RemovedLeftovers {
    pub(crate) files: u64,
    /// Held space of removed files, by folder.
    pub(crate) spaces: BTreeMap<String, Vec<Box<dyn KeptSpace>>>,
}

/// Removes the files of a kind that the installed checkpoint does not have, that `is_unneeded` selects, and that prove
/// to be this database's. Makes the removal durable. The error of a foreign file comes after the removals.
pub(crate) fn remove<F: CheckpointFile>(
    disk: &dyn Disk,
    manifest: &Manifest,
    is_unneeded: impl Fn(F) -> bool,
) -> Result<RemovedLeftovers> {
    let (mut removed, mut first_error) = (RemovedLeftovers::default(), None);
    let may_go = |file: &F| !file.is_installed(manifest) && is_unneeded(*file);
    for file in list::<F>(disk, manifest)?.into_iter().filter(may_go) {
        let name = file.to_string();
        match proves_ours(disk, manifest, &name) {
            Ok(true) => {
                let space = disk.remove_slowly(&name)?;
                removed.spaces.entry(checkpoint_folder(file.checkpointer())).or_default().extend(space);
                removed.files += 1;
            }
            Ok(false) => {}
            Err(error) => first_error = first_error.or(Some(error)),
        }
    }
    debug_assert!(removed.spaces.len() as u64 <= removed.files, "a folder has lost a file");
    removed.spaces.keys().try_for_each(|folder| disk.sync_folder(folder))?;
    first_error.map_or(Ok(removed), Err)
}
