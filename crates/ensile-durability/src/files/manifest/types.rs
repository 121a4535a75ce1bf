//! Types of a folder's entries, in order of role and version: the types that a program states, and the types that the
//! folder keeps (`docs/internals/formats/manifest.md`).
//!
//! Invariants: I6. A program that states nothing is not compared.
//!
//! Neighbours: `crate::entry_type` has a type and its line. `open` compares the types before the first change. An open
//! adds lines to its manifest, and the installation of a checkpoint replaces lines.

use ensile_disk::Disk;

use crate::DurabilityError;
use crate::entry_type::{EntryType, OtherType, printable};

/// True if the types are in order of role and version, each once.
pub(crate) fn are_in_order(types: &[EntryType]) -> bool {
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
    /// True if `found` is this type: the name is the present or a former name, and the fingerprint is equal if both
    /// sides state one.
    fn matches_type(&self, found: &EntryType) -> bool {
        let Self { entry_type: EntryType { name, fingerprint, .. }, former_names } = self;
        let has_name = *name == found.name || former_names.iter().any(|name| printable(name) == found.name);
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
            let other = found
                .iter()
                .find(|found| found.place() == stated.entry_type.place() && !stated.matches_type(found));
            if let Some(other) = other {
                let folder = disk.folder_place("")?.into();
                let (found, given) = (other.clone(), stated.entry_type.clone());
                return Err(DurabilityError::OtherType(Box::new(OtherType { folder, found, given })));
            }
        }
        Ok(())
    }

    /// Types of the folder after an open by the program. A new folder has the program's types. An older folder gets a
    /// missing type only if the role has types: no entry can then be of a version without a type.
    pub(crate) fn at_open(&self, before: &[EntryType], is_new: bool) -> Vec<EntryType> {
        let is_missing = |own: &&EntryType| {
            let mut of_role = before.iter().filter(|found| found.role == own.role).peekable();
            let is_known = is_new || of_role.peek().is_some();
            is_known && of_role.all(|found| found.version != own.version)
        };
        let added = self.0.iter().map(|stated| &stated.entry_type).filter(is_missing).cloned();
        let types = in_order(before.iter().cloned().chain(added).collect());
        debug_assert!(
            !is_new || self.0.iter().all(|own| types.iter().any(|one| one.place() == own.entry_type.place())),
            "I6: a new folder has the program's types"
        );
        types
    }

    /// Types of the folder once a checkpoint replaces all entries of earlier lives: every entry is the program's. A
    /// role that the program does not state keeps its types.
    pub(crate) fn at_checkpoint(&self, before: &[EntryType]) -> Vec<EntryType> {
        let is_stated = |found: &&EntryType| self.0.iter().any(|stated| stated.entry_type.role == found.role);
        let kept = before.iter().filter(|found| !is_stated(found)).cloned();
        // An earlier fingerprint does not stay: a program without a fingerprint may have written other fields.
        let own = self.0.iter().map(|stated| stated.entry_type.clone());
        let types = in_order(kept.chain(own).collect());
        debug_assert!(self.0.iter().all(|own| types.contains(&own.entry_type)), "I6: each type is written");
        debug_assert!(
            before.iter().all(|found| types.iter().any(|one| one.role == found.role)),
            "I6: a role with types keeps a type"
        );
        types
    }
}

fn in_order(mut types: Vec<EntryType>) -> Vec<EntryType> {
    types.sort_by_key(EntryType::place);
    assert!(are_in_order(&types), "I6: a role and a version have one type");
    types
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
