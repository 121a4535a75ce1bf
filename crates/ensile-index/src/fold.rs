//! Folding of a layer with a single link: the slot above leads directly to the layer below, and the layer is retired.
//!
//! ```text
//! slot SKIP [b] -> leaf {c -> SKIP [d] -> L}  ->  slot SKIP [bcd] -> L
//! ```
//! (a letter is a slice; a LAYER slot is a skip of no slices). A fold reverses the parting of a skip.
//!
//! **FOLD**: of two adjacent layers below the first layer, at least one has two entries or more after the last removal.
//! Both leaves are locked, at the versions of the reads, before the slot above changes. The layer's leaf is CHANGING
//! before the slot above leads past the layer. Then the leaf loses the entry and is marked DELETED. Memory is obtained
//! before the locks (E1). Only the root below is read under the locks: the root changes without a version.
//!
//! Neighbours: up, `prune`; down, `skip_block`, `node`.

use crate::descent::SeenLeaf;
use crate::key::{KeyPart, SLICE_BYTES};
use crate::memory::NodeMemory;
use crate::new_layer::SlotPlace;
use crate::node::{Leaf, Ptr, SKIP};
use crate::remove::clear_slot;
use crate::skip_block::{SkipRef, layer_below, layer_of};

/// A layer of one leaf with one entry, and the slot above that leads to the layer, as of the two leaves' versions.
struct FoldPlace<'p> {
    above: SlotPlace<'p>,
    /// The skip that the slot above names.
    skip: Option<SkipRef<'p>>,
    layer: SlotPlace<'p>,
}

/// The skip past a layer.
struct JoinedSkip<'p> {
    /// The skip from the slot above to the layer below.
    joined: SkipRef<'p>,
    /// The skip that the layer's only slot names.
    below: Option<SkipRef<'p>>,
}

impl<'p> FoldPlace<'p> {
    /// The place of a layer whose only leaf is `only`, below the entry of `part` in the leaf above. `None` if either
    /// leaf has changed.
    fn try_new(only: SeenLeaf<'p>, above: Ptr<'p, Leaf>, part: KeyPart) -> Option<Self> {
        let SeenLeaf { leaf, seen } = only;
        let seen_above = above.get().version.stable();
        let slot_above = above.permutation().slots().find(|&slot| above.part(slot) == part)?;
        let (kind, value) = (above.kind(slot_above), above.slots[slot_above].value.read());
        if seen_above.is_deleted() || !above.get().version.is_unchanged(seen_above) {
            return None;
        }
        // SAFETY: validated just now.
        let (root, skip) = unsafe { layer_of(kind, value) }?;
        let slot = leaf.permutation().slots().next()?;
        (root == leaf.node() && leaf.get().version.is_unchanged(seen)).then_some(Self {
            above: SlotPlace { leaf: above, seen: seen_above, slot: slot_above },
            skip,
            layer: SlotPlace { leaf, seen, slot },
        })
    }

    /// The new skip of the slot above. `None`, without obtained memory, if the layer's leaf has changed.
    fn join_skips(&self, memory: &mut dyn NodeMemory) -> Option<JoinedSkip<'p>> {
        let SlotPlace { leaf, seen, slot } = self.layer;
        let (part, kind, value) = (leaf.part(slot), leaf.kind(slot), leaf.slots[slot].value.read());
        if !leaf.get().version.is_unchanged(seen) {
            return None;
        }
        // SAFETY: validated just now.
        let (root, below) = unsafe { layer_of(kind, value) }?;
        let [shared, behind] = [self.skip, below].map(|skip| skip.map_or(&[][..], SkipRef::bytes));
        let mut bytes = Vec::with_capacity(shared.len() + SLICE_BYTES + behind.len());
        bytes.extend_from_slice(shared);
        part.append_to(&mut bytes);
        bytes.extend_from_slice(behind);
        Some(JoinedSkip { joined: SkipRef::create(&bytes, root, memory), below })
    }

    /// Points the slot above past the layer, and takes the layer out of the tree. Returns the number of entries of the
    /// leaf above. `None`, without a change, if either leaf has changed or is locked.
    fn fold(&self, joined: SkipRef<'p>) -> Option<usize> {
        let (above, layer) = (self.above, self.layer);
        let mut held = layer.leaf.get().version.try_lock(layer.seen)?;
        let mut held_above = above.leaf.get().version.try_lock(above.seen)?;
        // SAFETY: this thread holds the lock of the leaf above.
        let leads_to = unsafe { layer_below(above.leaf, above.slot) }.map(|(root, _)| root);
        debug_assert!(leads_to == Some(layer.leaf.node()), "the slot of a layer names its root (EAGER ROOT)");
        held.begin_change();
        held_above.begin_change();
        // SAFETY: this thread holds the lock of the layer's leaf.
        let (root, _) =
            unsafe { layer_below(layer.leaf, layer.slot) }.expect("the version at which it was a link");
        joined.publish_root(root);
        above.leaf.slots[above.slot].value.write(joined.expose());
        above.leaf.set_kind(above.slot, SKIP);
        clear_slot(layer.leaf, layer.slot);
        held.set_deleted();
        Some(above.leaf.permutation().count())
    }
}

/// Folds a layer into the entry of `part` in the leaf above. When seen, `only` was the layer's only leaf, with only one
/// entry, a link. Returns the number of entries of the leaf above. `None`, without a change, if a concurrent
/// writer interfered.
pub(crate) fn fold_layer<'p>(
    only: SeenLeaf<'p>,
    above: Ptr<'p, Leaf>,
    part: KeyPart,
    memory: &mut dyn NodeMemory,
) -> Option<usize> {
    let place = FoldPlace::try_new(only, above, part)?;
    let JoinedSkip { joined, below } = place.join_skips(memory)?;
    let Some(entries) = place.fold(joined) else {
        // SAFETY: no other thread has seen the block.
        unsafe { joined.discard(memory) };
        return None;
    };
    // SAFETY: by this thread's change, the slot above names neither the layer's leaf nor the two skips. By the same
    // change, the layer's only node is marked DELETED and names nothing.
    unsafe {
        only.leaf.retire_with_suffixes(memory);
        [place.skip, below].into_iter().flatten().for_each(|skip| skip.retire(memory));
    }
    Some(entries)
}
