//! A folder gets another name for its application, or none: `ensile objects name`.
//!
//! Invariant: I5: nobody has the folder open meanwhile, and one manifest takes the place of another.
//!
//! Neighbours: `application` has the name, and compares it at an open.

use std::sync::Arc;

use ensile_disk::Disk;

use super::application::ApplicationName;
use super::locks::Hold;
use super::manifest::{Making, Manifest, ManifestKeeper};
use super::open::{lock_existing, watched};
use super::whose::{check_entries, expect_manifest};
use crate::{DurabilityError, EntryKind};

/// Gives a folder with entries of this kind, which no process has open, another name, or none; the name that it had.
///
/// # Errors
/// [`DurabilityError::InUse`]; [`DurabilityError::NoDatabase`]; [`DurabilityError::OtherEntries`]; those of an open for
/// a folder that is copied, damaged or not there. Nothing was changed then.
pub fn rename_application(
    disk: &Arc<dyn Disk>,
    entries: EntryKind,
    name: Option<ApplicationName>,
) -> Result<Option<ApplicationName>, DurabilityError> {
    let locks = lock_existing(&**disk, Hold::Exclusive, &mut Err)?;
    let manifest = expect_manifest(&**disk)?;
    check_entries(&**disk, &manifest, entries)?;
    if manifest.state == Making::Creating {
        return Err(DurabilityError::NoDatabase { folder: disk.folder_place("")? });
    }
    let disk = watched(disk, &locks)?;
    let before = manifest.application.clone();
    if before != name {
        ManifestKeeper::of(&disk, manifest.clone()).replace(Manifest { application: name, ..manifest })?;
    }
    Ok(before)
}
