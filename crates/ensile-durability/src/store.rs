//! The store: whose files these are, and which of them count (`docs/protocols/store.md`).
//!
//! The one room under log and checkpoints that knows folders, locks, identity, manifest and hint. Both are its clients: they
//! ask it for folders and hand it what they have made.
//!
//! Invariants:
//! - I1: nothing is removed, cut, renamed over or appended to in a folder that does not prove to be this database's.
//! - I2: a folder is new only if nothing in it, nor in a linked folder, speaks of an earlier life.
//! - I3: one process owns the folders, by locks on them and on `LOCK`; removals wait for readers' leases.
//! - I4: only the process that opened the database changes its files.
//! - L6: epochs never come twice: the manifest reserves them ahead.
//! - L7: a generation is of one format, told by the manifest before any block is judged.
//!
//! Neighbours: `recovery` opens it and hands it to the log; `ensile-disk` has the folders and locks.

mod adopt;
mod folders;
pub(crate) mod hint;
pub(crate) mod identity;
pub(crate) mod leases;
mod locks;
pub(crate) mod manifest;
mod mark;
pub(crate) mod names;
pub(crate) mod reserve;
pub(crate) mod reserved_epochs;
mod watched;
pub(crate) mod whose;

use std::path::PathBuf;
use std::sync::Arc;

use ensile_disk::{Disk, DiskError, FolderKind};

use crate::DurabilityError;
pub use adopt::{Adopted, adopt};
pub(crate) use folders::{check, check_links};
pub use leases::{Lease, LeasedFile, lease};
pub(crate) use locks::Hold;
pub use locks::Locks;
use manifest::{Manifest, ManifestKeeper, State};
use names::{LOCK, MAIN, MANIFEST};
use watched::Watched;

/// Must there be a database, or must there be none?
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Opening {
    /// It is made if there is none.
    #[default]
    OpenOrCreate,
    /// There must be one.
    Existing,
    /// There must be none.
    New,
}

/// The folders of a database that this process has for itself.
#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) keeper: ManifestKeeper,
    pub(crate) locks: Locks,
}

impl Store {
    /// Locks the folders, looks whose they are, and begins a new database if there is none.
    ///
    /// # Errors
    /// As the table in [`whose`] says; nothing was changed then.
    pub(crate) fn open(disk: Arc<dyn Disk>, opening: Opening) -> Result<Self, DurabilityError> {
        let mut locks = Locks::of_folder(&*disk, Hold::Exclusive)?;
        match Manifest::read(&*disk)? {
            None => check_new(&*disk, opening)?,
            // `LOCK` is made in a folder only once that has proved to be ours (I1). One that is there is locked first, so that its holder is named.
            Some(manifest) if !disk.exists(LOCK)? => whose::check_main(&*disk, &manifest, false)?,
            Some(_) => {}
        }
        locks.add_file(&*disk)?;
        let disk = Watched::over(disk, &locks)?;
        let manifest = Manifest::read(&*disk)?;
        let Some(manifest) = manifest else {
            // Once more: before `LOCK` was held another process may have been here, where folders cannot be locked.
            check_new(&*disk, opening)?;
            let keeper = ManifestKeeper::begin(&disk)?;
            return Ok(Self { disk, keeper, locks });
        };
        check_opening(&*disk, &manifest, opening)?;
        let missing = lock_listed(&*disk, &manifest, &mut locks, &mut Err)?;
        let mut keeper = ManifestKeeper::of(&disk, manifest);
        keeper.folders_mut().retain(|name, _| !missing.contains(name));
        Ok(Self { disk, keeper, locks })
    }
}

/// Is there nothing here, and may there be nothing?
fn check_new(disk: &dyn Disk, opening: Opening) -> Result<(), DurabilityError> {
    if let Some(why) = whose::why_not_new(disk)? {
        return Err(why);
    }
    match opening {
        Opening::Existing => Err(DurabilityError::NoDatabase { folder: disk.folder_place("")? }),
        Opening::OpenOrCreate | Opening::New => Ok(()),
    }
}

/// May a database with this manifest be opened so? One whose making was cut short is none.
fn check_opening(disk: &dyn Disk, manifest: &Manifest, opening: Opening) -> Result<(), DurabilityError> {
    whose::check_creating(disk, manifest)?;
    let folder = disk.folder_place("")?;
    match (opening, manifest.state) {
        (Opening::New, State::Created) => Err(DurabilityError::DatabaseExists { folder }),
        (Opening::Existing, State::Creating) => Err(DurabilityError::NoDatabase { folder }),
        _ => Ok(()),
    }
}

