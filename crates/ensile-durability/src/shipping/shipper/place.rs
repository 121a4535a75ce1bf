//! Whose the shared store is: a shipper's place in the chain of manifests, and what ends it.
//!
//! Invariants:
//! - H6: a manifest of another term ends the shipping for good; it is looked for while an own one waits for its answer
//!   too.
//! - H2: a listing that does not show the own manifest says nothing of larger ones.
//! - H1: what a life before has put is listed, and made durable, before it is believed.
//! - A manifest of this database that is of another history is an error.
//!
//! Neighbours: the steps of [`super`] ask, `chain` reads manifests; `store::lineage` compares.

use std::collections::BTreeMap;
use std::sync::Arc;

use ensile_base::Epoch;
use ensile_base::random::Random;

use super::{LOOK_NANOS, ShipWork, Shipper};
use crate::DurabilityError;
use crate::identity::Identity;
use crate::number;
use crate::shipping::chain::{self, unusable};
use crate::shipping::state::{Base, ComposedState, ShippedFiles};
use crate::store::application::ApplicationName;
use crate::store::lineage::Lineage;
use crate::store::manifest::{Generation, Manifest};
use crate::store::shared_manifest::{HEAD_AT, SharedManifest, manifest_name};
use crate::store::ships_to::ShipsTo;

/// Where the shipper stands in the chain of manifests.
#[derive(Debug)]
pub(super) struct ManifestPlace {
    pub(super) store: Identity,
    /// Of the newest manifest.
    pub(super) number: u64,
    pub(super) term: u64,
    pub(super) fenced: Vec<Identity>,
    /// What that manifest says; `None` while there is none.
    pub(super) newest: Option<SharedManifest>,
    /// A manifest that was offered, and of which no answer has come.
    pub(super) offered: Option<OfferedManifest>,
}

/// A manifest that waits for its answer.
#[derive(Clone, Debug)]
pub(super) struct OfferedManifest {
    pub(super) manifest: SharedManifest,
    /// What it is of, if that is a newer checkpoint.
    pub(super) base: Option<Base>,
}

impl Shipper {
    /// Finds out whose the store is, and what is in it.
    pub(super) fn find_place(&self, work: &mut ShipWork) -> Result<(), DurabilityError> {
        let newest = chain::newest(self.to())?;
        if let Some(newest) = &newest {
            self.check_term(newest, None)?;
            self.check_history(newest)?;
        }
        self.check_store(newest.as_ref())?;
        let failed = |error| unusable(self.to(), error);
        let own = self.database.to_string();
        for name in self.to().unfinished(&own).map_err(failed)? {
            // It may be the next life's upload.
            if self.has_ended() {
                return Ok(());
            }
            if !work.is_under_way(&name) {
                self.to().remove(&name).map_err(failed)?;
            }
        }
        work.left = self.listed(&[self.database])?;
        // An upload of a life before may have been cut short behind the naming of its object (H1).
        self.to().settle(&own).map_err(failed)?;
        // What may go is found anew: this manifest may name it.
        (work.unnamed, work.going) = Default::default();
        // Before the manifest is looked at: see `Base`.
        let closed = self.log.closed_list();
        let listed = self.manifest();
        let mut missing = None;
        match newest {
            Some(newest) => {
                let known = ShippedFiles::of(&newest);
                for (name, part) in known.parts {
                    work.inventory.parts.entry(name).or_insert(part);
                }
                for (name, log) in known.logs {
                    work.inventory.logs.entry(name).or_insert(log);
                }
                work.base = Base::of_shared(&newest, &listed.generations, &closed);
                self.installed(&newest);
                let place = ManifestPlace::of(newest);
                let there = self.listed(&place.writers(self.database))?;
                work.place = Some(place);
                missing = work.inventory.keep_listed(&there);
            }
            None => {
                work.base = Base::of_life(None, &[], &[]);
                work.place = Some(ManifestPlace::of_empty_store());
            }
        }
        self.release_hold(work);
        // It is told, and shipped again as far as it is here.
        missing.map_or(Ok(()), |missing| Err(self.is_missing(&missing)))
    }

