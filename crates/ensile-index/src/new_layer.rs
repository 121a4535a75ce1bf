//! A layer that comes into being: two keys go on after the same slice, or a key parts from the bytes of a skip.
//!
//! ```text
//! two keys share `abc`:         slot SUFFIX           ->  slot SKIP [abc] -> leaf {d.., e..}
//! a key parts behind `a`:       slot SKIP [abc] -> L  ->  slot SKIP [a] -> leaf {b -> SKIP [c] -> L, x..}
//! ```
//! (each letter a slice; a skip of no slices is a LAYER slot). The new nodes are made before the leaf is locked (E1),
//! and are linked by an exchange of one slot, within a change of its leaf (C4). Under the lock only values that change
//! without a version are read: the value of the key, or the root behind the skip.
//!
//! Neighbours: up, `insert`; down, `skip_block`, `node`.

use crate::entry::{NewEntry, put_at};
use crate::key::{KeyPart, LONG, SLICE_BYTES};
use crate::memory::NodeMemory;
use crate::node::{LAYER, Leaf, Ptr, SKIP};
use crate::permutation::Permutation;
use crate::skip_block::SkipRef;
use crate::suffix_block::{SuffixBlockRef, capacity_for};
use crate::version::Version;
use crate::witness::NodeChanges;

/// The slot of a future layer, in its leaf as of a version.
#[derive(Clone, Copy)]
pub(crate) struct SlotPlace<'p> {
    pub(crate) leaf: Ptr<'p, Leaf>,
    pub(crate) seen: Version,
    pub(crate) slot: usize,
}

/// A key to be inserted below the slot.
#[derive(Clone, Copy)]
pub(crate) struct NewKey<'k> {
    /// Key bytes behind the slot's slice.
    pub(crate) behind: &'k [u8],
    pub(crate) value: u64,
}

/// A layer of one leaf unseen by other threads, with the skip to the layer, if there is a skip.
#[derive(Clone, Copy)]
struct FreshLayer<'p> {
    leaf: Ptr<'p, Leaf>,
    skip: Option<SkipRef<'p>>,
}

/// Number of bytes, in whole slices, that a key shares with `shared`. At least one byte of the key remains for the
/// deeper layer.
fn common_bytes(shared: &[u8], key: &[u8]) -> usize {
    let slices = shared.chunks_exact(SLICE_BYTES).zip(key.chunks_exact(SLICE_BYTES));
    let equal = slices.take_while(|(a, b)| a == b).count();
    equal.min((key.len() - 1) / SLICE_BYTES) * SLICE_BYTES
}

impl<'p> FreshLayer<'p> {
    /// The layer of `leaf`, below a skip over `shared` unless `shared` is empty.
    fn new(shared: &[u8], leaf: Ptr<'p, Leaf>, memory: &mut dyn NodeMemory) -> Self {
        let skip = (!shared.is_empty()).then(|| SkipRef::create(shared, leaf.node(), memory));
        Self { leaf, skip }
    }

    /// Puts the layer in place of a slot's contents, if the leaf is unchanged. `finish` is called under the lock,
    /// before the change. `None`, with nothing changed, otherwise.
    fn link(
        self,
        SlotPlace { leaf, seen, slot }: SlotPlace<'p>,
        changes: &mut NodeChanges,
        finish: impl FnOnce(),
    ) -> Option<()> {
        let mut held = leaf.get().version.try_lock(seen)?;
        finish();
        held.begin_change();
        let (kind, value) = match self.skip {
            Some(skip) => (SKIP, skip.expose()),
            None => (LAYER, self.leaf.expose() as u64),
        };
        leaf.slots[slot].value.write(value);
        leaf.set_kind(slot, kind);
        let after = held.version_after();
        drop(held);
        changes.record_creation(self.leaf, leaf, Version::leaf(true));
        changes.record_change(leaf, seen, after);
        Some(())
    }

    /// Gives back a layer that was not linked.
    fn discard(self, memory: &mut dyn NodeMemory) {
        // SAFETY: no other thread has seen the leaf, its suffix block and the skip.
        unsafe {
            self.leaf.discard_with_suffixes(memory);
            if let Some(skip) = self.skip {
                skip.discard(memory);
            }
        }
    }
}