/// Locks all folders that the manifest lists, and looks whose they are; `note` is told of what it finds, and ends it by an error.
/// Returns those that are missing, and that nothing needs any more.
fn lock_listed(
    disk: &dyn Disk,
    manifest: &Manifest,
    locks: &mut Locks,
    note: &mut dyn FnMut(DurabilityError) -> Result<(), DurabilityError>,
) -> Result<Vec<String>, DurabilityError> {
    whose::check_main(disk, manifest, locks.is_hard_linked()?).or_else(&mut *note)?;
    let mut there: Vec<String> = Vec::new();
    let mut missing = Vec::new();
    for name in manifest.folders.keys().filter(|name| *name != MAIN) {
        match whose::check_is_there(disk, name) {
            Ok(()) => there.push(name.clone()),
            Err(error) if whose::is_needed(manifest, name) => note(error)?,
            Err(_) => missing.push(name.clone()),
        }
    }
    whose::check_apart(disk, &there)?;
    let is_exclusive = locks.hold() == Hold::Exclusive;
    for name in there {
        let is_needed = whose::is_needed(manifest, &name);
        let look = |finishes| match whose::check_listed(disk, manifest, &name, finishes) {
            // `claim` looks again, if anybody wants it.
            Err(DurabilityError::NotMounted { .. }) if !is_needed => Ok(false),
            checked => checked.map(|()| true),
        };
        if is_exclusive {
            // Before the lock too, which makes a file where folders cannot be locked (I1).
            match look(false) {
                Ok(true) => {}
                Ok(false) => continue,
                Err(why) => {
                    note(why)?;
                    continue;
                }
            }
        }
        locks.add_folder(disk, &name)?;
        look(is_exclusive).map(drop).or_else(&mut *note)?;
    }
    Ok(missing)
}

/// The folders of one kind that a database is to have: `name(0)` to `name(count - 1)`, links to `links` if there are any.
pub(crate) struct Wanted<'a> {
    pub(crate) count: usize,
    pub(crate) links: &'a [PathBuf],
    pub(crate) name: fn(u32) -> String,
}

/// Makes the wanted folders this database's: made or linked, locked, marked, and on the list of the next manifest. Returns the
/// locks of those that are new, and whether there are any.
///
/// # Errors
/// [`DurabilityError::ForeignFolder`], [`DurabilityError::InUse`], and those of [`folders::make`].
pub(crate) fn claim(
    keeper: &mut ManifestKeeper,
    wanted: &[Wanted<'_>],
) -> Result<(Locks, bool), DurabilityError> {
    let disk = Arc::clone(keeper.disk());
    let mut locks = Locks::none(Hold::Exclusive);
    let names_of = |wanted: &Wanted<'_>| (0..wanted.count as u32).map(wanted.name).collect::<Vec<_>>();
    let names: Vec<String> = wanted.iter().flat_map(names_of).collect();
    for name in names.iter().filter(|name| keeper.manifest().folders.contains_key(*name)) {
        if !whose::is_needed(keeper.manifest(), name) {
            whose::check_listed(&*disk, keeper.manifest(), name, true)?;
        }
    }
    for wanted in wanted {
        folders::make(&*disk, &names_of(wanted), wanted.links)?;
    }
    disk.sync_folder("")?;
    let listed = keeper.manifest().folders.keys().filter(|name| *name != MAIN && !names.contains(name));
    let all: Vec<String> = listed.chain(&names).cloned().collect();
    whose::check_apart(&*disk, &all)?;
    let mut is_new = false;
    for name in names {
        if keeper.manifest().folders.contains_key(&name) {
            continue;
        }
        // Before the lock too, which makes a file where folders cannot be locked.
        whose::check_free(&*disk, keeper.manifest(), &name)?;
        locks.add_folder(&*disk, &name)?;
        let mark = whose::check_free(&*disk, keeper.manifest(), &name)?;
        mark.prepare(&*disk)?;
        mark.place(&*disk)?;
        let number = disk.folder_id(&name)?;
        keeper.folders_mut().insert(name, number);
        is_new = true;
    }
    Ok((locks, is_new))
}

/// Locks the folders of a database that must be there, for whoever does not open it. `note` is told why an open would refuse them.
///
/// # Errors
/// What `note` gives back, and those of an open that are about this machine; but a manifest that cannot be read is none: it is judged
/// later.
pub(crate) fn lock_existing(
    disk: &dyn Disk,
    hold: Hold,
    note: &mut dyn FnMut(DurabilityError) -> Result<(), DurabilityError>,
) -> Result<Locks, DurabilityError> {
    let mut locks = lock_main(disk, hold)?;
    let manifest = Manifest::read(disk);
    // `LOCK` is made only in a folder that has proved to be ours (I1).
    if let (false, Hold::Exclusive, Ok(Some(manifest))) = (locks.has_file(), hold, &manifest)
        && whose::check_main(disk, manifest, false).is_ok()
    {
        locks.add_file(disk)?;
    }
    if let Ok(Some(manifest)) = manifest {
        lock_listed(disk, &manifest, &mut locks, note)?;
    }
    Ok(locks)
}

/// Locks the main folder of a database that must be there, and `LOCK` if it is there.
fn lock_main(disk: &dyn Disk, hold: Hold) -> Result<Locks, DurabilityError> {
    let mut locks = Locks::of_folder(disk, hold)?;
    if !disk.exists(MANIFEST)? {
        match whose::why_not_new(disk)? {
            // What it had is damaged.
            Some(DurabilityError::Damaged { .. }) => {}
            Some(why) => return Err(why),
            None => return Err(DurabilityError::NoDatabase { folder: disk.folder_place("")? }),
        }
    }
    if disk.exists(LOCK)? {
        locks.add_file(disk)?;
    }
    Ok(locks)
}

/// The disk for a caller that changes files without opening the database: watched where its main folder cannot be
/// locked (I3).
pub(crate) fn watched(disk: &Arc<dyn Disk>, locks: &Locks) -> Result<Arc<dyn Disk>, DiskError> {
    Watched::over(Arc::clone(disk), locks)
}

/// Is it a plain folder, or a link to one that is there?
pub(crate) fn is_folder(disk: &dyn Disk, name: &str) -> Result<bool, DurabilityError> {
    Ok(check(disk, name)? != FolderKind::Missing)
}
