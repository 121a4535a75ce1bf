//! Inserting a key that is not there yet (Masstree §4.6.2; the engine's placeholders, Silo §4.5).
//!
//! The leaf is locked at the very version at which the key was found to be missing, so nothing needs to be searched
//! again under the lock.
//!
//! Neighbours: up, the engine's tables, `batch` and `ordered`; down, `descend`, `split`.

use ensile_base::sync::Backoff;
use ensile_epoch::Pinned;

use crate::descend::{Found, Spot, find};
use crate::key::{LONG, Part, SLICE_BYTES};
use crate::memory::NodeMemory;
use crate::node::{LAYER, LEAF_SLOTS, Leaf, NodePtr, Ptr};
use crate::permutation::Permutation;
use crate::tree::Masstree;
use crate::version::{Held, Version};
use crate::witness::NodeChanges;

/// The outcome of an insert.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Insert {
    /// The key was missing and is there now.
    Inserted,
    /// The key was there, with this value; nothing changed.
    Exists(u64),
}

/// A layer on the way of an operation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layer<'k, 'p> {
    pub(crate) root: NodePtr<'p>,
    /// The leaf of the layer above in which the layer's slot was seen; `None` for layer 0.
    pub(crate) parent: Option<Ptr<'p, Leaf>>,
    /// What of the key is left at this layer.
    pub(crate) rest: &'k [u8],
}

/// An entry to be put into a leaf.
#[derive(Clone, Copy)]
pub(crate) struct Entry<'k> {
    pub(crate) part: Part,
    pub(crate) value: u64,
    /// The key behind the slice, for a LONG part.
    pub(crate) suffix: &'k [u8],
}

impl<'k> Entry<'k> {
    pub(crate) fn of(rest: &'k [u8], value: u64) -> Self {
        Self { part: Part::of(rest), value, suffix: rest.get(SLICE_BYTES..).unwrap_or_default() }
    }
}

impl Masstree {
    /// Inserts a key unless it is there. Every leaf whose witness this changes is reported in `changes`.
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

    /// One try from the root; `None`, with nothing changed, if another writer was in the way.
    #[inline]
    fn try_insert(
        &self,
        key: &[u8],
        value: u64,
        memory: &mut dyn NodeMemory,
        changes: &mut NodeChanges,
        pinned: Pinned<'_>,
    ) -> Option<Insert> {
        let (layer, spot) = self.deepest(key, pinned)?;
        self.insert_at(&layer, &spot, value, memory, changes, pinned).map(Outcome::insert)
    }

    /// A key's place, never `Found::Layer`, with the layer that it is in.
    #[inline(always)]
    pub(crate) fn deepest<'k, 'p>(
        &'p self,
        key: &'k [u8],
        pinned: Pinned<'p>,
    ) -> Option<(Layer<'k, 'p>, Spot<'p>)> {
        let mut layer = Layer { root: self.root(pinned), parent: None, rest: key };
        loop {
            let spot = find(layer.root, layer.rest, pinned).ok()?;
            let Found::Layer(root) = spot.found else { return Some((layer, spot)) };
            layer = Layer { root, parent: Some(spot.leaf), rest: &layer.rest[SLICE_BYTES..] };
        }
    }

    /// Inserts a key at the place that a search has found, if it still is as it was then. `None`, with nothing changed,
    /// otherwise.
    #[inline(always)]
    pub(crate) fn insert_at<'p>(
        &'p self,
        layer: &Layer<'_, 'p>,
        spot: &Spot<'p>,
        value: u64,
        memory: &mut dyn NodeMemory,
        changes: &mut NodeChanges,
        pinned: Pinned<'p>,
    ) -> Option<Outcome> {
        let leaf = spot.leaf;
        match spot.found {
            Found::Match { value, .. } => Some(Outcome::Exists(value)),
            Found::Layer(_) => None,
            Found::Clash { slot } => {
                let held = leaf.get().version.try_lock(spot.seen)?;
                grow_layer(leaf, held, slot, layer.rest, value, memory, changes);
                Some(Outcome::Rebuilt)
            }
            Found::Absent => {
                let held = leaf.get().version.try_lock(spot.seen)?;
                let entry = Entry::of(layer.rest, value);
                if leaf.permutation().count() == LEAF_SLOTS {
                    self.split_and_put(layer, leaf, held, entry, memory, changes, pinned)?;
                    return Some(Outcome::Rebuilt);
                }
                let position = leaf.position(leaf.permutation(), entry.part);
                Some(Outcome::Put(put(leaf, held, position, entry, memory, changes)))
            }
        }
    }
}

