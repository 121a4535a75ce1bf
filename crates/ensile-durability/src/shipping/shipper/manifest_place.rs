//! Place in the chain of manifests, and the next manifest behind the place.
//!
//! Invariant: H2: the next manifest has the next number, and the term of the place.
//!
//! Neighbours: [`super::chain_position`] finds the place, and [`super::publication`] installs the next manifest.

use ensile_base::Epoch;
use ensile_base::random::Random;

use crate::DurabilityError;
use crate::entry_type::EntryType;
use crate::files::manifest::application::ApplicationName;
use crate::files::shared_manifest::SharedManifest;
use crate::identity::Identity;
use crate::number;
use crate::shipping::state_composition::{Base, ComposedState};

/// Place of the shipper in the chain of manifests.
#[derive(Debug)]
pub(super) struct ManifestPlace {
    pub(super) store: Identity,
    /// Number of the newest manifest; 0 in an empty store.
    pub(super) number: u64,
    /// Term of the newest manifest; 1 in an empty store.
    pub(super) term: u64,
    /// Databases from which this database and its predecessors have taken over.
    pub(super) fenced: Vec<Identity>,
    /// Newest manifest; `None` in an empty store.
    pub(super) newest: Option<SharedManifest>,
    /// Manifest that was offered and has no answer yet.
    pub(super) offered: Option<OfferedManifest>,
}

/// A manifest that waits for an answer.
#[derive(Clone, Debug)]
pub(super) struct OfferedManifest {
    pub(super) manifest: SharedManifest,
    /// Base of the manifest, if the manifest is of a newer checkpoint.
    pub(super) base: Option<Base>,
}

/// Facts of a shipping database that the next manifest states besides the shipped files.
#[derive(Debug)]
pub(super) struct ShipperFacts {
    pub(super) shipper: Identity,
    /// See [`SharedManifest::reserved`].
    pub(super) reserved: Epoch,
    /// See [`SharedManifest::durable`].
    pub(super) durable: Epoch,
    pub(super) application: Option<ApplicationName>,
    pub(super) types: Vec<EntryType>,
}

impl ManifestPlace {
    /// Databases with possible objects in the store: this database, and the databases it has taken over from.
    pub(super) fn writers(&self, own: Identity) -> Vec<Identity> {
        debug_assert!(!self.fenced.contains(&own), "H6: a fenced database ships no more");
        self.fenced.iter().copied().chain([own]).collect()
    }

    pub(super) fn from_manifest(newest: SharedManifest) -> Self {
        let SharedManifest { store, number, term, fenced, .. } = newest.clone();
        Self { store, number, term, fenced, newest: Some(newest), offered: None }
    }

    /// Place in an empty store, which gets a new identity.
    pub(super) fn of_empty_store() -> Self {
        Self { store: Identity::draw(), number: 0, term: 1, fenced: Vec::new(), newest: None, offered: None }
    }

    /// Next manifest in the chain, with this state.
    pub(super) fn next(
        &self,
        composed: ComposedState,
        of: ShipperFacts,
    ) -> Result<SharedManifest, DurabilityError> {
        debug_assert!(
            self.newest
                .as_ref()
                .is_none_or(|newest| (newest.number, newest.term) == (self.number, self.term)),
            "H2: the place is that of the newest manifest"
        );
        let ComposedState { state, next, parts, logs } = composed;
        let ShipperFacts { shipper, reserved, durable, application, types } = of;
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
            types,
            fenced: self.fenced.clone(),
            next,
            parts,
            logs,
            state,
        })
    }
}
