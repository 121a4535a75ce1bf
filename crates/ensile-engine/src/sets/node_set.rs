//! The node-set: leaves that the transaction's scans and misses depend on (Silo §4.6).
//!
//! Invariant: After the transaction's own inserts every entry carries the version that the inserts left, and a leaf
//! that an own insert split off is in the set too. So only changes by other transactions fail validation.
//!
//! Neighbours: reads and scans fill the set; commit updates the set after its placeholders (C3), and validates the set.

use ensile_epoch::Pinned;
use ensile_index::NodeId;

use crate::error::{Error, Result};
use crate::record::pin_scope::forgets;
use crate::record::{LeafChange, LeafChanges, LeafWitness};

/// Largest number of entries through which an own insert looks in sequence. Above, the insert finds its leaf by
/// bisection.
const LINEAR_MAX: usize = 32;

/// Witnessed leaves.
#[derive(Debug, Default)]
pub(crate) struct NodeSet<'p> {
    entries: Vec<LeafWitness<'p>>,
    sorted: bool,
}

forgets!(NodeSet: emptied [entries], forgotten [], free [sorted]);

impl<'p> NodeSet<'p> {
    #[inline]
    pub(crate) fn clear(&mut self) {
        self.entries.clear();
        self.sorted = false;
        debug_assert!(self.len() == 0, "nothing is left of the transaction before");
    }

    /// Memory of the set in bytes.
    #[inline]
    pub(crate) fn kept_bytes(&self) -> usize {
        self.entries.capacity() * size_of::<LeafWitness<'_>>()
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Adds a witness. The same witness twice in a row (scans that continue) is kept once.
    #[inline]
    pub(crate) fn push(&mut self, witness: LeafWitness<'p>) {
        if self.entries.last() != Some(&witness) {
            self.entries.push(witness);
            self.sorted = false;
        }
    }

    /// Follows the transaction's own insert: `(node, old)` becomes `(node, new)`, split-off leaves join.
    ///
    /// # Errors
    /// [`Error::Conflict`] if a leaf of the set had another version than the insert found: another transaction changed
    /// the leaf.
    pub(crate) fn update_after_own_insert(&mut self, changes: LeafChanges<'_, 'p>) -> Result<()> {
        if self.entries.is_empty() {
            return Ok(());
        }
        if self.entries.len() > LINEAR_MAX && !self.sorted {
            self.entries.sort_unstable();
            self.sorted = true;
        }
        for change in changes.iter() {
            match change {
                LeafChange::Changed { node, old, new } => {
                    for entry in self.of_node(node) {
                        if entry.version() != old {
                            return Err(Error::Conflict);
                        }
                        *entry = entry.at_version(new);
                    }
                }
                LeafChange::Created { from, leaf } => {
                    if self.of_node(from).next().is_some() {
                        self.add_split_off(leaf);
                    }
                }
            }
        }
        #[cfg(debug_assertions)]
        self.check();
        Ok(())
    }

    /// Asserts the order that look-ups rely on.
    #[cfg(debug_assertions)]
    pub(crate) fn check(&self) {
        assert!(!self.sorted || self.entries.is_sorted(), "look-ups by bisection need an order");
        let is_long = self.entries.len() > LINEAR_MAX;
        assert!(!self.sorted || is_long || self.entries.is_empty(), "a short set is looked through");
    }

    /// The entries of one leaf. In a set without order the iterator looks through all entries.
    fn of_node(&mut self, node: NodeId) -> Entries<'_, 'p> {
        if self.sorted {
            debug_assert!(self.entries.is_sorted(), "bisection needs an order");
            let start = self.entries.partition_point(|entry| entry.node() < node);
            let end = start + self.entries[start..].partition_point(|entry| entry.node() == node);
            return Entries { entries: self.entries[start..end].iter_mut(), node };
        }
        Entries { entries: self.entries.iter_mut(), node }
    }

    /// Adds a leaf that an own insert split off. A sorted set stays sorted.
    fn add_split_off(&mut self, witness: LeafWitness<'p>) {
        let at = if self.sorted {
            self.entries.partition_point(|entry| *entry < witness)
        } else {
            self.entries.len()
        };
        self.entries.insert(at, witness);
        debug_assert!(!self.sorted || self.entries.is_sorted(), "bisection needs an order");
    }

    /// Phase 2: true if every leaf is unchanged, and no other transaction writes in a leaf (C4).
    #[inline]
    pub(crate) fn holds(&self, pinned: Pinned<'p>) -> bool {
        self.entries.iter().all(|witness| witness.holds(pinned))
    }
}

/// Entries of one leaf.
struct Entries<'s, 'p> {
    entries: std::slice::IterMut<'s, LeafWitness<'p>>,
    node: NodeId,
}

impl<'s, 'p> Iterator for Entries<'s, 'p> {
    type Item = &'s mut LeafWitness<'p>;

    fn next(&mut self) -> Option<&'s mut LeafWitness<'p>> {
        let node = self.node;
        self.entries.find(|entry| entry.node() == node)
    }
}
