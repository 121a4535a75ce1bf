//! Check of a folder's application name at an open, and the name that an open gives.
//!
//! Invariant: I5: a folder with a name is opened for this name only. A folder without a name gets the open's.
//!
//! Neighbours: `application` has the name. `open` compares it before the first change; `recovery` reports a given name.

use std::fmt;
use std::path::Path;

use ensile_disk::Disk;

use crate::files::manifest::Manifest;
use crate::files::manifest::application::ApplicationName;
use crate::{DurabilityError, Result};

/// Expected owner of a folder at an open (I5).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Naming {
    /// No check, for a state whose folders have no names, such as a database.
    #[default]
    Unasked,
    /// An application without a name. A folder with a name is refused.
    Nameless,
    /// The application of this name. A folder without a name gets the name.
    Named(ApplicationName),
}

impl Naming {
    /// Checks that a folder with this manifest may be opened with this naming.
    pub(crate) fn check(&self, disk: &dyn Disk, manifest: &Manifest) -> Result<()> {
        let Some(found) = &manifest.application else { return Ok(()) };
        let given = match self {
            Self::Unasked => return Ok(()),
            Self::Named(given) if given == found => return Ok(()),
            Self::Named(given) => Some(given.as_str().into()),
            Self::Nameless => None,
        };
        let (folder, found) = (disk.folder_place("")?.into(), found.as_str().into());
        Err(DurabilityError::OtherApplication { folder, found, given })
    }

    /// Name that the manifest has after an open with this naming; `before` is the name in the manifest before.
    pub(crate) fn name(&self, before: Option<&ApplicationName>) -> Option<ApplicationName> {
        match self {
            Self::Named(given) => Some(given.clone()),
            Self::Unasked | Self::Nameless => before.cloned(),
        }
    }
}

/// Report of a folder without a name that got a name at an open.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NameGiven {
    /// Folder that got the name.
    pub folder: Box<Path>,
    /// New name of the folder.
    pub name: Box<str>,
}

impl NameGiven {
    /// Report of the name that an open for `naming` gives a folder with this manifest; `None` without a new name.
    pub(crate) fn from_naming(naming: &Naming, disk: &dyn Disk, before: &Manifest) -> Result<Option<Self>> {
        let Naming::Named(name) = naming else { return Ok(None) };
        // A folder without a generation is still being made, and cannot hold data of another application.
        if before.application.is_some() || before.generations.is_empty() {
            return Ok(None);
        }
        Ok(Some(Self { folder: disk.folder_place("")?.into(), name: name.as_str().into() }))
    }
}

impl fmt::Display for NameGiven {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { folder, name } = self;
        write!(
            f,
            "{} had no name, and is the folder of {name:?} from now on: it is opened for that name alone. If that is \
             wrong, stop this program and say so by `ensile objects name`",
            folder.display()
        )
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
