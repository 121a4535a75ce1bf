//! Owner of a folder, decided from marks and folder numbers (inode and birth time) before anything is changed (I1, I2).
//!
//! The manifest lists the number of each folder. The mark in a folder names the database and the main folder's number.
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
//! Neighbours: `open`, `claim`, an examination, and every search for files before a removal call; `adoption` rewrites
//! marks. Callers outside of an open ask for the manifest and the kind of entries.

use std::collections::BTreeSet;

use ensile_disk::{Disk, DiskError, FolderId, FolderKind};

use super::folders;
use crate::files::block::NotABlock;
use crate::files::block::origin::OPENING_BYTES;
use crate::files::block::scan::Scanner;
use crate::files::manifest::installed_checkpoint::InstalledCheckpoint;
use crate::files::manifest::{Making, Manifest};
use crate::files::mark::Mark;
use crate::files::names::{
    ARCHIVE_FOLDER, FOLDER, FOLDER_NEW, HINT, LEASES, LOCK, MAIN, MANIFEST, MANIFEST_NEW, RATES, RESERVE,
    checkpointer_of, log_folder, logger_of,
};
use crate::{DurabilityError, EntryKind, Result};

/// Maximum number of foreign files that an error names.
const NAMED_MAX: usize = 3;
/// Folder that a file system makes in its root.
const LOST_AND_FOUND: &str = "lost+found";

/// True if the numbers are of the same folder. A birth time that only one number has is not compared.
pub(crate) fn is_same(a: FolderId, b: FolderId) -> bool {
    a.inode == b.inode && a.born_nanos.zip(b.born_nanos).is_none_or(|(a, b)| a == b)
}

