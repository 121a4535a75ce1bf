//! The first step of an open, a repair and an adoption: the folders are locked, and proved to be this database's.
//!
//! Invariants:
//! - I1: nothing is made in a folder before it has proved to be this database's, or to be empty. So an open that is
//!   refused leaves nothing there.
//! - I5: whose it is by its name is compared with it, before anything is changed.
//! - H6, H8: so is the shared store that it remembers.
//! - I3: the locks are taken before the first look at what stands in a folder. Where a lock makes a file, the look
//!   comes first as well.
//! - N24: a folder that gets a copy says so from its first manifest on, and is opened for that copy only.
//!
//! Neighbours: [`whose`] judges the folders, [`super::locks`] holds them; `recovery` opens the store, an examination
//! locks it.

use std::sync::Arc;

use ensile_disk::{Disk, DiskError};

use super::application::Naming;
use super::locks::{Hold, Locks};
use super::manifest::{Making, Manifest, ManifestKeeper};
use super::names::{LOCK, MAIN, MANIFEST};
use super::ships_to::ShippingOpen;
use super::unfinished::UnfinishedCopy;
use super::watched::Watched;
use super::whose;
use crate::DurabilityError;

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

/// What an open expects of a folder.
#[derive(Debug)]
pub(crate) struct WantedStore<'w> {
    pub(crate) opening: Opening,
    /// I5.
    pub(crate) naming: &'w Naming,
    /// H6, H8.
    pub(crate) shipping: ShippingOpen,
    /// True if the database has no archive from this open on.
    pub(crate) gives_up_archive: bool,
}

/// The folders of a database that this process has for itself.
#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) keeper: ManifestKeeper,
    pub(crate) locks: Locks,
}

impl Store {
    /// Locks the folders, looks whose they are, and begins a new database if there is none. An archive that is given up
    /// is not looked at, and is not on the list any more.
    ///
    /// # Errors
    /// As the table in [`whose`] says; nothing was changed then.
    pub(crate) fn open(disk: Arc<dyn Disk>, wanted: &WantedStore<'_>) -> Result<Self, DurabilityError> {
        Self::open_for(disk, wanted, None)
    }

    /// As [`Store::open`], but for this copy, which is begun or goes on: the folder says so from here on.
    pub(crate) fn open_for_copy(
        disk: Arc<dyn Disk>,
        opening: Opening,
        copy: UnfinishedCopy,
    ) -> Result<Self, DurabilityError> {
        let wanted = WantedStore {
            opening,
            naming: &Naming::Unasked,
            shipping: ShippingOpen::ANY,
            gives_up_archive: false,
        };
        Self::open_for(disk, &wanted, Some(copy))
    }

