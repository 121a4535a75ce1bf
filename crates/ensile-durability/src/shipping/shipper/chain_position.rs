//! Place of a shipper in the chain of manifests: found, and lost for good to another machine.
//!
//! Invariants:
//! - H6: the shipper looks for a manifest of another term also while an own manifest waits for an answer.
//! - H2: a listing without the own manifest says nothing about larger manifests.
//! - H1: objects of an earlier life are listed and made durable before a manifest relies on them.
//!
//! Neighbours: [`super::steps`], `publication` and `object_removal` call. `chain` reads manifests;
//! `files::manifest::lineage` compares histories; the database's own manifest remembers the store.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::state::{ManifestPlace, ShipWork, Shipper};
use crate::DurabilityError;
use crate::files::manifest::Manifest;
use crate::files::manifest::generation::Generation;
use crate::files::manifest::lineage::Lineage;
use crate::files::manifest::shipping_target::ShipsTo;
use crate::files::shared_manifest::{HEAD_AT, SharedManifest, manifest_name};
use crate::identity::Identity;
use crate::shipping::chain;
use crate::shipping::state_composition::{Base, ShippedFiles};

/// Nanoseconds between two checks for a take-over by another machine.
const LOOK_NANOS: u64 = 10_000_000_000;

impl Shipper {
    /// Finds the newest manifest, checks that this database may ship to the store, and lists the objects in the store.
    pub(super) fn find_place(&self, work: &mut ShipWork) -> Result<(), DurabilityError> {
        let newest = chain::newest(self.shared_store())?;
        if let Some(newest) = &newest {
            self.check_term(newest, None)?;
            self.check_history(newest)?;
        }
        self.check_store(newest.as_ref())?;
        let failed = |error| self.unusable(error);
        let own = self.database.to_string();
        for name in self.shared_store().list_unfinished(&own).map_err(failed)? {
            // The unfinished object may belong to the next life if this life has ended.
            if self.has_ended() {
                return Ok(());
            }
            if !work.is_under_way(&name) {
                self.shared_store().remove(&name).map_err(failed)?;
            }
        }
        work.left = self.list_objects(&[self.database])?;
        // H1: an earlier life may have died after an object got its name, and before the object was durable.
        self.shared_store().settle(&own).map_err(failed)?;
        // Removable objects are searched anew, because the newest manifest may name an object found before.
        (work.unnamed, work.going) = Default::default();
        // The closed files are listed before the folder's manifest is read: see [`Base::of_life`].
        let closed = self.log.closed_list();
        let listed = self.manifest();
        let mut missing = None;
        match newest {
            Some(newest) => {
                let known = ShippedFiles::from_manifest(&newest);
                for (name, part) in known.parts {
                    work.inventory.parts.entry(name).or_insert(part);
                }
                for (name, log) in known.logs {
                    work.inventory.logs.entry(name).or_insert(log);
                }
                work.base = Base::of_shared(&newest, &listed.generations, &closed);
                self.record_manifest(&newest);
                let place = ManifestPlace::from_manifest(newest);
                let there = self.list_objects(&place.writers(self.database))?;
                work.place = Some(place);
                missing = work.inventory.keep_listed(&there);
            }
            None => {
                work.base = Base::of_life(None, &[], &[]);
                work.place = Some(ManifestPlace::of_empty_store());
            }
        }
        self.release_hold(work);
        // The error reports a missing object. Later steps ship missing objects again if the local files exist.
        missing.map_or(Ok(()), |missing| Err(self.missing_object_error(&missing)))
    }

    /// Checks that the store is the store that the folder remembers, or that the configuration names a new place. The
    /// folder then remembers the store.
    fn check_store(&self, newest: Option<&SharedManifest>) -> Result<(), DurabilityError> {
        let known = self.manifest().ships_to.map(|ships_to| ships_to.store);
        let found = newest.map(|newest| newest.store);
        match (known, found) {
            (None, Some(store)) => self.remember(ShipsTo { store, is_fenced: false }),
            (Some(known), found) if found != Some(known) && !self.config.is_new_place => {
                let what = found.map_or("it is empty".to_owned(), |found| format!("it is store {found}"));
                let detail = format!(
                    "{what}, and this database ships to store {known}: mount that, or say that it is a new place"
                );
                Err(self.unusable(detail))
            }
            (Some(_), Some(store)) => self.remember(ShipsTo { store, is_fenced: false }),
            (_, None) => Ok(()),
        }
    }