/// Turns the slot of a key into a layer with the old key and the new key. `None`, with nothing changed, if the leaf has
/// changed since.
pub(crate) fn grow_layer(
    place: SlotPlace<'_>,
    key: NewKey<'_>,
    memory: &mut dyn NodeMemory,
    changes: &mut NodeChanges,
) -> Option<()> {
    let SlotPlace { leaf, seen, slot } = place;
    let suffix = leaf.suffixes()?.suffix(slot);
    if !leaf.get().version.is_unchanged(seen) {
        return None;
    }
    let shared = common_bytes(suffix, key.behind).min((suffix.len() - 1) / SLICE_BYTES * SLICE_BYTES);
    let (old, new) = (NewEntry::new(&suffix[shared..], 0), NewEntry::new(&key.behind[shared..], key.value));
    debug_assert!(old.part != new.part, "two keys that end alike are one key");
    let fresh = Ptr::<Leaf>::create(true, 0, 0, memory);
    let suffixes = [old.suffix.len(), new.suffix.len()];
    let bytes = suffixes.iter().sum();
    if bytes > 0 {
        let entries = suffixes.iter().filter(|&&length| length > 0).count();
        fresh.suffixes.write(SuffixBlockRef::create(capacity_for(bytes, entries), memory).as_ptr());
    }
    put_at(fresh, 0, old);
    put_at(fresh, usize::from(old.part < new.part), new);
    let layer = FreshLayer::new(&suffix[..shared], fresh, memory);
    // The value is read under the lock: a `replace` moves no version. The old entry was put first, into the first slot.
    let linked = layer.link(place, changes, || fresh.slots[0].value.write(leaf.slots[slot].value.read()));
    if linked.is_none() {
        layer.discard(memory);
    }
    linked
}

/// Puts a layer at the byte where a new key parts from a skip. The layer holds the new key, and the way to the skip's
/// old layer. `None`, with nothing changed, if the leaf has changed since.
pub(crate) fn part_skip<'p>(
    place: SlotPlace<'p>,
    skip: SkipRef<'p>,
    key: NewKey<'_>,
    memory: &mut dyn NodeMemory,
    changes: &mut NodeChanges,
) -> Option<()> {
    let (above, below) = skip.bytes().split_at(common_bytes(skip.bytes(), key.behind));
    let (slice, below) = below.split_at(SLICE_BYTES);
    let (old, new) = (KeyPart::from_rest(slice), NewEntry::new(&key.behind[above.len()..], key.value));
    let old = KeyPart { rank: LONG, ..old };
    debug_assert!(old != new.part, "a key that has all bytes of a skip and more goes on below it (SKIP)");
    let fresh = Ptr::<Leaf>::create(true, 0, 0, memory);
    // The root is read under the lock: a new root moves no version of this leaf.
    let rest = (!below.is_empty()).then(|| SkipRef::create(below, fresh.node(), memory));
    fresh.write_slot(
        0,
        old.slice,
        if rest.is_some() { SKIP } else { LAYER },
        rest.map_or(0, SkipRef::expose),
    );
    fresh.permutation.write(Permutation::identity(1).bits());
    if new.part.is_long() {
        fresh.suffixes.write(SuffixBlockRef::create(capacity_for(new.suffix.len(), 1), memory).as_ptr());
    }
    put_at(fresh, usize::from(old < new.part), new);
    let layer = FreshLayer::new(above, fresh, memory);
    let linked = layer.link(place, changes, || match rest {
        Some(rest) => rest.publish_root(skip.root()),
        None => fresh.slots[0].value.write(skip.root().expose() as u64),
    });
    if linked.is_some() {
        // SAFETY: the slot names another block or the layer by now, by this thread's exchange.
        unsafe { skip.retire(memory) };
        return linked;
    }
    layer.discard(memory);
    if let Some(rest) = rest {
        // SAFETY: only a slot of the unlinked layer named the rest.
        unsafe { rest.discard(memory) };
    }
    None
}
