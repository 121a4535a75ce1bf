//! The folders of the logs: made, linked and looked at before anything else is done in them.
//!
//! `log<l>` in the database's folder is logger l's: a plain folder, or a link to one on another device. Links are how the file
//! system itself remembers where the logs are; who lists the folder sees it.
//!
//! Invariant: a folder's name is synced before the manifest lists a log in it.
//!
//! Neighbours: called by recovery once it has the lock; loggers and recovery name their files in these folders.

use std::path::{Path, PathBuf};

use ensile_disk::{Disk, FolderKind};

use crate::DurabilityError;
use crate::names::log_folder;

/// Makes the folders of loggers `0..loggers`, as links to `links` if there are any.
///
/// # Errors
/// [`DurabilityError::Config`] when something else stands there already, [`DurabilityError::FolderMissing`].
pub(crate) fn make(disk: &dyn Disk, loggers: usize, links: &[PathBuf]) -> Result<(), DurabilityError> {
    debug_assert!(links.is_empty() || links.len() == loggers);
    for logger in 0..loggers {
        let name = log_folder(logger as u32);
        match links.get(logger) {
            Some(to) => link(disk, &name, to)?,
            None => {
                if check(disk, &name)? == FolderKind::Missing {
                    disk.create_folder(&name)?;
                }
            }
        }
    }
    disk.sync_folder("")?;
    check_apart(disk, loggers)
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

fn link(disk: &dyn Disk, name: &str, to: &Path) -> Result<(), DurabilityError> {
    let wanted = to.display();
    let found = match check(disk, name)? {
        FolderKind::Plain => "a plain folder".to_owned(),
        FolderKind::Link { to, .. } => format!("a link to {}", to.display()),
        FolderKind::Missing => "something else".to_owned(),
    };
    match disk.link_folder(name, to) {
        Err(error) if error.is_already_exists() => Err(DurabilityError::config(format!(
            "log folder {wanted}: {name} in the database's folder is {found} already. Give that folder, or close the database, \
             move its files to {wanted}, and make {name} a link to it"
        ))),
        linked => Ok(linked?),
    }
}

/// Two logs in one folder would overwrite each other's files.
fn check_apart(disk: &dyn Disk, loggers: usize) -> Result<(), DurabilityError> {
    let mut seen: Vec<(String, PathBuf)> = Vec::new();
    for logger in 0..loggers {
        let name = log_folder(logger as u32);
        let FolderKind::Link { to, .. } = disk.folder_kind(&name)? else { continue };
        if let Some((other, _)) = seen.iter().find(|(_, before)| *before == to) {
            return Err(DurabilityError::config(format!(
                "{other} and {name} lead to the same folder {}: each log needs one of its own; remove the link {name}",
                to.display()
            )));
        }
        seen.push((name, to));
    }
    Ok(())
}
