//! The folders of logs and checkpointers: made, linked and looked at before anything else is done in them.
//!
//! `log<l>` in the database's folder is logger l's, `checkpoint<c>` checkpointer c's: a plain folder, or a link to one
//! on another device. The file system itself remembers by links where the logs are, and a listing of the folder shows
//! it.
//!
//! Invariant: a folder's name is synced before the manifest lists a log in it.
//!
//! Neighbours: called by the store once it has the locks; loggers and recovery name their files in these folders.

use std::path::{Path, PathBuf};

use ensile_disk::{Disk, FolderKind};

use crate::DurabilityError;

/// Checks that these, if there are any, are one folder for each of `count` owners. The message names what the folders
/// are of and who owns one.
///
/// # Errors
/// [`DurabilityError::Config`].
pub(crate) fn check_links(
    links: &[PathBuf],
    count: usize,
    what: &str,
    owner: &str,
) -> Result<(), DurabilityError> {
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

/// Makes these folders, as links to `links` if there are any. Their names are the caller's to sync.
///
/// # Errors
/// [`DurabilityError::Config`] when something else stands there already, [`DurabilityError::FolderMissing`].
pub(crate) fn make(disk: &dyn Disk, names: &[String], links: &[PathBuf]) -> Result<(), DurabilityError> {
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

/// What stands at a folder's name, unless it is a link to nothing.
pub(crate) fn check(disk: &dyn Disk, name: &str) -> Result<FolderKind, DurabilityError> {
    match disk.folder_kind(name)? {
        FolderKind::Link { to, is_there: false } => {
            Err(DurabilityError::FolderMissing { folder: name.to_owned(), to })
        }
        kind => Ok(kind),
    }
}

/// Is it a plain folder, or a link to one that is there?
pub(crate) fn is_folder(disk: &dyn Disk, name: &str) -> Result<bool, DurabilityError> {
    Ok(check(disk, name)? != FolderKind::Missing)
}

fn link(disk: &dyn Disk, name: &str, to: &Path) -> Result<(), DurabilityError> {
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
