//! Check of a folder's remembered shared store at an open.
//!
//! Invariants:
//! - H6: a fenced database stays fenced in later lives, unless an open asks for a fenced folder.
//! - H8: an open without shipping refuses a folder that ships, unless it stops the shipping: it may be taken over.
//!
//! Neighbours: `shipping_target` has the store as the manifest remembers it. `open` asks before the first change.

use ensile_disk::Disk;

use crate::files::manifest::shipping_target::ShipsTo;
use crate::files::manifest::{Making, Manifest};
use crate::{DurabilityError, Result};

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

impl ShippingOpen {
    /// Expectation of a call that opens no database for changes of its own, such as a repair.
    pub(crate) const ANY: Self = Self { shipping: Shipping::On, opens_fenced: true };

    /// Refuses the folder of this manifest if the open does not permit the remembered store, or the fence (H6, H8).
    pub(crate) fn check(self, disk: &dyn Disk, manifest: &Manifest) -> Result<()> {
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
        let before = manifest.ships_to;
        if self.shipping == Shipping::Stopped {
            manifest.ships_to = manifest.ships_to.filter(|ships_to| ships_to.is_fenced);
        }
        let is_fence = |ships_to: &ShipsTo| ships_to.is_fenced;
        debug_assert_eq!(manifest.ships_to.filter(is_fence), before.filter(is_fence), "H6: a fence stays");
    }
}
