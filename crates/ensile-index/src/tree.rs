//! The tree itself: its root, point reads, and its end.
//!
//! Neighbours: up, the engine's tables; down, `descent` for the way within a layer; beside it `insert`, `remove`,
//! `scan`, `batch` and `check`, one operation a file.

use ensile_base::limits;
use ensile_base::sync::{AtomicPtr, Backoff, Ordering};
use ensile_epoch::Pinned;

use crate::descent::{InLeaf, LeafPlace, find, follow};
use crate::key::SLICE_BYTES;
use crate::memory::NodeMemory;
use crate::node::{Leaf, NodePtr, Ptr};
use crate::skip_block::layer_below;
use crate::version::{NodeLock, VersionWord};
use crate::witness::Witness;

/// An ordered map from byte strings to 64-bit values: a trie of B+-trees, read without locks (Masstree, EuroSys'12).
///
/// Dropping a tree frees nothing, since a tree owns no memory: see [`Masstree::dismantle`].
#[derive(Debug)]
pub struct Masstree {
    root: AtomicPtr<VersionWord>,
}

/// The answer of a point read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lookup {
    /// The key's value.
    Found(u64),
    /// No such key; the key stays missing for as long as the witness holds.
    Missing(Witness),
}

/// The parent side of a layer: the word that names its root, ready to be changed.
pub(crate) enum RootWord<'p> {
    /// Layer 0: the tree's own word, which belongs to the root node's lock.
    Tree(&'p AtomicPtr<VersionWord>),
    /// A deeper layer: a slot of a leaf of the layer above, with the leaf's lock.
    Slot {
        leaf: Ptr<'p, Leaf>,
        slot: usize,
        /// The leaf's lock.
        held: NodeLock<'p>,
    },
}

impl<'p> RootWord<'p> {
    /// Names another root. The caller holds the old root's lock, and clears its ROOT flag afterwards.
    pub(crate) fn publish(&self, root: NodePtr<'p>) {
        match self {
            // Release: pairs with the Acquire load of `Masstree::root`: the node's content is seen.
            Self::Tree(word) => word.store(root.as_ptr(), Ordering::Release),
            Self::Slot { leaf, slot, .. } => {
                // SAFETY: the leaf is locked by us.
                match unsafe { layer_below(*leaf, *slot) } {
                    Some((_, Some(skip))) => skip.publish_root(root),
                    _ => leaf.slots[*slot].value.publish(root.expose() as u64),
                }
            }
        }
    }
}

impl Masstree {
    /// An empty tree: one empty leaf.
    #[must_use]
    pub fn new(memory: &mut dyn NodeMemory) -> Self {
        let leaf = Ptr::<Leaf>::create(true, 0, 0, memory);
        Self { root: AtomicPtr::new(leaf.node().as_ptr()) }
    }

    /// The root of layer 0.
    #[inline(always)]
    pub(crate) fn root<'p>(&'p self, _pinned: Pinned<'p>) -> NodePtr<'p> {
        // Acquire: pairs with the Release store of `RootWord::publish`, or with the hand-over of the tree itself.
        let root = self.root.load(Ordering::Acquire);
        // SAFETY: the word names a node at all times, which was linked when we loaded the word under the pin.
        unsafe { Ptr::new(std::ptr::NonNull::new_unchecked(root)) }
    }

