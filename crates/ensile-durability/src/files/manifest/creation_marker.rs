//! Marker in the manifest of a folder whose copy has not ended: a backup, a restore or a take-over
//! (`docs/internals/formats/manifest.md`, lines `unfinished` and `ships to`).
//!
//! Invariants: N24 and H7. No open makes a database of a folder with the marker, and only a run of the named copy may
//! continue in the folder.
//!
//! Neighbours: `manifest` has the line, and names the copy under way. `open` refuses a folder with the line.
//! `crate::backup`, `recovery::archive` and `shipping::take_over` name their copies.

use std::fmt;

use crate::DurabilityError;
use crate::identity::Identity;
use ensile_disk::Disk;

/// First word of the line.
const WORD: &str = "unfinished ";

/// Copy that is being made into a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UnfinishedCopy {
    /// First backup of a database.
    Backup {
        /// Database that is backed up.
        of: Identity,
    },
    /// New database, from a backup or an archive.
    Restore {
        /// Database of the backup or of the archive.
        of: Identity,
    },
    /// Take-over from a shared store.
    TakeOver {
        /// Shared store.
        from: Identity,
    },
}

impl UnfinishedCopy {
    /// Reads the line that `Display` writes for a backup or a restore.
    pub(crate) fn parse(line: &str) -> Option<Self> {
        let line = line.strip_prefix(WORD)?;
        if let Some(of) = line.strip_prefix("backup of ") {
            return Some(Self::Backup { of: Identity::parse(of)? });
        }
        Some(Self::Restore { of: Identity::parse(line.strip_prefix("restore of ")?)? })
    }

    /// Error for a caller that needs a folder without an unfinished copy.
    pub(crate) fn into_error(self, disk: &dyn Disk) -> Result<DurabilityError, DurabilityError> {
        let what = match self {
            Self::Backup { of } => format!("the first backup of database {of}"),
            Self::Restore { of } => format!("a restore of {of}"),
            Self::TakeOver { from } => format!("a take-over from the shared store {from}"),
        };
        Ok(DurabilityError::Unfinished { folder: disk.folder_place("")?, what })
    }
}

/// Line of the copy, without a line end. A take-over has another line.
impl fmt::Display for UnfinishedCopy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Backup { of } => write!(f, "{WORD}backup of {of}"),
            Self::Restore { of } => write!(f, "{WORD}restore of {of}"),
            Self::TakeOver { .. } => unreachable!("`ships to` says it"),
        }
    }
}