    /// Writes `ships_to` to the manifest of the database's folder, unless the manifest has it already.
    pub(super) fn remember(&self, ships_to: ShipsTo) -> Result<(), DurabilityError> {
        let mut keeper = self.store.manifest();
        // Checked under this lock, for which a close waits. After the close, another process may own the manifest.
        if keeper.manifest().ships_to == Some(ships_to) || self.log.health().has_ended() {
            return Ok(());
        }
        let next = Manifest { ships_to: Some(ships_to), ..keeper.manifest().clone() };
        Ok(keeper.replace(next)?)
    }

    /// Objects of these databases, with lengths in bytes.
    pub(super) fn list_objects(
        &self,
        databases: &[Identity],
    ) -> Result<BTreeMap<String, u64>, DurabilityError> {
        let mut there = BTreeMap::new();
        for database in databases {
            let listed = self.shared_store().list(&database.to_string());
            let listed = listed.map_err(|error| self.unusable(error))?;
            there.extend(listed.into_iter().map(|object| (object.name, object.bytes)));
        }
        Ok(there)
    }

    /// Error for an object that is missing or has another length.
    pub(super) fn missing_object_error(&self, object: &str) -> DurabilityError {
        let why = "it is missing, or not as long as it was when it was shipped";
        chain::damaged_object_error(self.shared_store(), object, why)
    }

    /// Checks that this folder continues the history of `newest`, a manifest of this database. The folder may be an
    /// older copy, or may have been put back.
    fn check_history(&self, newest: &SharedManifest) -> Result<(), DurabilityError> {
        let (number, salt) = newest.next;
        let listed = self.manifest();
        let shipped = Some(newest.state.epoch());
        let of = Generation { number, salt, durable: shipped, ..listed.open_generation().clone() };
        let mut before = Lineage::default();
        before.add(std::iter::once(&of));
        listed.lives().check_continues(&before).map_err(|why| {
            let detail = format!(
                "its newest manifest is of {why} Take over from this place into an empty folder, or give an empty place"
            );
            self.unusable(detail)
        })
    }

    /// Checks that this database, which has installed the manifest at `place`, may go on behind the larger manifest
    /// `newest`.
    pub(super) fn check_next(
        &self,
        place: &ManifestPlace,
        newest: &SharedManifest,
    ) -> Result<(), DurabilityError> {
        if newest.store != place.store {
            let detail = "it is another store than the one that this database ships to: its files were removed, or \
                          another place is mounted there";
            return Err(self.unusable(detail));
        }
        self.check_term(newest, Some(place.term))?;
        let listed = self.manifest();
        let open = listed.open_generation();
        if newest.next != (open.number, open.salt) {
            return self.check_history(newest);
        }
        let detail = format!(
            "manifest {} is of this database as it runs, and this process did not install it: does a copy of the \
             machine run?",
            newest.number
        );
        Err(self.unusable(detail))
    }

    /// Converts the error for a manifest of a newer version of Ensile behind this database's own manifest: the database
    /// is fenced, because no process of this database wrote the manifest. Returns other errors unchanged.
    pub(super) fn fenced_if_newer_version(&self, error: DurabilityError) -> DurabilityError {
        let DurabilityError::Unknown { file, .. } = error else { return error };
        let place = self.shared_store().place();
        let detail = format!("a newer version of Ensile has taken over with {file} of {place}");
        DurabilityError::Fenced { detail: detail.into() }
    }

