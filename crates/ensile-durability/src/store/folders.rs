//! Folders of logs and checkpointers: creation, links and checks, before any other use of the folders.
//!
//! `log<l>` in the database's folder belongs to logger l, and `checkpoint<c>` to checkpointer c: a plain folder, or a
//! link to a folder on another device. The links are the only record of the places.
//!
//! Invariant: the name of a folder is synced before the manifest lists a log in the folder.
//!
//! Neighbours: `claim` and `ownership` call; loggers and recovery name their files in the folders.

use std::path::{Path, PathBuf};

use ensile_disk::{Disk, FolderKind};

use crate::{DurabilityError, Result};

/// Checks that `links` is empty, or has an own folder for each of `count` owners. Errors name `what` and `owner`.
pub(crate) fn check_links(links: &[PathBuf], count: usize, what: &str, owner: &str) -> Result<()> {
    if !links.is_empty() && links.len() != count {
        return Err(DurabilityError::config(format!("{what} folders: give one for each {owner}")));
    }
    match (1..links.len()).find(|at| links[..*at].contains(&links[*at])) {
        None => Ok(()),
        Some(twice) => Err(DurabilityError::config(format!(
            "{what} folder {} is given twice: each {owner} needs its own",
            links[twice].display()
        ))),
    }
}

/// Makes the folders `names`: links to `links`, or plain folders without links. The caller syncs the names. Errors:
/// [`DurabilityError::Config`] if a different entry stands at a name; [`DurabilityError::FolderMissing`]; the disk's.
pub(crate) fn make(disk: &dyn Disk, names: &[String], links: &[PathBuf]) -> Result<()> {
    debug_assert!(links.is_empty() || links.len() == names.len());
    for (at, name) in names.iter().enumerate() {
        match links.get(at) {
            Some(to) => link(disk, name, to)?,
            None => {
                if check(disk, name)? == FolderKind::Missing {
                    disk.create_folder(name)?;
                }
            }
        }
    }
    Ok(())
}

/// Kind of the entry at a folder's name. A link to a missing folder is an error.
pub(crate) fn check(disk: &dyn Disk, name: &str) -> Result<FolderKind> {
    match disk.folder_kind(name)? {
        FolderKind::Link { to, is_there: false } => {
            Err(DurabilityError::FolderMissing { folder: name.to_owned(), to })
        }
        kind => Ok(kind),
    }
}

/// True if the name is a plain folder, or a link to an existing folder. A link to a missing folder is an error.
pub(crate) fn is_folder(disk: &dyn Disk, name: &str) -> Result<bool> {
    Ok(check(disk, name)? != FolderKind::Missing)
}

/// Makes `name` a link to the folder `to`. An existing link to the same folder is fine.
fn link(disk: &dyn Disk, name: &str, to: &Path) -> Result<()> {
    let wanted = to.display();
    let found = match check(disk, name)? {
        FolderKind::Plain => "a plain folder".to_owned(),
        FolderKind::Link { to, .. } => format!("a link to {}", to.display()),
        FolderKind::Missing => "something else".to_owned(),
    };
    match disk.link_folder(name, to) {
        Err(error) if error.is_already_exists() => Err(DurabilityError::config(format!(
            "folder {wanted}: {name} in the database's folder is {found} already. Give that folder, or close the database, \
             move its files to {wanted}, and make {name} a link to it"
        ))),
        linked => Ok(linked?),
    }
}
