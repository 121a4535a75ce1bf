//! The shared store to which a database ships, as its manifest remembers it (`docs/formats/manifest.md`).
//!
//! ```text
//! ships to 00112233445566778899aabbccddeeff fenced no
//! ```
//! Invariants:
//! - H6: a database that was fenced is so in later lives too, also while its store cannot be reached.
//! - H7: a folder that is creating, and has the line, is that of a take-over that has not ended: no open makes it a
//!   database (`unfinished`).
//!
//! Neighbours: `manifest` has the line; the shipper and a take-over write it; an open and the shipper look at it.

use std::fmt;

use super::text::values;
use crate::identity::Identity;

/// A shared store, and whether another database has taken over there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ShipsTo {
    pub(crate) store: Identity,
    pub(crate) is_fenced: bool,
}

impl ShipsTo {
    pub(super) fn is_line(line: &str) -> bool {
        line.starts_with("ships ")
    }

    /// Reads what `Display` writes.
    pub(super) fn parse(line: &str) -> Option<Self> {
        let [store, fenced] = values(line.strip_prefix("ships ")?, &["to", "fenced"])?;
        let is_fenced = match fenced {
            "yes" => true,
            "no" => false,
            _ => return None,
        };
        Some(Self { store: Identity::parse(store)?, is_fenced })
    }
}

/// Its line, without the line's end.
impl fmt::Display for ShipsTo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ships to {} fenced {}", self.store, if self.is_fenced { "yes" } else { "no" })
    }
}
