//! What a search saw of a leaf, under the pin that it saw it under: what the node-set consists of.
//!
//! Invariant:
//! - E3: a [`LeafWitness`] carries its pin as a [`Handle`](super::Handle) does. Whether the leaf is as it was seen is
//!   asked under exactly that pin, so the leaf is not freed.
//!
//! Neighbours: `tree` makes them of the index's witnesses; `sets::node_set` keeps them; commit asks whether they hold.

use std::marker::PhantomData;

use ensile_epoch::Pinned;
use ensile_index::{NodeChange, NodeChanges, NodeId, Witness};

/// A leaf and the version at which it was read, under the pin that stands for `'p`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct LeafWitness<'p> {
    witness: Witness,
    pin: PhantomData<fn(&'p ()) -> &'p ()>,
}

impl<'p> LeafWitness<'p> {
    /// What the index has handed out under this pin.
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

    /// Whether the leaf still is as it was: same version, and no writer in it (C4).
    #[inline]
    pub(crate) fn holds(self, pinned: Pinned<'p>) -> bool {
        self.witness.holds(pinned)
    }
}

/// What an insert under the pin of `'p` did to leaves.
#[derive(Clone, Copy)]
pub(crate) struct LeafChanges<'c, 'p> {
    changes: &'c NodeChanges,
    pinned: Pinned<'p>,
}

/// What an insert did to one leaf.
pub(crate) enum LeafChange<'p> {
    /// Its version moved.
    Changed { node: NodeId, old: u64, new: u64 },
    /// It was made; `from` covered its keys until then.
    Created { from: NodeId, leaf: LeafWitness<'p> },
}

impl<'c, 'p> LeafChanges<'c, 'p> {
    /// What inserts under this pin, and no others, have reported.
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
