//! Types of a folder's entries, as programs state the types: the lines `type` of the manifest
//! (`docs/formats/manifest.md`).
//!
//! ```text
//! type key version 0 fingerprint 6c62272e07bb0142 name string
//! type object version 1 fingerprint 00112233445566aa name Count
//! type operation version 1 fingerprint none name Change
//! ```
//! Invariants:
//! - I6: The entries of a version have the type that the manifest names for the role and the version. A program that
//!   states another type for a named version is refused before anything is changed. A program that states nothing is
//!   not compared.
//! - The lines are in order of role and version, and have a single spelling.
//!
//! Neighbours: `manifest` has the lines. `open` compares the types before the first change. The manifest of an open adds
//! lines, and the install of a checkpoint replaces lines.

use std::fmt;
use std::path::Path;

use ensile_base::limits::NAME_BYTES_MAX;
use ensile_disk::Disk;

use super::manifest::Lines;
use crate::DurabilityError;

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

    /// Word of the role, in the manifest and for people.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Key => "key",
            Self::Object => "object",
            Self::Operation => "operation",
        }
    }

    /// Way to go on with a changed type.
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
    pub fn new((role, version): (TypeRole, u16), name: &str, fingerprint: Option<u64>) -> Self {
        Self { role, version, name: printable(name), fingerprint }
    }

    fn is_line(line: &str) -> bool {
        line.starts_with(WORD)
    }

    /// Reads the line that [`line`](Self::line) writes.
    fn parse(line: &str) -> Option<Self> {
        let (head, name) = line.strip_prefix(WORD)?.split_once(" name ")?;
        let words: Vec<&str> = head.split(' ').collect();
        let [role, "version", version, "fingerprint", fingerprint] = words[..] else { return None };
        let role = TypeRole::ALL.into_iter().find(|known| known.word() == role)?;
        let fingerprint = match fingerprint {
            "none" => None,
            digits => Some(u64::from_str_radix(digits, 16).ok()?),
        };
        Some(Self::new((role, version.parse().ok()?), name, fingerprint)).filter(|read| read.line() == line)
    }

    /// Line of the type, without a line end.
    pub(super) fn line(&self) -> String {
        let Self { role, version, name, fingerprint } = self;
        let (role, fingerprint) = (role.word(), shown(*fingerprint));
        format!("{WORD}{role} version {version} fingerprint {fingerprint} name {name}")
    }

    fn place(&self) -> (TypeRole, u16) {
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

fn shown(fingerprint: Option<u64>) -> String {
    fingerprint.map_or_else(|| "none".to_owned(), |fingerprint| format!("{fingerprint:016x}"))
}

/// Name in printable ASCII. A printable name stays as it is.
fn printable(name: &str) -> Box<str> {
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

/// Parses the types at the beginning of the next lines.
pub(super) fn parse(lines: &mut Lines<'_>) -> Option<Vec<EntryType>> {
    let own = std::iter::from_fn(|| lines.next_if(|line| EntryType::is_line(line)));
    own.map(EntryType::parse).collect()
}

/// True if the types are in order of role and version, each once.
pub(super) fn are_in_order(types: &[EntryType]) -> bool {
    types.is_sorted_by(|one, next| one.place() < next.place())
}

/// A type that a program states.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatedType {
    /// Type of the entries that the program writes.
    pub entry_type: EntryType,
    /// Earlier names of the type. An entry type with one of the names is the same type.
    pub former_names: Vec<Box<str>>,
}

impl StatedType {
    /// True if entries of the type `found` are of this type. Parts that a side does not state are not compared.
    fn is_of(&self, found: &EntryType) -> bool {
        let Self { entry_type: EntryType { name, fingerprint, .. }, former_names } = self;
        let has_name =
            *name == found.name || former_names.iter().any(|former| printable(former) == found.name);
        let has_fingerprint = match (fingerprint, found.fingerprint) {
            (Some(own), Some(found)) => *own == found,
            _ => true,
        };
        has_name && has_fingerprint
    }
}

/// Types that a program states for its entries, at most one for each role.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StatedTypes(Vec<StatedType>);

impl StatedTypes {
    /// Creates the statement. A program states at most one type for each role.
    ///
    /// # Panics
    /// If two types have the same role.
    #[must_use]
    pub fn new(types: impl IntoIterator<Item = StatedType>) -> Self {
        let mut types: Vec<StatedType> = types.into_iter().collect();
        types.sort_by_key(|stated| stated.entry_type.place());
        let roles = types.iter().map(|stated| stated.entry_type.role);
        assert!(roles.is_sorted_by(|one, next| one < next), "I6: a role has one type");
        Self(types)
    }

    /// Checks that a folder with entries of the types `found` may be opened by the program (I6).
    ///
    /// # Errors
    /// [`DurabilityError::OtherType`]; the disk's.
    pub fn check(&self, disk: &dyn Disk, found: &[EntryType]) -> Result<(), DurabilityError> {
        for stated in &self.0 {
            let other =
                found.iter().find(|found| found.place() == stated.entry_type.place() && !stated.is_of(found));
            if let Some(other) = other {
                let folder = disk.folder_place("")?.into();
                let (found, given) = (other.clone(), stated.entry_type.clone());
                return Err(DurabilityError::OtherType(Box::new(OtherType { folder, found, given })));
            }
        }
        Ok(())
    }

    /// Types of the folder after an open by the program. A new folder has the program's types. An older folder gets a
    /// type only if no entry can have the type's version yet: every earlier version of the role has a type.
    pub(crate) fn at_open(&self, before: &[EntryType], is_new: bool) -> Vec<EntryType> {
        let is_missing = |own: &&EntryType| {
            let versions = before.iter().filter(|found| found.role == own.role).map(|found| found.version);
            versions.max().map_or(is_new, |newest| newest < own.version)
        };
        let added = self.0.iter().map(|stated| &stated.entry_type).filter(is_missing).cloned();
        in_order(before.iter().cloned().chain(added).collect())
    }

    /// Types of the folder once a checkpoint replaces all entries of earlier lives: every entry is the program's. A
    /// role that the program does not state keeps its types.
    pub(crate) fn at_checkpoint(&self, before: &[EntryType]) -> Vec<EntryType> {
        let is_stated = |found: &&EntryType| self.0.iter().any(|stated| stated.entry_type.role == found.role);
        let kept = before.iter().filter(|found| !is_stated(found)).cloned();
        let own = self.0.iter().map(|StatedType { entry_type: own, .. }| {
            // A program that states no fingerprint leaves the known fingerprint.
            let known =
                before.iter().find(|found| found.place() == own.place()).and_then(|found| found.fingerprint);
            EntryType { fingerprint: own.fingerprint.or(known), ..own.clone() }
        });
        in_order(kept.chain(own).collect())
    }
}

fn in_order(mut types: Vec<EntryType>) -> Vec<EntryType> {
    types.sort_by_key(EntryType::place);
    assert!(are_in_order(&types), "I6: a role and a version have one type");
    types
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
            role.word(),
            found.name,
            role.remedy(),
        )
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
