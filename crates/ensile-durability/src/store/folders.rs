//! The folders of logs and checkpointers: made, linked and looked at before anything else is done in them.
//!
//! `log<l>` in the database's folder is logger l's, `checkpoint<c>` checkpointer c's: a plain folder, or a link to one on another device. Links are how the file
//! system itself remembers where the logs are; who lists the folder sees it.
//!
//! Invariant: a folder's name is synced before the manifest lists a log in it.
//!
//! Neighbours: called by recovery once it has the lock; loggers and recovery name their files in these folders.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ensile_disk::{Disk, FolderKind};

use crate::DurabilityError;

/// Are these, if any, a folder for each of `count` owners? `what` they are of, and who owns one, for the message.
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

/// Makes the folders `name(0)` to `name(count - 1)`, of loggers or of checkpointers, as links to `links` if there are any.
///
/// # Errors
/// [`DurabilityError::Config`] when something else stands there already, [`DurabilityError::FolderMissing`].
pub(crate) fn make(
    disk: &dyn Disk,
    count: usize,
    links: &[PathBuf],
    name: impl Fn(u32) -> String,
) -> Result<(), DurabilityError> {
    debug_assert!(links.is_empty() || links.len() == count);
    let names: Vec<_> = (0..count as u32).map(name).collect();
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
    disk.sync_folder("")?;
    check_apart(disk, &names)
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
            "folder {wanted}: {name} in the database's folder is {found} already. Give that folder, or close the database, \
             move its files to {wanted}, and make {name} a link to it"
        ))),
        linked => Ok(linked?),
    }
}

/// Two logs, or two checkpointers, in one folder would overwrite each other's files.
pub(crate) fn check_apart(disk: &dyn Disk, names: &[String]) -> Result<(), DurabilityError> {
    let mut seen: BTreeMap<PathBuf, &String> = BTreeMap::new();
    for name in names {
        let place = disk.folder_place(name)?;
        if let Some(other) = seen.get(&place) {
            // One of them is a link, perhaps the first to the second.
            let link = if disk.folder_kind(name)? == FolderKind::Plain { other } else { name };
            return Err(DurabilityError::config(format!(
                "{other} and {name} lead to the same folder {}: each needs one of its own; remove the link {link}",
                place.display()
            )));
        }
        seen.insert(place, name);
    }
    Ok(())
}