    /// Checks that this database may go on behind `newest`. `term` is the term of the shipper's place, once the place
    /// is found.
    pub(super) fn check_term(
        &self,
        newest: &SharedManifest,
        term: Option<u64>,
    ) -> Result<(), DurabilityError> {
        if newest.shipper == self.database && term.is_none_or(|term| term == newest.term) {
            return Ok(());
        }
        let SharedManifest { shipper, term: other, number, .. } = newest;
        if term.is_some() || newest.fenced.contains(&self.database) {
            let detail = format!(
                "database {shipper} has taken over in term {other} with manifest {number} of {}",
                self.shared_store().place()
            );
            return Err(DurabilityError::Fenced { detail: detail.into() });
        }
        let detail = format!(
            "it has the files of database {shipper}, and this one is {}: give an empty place, or take over from it",
            self.database
        );
        Err(self.unusable(detail))
    }

    /// Handles a lost offer: `newest` has the number of the offered manifest, or a larger number.
    pub(super) fn lost_to(
        &self,
        work: &mut ShipWork,
        newest: &SharedManifest,
    ) -> Result<(), DurabilityError> {
        let place = work.place.as_ref().expect("it was found");
        debug_assert!(newest.number > place.number, "H2: the offer was behind manifest {}", place.number);
        if place.newest.is_some() {
            self.check_next(place, newest)?;
        }
        // An earlier process of this database offered `newest` and died. The shipper goes on behind `newest`.
        work.place = None;
        self.check_term(newest, None)
    }

    /// Looks for a manifest of another machine after an offer failed with `refused`. A manifest equal to `offered` is
    /// the own manifest: only the answer was lost.
    pub(super) fn look_past_offer(
        &self,
        work: &mut ShipWork,
        now: u64,
        offered: &SharedManifest,
        refused: DurabilityError,
    ) -> Result<(), DurabilityError> {
        let is_first = work.place.as_ref().is_some_and(|place| place.newest.is_none());
        let newest = match chain::newest(self.shared_store()) {
            Ok(newest) => newest,
            // The store cannot be read either. The next attempt looks again.
            Err(DurabilityError::SharedStore { .. }) => return Err(refused),
            Err(error) => return Err(if is_first { error } else { self.fenced_if_newer_version(error) }),
        };
        (work.looked_at, work.look_at) = (now, now.saturating_add(LOOK_NANOS));
        match newest {
            Some(newest) if newest.number >= offered.number && newest != *offered => {
                self.lost_to(work, &newest)
            }
            _ => Err(refused),
        }
    }

    /// Checks that no other machine has installed a manifest, and that the own newest manifest is still in the store.
    pub(super) fn look_for_others(&self, work: &mut ShipWork, now: u64) -> Result<(), DurabilityError> {
        let Some(place @ ManifestPlace { number, newest: Some(own), .. }) = &work.place else {
            return Ok(());
        };
        let largest = chain::numbers(self.shared_store())?.into_iter().max().unwrap_or(0);
        if largest <= *number {
            let head = own.head().into_bytes();
            let mut there = vec![0; head.len()];
            let read = self.shared_store().read_at(&manifest_name(*number), &mut there, HEAD_AT);
            if read.map_err(|error| self.unusable(error))? != Some(head.len()) || there != head {
                let detail = format!(
                    "manifest {number}, which this database has installed, is gone: the store's files were removed, or \
                     another store is mounted there"
                );
                return Err(self.unusable(detail));
            }
            if largest < *number {
                return Err(chain::unlisted_manifest_error(self.shared_store(), *number));
            }
        }
        if largest > *number {
            let newest =
                chain::newest(self.shared_store()).map_err(|error| self.fenced_if_newer_version(error))?;
            if let Some(newest) = newest.filter(|newest| newest.number > *number) {
                self.check_next(place, &newest)?;
                // An earlier process of this database installed `newest` and died.
                work.place = None;
            }
        }
        // A failed look returns above, so the next step looks again before it ships.
        (work.looked_at, work.look_at) = (now, now.saturating_add(LOOK_NANOS));
        Ok(())
    }
}

/// Message for a database that an earlier life found fenced.
pub(super) fn fenced_before(ships_to: ShipsTo) -> Arc<str> {
    format!("another database has taken over in store {}, as this one's folder remembers", ships_to.store)
        .into()
}
