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

/// What a naming came to.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Renamed {
    /// The name that the folder had.
    pub before: Option<ApplicationName>,
    /// The folder ships to a shared store, which has the name from before until the next open has shipped: a take-over
    /// until then gets that one. Always false where the name is what it was.
    pub is_to_be_shipped: bool,
}

/// Gives a folder with entries of this kind, which no process has open, another name, or none.
///
/// # Errors
/// [`DurabilityError::InUse`]; [`DurabilityError::NoDatabase`]; [`DurabilityError::OtherEntries`]; those of an open for
/// a folder that is copied, damaged or not there. Nothing was changed then.
pub fn rename_application(
    disk: &Arc<dyn Disk>,
    entries: EntryKind,
    name: Option<ApplicationName>,
) -> Result<Renamed, DurabilityError> {
    let locks = lock_existing(&**disk, Hold::Exclusive, &mut Err)?;
    let manifest = expect_manifest(&**disk)?;
    check_entries(&**disk, &manifest, entries)?;
    if manifest.state == Making::Creating {
        return Err(DurabilityError::NoDatabase { folder: disk.folder_place("")? });
    }
    let disk = watched(disk, &locks)?;
    let before = manifest.application.clone();
    let is_other = before != name;
    // One that is fenced ships nothing any more.
    let is_to_be_shipped = is_other && manifest.ships_to.is_some_and(|ships_to| !ships_to.is_fenced);
    if is_other {
        ManifestKeeper::of(&disk, manifest.clone()).replace(Manifest { application: name, ..manifest })?;
    }
    Ok(Renamed { before, is_to_be_shipped })
}