    /// Is this the store that the folder remembers? One that it does not know yet is remembered.
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
                Err(unusable(self.to(), detail))
            }
            (Some(_), Some(store)) => self.remember(ShipsTo { store, is_fenced: false }),
            (_, None) => Ok(()),
        }
    }

    /// Has the database's folder remember this, if it does not.
    pub(super) fn remember(&self, ships_to: ShipsTo) -> Result<(), DurabilityError> {
        let mut keeper = self.store.manifest();
        // Under this lock, for which a close waits: afterwards the manifest may be another's.
        if keeper.manifest().ships_to == Some(ships_to) || self.log.health().has_ended() {
            return Ok(());
        }
        let next = Manifest { ships_to: Some(ships_to), ..keeper.manifest().clone() };
        Ok(keeper.replace(next)?)
    }

    /// The objects of these databases, with their lengths.
    pub(super) fn listed(&self, databases: &[Identity]) -> Result<BTreeMap<String, u64>, DurabilityError> {
        let mut there = BTreeMap::new();
        for database in databases {
            let listed = self.to().list(&database.to_string()).map_err(|error| unusable(self.to(), error))?;
            there.extend(listed.into_iter().map(|object| (object.name, object.bytes)));
        }
        Ok(there)
    }

    pub(super) fn is_missing(&self, object: &str) -> DurabilityError {
        chain::damaged(self.to(), object, "it is missing, or not as long as it was when it was shipped")
    }

    /// Is this manifest, which this database has written, of its history? The database may be an older copy, or one
    /// that was put back.
    fn check_history(&self, newest: &SharedManifest) -> Result<(), DurabilityError> {
        let (number, salt) = newest.next;
        let listed = self.manifest();
        let shipped = Some(newest.state.epoch());
        let of = Generation { number, salt, durable: shipped, ..listed.open_generation().clone() };
        let mut before = Lineage::default();
        before.add(std::iter::once(&of));
        listed.lives().is_behind(&before).map_err(|why| {
            let detail = format!(
                "its newest manifest is of {why} Take over from this place into an empty folder, or give an empty place"
            );
            unusable(self.to(), detail)
        })
    }

    /// May this database, which has installed a manifest of this store, go on behind this larger one?
    pub(super) fn check_next(
        &self,
        place: &ManifestPlace,
        newest: &SharedManifest,
    ) -> Result<(), DurabilityError> {
        if newest.store != place.store {
            let detail = "it is another store than the one that this database ships to: its files were removed, or \
                          another place is mounted there";
            return Err(unusable(self.to(), detail));
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
        Err(unusable(self.to(), detail))
    }

    /// What is said of a manifest that a newer version of Ensile has installed behind this database's own: no process
    /// of this database did.
    pub(super) fn is_fenced_if_newer(&self, error: DurabilityError) -> DurabilityError {
        let DurabilityError::Unknown { file, .. } = error else { return error };
        let place = self.to().place();
        let detail = format!("a newer version of Ensile has taken over with {file} of {place}");
        DurabilityError::Fenced { detail: detail.into() }
    }

    /// May this database go on behind this manifest? `term`: its own, once it has one.
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
                self.to().place()
            );
            return Err(DurabilityError::Fenced { detail: detail.into() });
        }
        let detail = format!(
            "it has the files of database {shipper}, and this one is {}: give an empty place, or take over from it",
            self.database
        );
        Err(unusable(self.to(), detail))
    }

    /// The manifest that was offered is not the next one: this one is, or is behind that.
    pub(super) fn lost_to(
        &self,
        work: &mut ShipWork,
        newest: &SharedManifest,
    ) -> Result<(), DurabilityError> {
        let place = work.place.as_ref().expect("it was found");
        if place.newest.is_some() {
            self.check_next(place, newest)?;
        }
        // A process of this database that has died had offered another one: it goes on behind that.
        work.place = None;
        self.check_term(newest, None)
    }

    /// A manifest was offered, and `refused` is all that came of it. Has another machine installed one? That of the
    /// same number may be the own one, whose answer was lost.
    pub(super) fn look_past_offer(
        &self,
        work: &mut ShipWork,
        now: u64,
        offered: &SharedManifest,
        refused: DurabilityError,
    ) -> Result<(), DurabilityError> {
        let is_first = work.place.as_ref().is_some_and(|place| place.newest.is_none());
        let newest = match chain::newest(self.to()) {
            Ok(newest) => newest,
            // It cannot be read either: another look comes with the next attempt.
            Err(DurabilityError::SharedStore { .. }) => return Err(refused),
            Err(error) => return Err(if is_first { error } else { self.is_fenced_if_newer(error) }),
        };
        (work.looked_at, work.look_at) = (now, now.saturating_add(LOOK_NANOS));
        match newest {
            Some(newest) if newest.number >= offered.number && newest != *offered => {
                self.lost_to(work, &newest)
            }
            _ => Err(refused),
        }
    }

    /// Has another machine installed a manifest?
    pub(super) fn look_for_others(&self, work: &mut ShipWork, now: u64) -> Result<(), DurabilityError> {
        let Some(place @ ManifestPlace { number, newest: Some(own), .. }) = &work.place else {
            return Ok(());
        };
        let largest = chain::numbers(self.to())?.into_iter().max().unwrap_or(0);
        if largest <= *number {
            let head = own.head().into_bytes();
            let mut there = vec![0; head.len()];
            let read = self.to().read_at(&manifest_name(*number), &mut there, HEAD_AT);
            if read.map_err(|error| unusable(self.to(), error))? != Some(head.len()) || there != head {
                let detail = format!(
                    "manifest {number}, which this database has installed, is gone: the store's files were removed, or \
                     another store is mounted there"
                );
                return Err(unusable(self.to(), detail));
            }
            if largest < *number {
                return Err(chain::unlisted(self.to(), *number));
            }
        }
        if largest > *number {
            let newest = chain::newest(self.to()).map_err(|error| self.is_fenced_if_newer(error))?;
            if let Some(newest) = newest.filter(|newest| newest.number > *number) {
                self.check_next(place, &newest)?;
                // It is one of a process of this database that has died.
                work.place = None;
            }
        }
        // One that fails is tried again before anything is shipped.
        (work.looked_at, work.look_at) = (now, now.saturating_add(LOOK_NANOS));
        Ok(())
    }
}

