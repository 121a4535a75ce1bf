//! Type of the entries of one role and version, as a folder's manifest names the type in a line of a single spelling
//! (`docs/internals/formats/manifest.md`), and the error for a different type (I6).
//!
//! Neighbours: `files::manifest::types` compares and keeps the types; the manifest has the lines.

use std::fmt;
use std::path::Path;

use ensile_base::limits::NAME_BYTES_MAX;

/// First word of a line, in the manifest and in a shared manifest.
const WORD: &str = "type ";
/// Name of a type whose program gives an empty name.
const NAMELESS: &str = "?";

/// Part of an entry that has a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TypeRole {
    /// Keys of the objects.
    Key,
    /// The objects.
    Object,
    /// Operations on the objects.
    Operation,
}

impl TypeRole {
    const ALL: [Self; 3] = [Self::Key, Self::Object, Self::Operation];

    /// Name of the role, in the manifest and for people.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Key => "key",
            Self::Object => "object",
            Self::Operation => "operation",
        }
    }

    /// Advice for a changed type, in the error text.
    fn remedy(self) -> &'static str {
        match self {
            Self::Key => "the type of a key cannot change",
            Self::Object | Self::Operation => {
                "if the type was changed, raise its version and give an up-cast"
            }
        }
    }
}

/// Type of the entries of a role and a version.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct EntryType {
    /// Part of the entries.
    pub role: TypeRole,
    /// Version of the encoding; 0 for a key, which has no version.
    pub version: u16,
    /// Name of the type: at most [`NAME_BYTES_MAX`] bytes of printable ASCII, without a space at either end.
    pub name: Box<str>,
    /// Fingerprint of the encoding; `None` if the program states the name alone.
    pub fingerprint: Option<u64>,
}

impl EntryType {
    /// Creates a type. A character of the name that is no printable ASCII becomes an escape sequence, and a long name
    /// is cut.
    #[must_use]
    pub fn new(role: TypeRole, version: u16, name: &str, fingerprint: Option<u64>) -> Self {
        Self { role, version, name: printable(name), fingerprint }
    }

    /// Reads the line that [`line`](Self::line) writes.
    pub(crate) fn parse(line: &str) -> Option<Self> {
        let (head, name) = line.strip_prefix(WORD)?.split_once(" name ")?;
        let words: Vec<&str> = head.split(' ').collect();
        let [role, "version", version, "fingerprint", fingerprint] = words[..] else { return None };
        let role = TypeRole::ALL.into_iter().find(|known| known.name() == role)?;
        let fingerprint = match fingerprint {
            "none" => None,
            digits => Some(u64::from_str_radix(digits, 16).ok()?),
        };
        Some(Self::new(role, version.parse().ok()?, name, fingerprint)).filter(|read| read.line() == line)
    }

    /// Line of the type, without a line end.
    pub(crate) fn line(&self) -> String {
        let Self { role, version, name, fingerprint } = self;
        let role = role.name();
        let fingerprint = fingerprint.map_or("none".to_owned(), |digits| format!("{digits:016x}"));
        format!("{WORD}{role} version {version} fingerprint {fingerprint} name {name}")
    }

    /// Role and version, by which types are ordered and compared.
    pub(crate) fn place(&self) -> (TypeRole, u16) {
        (self.role, self.version)
    }
}

/// Name and fingerprint, for people.
impl fmt::Display for EntryType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { role, version, name, fingerprint } = self;
        write!(f, "{name:?}")?;
        if *role != TypeRole::Key {
            write!(f, " of version {version}")?;
        }
        fingerprint.map_or(Ok(()), |fingerprint| write!(f, " (fingerprint {fingerprint:016x})"))
    }
}

/// Name in at most [`NAME_BYTES_MAX`] bytes of printable ASCII. A valid name does not change.
pub(crate) fn printable(name: &str) -> Box<str> {
    let mut printable = String::new();
    for letter in name.trim_matches(' ').chars() {
        let shown = match letter {
            ' '..='~' => letter.to_string(),
            _ => letter.escape_unicode().to_string(),
        };
        if printable.len() + shown.len() > NAME_BYTES_MAX {
            break;
        }
        printable += &shown;
    }
    let printable = printable.trim_end_matches(' ');
    if printable.is_empty() { NAMELESS.into() } else { printable.into() }
}

/// Entries of one type in a folder, and another type that an open gave for the same role and version (I6).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OtherType {
    /// The folder.
    pub folder: Box<Path>,
    /// Type of the folder's entries.
    pub found: EntryType,
    /// Type that the open gave.
    pub given: EntryType,
}

impl fmt::Display for OtherType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { folder, found, given } = self;
        let role = found.role;
        write!(
            f,
            "{} has {}s of type {found}, and was opened with type {given}: open it with the program of {:?}, or give \
             another folder; {}; if only names were changed, keep those of fields by serde's `rename`, and give the \
             type's former name in `former_names`. Nothing was changed",
            folder.display(),
            role.name(),
            found.name,
            role.remedy(),
        )
    }
}
