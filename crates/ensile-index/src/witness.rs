//! Witnesses: a leaf and the leaf's version at a search. With a witness a commit can check for changes (Silo §4.6, C4).
//!
//! **COVER**: a leaf covers the slices `low..high` of its layer, and its witness vouches for the whole range. The
//! bounds change only together with the version. A later insert of a missing key, in any leaf, has therefore changed
//! the word of the leaf that covered the missing key: by an insert there, by a slot that became a layer, by a split or
//! by the leaf's own end. An unlinked or folded layer takes the last leaf's word with it.
//!
//! Neighbours: up, the engine's node-set; down, `version`.

use ensile_epoch::Pinned;

use crate::node::{Leaf, Ptr};
use crate::version::{Version, VersionWord};

/// Identity of a leaf: its address. Only compared, ordered and handed back.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct NodeId(usize);

impl NodeId {
    pub(crate) fn from_leaf(leaf: Ptr<'_, Leaf>) -> Self {
        Self(leaf.expose())
    }
}

/// A leaf and the version at which a search read the leaf.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Witness {
    node: NodeId,
    version: u64,
}

impl Witness {
    pub(crate) fn from_leaf(leaf: Ptr<'_, Leaf>, seen: Version) -> Self {
        Self { node: NodeId::from_leaf(leaf), version: seen.bits() }
    }

    /// A witness from parts that the index handed out, as after a [`NodeChange`].
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

    /// True if the leaf is unchanged: same version, and no writer in the leaf.
    ///
    /// The order against other transactions is the caller's: C1 puts a SeqCst fence between the last read of the
    /// transaction (or its last lock) and this call. `pinned` stands for the pin under which the witness was handed
    /// out; making a token for any other pin breaks the promise of [`Pinned::assume`].
    #[inline]
    #[must_use]
    pub fn holds(self, pinned: Pinned<'_>) -> bool {
        let _ = pinned;
        let word = std::ptr::with_exposed_provenance::<VersionWord>(self.node.0);
        // SAFETY: a NodeId is made only from a leaf that was reached under a pin, and a leaf's first field is the
        // version word; `pinned` is the same pin, and the leaf's memory has not been freed (E3).
        unsafe { (*word).is_exactly(self.version) }
    }
}

/// A change that an insert made to a leaf.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NodeChange {
    /// A leaf's version moved.
    Changed {
        /// The leaf.
        node: NodeId,
        /// Version just before.
        old: u64,
        /// Version after.
        new: u64,
    },
    /// A leaf was made: by a split, or as part of a new layer.
    Created {
        /// The new leaf.
        node: NodeId,
        /// The leaf that covered the new leaf's keys until then.
        from: NodeId,
        /// First version of the new leaf.
        version: u64,
    },
}

/// Changes of leaves by one insert, or several, oldest first; reused without allocating once grown.
///
/// A transaction with an insert updates its own node-set. A `Changed` turns the entry `(node, old)` into `(node, new)`.
/// A `Created` with `from` in the set adds `(node, version)`.
#[derive(Debug, Default)]
pub struct NodeChanges(Vec<NodeChange>);

impl NodeChanges {
    /// An empty list of changes.
    #[must_use]
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// Forgets the changes and keeps the space.
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

    /// Notes that a leaf's version moved.
    pub(crate) fn record_change(&mut self, leaf: Ptr<'_, Leaf>, old: Version, new: Version) {
        self.0.push(NodeChange::Changed { node: NodeId::from_leaf(leaf), old: old.bits(), new: new.bits() });
    }

    /// Notes a new leaf. `from` covered its keys until then; `version` is its first version.
    pub(crate) fn record_creation(&mut self, leaf: Ptr<'_, Leaf>, from: Ptr<'_, Leaf>, version: Version) {
        let (node, from) = (NodeId::from_leaf(leaf), NodeId::from_leaf(from));
        self.0.push(NodeChange::Created { node, from, version: version.bits() });
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