/// True if the folder is a copy of the manifest's folder, in whole or part: the number of the main folder, or of an
/// existing listed one, differs. Copies have the same marks. An empty listed folder's device is not mounted.
pub(crate) fn is_copy(disk: &dyn Disk, manifest: &Manifest) -> Result<bool, DiskError> {
    if !is_same(disk.folder_id("")?, manifest.main()) {
        return Ok(true);
    }
    for (name, listed) in manifest.folders.iter().filter(|(name, _)| *name != MAIN) {
        let kind = disk.folder_kind(name)?;
        let is_gone = matches!(kind, FolderKind::Missing | FolderKind::Link { is_there: false, .. });
        if !is_gone && !is_same(disk.folder_id(name)?, *listed) && !holds_nothing(disk, name)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Mark that the folder `name` must have if it is this database's.
pub(crate) fn mark(manifest: &Manifest, name: &str) -> Mark {
    debug_assert_ne!(name, MAIN, "I1: the main folder has no mark");
    Mark { database: manifest.identity, name: name.to_owned(), main: manifest.main() }
}

/// Checks that the main folder is the folder for which the manifest was written.
pub(crate) fn check_main(disk: &dyn Disk, manifest: &Manifest, is_hard_linked: bool) -> Result<()> {
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

/// True if the listed folder is needed: for a log of a counting generation, for the checkpoint, or as the archive.
pub(crate) fn is_needed(manifest: &Manifest, name: &str) -> bool {
    let logs = manifest.generations.iter().map(|generation| generation.logs).max().unwrap_or(0);
    let checkpoint = manifest.checkpoint.as_ref().map(InstalledCheckpoint::folders).unwrap_or_default();
    // The store removes nothing before it is in the archive (A1).
    name == ARCHIVE_FOLDER
        || (0..logs).any(|logger| name == log_folder(logger))
        || checkpoint.iter().any(|folder| folder == name)
}

/// Names of the folders in which recovery and checkpoints search for files, without the main folder: the listed
/// folders, and unlisted folders with this database's mark, as a crash leaves, or an older manifest that was put back.
/// An open claims only the folders of its settings, but files in the other folders prove no less.
pub(crate) fn folders_to_search(disk: &dyn Disk, manifest: &Manifest) -> Result<BTreeSet<String>> {
    let mut names: BTreeSet<String> = manifest.folders.keys().filter(|name| *name != MAIN).cloned().collect();
    for name in disk.list_folders("")? {
        let is_numbered = logger_of(&name).or(checkpointer_of(&name)).is_some();
        if is_numbered && !names.contains(&name) && has_our_mark(disk, manifest, &name)? {
            names.insert(name);
        }
    }
    Ok(names)
}

/// True if an unlisted folder proves to be this database's. A mark that cannot be parsed proves nothing.
fn has_our_mark(disk: &dyn Disk, manifest: &Manifest, name: &str) -> Result<bool> {
    if matches!(disk.folder_kind(name)?, FolderKind::Link { is_there: false, .. }) {
        return Ok(false);
    }
    match Mark::read(disk, name) {
        Ok(found) => Ok(found.is_some_and(|found| found == mark(manifest, name))),
        Err(DurabilityError::Damaged { .. } | DurabilityError::Unknown { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}

pub(crate) fn check_is_there(disk: &dyn Disk, name: &str) -> Result<()> {
    match folders::check(disk, name)? {
        FolderKind::Missing => Err(DurabilityError::damaged_file(
            name,
            0,
            "the folder is missing, and MANIFEST lists it: is its device mounted, or was it moved? Put it back",
        )),
        FolderKind::Plain | FolderKind::Link { .. } => Ok(()),
    }
}

/// Checks that the listed folder `name` is the database's. If `finishes`, a mark that lacks only its rename is placed.
pub(crate) fn check_listed(disk: &dyn Disk, manifest: &Manifest, name: &str, finishes: bool) -> Result<()> {
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
                return Err(DurabilityError::damaged_file(&format!("{name}/{FOLDER}"), 0, detail));
            }
            Some(mark) if mark != wanted => {
                let detail = format!("{}, and MANIFEST is of another one", says(manifest, &mark));
                return Err(DurabilityError::damaged_file(&format!("{name}/{FOLDER}"), 0, detail));
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

/// Checks that the unlisted folder `name` may become this database's, and returns the mark for the folder. An earlier
/// open that failed may have left the mark already, without a successful sync.
pub(crate) fn check_free(disk: &dyn Disk, manifest: &Manifest, name: &str) -> Result<Mark> {
    let wanted = mark(manifest, name);
    let detail = match Mark::read(disk, name)? {
        Some(found) if found == wanted => return Ok(wanted),
        Some(found) => format!("of its FOLDER, {}", says(manifest, &found)),
        None if holds_nothing(disk, name)? => return Ok(wanted),
        None => "it holds files, and has no mark".to_owned(),
    };
    Err(DurabilityError::foreign_folder(name, &disk.folder_place(name)?, &detail))
}

/// Describes the owner that a wrong mark names, for an error text.
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

/// True if the folder is empty, apart from files that an interrupted claim leaves.
pub(crate) fn holds_nothing(disk: &dyn Disk, name: &str) -> Result<bool, DiskError> {
    Ok(disk.list(name)?.iter().all(|file| file == FOLDER_NEW || file == LOCK))
}

/// Checks that no two names lead to the same folder: two owners would meet each other's files.
pub(crate) fn check_apart(disk: &dyn Disk, names: &[String]) -> Result<()> {
    for (at, name) in names.iter().enumerate() {
        for other in &names[..at] {
            if disk.is_same_folder(other, name)? {
                // One name is a link, perhaps from the first name to the second.
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

/// True if a database may have made a folder of this name.
fn is_own_folder(name: &str) -> bool {
    let numbered = |prefix: &str| name.strip_prefix(prefix).is_some_and(|rest| rest.parse::<u32>().is_ok());
    name == ARCHIVE_FOLDER || ["log", "checkpoint", "repaired-"].into_iter().any(numbered)
}

/// Reason why a folder without a manifest is not new; `None` without a trace of an earlier life (I2) or foreign files.
///
/// `LOCK` is no trace: an open makes `LOCK` before the manifest. `LEASES` is no trace, because the file is empty.
/// `MANIFEST.new` is a trace only if it is of a created database: the first one is of a database under creation.
pub(crate) fn why_not_new(disk: &dyn Disk) -> Result<Option<DurabilityError>> {
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
        let is_gone = matches!(disk.folder_kind(name)?, FolderKind::Link { is_there: false, .. });
        if !is_gone && !disk.list(name)?.is_empty() {
            traces.push(name.clone());
        }
    }
    if !traces.is_empty() {
        let detail = format!(
            "it is missing, and {} {} of an earlier life; nothing was changed",
            traces.join(", "),
            if traces.len() == 1 { "speaks" } else { "speak" }
        );
        return Ok(Some(DurabilityError::damaged_file(MANIFEST, 0, detail)));
    }
    let is_other = |file: &&str| {
        ![LEASES, LOCK, MANIFEST_NEW].contains(file) && !folders.iter().any(|name| name == file)
    };
    // Snapshots, waste bins and similar folders have names that begin with a dot.
    let is_systems = |name: &str| name == LOST_AND_FOUND || name.starts_with('.');
    let is_foreign = |name: &&str| !is_own_folder(name) && !is_systems(name);
    let others = files.iter().map(String::as_str).filter(is_other);
    let others: Vec<&str> = others.chain(folders.iter().map(String::as_str).filter(is_foreign)).collect();
    if others.is_empty() {
        return Ok(None);
    }
    let more = if others.len() > NAMED_MAX { " and more" } else { "" };
    let detail = format!("it holds {}{more}", others[..others.len().min(NAMED_MAX)].join(", "));
    Ok(Some(DurabilityError::NotADatabase { folder, detail }))
}

/// Reads the manifest of a folder that must have one: a missing manifest is damage, or the folder has no database.
pub(crate) fn expect_manifest(disk: &dyn Disk) -> Result<Manifest> {
    match Manifest::read(disk)? {
        Some(manifest) => Ok(manifest),
        None => Err(match why_not_new(disk)? {
            Some(why) => why,
            None => DurabilityError::NoDatabase { folder: disk.folder_place("")? },
        }),
    }
}

/// Kind of the entries in a folder, perhaps of an open database. `None` without a manifest, or under creation.
///
/// # Errors
/// Those of a manifest that is damaged or of a newer version; the disk's.
pub fn entries_in(disk: &dyn Disk) -> Result<Option<EntryKind>> {
    Ok(Manifest::read(disk)?.and_then(|manifest| Some(manifest.generations.last()?.entries)))
}

/// Checks that a folder has entries of this kind, or no entries yet, before its files are read.
///
/// # Errors
/// [`DurabilityError::OtherEntries`]; those of [`entries_in`].
pub fn expect_entries(disk: &dyn Disk, wanted: EntryKind) -> Result<()> {
    Manifest::read(disk)?.map_or(Ok(()), |manifest| check_entries(disk, &manifest, wanted))
}

/// Checks that the entries of the manifest's generations are of the kind `wanted`.
pub(crate) fn check_entries(disk: &dyn Disk, manifest: &Manifest, wanted: EntryKind) -> Result<()> {
    let mut kinds = manifest.generations.iter().map(|generation| generation.entries);
    match kinds.find(|kind| *kind != wanted) {
        None => Ok(()),
        Some(found) => Err(DurabilityError::OtherEntries { folder: disk.folder_place("")?, found }),
    }
}

/// Refuses a manifest in state *creating* beside a file that only a created database has: it is an older copy (I2).
pub(crate) fn check_creating(disk: &dyn Disk, manifest: &Manifest) -> Result<()> {
    if manifest.state == Making::Created || !disk.exists(HINT)? {
        return Ok(());
    }
    let detail = "it is an older one: it says that the database is being made, and HINT that it was open";
    Err(DurabilityError::damaged_file(MANIFEST, 0, detail))
}

/// True if an unlisted file proves to be this database's (I1), or ends before its opening block is whole: that block is
/// synced before later blocks. Errors: [`DurabilityError::NotOurs`], [`DurabilityError::Unknown`].
pub(crate) fn proves_ours(disk: &dyn Disk, manifest: &Manifest, name: &str) -> Result<bool> {
    let opening = Scanner::opening_of(disk, name)?;
    match opening {
        Ok(opened) => manifest.check_ours(name, opened.origin.identity).map(|()| true),
        Err(NotABlock::Unknown | NotABlock::OtherFormat) => Err(DurabilityError::newer(name, 0)),
        Err(_) => Ok(Scanner::new(disk.open_to_read(name)?)?.used_to(0)? <= OPENING_BYTES as u64),
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
