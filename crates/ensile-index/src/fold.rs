//! Folding a layer that serves one entry again: the entry moves into the slot above, and the layer goes.
//!
//! ```text
//! one key is left:     slot SKIP [bc] -> leaf {d..}               ->  slot SUFFIX [bcd..]
//! one layer is left:   slot SKIP [b] -> leaf {c -> SKIP [d] -> L}  ->  slot SKIP [bcd] -> L
//! ```
//! (each letter a slice; a LAYER slot is a skip of no slices). It is the way of `new_layer` back.
//!
//! **FOLD**: each layer but the first has two entries or more, once all removals are done. For that both leaves are
//! locked, at the versions at which they were read, before the slot above changes. The layer's leaf is `changing`
//! before the slot above shows the entry, loses the entry, and is marked DELETED. All memory is obtained before the
//! locks (E1). Only what changes without a version is read under them: the value of the key, or the root below.
//!
//! Neighbours: up, `prune`; down, `skip_block`, `suffix_block`, `node`.

use crate::key::{KeyPart, SLICE_BYTES};
use crate::memory::NodeMemory;
use crate::new_layer::SlotPlace;
use crate::node::{Leaf, Ptr, SKIP, SUFFIX};
use crate::remove::clear_slot;
use crate::skip_block::{SkipRef, layer_below, layer_of};
use crate::suffix_block::SuffixBlockRef;
use crate::version::Version;

/// A layer of one leaf with one entry, and the slot that leads to it, each as of a version.
struct FoldPlace<'p> {
    above: SlotPlace<'p>,
    /// The skip that the slot above names.
    skip: Option<SkipRef<'p>>,
    layer: SlotPlace<'p>,
}

/// What the slot above is to hold.
enum FoldedEntry<'p> {
    /// A key.
    Key {
        /// What follows the slice of the slot above.
        suffix: Vec<u8>,
        /// Whether the slot's suffix is that one already, from before the layer came.
        is_there: bool,
        /// A copy of the suffix block above that has room for it, if the block itself has none.
        larger: Option<SuffixBlockRef<'p>>,
    },
    /// The way to the layer below.
    Link {
        /// From the slot above.
        joined: SkipRef<'p>,
        /// The skip that the layer's only slot names.
        below: Option<SkipRef<'p>>,
    },
}

impl<'p> FoldPlace<'p> {
    /// The place of a layer of which `leaf` was the only leaf at `seen`, below the entry of `part` in the leaf above.
    /// `None` if either leaf has changed.
    fn of(leaf: Ptr<'p, Leaf>, seen: Version, above: Ptr<'p, Leaf>, part: KeyPart) -> Option<Self> {
        let seen_above = above.get().version.stable();
        let slot_above = above.permutation().slots().find(|&slot| above.part(slot) == part)?;
        let (kind, value) = (above.kind(slot_above), above.slots[slot_above].value.read());
        if seen_above.is_deleted() || !above.get().version.unchanged(seen_above) {
            return None;
        }
        // SAFETY: validated just now.
        let (root, skip) = unsafe { layer_of(kind, value) }?;
        let slot = leaf.permutation().slots().next()?;
        (root == leaf.node() && leaf.get().version.unchanged(seen)).then_some(Self {
            above: SlotPlace { leaf: above, seen: seen_above, slot: slot_above },
            skip,
            layer: SlotPlace { leaf, seen, slot },
        })
    }

