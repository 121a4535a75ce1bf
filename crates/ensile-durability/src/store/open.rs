//! First step of an open, a repair and an adoption: locks the folders, and checks that they belong to the database.
//!
//! Invariants:
//! - I1, I5, I6, H6, H8: owner, name, types and store are compared first, so a refused open leaves no file.
//! - I3: the locks come before the first look into a folder. Before a lock that must make a file, the checks come too.
//! - N24: a folder for a copy names the copy from the first manifest on, and opens for that copy only.
//!
//! Neighbours: [`ownership`] judges the folders, [`super::locks`] has the locks; `recovery` and copies open the store.
//! Examinations, repairs and backups only lock the folders here.

use std::sync::Arc;

use ensile_disk::Disk;

use super::locks::{LockMode, Locks};
use super::naming::Naming;
use super::ownership;
use super::shipping_open::ShippingOpen;
use super::unlocked_disk_guard::guard_disk;
use crate::files::manifest::creation_marker::UnfinishedCopy;
use crate::files::manifest::types::StatedTypes;
use crate::files::manifest::{Making, Manifest, ManifestKeeper};
use crate::files::names::{LOCK, MAIN, MANIFEST};
use crate::{DurabilityError, Result};

/// Condition of an open on the existence of the database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Opening {
    /// Opens the database, or makes a missing database.
    #[default]
    OpenOrCreate,
    /// Opens an existing database only.
    Existing,
    /// Makes a new database only.
    New,
}

#[derive(Debug)]
pub(crate) struct WantedStore<'w> {
    pub(crate) opening: Opening,
    /// Name of the application (I5).
    pub(crate) naming: &'w Naming,
    /// Types of the program's entries (I6).
    pub(crate) types: &'w StatedTypes,
    /// Shared store (H6, H8).
    pub(crate) shipping: ShippingOpen,
    /// True if the database has no archive from this open on.
    pub(crate) gives_up_archive: bool,
}

/// Folders of a database, locked by this process, during a recovery.
#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) keeper: ManifestKeeper,
    pub(crate) locks: Locks,
}

impl Store {
    /// Locks the folders, checks the owner, and begins a new database if there is none. An archive that is given up is
    /// not checked, and leaves the list. Errors: as the table in [`ownership`] says; the folder is as it was.
    pub(crate) fn open(disk: Arc<dyn Disk>, wanted: &WantedStore<'_>) -> Result<Self> {
        Self::open_for(disk, wanted, None)
    }

    /// Opens as [`Store::open`] does, for a copy that begins or continues. The manifest names the copy from here on.
    pub(crate) fn open_for_copy(disk: Arc<dyn Disk>, opening: Opening, copy: UnfinishedCopy) -> Result<Self> {
        let wanted = WantedStore {
            opening,
            naming: &Naming::Unasked,
            types: &StatedTypes::default(),
            shipping: ShippingOpen::ANY,
            gives_up_archive: false,
        };
        let store = Self::open_for(disk, &wanted, Some(copy))?;
        // N24: a new folder gets its name once its manifest names the copy.
        store.disk.show_root()?;
        Ok(store)
    }

    fn open_for(
        disk: Arc<dyn Disk>,
        &WantedStore { opening, naming, types, shipping, gives_up_archive }: &WantedStore<'_>,
        copy: Option<UnfinishedCopy>,
    ) -> Result<Self> {
        let mut locks = Locks::of_folder(&*disk, LockMode::Exclusive)?;
        // Checks that need no lock. The same checks are repeated under the locks.
        let look = |manifest: &Manifest| -> Result<()> {
            check_opening(&*disk, manifest, opening, copy)?;
            shipping.check(&*disk, manifest)?;
            naming.check(&*disk, manifest)?;
            types.check(&*disk, &manifest.types)
        };
        match Manifest::read(&*disk)? {
            None => check_new(&*disk, opening)?,
            // `LOCK` is made only after the folder may be opened (I1). An existing one is locked first: the error names
            // its holder.
            Some(mut manifest) if !disk.exists(LOCK)? => {
                ownership::check_main(&*disk, &manifest, false)?;
                look(&manifest)?;
                if gives_up_archive {
                    manifest.end_archive();
                }
                look_at_listed(&*disk, &manifest)?;
            }
            Some(_) => {}
        }
        locks.add_file(&*disk)?;
        let disk = guard_disk(&disk, &locks)?;
        let manifest = Manifest::read(&*disk)?;
        let Some(mut manifest) = manifest else {
            // Second check: if folders cannot be locked, another process may have been here before `LOCK` was held.
            check_new(&*disk, opening)?;
            let keeper = ManifestKeeper::begin(&disk, copy)?.with_types(types.clone());
            return Ok(Self { disk, keeper, locks });
        };
        look(&manifest)?;
        if gives_up_archive {
            manifest.end_archive();
        }
        shipping.apply(&mut manifest);
        let missing = lock_listed(&*disk, &manifest, &mut locks, &mut Err)?;
        let mut keeper = ManifestKeeper::new(&disk, manifest).with_types(types.clone());
        keeper.folders_mut().retain(|name, _| !missing.contains(name));
        if let Some(copy) = copy
            && keeper.manifest().state == Making::Creating
            && keeper.manifest().unfinished_copy().is_none()
        {
            // An open was cut short here, or a copy by a version that did not name copies.
            keeper.replace(keeper.manifest().clone().for_copy(copy))?;
        }
        Ok(Self { disk, keeper, locks })
    }
}

