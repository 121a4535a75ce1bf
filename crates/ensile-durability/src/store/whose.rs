//! Whose a folder is: decided from marks and numbers, before anything is changed (I1, I2).
//!
//! Main and linked folders name each other: the manifest lists each folder's number, and each folder's mark names the
//! database and the main folder's number.
//!
//! | found | then |
//! |---|---|
//! | both agree | it is this database's |
//! | the main folder's number differs, or a listed one's | copied, restored or moved: refused until adopted |
//! | a listed folder is empty | its device is not mounted: refused, and nothing else is offered |
//! | a listed folder is missing, or has files and no mark of this database | damage |
//! | a folder that is to be new holds files | another database's, or something else's: refused |
//! | no manifest, and a trace of an earlier life | damage |
//! | no manifest, and files or folders of something else | not a database: refused |
//!
//! A single file says in its opening block whose it is: it is asked before a file that nothing names any more is
//! removed.
//!
//! Neighbours: asked by the store at open and by an examination, and before files are removed; an adoption rewrites
//! what is compared here.

use std::collections::BTreeSet;

use ensile_disk::{Disk, DiskError, FolderId, FolderKind};

use super::folders;
use super::installed::InstalledCheckpoint;
use super::manifest::{Making, Manifest};
use super::mark::Mark;
use super::names::{
    ARCHIVE_FOLDER, FOLDER, FOLDER_NEW, HINT, LEASES, LOCK, MAIN, MANIFEST, MANIFEST_NEW, RATES, RESERVE,
    checkpointer_of, log_folder, logger_of,
};
use crate::block::NotABlock;
use crate::block::origin::OPENING_BYTES;
use crate::block::scan::Scanner;
use crate::{DurabilityError, EntryKind};

/// Foreign files that an error names, at most.
const NAMED_MAX: usize = 3;
/// Folder that a file system makes in its root.
const LOST_AND_FOUND: &str = "lost+found";

/// Is it the same folder? A birth that only one of them has says nothing.
pub(crate) fn is_same(a: FolderId, b: FolderId) -> bool {
    a.inode == b.inode && a.born_nanos.zip(b.born_nanos).is_none_or(|(a, b)| a == b)
}

