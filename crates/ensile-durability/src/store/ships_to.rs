//! The shared store to which a database ships, as its manifest remembers it (`docs/formats/manifest.md`).
//!
//! ```text
//! ships to 00112233445566778899aabbccddeeff fenced no
//! ```
//! Invariants:
//! - H6: a database that was fenced is so in later lives too, also while its store cannot be reached: an open refuses
//!   its folder, unless it asks for a fenced one.
//! - H8: an open without shipping refuses a folder that ships, unless it stops shipping there: the folder may not know
//!   yet that another machine has taken over.
//! - H7: a folder that is creating, and has the line, is that of a take-over that has not ended: no open makes it a
//!   database (`unfinished`).
//!
//! Neighbours: `manifest` has the line; the shipper and a take-over write it; an open and the shipper look at it.

use std::fmt;

use ensile_disk::Disk;

use super::manifest::{Making, Manifest};
use super::text::values;
use crate::DurabilityError;
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

/// What a life does with the shared store that its folder remembers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Shipping {
    /// Ships nothing, and expects a folder that remembers no store.
    #[default]
    None,
    /// Ships.
    On,
    /// Ships nothing, and has the folder forget the store. A fenced folder remembers it all the same.
    Stopped,
}

/// What an open expects of the shared store that a folder remembers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShippingOpen {
    /// Use of the store in this life.
    pub shipping: Shipping,
    /// True if a fenced folder may be opened.
    pub opens_fenced: bool,
}

/// Shared store of a folder, as the folder remembers it.
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

impl ShippingOpen {
    /// Of a call that opens no database for changes of its own, such as a repair.
    pub(crate) const ANY: Self = Self { shipping: Shipping::On, opens_fenced: true };

    /// Refuses the folder of this manifest if the open does not expect it (H6, H8).
    pub(crate) fn check(self, disk: &dyn Disk, manifest: &Manifest) -> Result<(), DurabilityError> {
        let Some(ShipsTo { store, is_fenced }) = manifest.ships_to else { return Ok(()) };
        if manifest.state == Making::Creating {
            // H7: a take-over, which `unfinished` judges.
            return Ok(());
        }
        let refused = if is_fenced { !self.opens_fenced } else { self.shipping == Shipping::None };
        if !refused {
            return Ok(());
        }
        let (folder, store) = (disk.folder_place("")?.into(), store.to_string().into());
        Err(if is_fenced {
            DurabilityError::FencedFolder { folder, store }
        } else {
            DurabilityError::ShipsElsewhere { folder, store }
        })
    }

    /// Has the manifest forget the store, if the open stops shipping there.
    pub(crate) fn apply(self, manifest: &mut Manifest) {
        if self.shipping == Shipping::Stopped {
            manifest.ships_to = manifest.ships_to.filter(|ships_to| ships_to.is_fenced);
        }
    }
}

/// Its line, without the line's end.
impl fmt::Display for ShipsTo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ships to {} fenced {}", self.store, if self.is_fenced { "yes" } else { "no" })
    }
}