/// What an insert came to.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Outcome {
    /// The key was there, with this value.
    Exists(u64),
    /// It is in the leaf, which has this version now.
    Put(Version),
    /// It is there, and where the leaf was there are other leaves or a deeper layer.
    Rebuilt,
}

impl Outcome {
    pub(crate) fn insert(self) -> Insert {
        match self {
            Self::Exists(value) => Insert::Exists(value),
            Self::Put(_) | Self::Rebuilt => Insert::Inserted,
        }
    }
}

/// Puts an entry at its position into a locked leaf that has room; the version that the leaf has then.
pub(crate) fn put(
    leaf: Ptr<'_, Leaf>,
    mut held: Held<'_>,
    position: usize,
    entry: Entry<'_>,
    memory: &mut dyn NodeMemory,
    changes: &mut NodeChanges,
) -> Version {
    leaf.note_run(position);
    if entry.part.is_long() {
        leaf.reserve_suffix(entry.suffix.len(), memory);
    }
    held.begin_change();
    put_at(leaf, position, entry);
    changes.changed(leaf, held.seen(), held.after());
    held.after()
}

/// Puts an entry at a position of a leaf that has a free slot and room for the suffix, within a change.
pub(crate) fn put_at(leaf: Ptr<'_, Leaf>, position: usize, entry: Entry<'_>) {
    let permutation = leaf.permutation();
    let slot = permutation.free_slot();
    if let Some(bag) = leaf.bag().filter(|_| entry.part.is_long()) {
        bag.append(slot, entry.suffix);
    }
    leaf.write_slot(slot, entry.part.slice, entry.part.rank, entry.value);
    leaf.permutation.write(permutation.insert(position).bits());
}

/// Turns the slot of a key into a layer that holds it and the new key: a chain of layers of one slot each while both
/// go on alike, then a leaf with both. `rest` is the new key from this layer on.
fn grow_layer(
    leaf: Ptr<'_, Leaf>,
    mut held: Held<'_>,
    slot: usize,
    rest: &[u8],
    value: u64,
    memory: &mut dyn NodeMemory,
    changes: &mut NodeChanges,
) {
    let bag = leaf.bag().expect("a slot of kind SUFFIX has a bag");
    let mut old = Entry::of(bag.suffix(slot), leaf.slots[slot].value.read());
    let mut new = Entry::of(&rest[SLICE_BYTES..], value);
    let first = Ptr::<Leaf>::create(true, 0, 0, memory);
    let mut last = first;
    changes.created(first, leaf, Version::leaf(true));
    while old.part == new.part {
        debug_assert!(old.part.rank == LONG, "two keys that end alike are one key");
        let deeper = Ptr::<Leaf>::create(true, 0, 0, memory);
        last.write_slot(0, old.part.slice, LAYER, deeper.expose() as u64);
        last.permutation.write(Permutation::identity(1).bits());
        last = deeper;
        changes.created(deeper, leaf, Version::leaf(true));
        old = Entry::of(old.suffix, old.value);
        new = Entry::of(new.suffix, new.value);
    }
    let suffix_bytes = old.suffix.len() + new.suffix.len();
    if suffix_bytes > 0 {
        last.reserve_suffix(suffix_bytes, memory);
    }
    put_at(last, 0, old);
    put_at(last, usize::from(old.part < new.part), new);

    held.begin_change();
    leaf.slots[slot].value.write(first.expose() as u64);
    leaf.set_kind(slot, LAYER);
    changes.changed(leaf, held.seen(), held.after());
}
