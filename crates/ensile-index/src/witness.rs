//! Witnesses: what a search saw of a leaf, so that a commit can ask whether it still is so (Silo §4.6, C4).
//!
//! **COVER**: a leaf covers the slices `low..high` of its layer, and its witness vouches for all of them. The bounds
//! change only together with the version, so a key that comes into being later, wherever it lands, has changed the
//! word of the leaf that covered it when it was missed: by an insert there, by a slot that became a layer, by a split
//! or by the leaf's own end. A layer that is unlinked or folded takes its last leaf's word with it.
//!
//! Neighbours: up, the engine's node-set; down, `version`.

use ensile_epoch::Pinned;

use crate::node::{Leaf, Ptr};
use crate::version::{Version, VersionWord};

/// A leaf's identity: its address. Only compared, ordered and handed back.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct NodeId(usize);

impl NodeId {
    pub(crate) fn of(leaf: Ptr<'_, Leaf>) -> Self {
        Self(leaf.expose())
    }
}

/// A leaf and the version at which it was read.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Witness {
    node: NodeId,
    version: u64,
}

impl Witness {
    pub(crate) fn of(leaf: Ptr<'_, Leaf>, seen: Version) -> Self {
        Self { node: NodeId::of(leaf), version: seen.bits() }
    }

    /// A witness put together from parts that the index handed out: one that [`NodeChange`] has moved on.
    #[inline]
    #[must_use]
    pub const fn new(node: NodeId, version: u64) -> Self {
        Self { node, version }
    }

    /// The leaf.
    #[inline]
    #[must_use]
    pub const fn node(self) -> NodeId {
        self.node
    }

    /// The leaf's version word at rest.
    #[inline]
    #[must_use]
    pub const fn version(self) -> u64 {
        self.version
    }

    /// Whether the leaf still is as it was: same version, and no writer in it.
    ///
    /// The order against other transactions is the caller's: C1 puts a SeqCst fence between the last read of the
    /// transaction (or its last lock) and this. `pinned` stands for the pin under which the witness was handed out;
    /// making a token for any other pin breaks the promise of [`Pinned::assume`].
    #[inline]
    #[must_use]
    pub fn holds(self, pinned: Pinned<'_>) -> bool {
        let _ = pinned;
        let word = std::ptr::with_exposed_provenance::<VersionWord>(self.node.0);
        // SAFETY: a NodeId is made only from a leaf that was reached under a pin, whose version word is its first
        // field; `pinned` is that pin, so the leaf's memory has not been freed (E3).
        unsafe { (*word).is_exactly(self.version) }
    }
}

/// What an insert did to one leaf.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NodeChange {
    /// A leaf's version moved.
    Changed {
        /// The leaf.
        node: NodeId,
        /// Its version just before.
        old: u64,
        /// Its version after.
        new: u64,
    },
    /// A leaf was made: by a split, or as part of a new layer.
    Created {
        /// The new leaf.
        node: NodeId,
        /// The leaf that covered its keys until then.
        from: NodeId,
        /// Its first version.
        version: u64,
    },
}

/// What one insert, or several, did to leaves, oldest first; reused without allocating once it has grown.
///
/// A transaction that inserts a key updates its own node-set: for each `Changed`, the entry `(node, old)` becomes
/// `(node, new)`; for each `Created` whose `from` is in the set, `(node, version)` is added.
#[derive(Debug, Default)]
pub struct NodeChanges(Vec<NodeChange>);

impl NodeChanges {
    /// No changes yet.
    #[must_use]
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// Forgets all changes and keeps the space.
    #[inline]
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// The changes, oldest first.
    #[inline]
    #[must_use]
    pub fn as_slice(&self) -> &[NodeChange] {
        &self.0
    }

    pub(crate) fn changed(&mut self, leaf: Ptr<'_, Leaf>, old: Version, new: Version) {
        self.0.push(NodeChange::Changed { node: NodeId::of(leaf), old: old.bits(), new: new.bits() });
    }

    pub(crate) fn created(&mut self, leaf: Ptr<'_, Leaf>, from: Ptr<'_, Leaf>, version: Version) {
        let (node, from) = (NodeId::of(leaf), NodeId::of(from));
        self.0.push(NodeChange::Created { node, from, version: version.bits() });
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
