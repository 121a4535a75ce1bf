//! Inserting a missing key (Masstree §4.6.2; the engine's placeholders, Silo §4.5).
//!
//! The leaf is locked at the very version of the failed search, so nothing needs to be searched again under the lock.
//!
//! Neighbours: up, the engine's tables, `batch` and `bulk_insert`; down, `descent`, `split`, `new_layer`.

use ensile_base::sync::Backoff;
use ensile_epoch::Pinned;

use crate::descent::{InLeaf, LeafPlace, SeenLeaf, find, follow};
use crate::entry::{NewEntry, put_at};
use crate::key::SLICE_BYTES;
use crate::memory::NodeMemory;
use crate::new_layer::{NewKey, SlotPlace, grow_layer, part_skip};
use crate::node::{Leaf, NodePtr, Ptr};
use crate::permutation::LEAF_SLOTS;
use crate::tree::Masstree;
use crate::version::{NodeLock, Version};
use crate::witness::NodeChanges;

/// The outcome of an insert.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Insert {
    /// The key was missing, and is inserted.
    Inserted,
    /// The key existed, with this value; nothing changed.
    Exists(u64),
}

/// A layer on the way of an operation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layer<'k, 'p> {
    pub(crate) root: NodePtr<'p>,
    /// The leaf of the layer above in which the layer's slot was seen; `None` for layer 0.
    pub(crate) parent: Option<Ptr<'p, Leaf>>,
    /// Rest of the key at this layer.
    pub(crate) rest: &'k [u8],
}

impl<'k> Layer<'k, '_> {
    /// The key, as it continues below a slot of this layer, with its value.
    fn new_key(&self, value: u64) -> NewKey<'k> {
        NewKey { behind: &self.rest[SLICE_BYTES..], value }
    }
}

impl Masstree {
    /// Inserts a key unless the key exists. Every leaf whose witness the insert changes is reported in `changes`.
    pub fn insert_if_absent(
        &self,
        key: &[u8],
        value: u64,
        memory: &mut dyn NodeMemory,
        changes: &mut NodeChanges,
        pinned: Pinned<'_>,
    ) -> Insert {
        Self::assert_key(key);
        let mut backoff = Backoff::new();
        loop {
            if let Some(insert) = self.try_insert(key, value, memory, changes, pinned) {
                return insert;
            }
            backoff.wait();
        }
    }

    /// A try from the root; `None`, with nothing changed, if another writer was in the way.
    #[inline]
    fn try_insert(
        &self,
        key: &[u8],
        value: u64,
        memory: &mut dyn NodeMemory,
        changes: &mut NodeChanges,
        pinned: Pinned<'_>,
    ) -> Option<Insert> {
        let (layer, place) = self.deepest(key, pinned)?;
        self.insert_at(&layer, &place, value, memory, changes, pinned).map(InsertOutcome::insert)
    }

    /// A key's place in the deepest layer on its way, with the layer.
    #[inline(always)]
    pub(crate) fn deepest<'k, 'p>(
        &'p self,
        key: &'k [u8],
        pinned: Pinned<'p>,
    ) -> Option<(Layer<'k, 'p>, LeafPlace<'p>)> {
        let mut layer = Layer { root: self.root(pinned), parent: None, rest: key };
        loop {
            let place = find(layer.root, layer.rest, pinned).ok()?;
            let (root, rest) = match place.found {
                InLeaf::Layer(root) => (root, &layer.rest[SLICE_BYTES..]),
                InLeaf::Skip { skip, .. } => match follow(skip, layer.rest) {
                    Some(deeper) => deeper,
                    None => return Some((layer, place)),
                },
                _ => return Some((layer, place)),
            };
            layer = Layer { root, parent: Some(place.leaf), rest };
        }
    }