/// Is the folder a copy of the one that the manifest was written in, as a whole or in a part: is the main folder, or a
/// listed one that is there, another one than the manifest lists? Marks are not asked: they were copied too. A folder
/// that holds nothing is that of a device that is not mounted.
pub(crate) fn is_copy(disk: &dyn Disk, manifest: &Manifest) -> Result<bool, DiskError> {
    if !is_same(disk.folder_id("")?, manifest.main()) {
        return Ok(true);
    }
    for (name, listed) in manifest.folders.iter().filter(|(name, _)| *name != MAIN) {
        let is_there = match disk.folder_kind(name)? {
            FolderKind::Missing | FolderKind::Link { is_there: false, .. } => false,
            FolderKind::Plain | FolderKind::Link { .. } => true,
        };
        if is_there && !is_same(disk.folder_id(name)?, *listed) && !holds_nothing(disk, name)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The mark that a folder of this database has.
pub(crate) fn mark(manifest: &Manifest, name: &str) -> Mark {
    Mark { database: manifest.identity, name: name.to_owned(), main: manifest.main() }
}

/// Is the main folder the one that the manifest was written for?
pub(crate) fn check_main(
    disk: &dyn Disk,
    manifest: &Manifest,
    is_hard_linked: bool,
) -> Result<(), DurabilityError> {
    let found = disk.folder_id("")?;
    if is_same(found, manifest.main()) {
        return Ok(());
    }
    let linked =
        if is_hard_linked { "; its files have other names too, as in a hard-linked copy" } else { "" };
    Err(DurabilityError::Copied {
        folder: disk.folder_place("")?.into(),
        database: disk.folder_place("")?.into(),
        detail: format!("MANIFEST names {}, and it is {found}{linked}", manifest.main()).into(),
    })
}

/// The listed folders that are needed: those of logs of generations that count, of the installed checkpoint, and the
/// archive.
pub(crate) fn is_needed(manifest: &Manifest, name: &str) -> bool {
    let logs = manifest.generations.iter().map(|generation| generation.logs).max().unwrap_or(0);
    let checkpoint = manifest.checkpoint.as_ref().map(InstalledCheckpoint::folders).unwrap_or_default();
    // Nothing is removed before it is in the archive (A1).
    name == ARCHIVE_FOLDER
        || (0..logs).any(|logger| name == log_folder(logger))
        || checkpoint.iter().any(|folder| folder == name)
}

/// The folders that are searched for files, without the main one: those that the manifest lists, and those that it does
/// not and that have this database's mark. A crash leaves the latter, and so does an older manifest, put back: an open
/// claims as many as its settings ask for, and what stands in the others says no less.
pub(crate) fn searched(disk: &dyn Disk, manifest: &Manifest) -> Result<BTreeSet<String>, DurabilityError> {
    let mut names: BTreeSet<String> = manifest.folders.keys().filter(|name| *name != MAIN).cloned().collect();
    for name in disk.list_folders("")? {
        let is_numbered = logger_of(&name).or(checkpointer_of(&name)).is_some();
        if is_numbered && !names.contains(&name) && has_our_mark(disk, manifest, &name)? {
            names.insert(name);
        }
    }
    Ok(names)
}

/// Does a folder that no manifest lists prove to be this database's? One whose mark cannot be parsed does not.
fn has_our_mark(disk: &dyn Disk, manifest: &Manifest, name: &str) -> Result<bool, DurabilityError> {
    if matches!(disk.folder_kind(name)?, FolderKind::Link { is_there: false, .. }) {
        return Ok(false);
    }
    match Mark::read(disk, name) {
        Ok(found) => Ok(found.is_some_and(|found| found == mark(manifest, name))),
        Err(DurabilityError::Damaged { .. } | DurabilityError::Unknown { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}

/// What is at a listed folder's name.
pub(crate) fn check_is_there(disk: &dyn Disk, name: &str) -> Result<(), DurabilityError> {
    match folders::check(disk, name)? {
        FolderKind::Missing => Err(DurabilityError::damaged(
            name,
            0,
            "the folder is missing, and MANIFEST lists it: is its device mounted, or was it moved? Put it back",
        )),
        FolderKind::Plain | FolderKind::Link { .. } => Ok(()),
    }
}

/// Is the listed folder `name`, which is there, this database's? A mark of which only the rename was missing is put in
/// its place if `finishes`.
pub(crate) fn check_listed(
    disk: &dyn Disk,
    manifest: &Manifest,
    name: &str,
    finishes: bool,
) -> Result<(), DurabilityError> {
    let (wanted, listed) = (mark(manifest, name), manifest.folders[name]);
    let found = Mark::read(disk, name)?;
    let is_prepared = found.as_ref() != Some(&wanted) && wanted.is_prepared(disk)?;
    if !is_prepared {
        match found {
            None if holds_nothing(disk, name)? => {
                return Err(DurabilityError::NotMounted {
                    folder: name.to_owned(),
                    place: disk.folder_place(name)?,
                });
            }
            None => {
                let detail = "it is missing, so nothing shows that the folder is this database's; `ensile verify DIR --repair` \
                    writes it anew where the folder's files prove whose it is, and `ensile adopt` if nobody else uses it";
                return Err(DurabilityError::damaged(&format!("{name}/{FOLDER}"), 0, detail));
            }
            Some(mark) if mark != wanted => {
                let detail = format!("{}, and MANIFEST is of another one", says(manifest, &mark));
                return Err(DurabilityError::damaged(&format!("{name}/{FOLDER}"), 0, detail));
            }
            Some(_) => {}
        }
    }
    let number = disk.folder_id(name)?;
    if !is_same(number, listed) {
        return Err(DurabilityError::Copied {
            folder: disk.folder_place(name)?.into(),
            database: disk.folder_place("")?.into(),
            detail: format!("MANIFEST names {listed} for {name}, and it is {number}").into(),
        });
    }
    if is_prepared && finishes {
        wanted.place(disk)?;
    }
    Ok(())
}

/// May the folder `name`, which no manifest lists, become this database's? The mark that it is to get: also where an
/// open that did not get further has left it, whose sync may be what failed.
///
/// # Errors
/// [`DurabilityError::ForeignFolder`].
pub(crate) fn check_free(disk: &dyn Disk, manifest: &Manifest, name: &str) -> Result<Mark, DurabilityError> {
    let wanted = mark(manifest, name);
    let detail = match Mark::read(disk, name)? {
        Some(found) if found == wanted => return Ok(wanted),
        Some(found) => format!("of its FOLDER, {}", says(manifest, &found)),
        None if holds_nothing(disk, name)? => return Ok(wanted),
        None => "it holds files, and has no mark".to_owned(),
    };
    Err(DurabilityError::foreign_folder(name, &disk.folder_place(name)?, &detail))
}

/// What a mark that is not the wanted one says.
pub(crate) fn says(manifest: &Manifest, mark: &Mark) -> String {
    let Mark { database, name: other, main } = mark;
    let whose = if *database != manifest.identity {
        format!("database {database}, whose main folder is {main}")
    } else if is_same(*main, manifest.main()) {
        "this database".to_owned()
    } else {
        format!("the original of this database, whose main folder is {main}")
    };
    format!("it says that the folder is {other} of {whose}")
}

/// Are there no files in it but those that its making leaves?
pub(crate) fn holds_nothing(disk: &dyn Disk, name: &str) -> Result<bool, DiskError> {
    Ok(disk.list(name)?.iter().all(|file| file == FOLDER_NEW || file == LOCK))
}

/// No two of these lead to the same folder: a log, or a checkpointer, would meet another one's files.
pub(crate) fn check_apart(disk: &dyn Disk, names: &[String]) -> Result<(), DurabilityError> {
    for (at, name) in names.iter().enumerate() {
        for other in &names[..at] {
            if disk.is_same_folder(other, name)? {
                // One of them is a link, perhaps the first to the second.
                let link = if disk.folder_kind(name)? == FolderKind::Plain { other } else { name };
                return Err(DurabilityError::config(format!(
                    "{other} and {name} lead to the same folder {}: each needs one of its own; remove the link {link}",
                    disk.folder_place(name)?.display()
                )));
            }
        }
    }
    Ok(())
}

/// May a database have made the folder of this name?
fn is_own_folder(name: &str) -> bool {
    let numbered = |prefix: &str| name.strip_prefix(prefix).is_some_and(|rest| rest.parse::<u32>().is_ok());
    name == ARCHIVE_FOLDER || ["log", "checkpoint", "repaired-"].into_iter().any(numbered)
}

/// Why a folder without a manifest is not new; `None` if nothing in it, nor in a folder that it leads to, speaks of an
/// earlier life (I2).
///
/// `LOCK` says nothing: it is made before the manifest, and a crash there leaves it alone. Nor does `LEASES`, which
/// holds nothing. `MANIFEST.new` says something if it is the manifest of a database that was created; the first one is
/// of one that is being made.
pub(crate) fn why_not_new(disk: &dyn Disk) -> Result<Option<DurabilityError>, DurabilityError> {
    let files = disk.list("")?;
    let folder = disk.folder_place("")?;
    if files.iter().any(|file| file == FOLDER) {
        let detail = "it is a folder of a log or checkpointer: open the main folder, which its FOLDER names by its inode";
        return Ok(Some(DurabilityError::NotADatabase { folder, detail: detail.to_owned() }));
    }
    let mut traces = Vec::new();
    for file in &files {
        match &**file {
            HINT | RATES | RESERVE => traces.push(file.clone()),
            MANIFEST_NEW if Manifest::is_created_text(disk, MANIFEST_NEW)? => {
                traces.push(MANIFEST_NEW.to_owned())
            }
            _ => {}
        }
    }
    let folders = disk.list_folders("")?;
    for name in folders.iter().filter(|name| is_own_folder(name)) {
        if matches!(disk.folder_kind(name)?, FolderKind::Link { is_there: false, .. }) {
            continue;
        }
        if !disk.list(name)?.is_empty() {
            traces.push(name.clone());
        }
    }
    if !traces.is_empty() {
        let detail = format!(
            "it is missing, and {} {} of an earlier life; nothing was changed",
            traces.join(", "),
            if traces.len() == 1 { "speaks" } else { "speak" }
        );
        return Ok(Some(DurabilityError::damaged(MANIFEST, 0, detail)));
    }
    let is_other = |file: &&str| {
        ![LEASES, LOCK, MANIFEST_NEW].contains(file) && !folders.iter().any(|name| name == file)
    };
    // Snapshots, waste bins and the like have names that begin with a dot.
    let is_systems = |name: &str| name == LOST_AND_FOUND || name.starts_with('.');
    let is_other_folder = |name: &&str| !is_own_folder(name) && !is_systems(name);
    let others = files.iter().map(String::as_str).filter(is_other);
    let others: Vec<&str> =
        others.chain(folders.iter().map(String::as_str).filter(is_other_folder)).collect();
    if others.is_empty() {
        return Ok(None);
    }
    let more = if others.len() > NAMED_MAX { " and more" } else { "" };
    let detail = format!("it holds {}{more}", others[..others.len().min(NAMED_MAX)].join(", "));
    Ok(Some(DurabilityError::NotADatabase { folder, detail }))
}

/// Reads the manifest of a folder that must have one.
///
/// # Errors
/// As [`Manifest::read`]; one that is missing is damage, or there is no database.
pub(crate) fn expect_manifest(disk: &dyn Disk) -> Result<Manifest, DurabilityError> {
    match Manifest::read(disk)? {
        Some(manifest) => Ok(manifest),
        None => Err(match why_not_new(disk)? {
            Some(why) => why,
            None => DurabilityError::NoDatabase { folder: disk.folder_place("")? },
        }),
    }
}

/// What the entries of a folder are, by its manifest; `None` if there is no manifest, or it is of a database that is
/// being made. A process may have it open.
///
/// # Errors
/// Those of a manifest that is damaged, or of a newer version; the disk's.
pub fn entries_in(disk: &dyn Disk) -> Result<Option<EntryKind>, DurabilityError> {
    Ok(Manifest::read(disk)?.and_then(|manifest| Some(manifest.generations.last()?.entries)))
}

/// Looks whether a folder holds entries of this kind, or none yet, before its files are read.
///
/// # Errors
/// [`DurabilityError::OtherEntries`]; as for [`entries_in`].
pub fn expect_entries(disk: &dyn Disk, wanted: EntryKind) -> Result<(), DurabilityError> {
    Manifest::read(disk)?.map_or(Ok(()), |manifest| check_entries(disk, &manifest, wanted))
}

/// Are all entries of this manifest's folder of this kind?
pub(crate) fn check_entries(
    disk: &dyn Disk,
    manifest: &Manifest,
    wanted: EntryKind,
) -> Result<(), DurabilityError> {
    let mut kinds = manifest.generations.iter().map(|generation| generation.entries);
    match kinds.find(|kind| *kind != wanted) {
        None => Ok(()),
        Some(found) => Err(DurabilityError::OtherEntries { folder: disk.folder_place("")?, found }),
    }
}

/// A manifest of a database that is being made, beside what only one that was created has, is an older one (I2).
pub(crate) fn check_creating(disk: &dyn Disk, manifest: &Manifest) -> Result<(), DurabilityError> {
    if manifest.state == Making::Created || !disk.exists(HINT)? {
        return Ok(());
    }
    let detail = "it is an older one: it says that the database is being made, and HINT that it was open";
    Err(DurabilityError::damaged(MANIFEST, 0, detail))
}

/// Does a file that nothing names any more prove to be this database's (I1)? So does one that ended before its opening
/// block was whole, as that is synced before anything is written behind it.
///
/// # Errors
/// [`DurabilityError::NotOurs`], [`DurabilityError::Unknown`].
pub(crate) fn proves_ours(disk: &dyn Disk, manifest: &Manifest, name: &str) -> Result<bool, DurabilityError> {
    let opening = Scanner::opening_of(disk, name)?;
    match opening {
        Ok(opened) => manifest.check_ours(name, opened.origin.identity).map(|()| true),
        Err(NotABlock::Unknown | NotABlock::OtherFormat) => Err(DurabilityError::newer(name, 0)),
        Err(_) => Ok(Scanner::new(disk.open_to_read(name)?)?.used_to(0)? <= OPENING_BYTES as u64),
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
