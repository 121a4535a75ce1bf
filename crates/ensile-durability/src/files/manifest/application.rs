//! Name of an application in the manifest: the owner of the folder, in the words of the application
//! (`docs/internals/formats/manifest.md`).
//!
//! Invariants: I5. A name has a single spelling of printable characters.
//!
//! Neighbours: `manifest` has the line. `naming` compares the name at an open. `application_rename` changes the name.

use std::fmt;

use ensile_base::limits::NAME_BYTES_MAX;

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

    /// Reads the line that [`line`](Self::line) writes.
    pub(crate) fn parse(line: &str) -> Option<Self> {
        application_name(line.strip_prefix(WORD)?).ok()
    }

    /// Line of the name, without a line end.
    pub(crate) fn line(&self) -> String {
        let line = format!("{WORD}{self}");
        debug_assert_eq!(Self::parse(&line).as_ref(), Some(self), "I5: a name has a single spelling");
        line
    }
}

impl fmt::Display for ApplicationName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