    fn open_for(
        disk: Arc<dyn Disk>,
        &WantedStore { opening, naming, shipping, gives_up_archive }: &WantedStore<'_>,
        copy: Option<UnfinishedCopy>,
    ) -> Result<Self, DurabilityError> {
        let mut locks = Locks::of_folder(&*disk, Hold::Exclusive)?;
        // All that refuses an open, as far as it needs no lock: a look, which is repeated behind the locks.
        let look = |manifest: &Manifest| -> Result<(), DurabilityError> {
            check_opening(&*disk, manifest, (opening, copy))?;
            shipping.check(&*disk, manifest)?;
            naming.check(&*disk, manifest)
        };
        match Manifest::read(&*disk)? {
            None => check_new(&*disk, opening)?,
            // `LOCK` is made in a folder only once that has proved to be ours, and to be opened so (I1). One that is
            // there is locked first, so that its holder is named.
            Some(mut manifest) if !disk.exists(LOCK)? => {
                whose::check_main(&*disk, &manifest, false)?;
                look(&manifest)?;
                if gives_up_archive {
                    manifest.end_archive();
                }
                look_at_listed(&*disk, &manifest)?;
            }
            Some(_) => {}
        }
        locks.add_file(&*disk)?;
        let disk = Watched::over(Arc::clone(&disk), &locks)?;
        let manifest = Manifest::read(&*disk)?;
        let Some(mut manifest) = manifest else {
            // Once more: before `LOCK` was held another process may have been here, where folders cannot be locked.
            check_new(&*disk, opening)?;
            let keeper = ManifestKeeper::begin(&disk, copy)?;
            return Ok(Self { disk, keeper, locks });
        };
        look(&manifest)?;
        if gives_up_archive {
            manifest.end_archive();
        }
        shipping.apply(&mut manifest);
        let missing = lock_listed(&*disk, &manifest, &mut locks, &mut Err)?;
        let mut keeper = ManifestKeeper::of(&disk, manifest);
        keeper.folders_mut().retain(|name, _| !missing.contains(name));
        if let Some(copy) = copy
            && keeper.manifest().state == Making::Creating
            && UnfinishedCopy::of(keeper.manifest()).is_none()
        {
            // An open, or a copy of a version that did not say it, was cut short here.
            keeper.replace(copy.begin(keeper.manifest().clone()))?;
        }
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

/// May a database with this manifest be opened so, or for this copy? One whose making was cut short is none.
fn check_opening(
    disk: &dyn Disk,
    manifest: &Manifest,
    (opening, copy): (Opening, Option<UnfinishedCopy>),
) -> Result<(), DurabilityError> {
    whose::check_creating(disk, manifest)?;
    match UnfinishedCopy::of(manifest) {
        Some(unfinished) if copy == Some(unfinished) => return Ok(()),
        // N24, H7: a new database there would look like the copy, and be empty.
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

/// The listed folders, but for the main one: those that are there, and those that are missing and that nothing needs
/// any more. `note` receives each finding, and ends the call by an error.
fn listed_there(
    disk: &dyn Disk,
    manifest: &Manifest,
    is_hard_linked: bool,
    note: &mut dyn FnMut(DurabilityError) -> Result<(), DurabilityError>,
) -> Result<(Vec<String>, Vec<String>), DurabilityError> {
    whose::check_main(disk, manifest, is_hard_linked).or_else(&mut *note)?;
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
    Ok((there, missing))
}

/// Is this listed folder the database's? False: that is not known, and nobody needs it; `claim` looks again, if anybody
/// wants it.
fn is_listed_ours(
    disk: &dyn Disk,
    manifest: &Manifest,
    name: &str,
    finishes: bool,
) -> Result<bool, DurabilityError> {
    match whose::check_listed(disk, manifest, name, finishes) {
        Err(DurabilityError::NotMounted { .. }) if !whose::is_needed(manifest, name) => Ok(false),
        checked => checked.map(|()| true),
    }
}

/// Looks whose the listed folders are. Nothing is locked, and nothing is made.
fn look_at_listed(disk: &dyn Disk, manifest: &Manifest) -> Result<(), DurabilityError> {
    let (there, _) = listed_there(disk, manifest, false, &mut Err)?;
    there.iter().try_for_each(|name| is_listed_ours(disk, manifest, name, false).map(drop))
}

/// Locks all folders that the manifest lists, and looks whose they are; `note` receives each finding, and ends the call
/// by an error. Returns those that are missing, and that nothing needs any more.
fn lock_listed(
    disk: &dyn Disk,
    manifest: &Manifest,
    locks: &mut Locks,
    note: &mut dyn FnMut(DurabilityError) -> Result<(), DurabilityError>,
) -> Result<Vec<String>, DurabilityError> {
    let (mut there, missing) = listed_there(disk, manifest, locks.is_hard_linked()?, note)?;
    let is_exclusive = locks.hold() == Hold::Exclusive;
    if is_exclusive {
        // Before the first lock too, which makes a file where folders cannot be locked (I1).
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

/// Locks the folders of a database that must be there, and not a copy that has not ended, for a caller that does not
/// open it. `note` receives the reasons for which an open would refuse them.
///
/// # Errors
/// What `note` gives back, and those of an open that are about this machine; but a manifest that cannot be read is
/// none: it is judged later.
pub(crate) fn lock_existing(
    disk: &dyn Disk,
    hold: Hold,
    note: &mut dyn FnMut(DurabilityError) -> Result<(), DurabilityError>,
) -> Result<Locks, DurabilityError> {
    let mut locks = lock_main(disk, hold)?;
    let Ok(Some(mut manifest)) = Manifest::read(disk) else { return Ok(locks) };
    UnfinishedCopy::check_none(disk, &manifest)?;
    // Nobody but an open removes what is to be archived.
    manifest.end_archive();
    // `LOCK` is made only in a folder that has proved to be ours (I1), whatever is damaged in it.
    let is_ours = || match look_at_listed(disk, &manifest) {
        Ok(()) => true,
        Err(DurabilityError::Damaged { .. }) => whose::check_main(disk, &manifest, false).is_ok(),
        Err(_) => false,
    };
    if !locks.has_file() && hold == Hold::Exclusive && is_ours() {
        locks.add_file(disk)?;
    }
    lock_listed(disk, &manifest, &mut locks, note)?;
    Ok(locks)
}

/// Locks the main folder of a database that must be there, and `LOCK` if it is there.
pub(super) fn lock_main(disk: &dyn Disk, hold: Hold) -> Result<Locks, DurabilityError> {
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
