//! Publication of the state in the store: the next manifest, and the answer of the store (H1, H3). A manifest has the
//! reserved epochs, the application name and the types of the folder (L6, I5, I6).
//!
//! Neighbours: [`super::steps`] asks for a publication; `state_composition` decides on the state, and `chain` installs
//! the manifest.

use std::collections::BTreeSet;

use ensile_base::Epoch;

use super::state::{OfferedManifest, ShipWork, Shipper, ShipperFacts};
use crate::DurabilityError;
use crate::files::manifest::Manifest;
use crate::files::manifest::shipping_target::ShipsTo;
use crate::files::names::PartName;
use crate::files::shared_manifest::SHARED_MANIFEST_BYTES_MAX;
use crate::shipping::chain::{self, Installed};
use crate::shipping::state_composition::{Base, parts_of};
use crate::store::closed_files::ClosedFile;

/// Nanoseconds between two manifests while more files wait to be shipped.
const PUBLISH_NANOS: u64 = 10_000_000_000;

/// Outcome of an attempt to install a manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Published {
    /// A manifest was offered, or the attempt did other work.
    Worked,
    /// The newest manifest already describes the state in the store.
    IsSaid,
    /// The files in the store make up no state, or only a state older than the newest manifest.
    Nothing,
}

impl Shipper {
    /// Installs the manifest of the state in the store, if the state is newer than the newest manifest. The state may
    /// be older if `may_be_less` is true and an object of the newest manifest is gone.
    pub(super) fn publish(
        &self,
        work: &mut ShipWork,
        closed: &[ClosedFile],
        may_be_less: bool,
        now: u64,
    ) -> Result<Published, DurabilityError> {
        work.publish_at = now.saturating_add(PUBLISH_NANOS);
        // Later epochs may be durable, and have no entry that a take-over could lack. Reserved epochs are read after.
        let durable = self.epoch_to_ship().min(self.log.durable_epoch());
        let Manifest { reserved, application, types, .. } = self.manifest();
        let place = work.place.as_ref().expect("it was found");
        let newest = place.newest.as_ref();
        // H3: S does not go back, unless an object of the newest manifest is gone.
        let is_kept = newest.is_some_and(|newest| !may_be_less || work.inventory.has_all_of(newest));
        let least = newest.filter(|_| is_kept).map_or(Epoch::ZERO, |newest| newest.state.epoch());
        let composed = |base: &Base| {
            let composed = base.compose(&work.inventory, closed, self.database)?;
            (composed.state.epoch() >= least).then_some(composed)
        };
        let newer = work.under_way.as_ref().and_then(|under_way| {
            let composed = composed(&under_way.base)?;
            Some((Some(under_way.base.clone()), composed))
        });
        let Some((base, composed)) = newer.or_else(|| Some((None, composed(&work.base)?))) else {
            return Ok(Published::Nothing);
        };
        let is_said = newest.is_some_and(|newest| {
            (&newest.state, newest.next, &newest.parts, &newest.logs)
                == (&composed.state, composed.next, &composed.parts, &composed.logs)
                // L6: A take-over begins above every epoch that was shown here.
                && newest.reserved >= reserved
                // I5, I6: A take-over gets the application name and the types of the folder.
                && (&newest.application, &newest.types) == (&application, &types)
        });
        if is_said {
            let Some(base) = base else { return Ok(Published::IsSaid) };
            (work.base, work.under_way) = (base, None);
            return Ok(Published::Worked);
        }
        // H1: The named objects are still in the store, unless another machine has taken over.
        self.look_for_others(work, now)?;
        let Some(place) = work.place.as_mut().filter(|_| !self.has_ended()) else {
            return Ok(Published::Worked);
        };
        debug_assert!(durable <= reserved, "L6: D is within the reserved epochs");
        let facts = ShipperFacts { shipper: self.database, reserved, durable, application, types };
        let manifest = place.next(composed, facts)?;
        let bytes = manifest.to_string().len() as u64;
        if bytes > SHARED_MANIFEST_BYTES_MAX {
            return Err(DurabilityError::config(format!(
                "the manifest of what was shipped would have {bytes} bytes, and at most {SHARED_MANIFEST_BYTES_MAX} can \
                 be read: let checkpoints be installed more often, or larger log files be written"
            )));
        }
        debug_assert!(manifest.state.epoch() >= least, "H3: S goes back to {}", manifest.state.epoch());
        debug_assert!(place.offered.is_none(), "H2: one manifest waits for an answer");
        place.offered = Some(OfferedManifest { manifest, base });
        self.offer(work, now).map(|()| Published::Worked)
    }

    /// Offers the store the manifest that waits for an answer.
    pub(super) fn offer(&self, work: &mut ShipWork, now: u64) -> Result<(), DurabilityError> {
        let place = work.place.as_mut().expect("it was found");
        let OfferedManifest { manifest, base } = place.offered.clone().expect("one waits");
        let is_first = place.newest.is_none();
        let installed = chain::install(self.shared_store(), &manifest).map_err(|error| match is_first {
            true => error,
            false => self.fenced_if_newer_version(error),
        });
        let installed = match installed {
            // The store may refuse this machine's manifests only. No other code checks for a take-over while an offer
            // waits (H6).
            Err(error) if now >= work.look_at => return self.look_past_offer(work, now, &manifest, error),
            installed => installed?,
        };
        match installed {
            Installed::Ours => {
                debug_assert!(manifest.number > place.number, "H2: numbers of manifests grow");
                self.record_manifest(&manifest);
                (place.number, place.term) = (manifest.number, manifest.term);
                let store = place.store;
                (place.newest, place.offered) = (Some(manifest), None);
                if let Some(base) = base {
                    (work.base, work.under_way) = (base, None);
                }
                self.release_hold(work);
                self.forget_unneeded(work);
                self.remember(ShipsTo { store, is_fenced: false })
            }
            Installed::Lost(newest) => self.lost_to(work, &newest),
        }
    }

    /// Forgets files in the store that no state needs any more.
    fn forget_unneeded(&self, work: &mut ShipWork) {
        let Some(newest) = work.place.as_ref().and_then(|place| place.newest.as_ref()) else { return };
        let had_all = work.inventory.has_all_of(newest);
        let under_way = work.under_way.as_ref().map(|under_way| &under_way.base);
        let wanted: BTreeSet<PartName> = under_way
            .into_iter()
            .flat_map(|base| parts_of(base.checkpoint.as_ref()))
            .map(|(part, _)| part)
            .collect();
        let named: BTreeSet<PartName> = newest.parts.iter().map(|(part, _)| *part).collect();
        work.inventory.parts.retain(|part, _| named.contains(part) || wanted.contains(part));
        let covered = work.base.redo_epoch();
        let logs: BTreeSet<_> = newest.logs.iter().map(|log| log.file).collect();
        work.inventory.logs.retain(|file, shipped| logs.contains(file) || shipped.largest >= covered);
        work.inventory.forget_marks_below(newest.state.epoch());
        debug_assert_eq!(
            work.inventory.has_all_of(newest),
            had_all,
            "H1: the files of the newest manifest stay"
        );
    }
}
