//! Shared store to which a database ships, as the manifest remembers the store (`docs/internals/formats/manifest.md`).
//!
//! Invariant: H7: a folder in the state `Creating` with the line belongs to an unfinished take-over
//! (`creation_marker`).
//!
//! Neighbours: `manifest` has the line. The shipper and a take-over write the line; `shipping_open` reads the line.

use std::fmt;

use crate::files::text::values;
use crate::identity::Identity;

/// Shared store, and true if another database has taken over there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ShipsTo {
    pub(crate) store: Identity,
    pub(crate) is_fenced: bool,
}

impl ShipsTo {
    /// Reads the line that `Display` writes.
    pub(crate) fn parse(line: &str) -> Option<Self> {
        let [store, fenced] = values(line.strip_prefix("ships ")?, "to fenced")?;
        let is_fenced = match fenced {
            "yes" => true,
            "no" => false,
            _ => return None,
        };
        Some(Self { store: Identity::parse(store)?, is_fenced })
    }
}

/// Shared store, as a folder remembers it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RememberedStore {
    /// Identity of the store, 32 hex digits.
    pub store: String,
    /// True if another machine has taken over the folder's database there.
    pub is_fenced: bool,
}

impl From<ShipsTo> for RememberedStore {
    fn from(ShipsTo { store, is_fenced }: ShipsTo) -> Self {
        Self { store: store.to_string(), is_fenced }
    }
}

/// Line of the store, without a line end.
impl fmt::Display for ShipsTo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ships to {} fenced {}", self.store, if self.is_fenced { "yes" } else { "no" })
    }
}