    /// Locks the word that names `root`, the root of a layer below `parent` (`None`: of layer 0). The caller holds the
    /// root's lock. `None` if the parent leaf is locked, or does not hold the layer (any more).
    pub(crate) fn lock_root_word<'p>(
        &'p self,
        parent: Option<Ptr<'p, Leaf>>,
        root: NodePtr<'p>,
    ) -> Option<RootWord<'p>> {
        let Some(leaf) = parent else { return Some(RootWord::Tree(&self.root)) };
        let held = leaf.get().version.try_lock_now()?;
        // SAFETY: the leaf is locked by us.
        let leads_there =
            |&slot: &usize| unsafe { layer_below(leaf, slot) }.is_some_and(|(to, _)| to == root);
        let slot = leaf.permutation().slots().find(leads_there)?;
        Some(RootWord::Slot { leaf, slot, held })
    }

    /// The value of a key.
    ///
    /// The value was the key's at some moment during the call; a [`Lookup::Missing`] holds until its witness fails.
    #[inline]
    #[must_use]
    pub fn get(&self, key: &[u8], pinned: Pinned<'_>) -> Lookup {
        let LeafPlace { leaf, seen, found } = self.find(key, pinned);
        match found {
            InLeaf::Match { value, .. } => Lookup::Found(value),
            _ => Lookup::Missing(Witness::from_leaf(leaf, seen)),
        }
    }

    /// A key's place in the deepest layer on its way.
    #[inline(always)]
    pub(crate) fn find<'p>(&'p self, key: &[u8], pinned: Pinned<'p>) -> LeafPlace<'p> {
        'tree: loop {
            let mut rest = key;
            let mut root = self.root(pinned);
            loop {
                let Ok(place) = find(root, rest, pinned) else { continue 'tree };
                let InLeaf::Layer(deeper) = place.found else {
                    let InLeaf::Skip { skip, .. } = place.found else { return place };
                    let Some(deeper) = follow(skip, rest) else { return place };
                    (root, rest) = deeper;
                    continue;
                };
                deeper.prefetch();
                root = deeper;
                rest = &rest[SLICE_BYTES..];
            }
        }
    }

    /// Exchanges a key's value for `new` if the value is `expected`. True after an exchange. No witness fails: the key
    /// was and is there.
    #[must_use]
    pub fn replace(&self, key: &[u8], expected: u64, new: u64, pinned: Pinned<'_>) -> bool {
        let mut backoff = Backoff::new();
        loop {
            let LeafPlace { leaf, seen, found } = self.find(key, pinned);
            let InLeaf::Match { slot, .. } = found else { return false };
            if let Some(held) = leaf.get().version.try_lock(seen) {
                // Read again: another `replace` may have come in between without moving the version.
                let same = leaf.slots[slot].value.read() == expected;
                if same {
                    leaf.slots[slot].value.publish(new);
                }
                drop(held);
                return same;
            }
            backoff.wait();
        }
    }

    /// Retires the nodes, suffix blocks and skip blocks of every layer. The objects behind the values are the caller's.
    ///
    /// # Safety
    /// No other thread uses the tree, now or afterwards (dropping the tree is fine). `memory` takes back the
    /// allocations of the memories passed to this tree's operations.
    pub unsafe fn dismantle(&self, memory: &mut dyn NodeMemory) {
        // SAFETY: only this function frees nodes during the walk, and lets go of a node before retiring the node.
        let pinned = unsafe { Pinned::assume() };
        let mut pending = vec![self.root(pinned)];
        while let Some(node) = pending.pop() {
            let version = node.stable();
            if version.is_leaf() {
                // SAFETY: the version says LEAF.
                let leaf = unsafe { node.leaf() };
                // SAFETY: the tree is at rest.
                let below = |slot| unsafe { layer_below(leaf, slot) };
                for (root, skip) in leaf.permutation().slots().filter_map(below) {
                    pending.push(root);
                    if let Some(skip) = skip {
                        // SAFETY: no thread comes back to this leaf, and the root was read before.
                        unsafe { skip.retire(memory) };
                    }
                }
                // SAFETY: no thread comes back to this leaf: its parent is gone already.
                unsafe { leaf.retire_with_suffixes(memory) };
            } else {
                // SAFETY: the version does not say LEAF.
                let internal = unsafe { node.internal() };
                for child in &internal.children[..=version.keys()] {
                    // SAFETY: CHILD: the children in use are nodes.
                    pending.extend(unsafe { Ptr::new_or_null(child.read()) });
                }
                // SAFETY: as for the leaf.
                unsafe { internal.retire(memory) };
            }
        }
    }

    /// Asserts the length of a key: a longer key is a bug of the caller.
    #[inline]
    pub(crate) fn assert_key(key: &[u8]) {
        assert!(
            key.len() <= limits::INDEX_KEY_BYTES_MAX,
            "an index key is at most INDEX_KEY_BYTES_MAX bytes"
        );
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;

#[cfg(all(test, shuttle))]
mod shuttled;
