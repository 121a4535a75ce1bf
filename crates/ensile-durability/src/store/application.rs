//! Name of an application in the manifest: the owner of the folder, in the words of the application
//! (`docs/internals/formats/manifest.md`).
//!
//! ```text
//! application prices, partition 0 of 4
//! ```
//! Invariants:
//! - I5: A folder with a name is opened for this name only, and not without a name. A folder without a name gets the
//!   name of the open, with the manifest of the open. Every later manifest and every copy keeps the name.
//! - A name has a single spelling of printable characters.
//!
//! Neighbours: `manifest` reads and writes the line. `open` compares the name before the first change.
//! `application_rename` changes the name.

use std::fmt;
use std::path::Path;

use ensile_base::limits::NAME_BYTES_MAX;
use ensile_disk::Disk;

use super::manifest::Manifest;
use crate::DurabilityError;

/// First word of the line, in the manifest and in a shared manifest.
const WORD: &str = "application ";

/// Name of an application, and of the part that owns the folder: `prices, partition 0 of 4`. The name is printable
/// ASCII, without a space at either end, and has at most [`NAME_BYTES_MAX`] bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApplicationName(Box<str>);

/// Makes the name of an application from this text.
///
/// # Errors
/// [`DurabilityError::Config`] if the text is no valid name.
pub fn application_name(text: &str) -> Result<ApplicationName, DurabilityError> {
    let why = if text.is_empty() {
        "it is empty".to_owned()
    } else if text.len() > NAME_BYTES_MAX {
        format!("it has {} bytes, and the limit is {NAME_BYTES_MAX}", text.len())
    } else if let Some(other) = text.chars().find(|letter| !matches!(letter, ' '..='~')) {
        format!("it has {other:?}, which is no printable ASCII")
    } else if text.starts_with(' ') || text.ends_with(' ') {
        "it begins or ends with a space".to_owned()
    } else {
        return Ok(ApplicationName(text.into()));
    };
    Err(DurabilityError::config(format!("{text:?} is no name of an application: {why}")))
}

impl ApplicationName {
    /// Text of the name, as given.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub(super) fn is_line(line: &str) -> bool {
        line.starts_with(WORD)
    }

    /// Reads the line that [`line`](Self::line) writes.
    pub(super) fn parse(line: &str) -> Option<Self> {
        application_name(line.strip_prefix(WORD)?).ok()
    }

    /// Line of the name, without a line end.
    pub(super) fn line(&self) -> String {
        format!("{WORD}{self}")
    }
}

impl fmt::Display for ApplicationName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

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
    ///
    /// # Errors
    /// [`DurabilityError::OtherApplication`]; the disk's.
    pub(crate) fn check(&self, disk: &dyn Disk, manifest: &Manifest) -> Result<(), DurabilityError> {
        let Some(found) = &manifest.application else { return Ok(()) };
        let given = match self {
            Self::Unasked => return Ok(()),
            Self::Named(given) if given == found => return Ok(()),
            Self::Named(given) => Some(given.0.clone()),
            Self::Nameless => None,
        };
        let (folder, found) = (disk.folder_place("")?.into(), found.0.clone());
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
    /// Report of the name that an open for `naming` gives a folder with this manifest; `None` if the folder gets no
    /// name.
    pub(crate) fn from_naming(
        naming: &Naming,
        disk: &dyn Disk,
        before: &Manifest,
    ) -> Result<Option<Self>, DurabilityError> {
        let Naming::Named(name) = naming else { return Ok(None) };
        // A folder without a generation is still being made, and cannot hold data of another application.
        if before.application.is_some() || before.generations.is_empty() {
            return Ok(None);
        }
        Ok(Some(Self { folder: disk.folder_place("")?.into(), name: name.0.clone() }))
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
