//! Whose folder it is, in the application's own words: a name that the manifest keeps (`docs/formats/manifest.md`).
//!
//! ```text
//! application prices, partition 0 of 4
//! ```
//! Invariants:
//! - I5: a folder with a name is opened for that name only, and not without one. A folder without a name gets the one
//!   that it is opened for, with the manifest of that open. Every later manifest has it, and every copy's.
//! - A name has one spelling, which a terminal can show.
//!
//! Neighbours: `manifest` has the line, `open` compares it before anything is changed, `rename` changes it.

use std::fmt;
use std::path::Path;

use ensile_base::limits::NAME_BYTES_MAX;
use ensile_disk::Disk;

use super::manifest::Manifest;
use crate::DurabilityError;

/// Begins its line, in the manifest and in a shared one.
const WORD: &str = "application ";

/// The name of an application, and of its part that has the folder: `prices, partition 0 of 4`. Printable ASCII,
/// without a space at either end, of at most [`NAME_BYTES_MAX`] bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApplicationName(Box<str>);

impl ApplicationName {
    /// The name that this text is.
    ///
    /// # Errors
    /// [`DurabilityError::Config`] if it is none.
    pub fn new(text: &str) -> Result<Self, DurabilityError> {
        let why = if text.is_empty() {
            "it is empty".to_owned()
        } else if text.len() > NAME_BYTES_MAX {
            format!("it has {} bytes, and the limit is {NAME_BYTES_MAX}", text.len())
        } else if let Some(other) = text.chars().find(|letter| !matches!(letter, ' '..='~')) {
            format!("it has {other:?}, which is no printable ASCII")
        } else if text.starts_with(' ') || text.ends_with(' ') {
            "it begins or ends with a space".to_owned()
        } else {
            return Ok(Self(text.into()));
        };
        Err(DurabilityError::config(format!("{text:?} is no name of an application: {why}")))
    }

    /// It, as it was given.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub(super) fn is_line(line: &str) -> bool {
        line.starts_with(WORD)
    }

    /// Reads what [`line`](Self::line) writes.
    pub(super) fn parse(line: &str) -> Option<Self> {
        Self::new(line.strip_prefix(WORD)?).ok()
    }

    /// Its line, without the line's end.
    pub(super) fn line(&self) -> String {
        format!("{WORD}{self}")
    }
}

impl fmt::Display for ApplicationName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Whose folder is opened (I5).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Naming {
    /// That is not asked: of a state whose folders have no names, such as a database.
    #[default]
    Unasked,
    /// Of an application that has no name: not that of one with a name.
    Nameless,
    /// Of this one. A folder without a name gets it.
    Named(ApplicationName),
}

impl Naming {
    /// May a folder with this manifest be opened so?
    ///
    /// # Errors
    /// [`DurabilityError::OtherApplication`].
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

    /// The name that a folder has once it was opened so.
    pub(crate) fn name(&self, before: Option<&ApplicationName>) -> Option<ApplicationName> {
        match self {
            Self::Named(given) => Some(given.clone()),
            Self::Unasked | Self::Nameless => before.cloned(),
        }
    }
}

/// A folder that had no name got one, with an open.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NameGiven {
    /// The folder.
    pub folder: Box<Path>,
    /// The name that it has now.
    pub name: Box<str>,
}

impl NameGiven {
    /// What an open for `naming` gives a folder that has this manifest; nothing if it gives none.
    pub(crate) fn of(
        naming: &Naming,
        disk: &dyn Disk,
        before: &Manifest,
    ) -> Result<Option<Self>, DurabilityError> {
        let Naming::Named(name) = naming else { return Ok(None) };
        // One that is being made has nothing yet that could be another one's.
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
