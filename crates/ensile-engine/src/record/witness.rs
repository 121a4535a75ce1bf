//! Observations of leaves by searches, with the pin of the search. The node-set consists of such observations.
//!
//! Invariant:
//! - E3: A [`LeafWitness`] carries its pin as a [`Handle`](super::Handle) does. The check for a change of the leaf runs
//!   under exactly this pin, so the leaf is not freed.
//!
//! Neighbours: `tree` makes leaf witnesses from the index's witnesses; `sets::node_set` keeps leaf witnesses; commit
//! checks them.

use std::marker::PhantomData;

use ensile_epoch::Pinned;
use ensile_index::{NodeChange, NodeChanges, NodeId, Witness};

/// A leaf and the version of its read, under the pin of `'p`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct LeafWitness<'p> {
    witness: Witness,
    pin: PhantomData<fn(&'p ()) -> &'p ()>,
}

impl<'p> LeafWitness<'p> {
    /// The witness of the index, found under this pin.
    #[inline(always)]
    pub(super) fn new(witness: Witness, _pinned: Pinned<'p>) -> Self {
        Self { witness, pin: PhantomData }
    }

    /// The leaf.
    #[inline]
    pub(crate) fn node(self) -> NodeId {
        self.witness.node()
    }

    /// The leaf's version.
    #[inline]
    pub(crate) fn version(self) -> u64 {
        self.witness.version()
    }

    /// The same leaf at another version.
    #[inline]
    pub(crate) fn at_version(self, version: u64) -> Self {
        debug_assert_ne!(version, self.version(), "a change moves the version (C4)");
        Self { witness: Witness::new(self.node(), version), pin: PhantomData }
    }

    /// True if the leaf has the same version and no writer (C4).
    #[inline]
    pub(crate) fn holds(self, pinned: Pinned<'p>) -> bool {
        self.witness.holds(pinned)
    }
}

/// Changes of leaves by inserts under the pin of `'p`.
#[derive(Clone, Copy)]
pub(crate) struct LeafChanges<'c, 'p> {
    changes: &'c NodeChanges,
    pinned: Pinned<'p>,
}

/// Change of one leaf by an insert.
pub(crate) enum LeafChange<'p> {
    /// The leaf's version moved.
    Changed { node: NodeId, old: u64, new: u64 },
    /// The leaf was made; the leaf `from` covered its keys before.
    Created { from: NodeId, leaf: LeafWitness<'p> },
}

impl<'c, 'p> LeafChanges<'c, 'p> {
    /// Wraps changes of inserts under this pin alone.
    #[inline]
    pub(super) fn new(changes: &'c NodeChanges, pinned: Pinned<'p>) -> Self {
        Self { changes, pinned }
    }

    /// The changes, oldest first.
    #[inline]
    pub(crate) fn iter(self) -> impl Iterator<Item = LeafChange<'p>> + use<'c, 'p> {
        self.changes.as_slice().iter().map(move |change| match *change {
            NodeChange::Changed { node, old, new } => LeafChange::Changed { node, old, new },
            NodeChange::Created { node, from, version } => {
                debug_assert_ne!(node, from, "a new leaf takes keys from another one");
                LeafChange::Created { from, leaf: LeafWitness::new(Witness::new(node, version), self.pinned) }
            }
        })
    }
}
