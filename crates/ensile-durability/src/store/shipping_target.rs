//! Shared store to which a database ships, as the manifest remembers the store (`docs/internals/formats/manifest.md`).
//!
//! ```text
//! ships to 00112233445566778899aabbccddeeff fenced no
//! ```
//! Invariants:
//! - H6: A fenced database stays fenced in later lives, even if the store cannot be reached. An open refuses a fenced
//!   folder, unless the open asks for a fenced folder.
//! - H8: An open without shipping refuses a folder that ships, unless the open stops the shipping. The folder may not
//!   know yet that another machine has taken over.
//! - H7: A folder in the state `Creating` with the line belongs to an unfinished take-over. No open makes the folder a
//!   database (`creation_marker`).
//!
//! Neighbours: `manifest` has the line. The shipper and a take-over write the line; an open and the shipper read it.

use std::fmt;

use ensile_disk::Disk;

use super::manifest::{Making, Manifest};
use super::text::values;
use crate::DurabilityError;
use crate::identity::Identity;

/// Shared store, and true if another database has taken over there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ShipsTo {
    pub(crate) store: Identity,
    pub(crate) is_fenced: bool,
}

impl ShipsTo {
    pub(super) fn is_line(line: &str) -> bool {
        line.starts_with("ships ")
    }

    /// Reads the line that `Display` writes.
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

/// Use of the remembered shared store in a life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Shipping {
    /// No shipping. The folder must remember no store.
    #[default]
    None,
    /// Shipping to a store.
    On,
    /// No shipping, and the folder forgets the store. A fenced folder keeps the line of the store.
    Stopped,
}

/// Use of the shared store that an open expects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShippingOpen {
    /// Use of the store in this life.
    pub shipping: Shipping,
    /// True if a fenced folder may be opened.
    pub opens_fenced: bool,
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

impl ShippingOpen {
    /// Expectation of a call that opens no database for changes of its own, such as a repair.
    pub(crate) const ANY: Self = Self { shipping: Shipping::On, opens_fenced: true };

    /// Refuses the folder of this manifest if the open does not permit the remembered store, or the fence (H6, H8).
    pub(crate) fn check(self, disk: &dyn Disk, manifest: &Manifest) -> Result<(), DurabilityError> {
        let Some(ShipsTo { store, is_fenced }) = manifest.ships_to else { return Ok(()) };
        if manifest.state == Making::Creating {
            // H7: The folder belongs to a take-over, and `creation_marker` judges the folder.
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

    /// Removes the store from the manifest if the open stops shipping. A fenced store stays.
    pub(crate) fn apply(self, manifest: &mut Manifest) {
        if self.shipping == Shipping::Stopped {
            manifest.ships_to = manifest.ships_to.filter(|ships_to| ships_to.is_fenced);
        }
    }
}

/// Line of the store, without a line end.
impl fmt::Display for ShipsTo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ships to {} fenced {}", self.store, if self.is_fenced { "yes" } else { "no" })
    }
}
