//! Marks of folders that were lost or damaged are written anew, where something else proves whose the folder is (I1).
//!
//! | folder with the number that the manifest lists | then |
//! |---|---|
//! | a file in it carries the database's identity | its mark is written |
//! | it holds no file, and the manifest lists none there | its mark is written |
//! | it holds no file, and should (I2) | its device may be missing: it is left alone |
//! | it has another mark, or another number | it is left alone |
//!
//! Neighbours: a repair calls in; an adoption writes all marks anew.

use ensile_disk::Disk;

use super::locks::Locks;
use super::manifest::Manifest;
use super::mark::Mark;
use super::names::{FOLDER, FOLDER_NEW, LOCK, MAIN};
use super::whose;
use crate::DurabilityError;
use crate::block::scan::Scanner;

/// Folders of this manifest whose marks can be written anew.
///
/// # Errors
/// The disk's.
pub(crate) fn renewable_marks(disk: &dyn Disk, manifest: &Manifest) -> Result<Vec<String>, DurabilityError> {
    if whose::check_main(disk, manifest, false).is_err() {
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

/// Writes the marks of these folders, of a database that nobody has open.
///
/// # Errors
/// [`DurabilityError::InUse`]; the disk's.
pub(crate) fn renew_marks(
    disk: &dyn Disk,
    (manifest, names): (&Manifest, &[String]),
    locks: &mut Locks,
) -> Result<(), DurabilityError> {
    for name in names {
        locks.add_folder(disk, name)?;
        let mark = whose::mark(manifest, name);
        mark.prepare(disk)?;
        mark.place(disk)?;
    }
    Ok(())
}

/// File of a folder's mark.
pub(crate) fn mark_file(folder: &str) -> String {
    format!("{folder}/{FOLDER}")
}

/// True if the folder's mark is lost or damaged, and it is proved to be this database's.
pub(crate) fn is_renewable(
    disk: &dyn Disk,
    manifest: &Manifest,
    name: &str,
) -> Result<bool, DurabilityError> {
    if whose::check_is_there(disk, name).is_err()
        || !whose::is_same(disk.folder_id(name)?, manifest.folders[name])
    {
        return Ok(false);
    }
    match Mark::read(disk, name) {
        Ok(None) | Err(DurabilityError::Damaged { .. }) => {}
        Ok(Some(_)) | Err(DurabilityError::Unknown { .. }) => return Ok(false),
        Err(error) => return Err(error),
    }
    if whose::mark(manifest, name).is_prepared(disk)? {
        // An open puts it in its place.
        return Ok(false);
    }
    let files = disk.list(name)?;
    let mut files =
        files.iter().filter(|file| ![FOLDER, FOLDER_NEW, LOCK].contains(&file.as_str())).peekable();
    if files.peek().is_none() {
        return Ok(!whose::is_needed(manifest, name));
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

/// Error of a folder whose mark alone is lost.
pub(crate) fn lost_mark(name: &str) -> DurabilityError {
    let detail = "it is missing or damaged, and the folder is this database's: `ensile verify DIR --repair` writes it anew";
    DurabilityError::damaged(&mark_file(name), 0, detail)
}
