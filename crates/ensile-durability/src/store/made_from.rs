//! Where the state came from that a database began with, as the manifest says it (`docs/formats/manifest.md`).
//!
//! ```text
//! backup of 5b1e0c9a77d24f0e8f6d3a2b1c4d5e6f
//! restored epoch 63
//! ```
//! Invariant: a folder is a backup until it is opened. From then on it is a database of its own, and no backup goes
//! into it.
//!
//! Neighbours: `manifest` has the line; `crate::backup` writes it, and looks at it before anything else; an open
//! changes it.

use std::fmt;

use ensile_base::Epoch;

use super::text::{parse_epoch, values};
use crate::identity::Identity;

/// A state that did not come from the database's own transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MadeFrom {
    /// It is a backup of this database, and was never opened.
    Backup {
        /// The database that it is a backup of.
        of: Identity,
    },
    /// It began as another database was at the end of this epoch.
    Restored {
        /// No entry from there has a larger epoch.
        epoch: Epoch,
    },
}

impl MadeFrom {
    pub(super) fn is_line(line: &str) -> bool {
        line.starts_with("backup ") || line.starts_with("restored ")
    }

    pub(super) fn parse(line: &str) -> Option<Self> {
        if let Some([of]) = line.strip_prefix("backup ").and_then(|rest| values(rest, &["of"])) {
            return Some(Self::Backup { of: Identity::parse(of)? });
        }
        let [epoch] = values(line.strip_prefix("restored ")?, &["epoch"])?;
        Some(Self::Restored { epoch: parse_epoch(epoch)? })
    }

    /// What it is once a recovery has decided that D is this, and begins the next life.
    pub(crate) fn opened(self, durable: Epoch) -> Self {
        match self {
            Self::Backup { .. } => Self::Restored { epoch: durable },
            restored @ Self::Restored { .. } => restored,
        }
    }
}

/// Its line, without the line's end.
impl fmt::Display for MadeFrom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Backup { of } => write!(f, "backup of {of}"),
            Self::Restored { epoch } => write!(f, "restored epoch {epoch}"),
        }
    }
}
