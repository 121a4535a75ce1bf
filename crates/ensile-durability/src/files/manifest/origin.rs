//! Origin of the state with which a database began (`docs/internals/formats/manifest.md`, lines `backup of` and
//! `restored epoch`). A folder is a backup until the first open. Afterwards it is an independent database, and receives
//! no backup.
//!
//! Neighbours: `manifest` has the line. `crate::backup` and a take-over write the line; a backup checks the line of a
//! target first. An open changes `backup` to `restored`.

use std::fmt;

use ensile_base::Epoch;

use crate::files::text::parse_epoch;
use crate::identity::Identity;

/// Origin of a state from outside the database's transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MadeFrom {
    /// Backup of a database, never opened.
    Backup {
        /// Database that was backed up.
        of: Identity,
    },
    /// State of another database at the end of an epoch.
    Restored {
        /// Bound of the epochs: no entry from the other database has a larger epoch.
        epoch: Epoch,
    },
}

impl MadeFrom {
    pub(crate) fn parse(line: &str) -> Option<Self> {
        if let Some(of) = line.strip_prefix("backup of ") {
            return Some(Self::Backup { of: Identity::parse(of)? });
        }
        Some(Self::Restored { epoch: parse_epoch(line.strip_prefix("restored epoch ")?)? })
    }

    /// Origin in the next life, after a recovery has decided on D = `durable`.
    pub(crate) fn after_recovery(self, durable: Epoch) -> Self {
        match self {
            Self::Backup { .. } => Self::Restored { epoch: durable },
            restored @ Self::Restored { .. } => restored,
        }
    }
}

/// Line of the origin, without a line end.
impl fmt::Display for MadeFrom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Backup { of } => write!(f, "backup of {of}"),
            Self::Restored { epoch } => write!(f, "restored epoch {epoch}"),
        }
    }
}
