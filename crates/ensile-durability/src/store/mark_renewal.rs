//! New marks for folders with a lost or damaged mark, if something else proves the folder's database (I1).
//!
//! | folder with the number that the manifest lists | then |
//! |---|---|
//! | a file in the folder carries the database's identity | the mark is written |
//! | the folder holds no file, and the manifest lists no file in the folder | the mark is written |
//! | the folder holds no file, and the manifest lists a file (I2) | the device may be missing: no mark is written |
//! | the folder has another mark, or another number | no mark is written |
//!
//! Neighbours: a repair writes such marks; an examination and `claim` name the remedy in their errors.

use ensile_disk::Disk;

use super::locks::Locks;
use super::ownership;
use crate::files::block::scan::Scanner;
use crate::files::manifest::Manifest;
use crate::files::mark::Mark;
use crate::files::names::{FOLDER, FOLDER_NEW, LOCK, MAIN};
use crate::{DurabilityError, Result};

/// Names of the folders of this manifest whose marks a repair can write anew.
pub(crate) fn renewable_marks(disk: &dyn Disk, manifest: &Manifest) -> Result<Vec<String>> {
    if ownership::check_main(disk, manifest, false).is_err() {
        return Ok(Vec::new());
    }
    let mut renewable = Vec::new();
    for name in manifest.folders.keys().filter(|name| *name != MAIN) {
        if is_renewable(disk, manifest, name)? {
            renewable.push(name.clone());
        }
    }
    Ok(renewable)
}

/// As [`renewable_marks`]; empty without a readable manifest.
pub(crate) fn renewable_in(disk: &dyn Disk) -> Result<Vec<String>> {
    match Manifest::read(disk) {
        Ok(Some(manifest)) => renewable_marks(disk, &manifest),
        _ => Ok(Vec::new()),
    }
}

/// Writes the marks of these folders of a closed database.
pub(crate) fn renew_marks(
    disk: &dyn Disk,
    manifest: &Manifest,
    names: &[String],
    locks: &mut Locks,
) -> Result<()> {
    for name in names {
        locks.add_folder(disk, name)?;
        let mark = ownership::mark(manifest, name);
        mark.prepare(disk)?;
        mark.place(disk)?;
    }
    Ok(())
}

pub(crate) fn mark_file(folder: &str) -> String {
    format!("{folder}/{FOLDER}")
}

/// True if the folder's mark is lost or damaged, and the folder is proved to be this database's.
pub(crate) fn is_renewable(disk: &dyn Disk, manifest: &Manifest, name: &str) -> Result<bool> {
    if ownership::check_is_there(disk, name).is_err()
        || !ownership::is_same(disk.folder_id(name)?, manifest.folders[name])
    {
        return Ok(false);
    }
    match Mark::read(disk, name) {
        Ok(None) | Err(DurabilityError::Damaged { .. }) => {}
        Ok(Some(_)) | Err(DurabilityError::Unknown { .. }) => return Ok(false),
        Err(error) => return Err(error),
    }
    if ownership::mark(manifest, name).is_prepared(disk)? {
        // An open puts the prepared mark in its place.
        return Ok(false);
    }
    let files = disk.list(name)?;
    let mut files = files.iter().filter(|one| ![FOLDER, FOLDER_NEW, LOCK].contains(&one.as_str())).peekable();
    if files.peek().is_none() {
        return Ok(!ownership::is_needed(manifest, name));
    }
    for file in files {
        let path = format!("{name}/{file}");
        if let Ok(opened) = Scanner::opening_of(disk, &path)?
            && manifest.check_ours(&path, opened.origin.identity).is_ok()
        {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Error for a folder that has lost only its mark; the text names the remedy.
pub(crate) fn lost_mark(name: &str) -> DurabilityError {
    let detail = "it is missing or damaged, and the folder is this database's: `ensile verify DIR --repair` writes it anew";
    DurabilityError::damaged_file(&mark_file(name), 0, detail)
}
