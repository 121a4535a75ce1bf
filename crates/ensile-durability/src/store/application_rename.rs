//! Change or removal of the application name of a folder: `ensile objects name`.
//!
//! Invariant: I5: No process has the folder open during the change. A single manifest replaces the manifest before.
//!
//! Neighbours: the command calls; `application` has the name, and compares the name at an open.

use std::sync::Arc;

use ensile_disk::Disk;

use super::locks::LockMode;
use super::open::lock_existing;
use super::ownership::{check_entries, expect_manifest};
use super::unlocked_disk_guard::guard_disk;
use crate::files::manifest::application::ApplicationName;
use crate::files::manifest::{Making, Manifest, ManifestKeeper};
use crate::{DurabilityError, EntryKind, Result};

/// Outcome of a change of name.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Renamed {
    /// Name of the folder before the call.
    pub before: Option<ApplicationName>,
    /// True if the folder ships to a shared store that still has the old name. The next open ships the new name; a
    /// take-over before then gets the old name. False if the name has not changed.
    pub is_to_be_shipped: bool,
}

/// Gives a folder with entries of the kind `entries` a new application name, or none. No process may have it open.
///
/// # Errors
/// [`DurabilityError::InUse`]; [`DurabilityError::NoDatabase`]; [`DurabilityError::OtherEntries`]; the errors of an
/// open for a folder that is copied, damaged or missing. The folder is unchanged then.
pub fn rename_application(
    disk: &Arc<dyn Disk>,
    entries: EntryKind,
    name: Option<ApplicationName>,
) -> Result<Renamed> {
    let locks = lock_existing(&**disk, LockMode::Exclusive, &mut Err)?;
    let manifest = expect_manifest(&**disk)?;
    check_entries(&**disk, &manifest, entries)?;
    if manifest.state == Making::Creating {
        return Err(DurabilityError::NoDatabase { folder: disk.folder_place("")? });
    }
    let disk = guard_disk(disk, &locks)?;
    let before = manifest.application.clone();
    let is_other = before != name;
    // A fenced folder ships nothing.
    let is_to_be_shipped = is_other && manifest.ships_to.is_some_and(|ships_to| !ships_to.is_fenced);
    if is_other {
        ManifestKeeper::new(&disk, manifest.clone()).replace(Manifest { application: name, ..manifest })?;
    }
    Ok(Renamed { before, is_to_be_shipped })
}
