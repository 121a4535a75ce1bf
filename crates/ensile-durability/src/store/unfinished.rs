//! What is being made in a folder that is creating, if it is no new database (`docs/formats/manifest.md`).
//!
//! ```text
//! unfinished backup of 5b1e0c9a77d24f0e8f6d3a2b1c4d5e6f
//! unfinished restore of 5b1e0c9a77d24f0e8f6d3a2b1c4d5e6f
//! ```
//! A take-over has the line `ships to` instead.
//!
//! Invariants:
//! - N24, H7: the first manifest of a folder that gets a copy has the line. No open makes a database of such a folder,
//!   and the run that is named goes on in it. The manifest with which the copy counts is without it.
//!
//! Neighbours: `manifest` has the line; `open` writes it, and refuses a folder that has it; `crate::backup`, the
//! restore of an archive and a take-over say what they make.

use std::fmt;

use super::manifest::{Making, Manifest};
use super::ships_to::ShipsTo;
use super::text::values;
use crate::DurabilityError;
use crate::identity::Identity;
use ensile_disk::Disk;

/// Begins its line.
const WORD: &str = "unfinished ";

/// A copy that is being made into a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UnfinishedCopy {
    /// The first backup of this database.
    Backup {
        /// The database that is backed up.
        of: Identity,
    },
    /// A new database, from a backup or an archive.
    Restore {
        /// That of the backup, or the one whose archive it is.
        of: Identity,
    },
    /// A take-over from a shared store.
    TakeOver {
        /// The store.
        from: Identity,
    },
}

impl UnfinishedCopy {
    pub(super) fn is_line(line: &str) -> bool {
        line.starts_with(WORD)
    }

    /// Reads what `Display` writes of a backup and a restore.
    pub(super) fn parse(line: &str) -> Option<Self> {
        let line = line.strip_prefix(WORD)?;
        if let Some([of]) = line.strip_prefix("backup ").and_then(|rest| values(rest, &["of"])) {
            return Some(Self::Backup { of: Identity::parse(of)? });
        }
        let [of] = values(line.strip_prefix("restore ")?, &["of"])?;
        Some(Self::Restore { of: Identity::parse(of)? })
    }

    /// What is being made in the folder of this manifest, if it is a copy.
    pub(crate) fn of(manifest: &Manifest) -> Option<Self> {
        if manifest.state == Making::Created {
            return None;
        }
        let taken_over = manifest.ships_to.map(|ships_to| Self::TakeOver { from: ships_to.store });
        manifest.unfinished.or(taken_over)
    }

    /// The same manifest, which says so.
    pub(super) fn begin(self, manifest: Manifest) -> Manifest {
        assert_eq!(manifest.state, Making::Creating, "N24: nothing counts in it yet");
        match self {
            Self::TakeOver { from } => {
                Manifest { ships_to: Some(ShipsTo { store: from, is_fenced: false }), ..manifest }
            }
            Self::Backup { .. } | Self::Restore { .. } => Manifest { unfinished: Some(self), ..manifest },
        }
    }

    /// Has no copy been begun in this folder, or has the one that was begun ended?
    ///
    /// # Errors
    /// [`DurabilityError::Unfinished`].
    pub(crate) fn check_none(disk: &dyn Disk, manifest: &Manifest) -> Result<(), DurabilityError> {
        Self::of(manifest).map_or(Ok(()), |unfinished| Err(unfinished.into_error(disk)?))
    }

    /// Why the folder is refused.
    pub(super) fn into_error(self, disk: &dyn Disk) -> Result<DurabilityError, DurabilityError> {
        let what = match self {
            Self::Backup { of } => format!("the first backup of database {of}"),
            Self::Restore { of } => format!("a restore of {of}"),
            Self::TakeOver { from } => format!("a take-over from the shared store {from}"),
        };
        Ok(DurabilityError::Unfinished { folder: disk.folder_place("")?, what })
    }
}

/// Its line, without the line's end. A take-over has another one.
impl fmt::Display for UnfinishedCopy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Backup { of } => write!(f, "{WORD}backup of {of}"),
            Self::Restore { of } => write!(f, "{WORD}restore of {of}"),
            Self::TakeOver { .. } => unreachable!("`ships to` says it"),
        }
    }
}
