//! Splitting a full leaf, and the internal nodes above it that are full as well (Masstree §4.3, §4.6.4).
//!
//! All nodes that will change are locked first, from the leaf up to the first one with room, or past the root to the
//! word that names it; then all of them are changed; then all are let go. Until the last lock is had nothing has
//! been changed, so giving up is always possible.
//!
//! A load in order leaves full nodes behind: where inserts come one right behind the other, the cut is made at the
//! newest. At the right edge of a leaf the new key alone goes to the right, and likewise up the tree; within a leaf
//! (several loads side by side) what is behind the new key goes, so that the load has the edge to itself from then on.
//!
//! Neighbours: up, `insert`; down, `descend::Path`, `node`.

use ensile_epoch::Pinned;

use crate::descend::{LockedPath, Path};
use crate::insert::{Layer, NewEntry, put_at};
use crate::memory::NodeMemory;
use crate::node::{FREE, INTERNAL_KEYS, Internal, Leaf, NodePtr, Ptr, SUFFIX};
use crate::permutation::{LEAF_SLOTS, Permutation};
use crate::suffix_block::{SuffixBlockRef, capacity_for};
use crate::tree::Masstree;
use crate::version::{NodeLock, Version, VersionWord};
use crate::witness::NodeChanges;

/// Inserts, each right behind the one before, that make a load in order: by chance one leaf in many thousands.
const RUN_MIN: u8 = 6;

/// Where a full leaf is cut, the new entry counted in.
struct SplitPoint {
    /// Position of the new entry among the sixteen.
    position: usize,
    /// Entries that stay left.
    left: usize,
    /// First slice of the right leaf.
    separator: u64,
    /// Whether this is a load in order.
    in_order: bool,
}

impl Masstree {
    /// Splits a full, locked leaf and puts the entry into the half where it belongs. `None`, with nothing changed, if
    /// some node is in another writer's hands.
    #[expect(clippy::too_many_arguments, reason = "the parts of one insert, passed on once")]
    pub(crate) fn split_and_put<'p>(
        &'p self,
        layer: &Layer<'_, 'p>,
        leaf: Ptr<'p, Leaf>,
        mut held: NodeLock<'p>,
        entry: NewEntry<'_>,
        memory: &mut dyn NodeMemory,
        changes: &mut NodeChanges,
        pinned: Pinned<'p>,
    ) -> Option<()> {
        let path = Path::to(layer.root, leaf, pinned)?;
        let mut locked = path.lock_up(|seen| seen.keys() < INTERNAL_KEYS)?;
        let root_word = match locked.top {
            Some(_) => None,
            None => Some(self.lock_root_word(layer.parent, layer.root)?),
        };

        let cut = cut(leaf, entry);
        leaf.note_run(cut.position);
        let right = right_half(leaf, &cut, entry, memory);
        if cut.position < cut.left && entry.part.is_long() {
            leaf.reserve_suffix(entry.suffix.len(), memory);
        }
        held.begin_change();
        locked.begin_change();
        shrink_to_left_half(leaf, &cut, entry, right);
        let (separator, over) = link(&path, &mut locked, cut.separator, right.node(), cut.in_order, memory);
        if let Some(word) = root_word {
            let over = over.expect("a root that has no room is split");
            let root = Ptr::<Internal>::create(true, layer.root, memory);
            // Nobody knows the new root yet.
            let mut fresh = root.get().version.try_lock_now().expect("a fresh node is free");
            fresh.begin_change();
            root.insert(0, 0, separator, over.as_ptr());
            fresh.set_keys(1);
            drop(fresh);
            word.publish(root.node());
            locked.locks.first_mut().and_then(Option::as_mut).unwrap_or(&mut held).set_root(false);
        }
        changes.changed(leaf, held.seen(), held.after());
        changes.created(right, leaf, Version::leaf(false));
        Some(())
    }
}

/// Decides where to cut: in the middle, or at the edge for a load in order; never between entries of one slice.
fn cut(leaf: Ptr<'_, Leaf>, entry: NewEntry<'_>) -> SplitPoint {
    let permutation = leaf.permutation();
    let position = leaf.position(permutation, entry.part);
    let slice_at = |index: usize| match index.cmp(&position) {
        std::cmp::Ordering::Less => leaf.slots[permutation.slot(index)].slice.read(),
        std::cmp::Ordering::Equal => entry.part.slice,
        std::cmp::Ordering::Greater => leaf.slots[permutation.slot(index - 1)].slice.read(),
    };
    let in_order = leaf.run_length() >= RUN_MIN;
    let wanted = if in_order { (position + 1).min(LEAF_SLOTS) } else { LEAF_SLOTS.div_ceil(2) };
    let is_boundary = |left: &usize| (1..=LEAF_SLOTS).contains(left) && slice_at(left - 1) != slice_at(*left);
    let left = (0..LEAF_SLOTS)
        .flat_map(|distance| [wanted.saturating_sub(distance), wanted + distance])
        .find(is_boundary)
        .expect("at most ten of the sixteen entries share a slice");
    SplitPoint { position, left, separator: slice_at(left), in_order }
}