/// What is said of a database that was fenced in a life before.
pub(super) fn fenced_before(ships_to: ShipsTo) -> Arc<str> {
    format!("another database has taken over in store {}, as this one's folder remembers", ships_to.store)
        .into()
}

/// Facts of a shipping database that its next manifest states besides the shipped files.
#[derive(Debug)]
pub(super) struct ShipperFacts {
    pub(super) shipper: Identity,
    /// See [`SharedManifest::reserved`].
    pub(super) reserved: Epoch,
    /// See [`SharedManifest::durable`].
    pub(super) durable: Epoch,
    pub(super) application: Option<ApplicationName>,
}

impl ManifestPlace {
    /// The databases whose objects may be there: this one, and those that it has taken over from.
    pub(super) fn writers(&self, own: Identity) -> Vec<Identity> {
        self.fenced.iter().copied().chain([own]).collect()
    }

    fn of(newest: SharedManifest) -> Self {
        let SharedManifest { store, number, term, fenced, .. } = newest.clone();
        Self { store, number, term, fenced, newest: Some(newest), offered: None }
    }

    fn of_empty_store() -> Self {
        Self { store: Identity::draw(), number: 0, term: 1, fenced: Vec::new(), newest: None, offered: None }
    }

    /// The manifest that comes next, of this state.
    pub(super) fn next(
        &self,
        composed: ComposedState,
        of: ShipperFacts,
    ) -> Result<SharedManifest, DurabilityError> {
        let ComposedState { state, next, parts, logs } = composed;
        let ShipperFacts { shipper, reserved, durable, application } = of;
        let used_up = || DurabilityError::config("the numbers of the shared store's manifests are used up");
        Ok(SharedManifest {
            store: self.store,
            number: number::next(self.number).ok_or_else(used_up)?,
            term: self.term,
            attempt: Random::unpredictable().next_u64(),
            shipper,
            reserved,
            durable: Some(durable.max(state.epoch())),
            application,
            fenced: self.fenced.clone(),
            next,
            parts,
            logs,
            state,
        })
    }
}