    /// The entry as the slot above is to hold it, with the memory that this takes. `None`, with nothing obtained, if
    /// either leaf has changed.
    fn entry(&self, memory: &mut dyn NodeMemory) -> Option<FoldedEntry<'p>> {
        let SlotPlace { leaf, seen, slot } = self.layer;
        let (part, kind, value) = (leaf.part(slot), leaf.kind(slot), leaf.slots[slot].value.read());
        let own =
            leaf.suffixes().filter(|_| kind == SUFFIX).map_or(&[][..], |suffixes| suffixes.suffix(slot));
        if !leaf.get().version.unchanged(seen) {
            return None;
        }
        // SAFETY: validated just now.
        let link = unsafe { layer_of(kind, value) };
        let shared = self.skip.map_or(&[][..], SkipRef::bytes);
        let behind = link.map_or(own, |(_, below)| below.map_or(&[][..], SkipRef::bytes));
        let mut suffix = Vec::with_capacity(shared.len() + SLICE_BYTES + behind.len());
        suffix.extend_from_slice(shared);
        part.append_to(&mut suffix);
        suffix.extend_from_slice(behind);
        if let Some((root, below)) = link {
            return Some(FoldedEntry::Link { joined: SkipRef::create(&suffix, root, memory), below });
        }
        let SlotPlace { leaf: above, seen, slot } = self.above;
        let is_there = above.suffixes().is_some_and(|suffixes| suffixes.suffix(slot) == suffix);
        let larger = match is_there || above.has_room_for(&suffix) {
            true => None,
            false => Some(above.larger_suffixes(seen, suffix.len(), memory)?),
        };
        Some(FoldedEntry::Key { suffix, is_there, larger })
    }

    /// Moves the entry, and takes the layer out of the tree. The entries of the leaf above, and its old suffix block if
    /// another has taken its place; `None`, with nothing changed, if either leaf has changed.
    fn fold(&self, entry: &FoldedEntry<'p>) -> Option<(usize, Option<SuffixBlockRef<'p>>)> {
        let (above, layer) = (self.above, self.layer);
        let mut held = layer.leaf.get().version.try_lock(layer.seen)?;
        let mut held_above = above.leaf.get().version.try_lock(above.seen)?;
        // SAFETY: the leaf above is locked by us.
        let leads_to = unsafe { layer_below(above.leaf, above.slot) }.map(|(root, _)| root);
        debug_assert!(leads_to == Some(layer.leaf.node()), "the slot of a layer names its root (EAGER ROOT)");
        held.begin_change();
        held_above.begin_change();
        let mut replaced = None;
        let (kind, value) = match entry {
            FoldedEntry::Key { suffix, is_there, larger } => {
                replaced = larger.and_then(|larger| above.leaf.exchange_suffixes(larger));
                if !is_there {
                    let suffixes = above.leaf.suffixes().expect("room was found, or made");
                    suffixes.append(above.slot, suffix);
                }
                (SUFFIX, layer.leaf.slots[layer.slot].value.read())
            }
            FoldedEntry::Link { joined, .. } => {
                // SAFETY: the layer's leaf is locked by us.
                let below = unsafe { layer_below(layer.leaf, layer.slot) };
                joined.publish_root(below.expect("the version at which it was a link").0);
                (SKIP, joined.expose())
            }
        };
        above.leaf.slots[above.slot].value.write(value);
        above.leaf.set_kind(above.slot, kind);
        clear_slot(layer.leaf, layer.slot);
        held.set_deleted();
        Some((above.leaf.permutation().count(), replaced))
    }
}

impl FoldedEntry<'_> {
    /// Gives the memory back: nothing was linked.
    fn discard(self, memory: &mut dyn NodeMemory) {
        // SAFETY: nobody else has seen the blocks.
        unsafe {
            match self {
                Self::Key { larger: Some(larger), .. } => larger.discard(memory),
                Self::Key { larger: None, .. } => {}
                Self::Link { joined, .. } => joined.discard(memory),
            }
        }
    }
}

/// Folds a layer of which `leaf` was the only leaf at `seen`, with one entry, into the entry of `part` in the leaf
/// above. The entries of the leaf above; `None`, with nothing changed, if another writer was in the way.
pub(crate) fn fold_layer<'p>(
    (leaf, seen): (Ptr<'p, Leaf>, Version),
    (above, part): (Ptr<'p, Leaf>, KeyPart),
    memory: &mut dyn NodeMemory,
) -> Option<usize> {
    let place = FoldPlace::of(leaf, seen, above, part)?;
    let entry = place.entry(memory)?;
    let Some((entries, replaced)) = place.fold(&entry) else {
        entry.discard(memory);
        return None;
    };
    let below = if let FoldedEntry::Link { below, .. } = entry { below } else { None };
    // SAFETY: the slot above names none of them any more, by this thread's change. The layer's only node is marked
    // DELETED and names nothing, by the same change.
    unsafe {
        leaf.retire_with_suffixes(memory);
        [place.skip, below].into_iter().flatten().for_each(|skip| skip.retire(memory));
        if let Some(suffixes) = replaced {
            suffixes.retire(memory);
        }
    }
    Some(entries)
}