/// A new leaf with the entries from the cut on, linked to its neighbours on its own side only.
fn right_half<'p>(
    leaf: Ptr<'p, Leaf>,
    cut: &SplitPoint,
    entry: NewEntry<'_>,
    memory: &mut dyn NodeMemory,
) -> Ptr<'p, Leaf> {
    let right = Ptr::<Leaf>::create(false, cut.separator, leaf.high.read(), memory);
    right.next.write(leaf.next.read());
    right.prev.write(leaf.as_ptr());
    let permutation = leaf.permutation();
    let new_is_right = cut.position >= cut.left;
    let first = if new_is_right { cut.left } else { cut.left - 1 };
    let moved = || (first..LEAF_SLOTS).map(|position| permutation.slot(position));

    let suffix_of = |slot: usize| leaf.suffixes().expect("a slot of kind SUFFIX has a suffixes").suffix(slot);
    let is_suffix = |slot: &usize| leaf.kind(*slot) == SUFFIX;
    let new_suffix = new_is_right && entry.part.is_long();
    let entries = moved().filter(is_suffix).count() + usize::from(new_suffix);
    if entries > 0 {
        let bytes: usize = moved().filter(is_suffix).map(|slot| suffix_of(slot).len()).sum();
        let bytes = bytes + if new_suffix { entry.suffix.len() } else { 0 };
        right.suffixes.write(SuffixBlockRef::create(capacity_for(bytes, entries), memory).as_ptr());
    }
    for (to, from) in moved().enumerate() {
        right.write_slot(to, leaf.slots[from].slice.read(), leaf.kind(from), leaf.slots[from].value.read());
        if let Some(suffixes) = right.suffixes().filter(|_| is_suffix(&from)) {
            suffixes.append(to, suffix_of(from));
        }
    }
    right.permutation.write(Permutation::identity(LEAF_SLOTS - first).bits());
    if new_is_right {
        put_at(right, cut.position - cut.left, entry);
        if cut.in_order {
            right.start_run(RUN_MIN, cut.position - cut.left + 1);
        }
    }
    right
}

/// The left side of a split, within the leaf's change.
fn shrink_to_left_half<'p>(leaf: Ptr<'p, Leaf>, cut: &SplitPoint, entry: NewEntry<'_>, right: Ptr<'p, Leaf>) {
    let permutation = leaf.permutation();
    let new_is_left = cut.position < cut.left;
    let kept = if new_is_left { cut.left - 1 } else { cut.left };
    for position in kept..LEAF_SLOTS {
        leaf.set_kind(permutation.slot(position), FREE);
    }
    leaf.permutation.write(permutation.truncate(kept).bits());
    if new_is_left {
        put_at(leaf, cut.position, entry);
    }
    // SAFETY: the next leaf of a leaf that we hold locked is linked (LINK).
    if let Some(next) = unsafe { Ptr::new_or_null(leaf.next.read()) } {
        // The link between `leaf` and `next` is ours to change: we hold `leaf` (LINK).
        next.get().prev.publish(right.as_ptr());
    }
    leaf.high.write(cut.separator);
    leaf.next.write(right.as_ptr());
}

/// Links a new right node into its locked parent, and so on up while parents are full and split. What is over at the
/// end, a separator and a node, belongs into a new root.
fn link<'p>(
    path: &Path<'p>,
    locked: &mut LockedPath<'p>,
    mut separator: u64,
    mut right: NodePtr<'p>,
    in_order: bool,
    memory: &mut dyn NodeMemory,
) -> (u64, Option<NodePtr<'p>>) {
    for level in (locked.top.unwrap_or(0)..path.length()).rev() {
        let step = path.step(level);
        let keys = step.seen.keys();
        if keys < INTERNAL_KEYS {
            step.node.insert(keys, step.index, separator, right.as_ptr());
            locked.lock(level).set_keys(keys + 1);
            return (separator, None);
        }
        let at_edge = in_order && step.index == INTERNAL_KEYS;
        let keep = if at_edge { INTERNAL_KEYS } else { INTERNAL_KEYS.div_ceil(2) };
        (separator, right) =
            split_internal(step.node, locked.lock(level), step.index, separator, right, keep, memory);
    }
    (separator, Some(right))
}

/// Splits a full internal node within its change: `keep` of the sixteen keys (the new one counted in) stay, the next
/// one goes up, the others move to a new node.
fn split_internal<'p>(
    node: Ptr<'p, Internal>,
    held: &mut NodeLock<'_>,
    at: usize,
    key: u64,
    child: NodePtr<'p>,
    keep: usize,
    memory: &mut dyn NodeMemory,
) -> (u64, NodePtr<'p>) {
    let mut keys = [key; INTERNAL_KEYS + 1];
    let mut children: [*mut VersionWord; INTERNAL_KEYS + 2] = [child.as_ptr(); INTERNAL_KEYS + 2];
    for index in 0..INTERNAL_KEYS {
        keys[index + usize::from(index >= at)] = node.keys[index].read();
    }
    for index in 0..=INTERNAL_KEYS {
        children[index + usize::from(index > at)] = node.children[index].read();
    }

    // SAFETY: a child of a node that we hold locked, or the new child: linked or ours.
    let first =
        unsafe { Ptr::new_or_null(children[keep + 1]) }.expect("children in use are not null (CHILD)");
    let right = Ptr::<Internal>::create(false, first, memory);
    let moved = INTERNAL_KEYS - keep;
    let mut fresh = right.get().version.try_lock_now().expect("a fresh node is free");
    fresh.begin_change();
    for index in 0..moved {
        right.insert(index, index, keys[keep + 1 + index], children[keep + 2 + index]);
    }
    fresh.set_keys(moved);
    drop(fresh);

    for (index, word) in node.keys.iter().enumerate() {
        word.write(if index < keep { keys[index] } else { u64::MAX });
    }
    for (index, &child) in children.iter().enumerate().take(keep + 1) {
        node.children[index].write(child);
    }
    held.set_keys(keep);
    (keys[keep], right.node())
}
