//! Makes a copied, restored or moved folder a database of its own (I1), with a new identity and the old one as parent.
//!
//! | step | a crash after the step leaves |
//! |---|---|
//! | write and sync the new mark of each folder as `FOLDER.new` | the copy: opens are refused; adopt again |
//! | replace the manifest, with the new identity and numbers | the adopted database: the next open places the marks |
//! | rename each `FOLDER.new` | the adopted database |
//!
//! Log, checkpoint and hint files keep the identity of their writer, which the manifest lists.
//!
//! Invariants:
//! - I1: a linked folder with the manifest's number, under a main folder with another, is the original's: refused.
//! - B4: an adoption first takes, under the same locks, the entries of a process-safe life, and reports the lost ones.
//!
//! Neighbours: `recovery::examination::adoption_report` calls; `ownership` compares marks and manifest.

use std::collections::BTreeMap;
use std::sync::Arc;

use ensile_disk::{Disk, FolderId};

use super::locks::LockMode;
use super::open::lock_main;
use super::ownership;
use super::unlocked_disk_guard::guard_disk;
use crate::files::manifest::{Manifest, ManifestKeeper};
use crate::files::mark::Mark;
use crate::files::names::MAIN;
use crate::identity::Identity;
use crate::unproven_tail::NotProven;
use crate::{DurabilityError, Result};

/// Result of an adoption.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Adopted {
    /// New identity of the database, 32 hex digits.
    pub database: String,
    /// Identity of the copied database, 32 hex digits.
    pub parent: String,
    /// Entries of a process-safe life that the caller agreed to lose, or that were taken ([`NotProven::is_taken`]).
    pub not_proven: Option<NotProven>,
    /// Number of entries that the adoption moved from mapped buffers of this boot into the logs.
    pub taken_entries: u64,
}

/// Entries that a process-safe life left, as an adoption treats them.
#[derive(Clone, Debug, Default)]
pub(crate) struct LeftToAdopt {
    /// See [`Adopted`].
    pub(crate) not_proven: Option<NotProven>,
    pub(crate) taken_entries: u64,
}

/// Makes the database in this folder a database of its own. The archive stays with the original. `take` first takes the
/// entries of a process-safe life, and reports the lost ones; after its error, no other file has changed.
pub(crate) fn adopt(
    disk: &Arc<dyn Disk>,
    take: impl FnOnce(&Arc<dyn Disk>, &Manifest) -> Result<LeftToAdopt>,
) -> Result<Adopted> {
    let mut locks = lock_main(&**disk, LockMode::Exclusive)?;
    let mut before = ownership::expect_manifest(&**disk)?;
    before.check_no_copy(&**disk)?;
    // The archive stays with the original.
    before.end_archive();
    // This check comes before the locks, because a lock may make a file. The check below repeats it under the locks.
    let found = folders_of(&**disk, &before)?;
    if !locks.has_file() {
        locks.add_file(&**disk)?;
    }
    let disk = &guard_disk(disk, &locks)?;
    found.keys().filter(|name| *name != MAIN).try_for_each(|name| locks.add_folder(&**disk, name))?;
    let folders = folders_of(&**disk, &before)?;
    let LeftToAdopt { not_proven, taken_entries } = take(disk, &before)?;
    let (parent, main) = (before.identity, folders[MAIN]);
    // The copy has shipped nothing.
    let own = Manifest { ships_to: None, ..before.clone() };
    let next = Manifest { identity: Identity::draw(), parent: Some(parent), folders, ..own };
    let marks: Vec<Mark> =
        next.folders.keys().filter(|name| *name != MAIN).map(|name| ownership::mark(&next, name)).collect();
    debug_assert!(
        marks.iter().all(|mark| (mark.database, mark.main) == (next.identity, main)),
        "I1: the marks name the adopted folder"
    );
    for mark in &marks {
        mark.prepare(&**disk)?;
        disk.sync_folder(&mark.name)?;
    }
    ManifestKeeper::new(disk, before).replace(next.clone())?;
    marks.iter().try_for_each(|mark| mark.place(&**disk))?;
    let (database, parent) = (next.identity.to_string(), parent.to_string());
    Ok(Adopted { database, parent, not_proven, taken_entries })
}

/// Current inode and birth time of each checked folder, by name, without missing folders that are not needed.
fn folders_of(disk: &dyn Disk, manifest: &Manifest) -> Result<BTreeMap<String, FolderId>> {
    let main = disk.folder_id("")?;
    let is_elsewhere = !ownership::is_same(main, manifest.main());
    let mut there = Vec::new();
    for name in manifest.folders.keys().filter(|name| *name != MAIN) {
        match ownership::check_is_there(disk, name) {
            Ok(()) => there.push(name.clone()),
            Err(error) if ownership::is_needed(manifest, name) => return Err(error),
            Err(_) => {}
        }
    }
    ownership::check_apart(disk, &there)?;
    let mut folders = BTreeMap::from([(MAIN.to_owned(), main)]);
    for name in there {
        let (number, place) = (disk.folder_id(&name)?, disk.folder_place(&name)?);
        if is_elsewhere && ownership::is_same(number, manifest.folders[&name]) {
            let detail = format!("it is the original's; copy it, and make {name} a link to the copy");
            return Err(DurabilityError::foreign_folder(&name, &place, &detail));
        }
        match Mark::read(disk, &name) {
            Ok(None) if ownership::holds_nothing(disk, &name)? && ownership::is_needed(manifest, &name) => {
                return Err(DurabilityError::NotMounted { folder: name, place });
            }
            Ok(Some(mark)) if !is_known(manifest, &mark, &name) => {
                let detail = format!("of its FOLDER, {}", ownership::says(manifest, &mark));
                return Err(DurabilityError::foreign_folder(&name, &place, &detail));
            }
            // The adoption writes a lost mark anew: each file carries the identity of its writer.
            Ok(_) | Err(DurabilityError::Damaged { .. }) => {}
            Err(error) => return Err(error),
        }
        folders.insert(name, number);
    }
    for folder in folders.keys().map(|name| if name == MAIN { "" } else { name }) {
        check_not_hard_linked(disk, folder)?;
    }
    Ok(folders)
}

/// True if the mark names this database or the parent. An adoption that is cut off leaves marks of the parent.
fn is_known(manifest: &Manifest, mark: &Mark, name: &str) -> bool {
    mark.name == name && (mark.database == manifest.identity || Some(mark.database) == manifest.parent)
}

/// Refuses hard links, because a hard link shares bytes with the original.
fn check_not_hard_linked(disk: &dyn Disk, folder: &str) -> Result<()> {
    let folders = disk.list_folders(folder)?;
    for file in disk.list(folder)?.iter().filter(|file| !folders.contains(file)) {
        let name = if folder.is_empty() { file.clone() } else { format!("{folder}/{file}") };
        if disk.links(&name)? > 1 {
            return Err(DurabilityError::config(format!(
                "{name} has other names (hard links), perhaps in the original: copy the files themselves, as `cp -a` does, and adopt \
                 that copy"
            )));
        }
    }
    Ok(())
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