/// Checks that the folder is new, and that `opening` permits a new database.
fn check_new(disk: &dyn Disk, opening: Opening) -> Result<()> {
    if let Some(why) = ownership::why_not_new(disk)? {
        return Err(why);
    }
    match opening {
        Opening::Existing => Err(DurabilityError::NoDatabase { folder: disk.folder_place("")? }),
        Opening::OpenOrCreate | Opening::New => Ok(()),
    }
}

/// Checks that `opening` and `copy` permit this manifest. A database under creation counts as no database.
fn check_opening(
    disk: &dyn Disk,
    manifest: &Manifest,
    opening: Opening,
    copy: Option<UnfinishedCopy>,
) -> Result<()> {
    ownership::check_creating(disk, manifest)?;
    match manifest.unfinished_copy() {
        Some(unfinished) if copy == Some(unfinished) => return Ok(()),
        // N24, H7: a new database here would look like the copy, and be empty.
        Some(unfinished) => return Err(unfinished.into_error(disk)?),
        None => {}
    }
    let folder = disk.folder_place("")?;
    match (opening, manifest.state) {
        (Opening::New, Making::Created) => Err(DurabilityError::DatabaseExists { folder }),
        (Opening::Existing, Making::Creating) => Err(DurabilityError::NoDatabase { folder }),
        _ => Ok(()),
    }
}

/// Returns the names of listed folders without the main folder: the existing folders, and the missing folders that are
/// not needed. `note` receives each finding, and an error of `note` ends the call.
fn listed_there(
    disk: &dyn Disk,
    manifest: &Manifest,
    is_hard_linked: bool,
    note: &mut dyn FnMut(DurabilityError) -> Result<()>,
) -> Result<(Vec<String>, Vec<String>)> {
    ownership::check_main(disk, manifest, is_hard_linked).or_else(&mut *note)?;
    let mut there: Vec<String> = Vec::new();
    let mut missing = Vec::new();
    for name in manifest.folders.keys().filter(|name| *name != MAIN) {
        match ownership::check_is_there(disk, name) {
            Ok(()) => there.push(name.clone()),
            Err(error) if ownership::is_needed(manifest, name) => note(error)?,
            Err(_) => missing.push(name.clone()),
        }
    }
    ownership::check_apart(disk, &there)?;
    Ok((there, missing))
}

/// True if the listed folder belongs to the database. False if the owner is unknown and the folder is not needed:
/// `claim` checks the folder again before use. If `finishes`, a prepared mark is put in place.
fn is_listed_ours(disk: &dyn Disk, manifest: &Manifest, name: &str, finishes: bool) -> Result<bool> {
    match ownership::check_listed(disk, manifest, name, finishes) {
        Err(DurabilityError::NotMounted { .. }) if !ownership::is_needed(manifest, name) => Ok(false),
        checked => checked.map(|()| true),
    }
}

/// Checks the owner of the listed folders. The call takes no lock and makes no file.
fn look_at_listed(disk: &dyn Disk, manifest: &Manifest) -> Result<()> {
    let (there, _) = listed_there(disk, manifest, false, &mut Err)?;
    there.iter().try_for_each(|name| is_listed_ours(disk, manifest, name, false).map(drop))
}

/// Locks the listed folders, and checks the owner. An error of `note` ends the call. Returns the unneeded missing ones.
fn lock_listed(
    disk: &dyn Disk,
    manifest: &Manifest,
    locks: &mut Locks,
    note: &mut dyn FnMut(DurabilityError) -> Result<()>,
) -> Result<Vec<String>> {
    let (mut there, missing) = listed_there(disk, manifest, locks.is_hard_linked()?, note)?;
    let is_exclusive = locks.mode == LockMode::Exclusive;
    if is_exclusive {
        // The check comes before the first lock too: if folders cannot be locked, a lock makes a file (I1).
        let mut ours = Vec::new();
        for name in there {
            match is_listed_ours(disk, manifest, &name, false) {
                Ok(true) => ours.push(name),
                Ok(false) => {}
                Err(why) => note(why)?,
            }
        }
        there = ours;
    }
    for name in there {
        locks.add_folder(disk, &name)?;
        is_listed_ours(disk, manifest, &name, is_exclusive).map(drop).or_else(&mut *note)?;
    }
    Ok(missing)
}

/// Locks the folders of an existing database for a caller that does not open it. A copy that has not ended is refused.
/// `note` receives the reasons for which an open would refuse. An unreadable manifest is judged by the caller.
pub(crate) fn lock_existing(
    disk: &dyn Disk,
    mode: LockMode,
    note: &mut dyn FnMut(DurabilityError) -> Result<()>,
) -> Result<Locks> {
    let mut locks = lock_main(disk, mode)?;
    let Ok(Some(mut manifest)) = Manifest::read(disk) else { return Ok(locks) };
    manifest.check_no_copy(disk)?;
    // The archive is not needed here: only an open removes files that must be archived first.
    manifest.end_archive();
    // `LOCK` is made only in a folder that has proved to belong to the database (I1), even if the folder is damaged.
    let is_ours = || match look_at_listed(disk, &manifest) {
        Ok(()) => true,
        Err(DurabilityError::Damaged { .. }) => ownership::check_main(disk, &manifest, false).is_ok(),
        Err(_) => false,
    };
    if !locks.has_file() && mode == LockMode::Exclusive && is_ours() {
        locks.add_file(disk)?;
    }
    lock_listed(disk, &manifest, &mut locks, note)?;
    Ok(locks)
}

/// Locks the main folder of an existing database, and the file `LOCK` if present.
pub(super) fn lock_main(disk: &dyn Disk, mode: LockMode) -> Result<Locks> {
    let mut locks = Locks::of_folder(disk, mode)?;
    if !disk.exists(MANIFEST)? {
        match ownership::why_not_new(disk)? {
            // The database exists, and its manifest is missing: damage is judged later.
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
