//! Removal from the shared store: unnamed objects, and remains of unfinished uploads (H4).
//!
//! Invariants:
//! - Only objects of this database or of its predecessors in take-overs, and only manifests before the own, are
//!   removed.
//! - Remains of a creation are removed regardless of the owner: a creation that runs for the grace fails, and names
//!   nothing.
//! - Objects that this database will name soon stay, because an earlier life may have put the objects.
//!
//! Neighbours: [`super::steps`] calls this module whenever the clock shows that work is due.

use std::collections::BTreeSet;

use super::state::{ManifestPlace, PAUSE, ShipWork, Shipper};
use crate::DurabilityError;
use crate::files::manifest::Manifest;
use crate::files::shared_manifest::{MANIFESTS, SharedFile, file_of, manifest_name, manifest_number};
use crate::shipping::state_composition::parts_of;

/// Longest time, in nanoseconds, between two searches for objects that no manifest names.
const CLEAR_NANOS: u64 = 60_000_000_000;

impl Shipper {
    /// Looks for unnamed objects, or removes one due object; false if neither is due.
    pub(super) fn clear(&self, work: &mut ShipWork, now: u64) -> Result<bool, DurabilityError> {
        if let Some(object) = work.going.pop_front() {
            // The process may have slept since the last look.
            if now.saturating_sub(work.looked_at) >= PAUSE.as_nanos() as u64 {
                self.look_for_others(work, now)?;
            }
            // The next life may name objects unknown to this life.
            if work.place.is_none() || self.has_ended() {
                return Ok(true);
            }
            self.shared_store().remove(&object).map_err(|error| self.unusable(error))?;
            work.unnamed.remove(&object);
            return Ok(true);
        }
        if now < work.clear_at {
            return Ok(false);
        }
        // A short grace does not put a look into each step, because files must be shipped in between.
        let pause = self.grace_nanos().clamp(PAUSE.as_nanos() as u64, CLEAR_NANOS);
        work.clear_at = now.saturating_add(pause);
        self.look_for_others(work, now)?;
        self.look_for_unnamed(work, now)?;
        Ok(true)
    }

    /// Looks for unnamed objects of this database, and of its predecessors in take-overs.
    fn look_for_unnamed(&self, work: &mut ShipWork, now: u64) -> Result<(), DurabilityError> {
        let Some(place @ ManifestPlace { number, newest: Some(newest), .. }) = &work.place else {
            return Ok(());
        };
        let failed = |error| self.unusable(error);
        let mut named: BTreeSet<String> = newest.objects().chain(work.inventory.objects()).collect();
        named.insert(manifest_name(*number));
        let writers = place.writers(self.database);
        let listed = self.list_objects(&writers)?;
        let mut there: Vec<String> = listed.keys().cloned().collect();
        // A larger number belongs to a machine that has taken over.
        let manifests =
            self.shared_store().list(MANIFESTS).map_err(failed)?.into_iter().map(|object| object.name);
        there.extend(manifests.filter(|name| manifest_number(name).is_some_and(|older| older < *number)));
        for folder in writers.iter().map(ToString::to_string).chain([MANIFESTS.to_owned()]) {
            there.extend(self.shared_store().list_unfinished(&folder).map_err(failed)?);
        }
        let wanted = self.needed_objects(work);
        let is_unnamed = |object: &String| !named.contains(object) && !wanted.contains(file_of(object));
        let unnamed: BTreeSet<String> = there.into_iter().filter(is_unnamed).collect();
        work.unnamed.retain(|object, _| unnamed.contains(object));
        for object in unnamed {
            work.unnamed.entry(object).or_insert(now);
        }
        let is_due = |since: &u64| now.saturating_sub(*since) >= self.grace_nanos();
        let due = work.unnamed.iter().filter(|(_, since)| is_due(since));
        work.going = due.map(|(object, _)| object.clone()).collect();
        debug_assert!(
            work.going.iter().all(|object| !work.is_under_way(object)),
            "H4: an object that is under way stays"
        );
        let Some(missing) = work.inventory.keep_listed(&listed) else { return Ok(()) };
        // The missing object is reported, and shipped again if its file is here: until then the file stays (H5).
        self.release_hold(work);
        Err(self.missing_object_error(&missing))
    }

    /// Names in the store of files that a manifest of this database may name soon.
    fn needed_objects(&self, work: &ShipWork) -> BTreeSet<String> {
        let Manifest { checkpoint, generations, .. } = self.manifest();
        let under_way = work.under_way.as_ref().and_then(|under_way| under_way.base.checkpoint.as_ref());
        let parts = parts_of(checkpoint.as_ref()).into_iter().chain(parts_of(under_way));
        let mut files: Vec<_> = parts.map(|(part, salt)| (part.to_string(), salt)).collect();
        let known = generations.iter().chain(&work.base.live);
        let salts: Vec<_> = known.map(|generation| (generation.number, generation.salt)).collect();
        for closed in self.unshipped_logs(work, &self.log.closed_list()) {
            let of = salts.iter().filter(|(number, _)| *number == closed.file.name.generation);
            files.extend(of.map(|(_, salt)| (closed.file.archive_name().to_string(), *salt)));
        }
        let shipper = self.database;
        let named = files.into_iter().map(|(name, salt)| {
            SharedFile { shipper, salt, bytes: 0, crc: 0, object_bytes: None }.object(&name)
        });
        named.chain(work.under_way_names()).collect()
    }
}