    /// Inserts a key at the place that a search found, if the place is unchanged. `None`, with nothing changed,
    /// otherwise.
    #[inline(always)]
    pub(crate) fn insert_at<'p>(
        &'p self,
        layer: &Layer<'_, 'p>,
        place: &LeafPlace<'p>,
        value: u64,
        memory: &mut dyn NodeMemory,
        changes: &mut NodeChanges,
        pinned: Pinned<'p>,
    ) -> Option<InsertOutcome> {
        let leaf = place.leaf;
        match place.found {
            InLeaf::Match { value, .. } => Some(InsertOutcome::Exists(value)),
            InLeaf::Layer(_) => None,
            InLeaf::Clash { slot } => {
                let (key, place) = (layer.new_key(value), SlotPlace { leaf, seen: place.seen, slot });
                grow_layer(place, key, memory, changes)?;
                Some(InsertOutcome::Rebuilt)
            }
            InLeaf::Skip { slot, skip } => {
                let (key, place) = (layer.new_key(value), SlotPlace { leaf, seen: place.seen, slot });
                part_skip(place, skip, key, memory, changes)?;
                Some(InsertOutcome::Rebuilt)
            }
            InLeaf::Absent => {
                // The needs of the insert are known from the leaf as seen. The memory is obtained before the leaf is
                // locked at the same version (E1).
                let entry = NewEntry::new(layer.rest, value);
                if leaf.permutation().count() == LEAF_SLOTS {
                    let full = SeenLeaf { leaf, seen: place.seen };
                    self.split_and_put(layer, full, entry, memory, changes, pinned)?;
                    return Some(InsertOutcome::Rebuilt);
                }
                if entry.part.is_long() && !leaf.has_room_for(entry.suffix) {
                    return put_growing(leaf, place.seen, entry, memory, changes).map(InsertOutcome::Put);
                }
                let held = leaf.get().version.try_lock(place.seen)?;
                let position = leaf.position(leaf.permutation(), entry.part);
                Some(InsertOutcome::Put(put(leaf, held, position, entry, changes)))
            }
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum InsertOutcome {
    /// The key existed, with this value.
    Exists(u64),
    /// The key is in the leaf, and the leaf has this version now.
    Put(Version),
    /// The key is inserted, and other leaves or a deeper layer stand in place of the leaf.
    Rebuilt,
}

impl InsertOutcome {
    pub(crate) fn insert(self) -> Insert {
        match self {
            Self::Exists(value) => Insert::Exists(value),
            Self::Put(_) | Self::Rebuilt => Insert::Inserted,
        }
    }
}

/// Puts an entry at its position into a locked leaf with room for entry and suffix. Returns the leaf's new version.
#[inline]
pub(crate) fn put(
    leaf: Ptr<'_, Leaf>,
    mut held: NodeLock<'_>,
    position: usize,
    entry: NewEntry<'_>,
    changes: &mut NodeChanges,
) -> Version {
    leaf.note_run(position);
    held.begin_change();
    put_at(leaf, position, entry);
    let (before, after) = (held.version_before(), held.version_after());
    drop(held);
    changes.record_change(leaf, before, after);
    after
}

/// As [`put`], with a larger suffix block that is made before the leaf is locked. `None`, with nothing changed, if the
/// leaf is not at `seen` any more.
#[cold]
fn put_growing<'p>(
    leaf: Ptr<'p, Leaf>,
    seen: Version,
    entry: NewEntry<'_>,
    memory: &mut dyn NodeMemory,
    changes: &mut NodeChanges,
) -> Option<Version> {
    let grown = leaf.larger_suffixes(seen, entry.suffix.len(), memory)?;
    let Some(held) = leaf.get().version.try_lock(seen) else {
        // SAFETY: the copy was never linked.
        unsafe { grown.discard(memory) };
        return None;
    };
    let old = leaf.exchange_suffixes(grown);
    let position = leaf.position(leaf.permutation(), entry.part);
    let after = put(leaf, held, position, entry, changes);
    if let Some(old) = old {
        // SAFETY: the leaf names the copy, and under the lock this thread alone replaced the old block.
        unsafe { old.retire(memory) };
    }
    Some(after)
}
