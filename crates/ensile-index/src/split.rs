//! Splitting a full leaf, and the full internal nodes above (Masstree §4.3, §4.6.4).
//!
//! The needs of the split are known from the versions at which the leaf and the nodes above were seen, and are obtained
//! before any lock (E1). Then the changing nodes are locked at these versions, from the leaf up to the first node with
//! room, or past the root to the word that names the root. Then the locked nodes are changed and let go. Nothing
//! changes before the last lock is taken, so giving up is always possible.
//!
//! A load in order leaves full nodes behind: if inserts come right behind one another, the cut is made at the newest
//! entry. At the right edge of a leaf the new key alone goes to the right, and likewise up the tree. Within a leaf
//! (several loads side by side) the entries behind the new key go, so that the load has the edge to itself from then
//! on.
//!
//! Neighbours: up, `insert`; down, `descent::Path`, `node`.

use ensile_epoch::Pinned;

use crate::descent::{HEIGHT_MAX, LockedPath, Path, PathStep, SeenLeaf};
use crate::entry::{NewEntry, put_at};
use crate::insert::Layer;
use crate::memory::NodeMemory;
use crate::node::{FREE, INTERNAL_KEYS, Internal, Leaf, NodePtr, Ptr, SUFFIX};
use crate::permutation::{LEAF_SLOTS, Permutation};
use crate::suffix_block::{SuffixBlockRef, capacity_for};
use crate::tree::Masstree;
use crate::version::{NodeLock, Version, VersionWord};
use crate::witness::NodeChanges;

/// Number of inserts right behind one another that make a load in order: by chance, a leaf in many thousands has such a
/// run.
const RUN_MIN: u8 = 6;

/// Cut of a full leaf, including the new entry.
struct SplitPoint {
    /// Position of the new entry among the sixteen.
    position: usize,
    /// Number of entries that stay left.
    left: usize,
    /// First slice of the right leaf.
    separator: u64,
    /// True for a load in order.
    in_order: bool,
}

impl SplitPoint {
    /// True if the new entry goes to the right leaf.
    fn new_is_right(&self) -> bool {
        self.position >= self.left
    }
}

/// Nodes that a split may link, obtained before any lock (E1).
struct SplitNodes<'p> {
    right: Ptr<'p, Leaf>,
    /// New suffix block of the left leaf, if the leaf's own block has no room for the new entry's suffix.
    left_suffixes: Option<SuffixBlockRef<'p>>,
    /// Nodes for each full node of the path, and a node for a new root.
    internals: [Option<Ptr<'p, Internal>>; HEIGHT_MAX + 1],
    count: usize,
}

impl<'p> SplitNodes<'p> {
    /// Obtains the nodes for the split of a full leaf. `None`, with nothing obtained, if the leaf has changed.
    #[inline(always)]
    fn obtain(
        full: SeenLeaf<'p>,
        entry: NewEntry<'_>,
        path: &Path<'p>,
        memory: &mut dyn NodeMemory,
    ) -> Option<(SplitPoint, Self)> {
        let SeenLeaf { leaf, seen } = full;
        let cut = cut(leaf, entry);
        let high = leaf.high.read();
        // A leaf of short keys moves no suffixes.
        let has_suffixes = entry.part.is_long() || leaf.suffixes().is_some();
        let capacity = cut.as_ref().filter(|_| has_suffixes).and_then(|cut| right_suffixes(leaf, cut, entry));
        if !leaf.get().version.is_unchanged(seen) {
            return None;
        }
        let cut = cut.expect("at most ten of the sixteen entries share a slice");
        let left_suffixes =
            match !cut.new_is_right() && entry.part.is_long() && !leaf.has_room_for(entry.suffix) {
                true => Some(leaf.larger_suffixes(seen, entry.suffix.len(), memory)?),
                false => None,
            };
        let right = Ptr::<Leaf>::create(false, cut.separator, high, memory);
        if let Some(capacity) = capacity {
            right.suffixes.write(SuffixBlockRef::create(capacity, memory).as_ptr());
        }
        let mut nodes = Self { right, left_suffixes, internals: [None; HEIGHT_MAX + 1], count: 0 };
        let full =
            (0..path.length()).rev().take_while(|&level| path.step(level).seen.keys() == INTERNAL_KEYS);
        let full = full.count();
        let needed = if full == path.length() { full + 1 } else { full };
        for node in &mut nodes.internals[..needed] {
            *node = Some(Ptr::<Internal>::create(memory));
        }
        nodes.count = needed;
        Some((cut, nodes))
    }

    /// The next of the internal nodes.
    fn internal(&mut self) -> Ptr<'p, Internal> {
        self.count -= 1;
        self.internals[self.count].take().expect("a node for each that is full, and a root (E1)")
    }

    /// Gives the nodes back if nothing was linked.
    fn discard(mut self, memory: &mut dyn NodeMemory) {
        while self.count > 0 {
            // SAFETY: no other thread has seen the node, and the node is taken out of the list.
            unsafe { self.internal().discard(memory) };
        }
        // SAFETY: no other thread has seen the leaf and the suffix blocks.
        unsafe {
            self.right.discard_with_suffixes(memory);
            if let Some(suffixes) = self.left_suffixes {
                suffixes.discard(memory);
            }
        }
    }
}

impl Masstree {
    /// Splits a leaf that was full when it was seen, and puts the entry into its half. `None`, with nothing changed,
    /// if a node has changed or is in another writer's hands.
    pub(crate) fn split_and_put<'p>(
        &'p self,
        layer: &Layer<'_, 'p>,
        full: SeenLeaf<'p>,
        entry: NewEntry<'_>,
        memory: &mut dyn NodeMemory,
        changes: &mut NodeChanges,
        pinned: Pinned<'p>,
    ) -> Option<()> {
        let SeenLeaf { leaf, seen } = full;
        let path = Path::descend_to(layer.root, leaf, pinned)?;
        let (cut, mut nodes) = SplitNodes::obtain(full, entry, &path, memory)?;
        let right = nodes.right;
        let Some((after, replaced)) = self.split_locked(layer, full, entry, &path, &cut, &mut nodes) else {
            nodes.discard(memory);
            return None;
        };
        changes.record_change(leaf, seen, after);
        changes.record_creation(right, leaf, Version::leaf(false));
        if let Some(suffixes) = replaced {
            // SAFETY: the leaf names the copy, and under the lock this thread alone replaced the old block.
            unsafe { suffixes.retire(memory) };
        }
        Some(())
    }

    /// Locks the nodes that a split changes, changes the nodes, and lets them go. Returns the leaf's new version, and
    /// the replaced suffix block.
    #[inline(always)]
    fn split_locked<'p>(
        &'p self,
        layer: &Layer<'_, 'p>,
        full: SeenLeaf<'p>,
        entry: NewEntry<'_>,
        path: &Path<'p>,
        cut: &SplitPoint,
        nodes: &mut SplitNodes<'p>,
    ) -> Option<(Version, Option<SuffixBlockRef<'p>>)> {
        let SeenLeaf { leaf, seen } = full;
        let mut held = leaf.get().version.try_lock(seen)?;
        // Declared after the leaf's lock, so that these locks are dropped before the leaf's lock.
        let mut locked = LockedPath::new();
        path.lock_up(|seen| seen.keys() < INTERNAL_KEYS, &mut locked)?;
        let root_word = match locked.top {
            Some(_) => None,
            None => Some(self.lock_root_word(layer.parent, layer.root)?),
        };
        leaf.note_run(cut.position);
        let right = nodes.right;
        fill_right_half(leaf, right, cut, entry);
        let replaced = nodes.left_suffixes.and_then(|larger| leaf.exchange_suffixes(larger));
        held.begin_change();
        locked.begin_change();
        shrink_to_left_half(leaf, cut, entry, right);
        let (separator, over) = link(path, &mut locked, cut, nodes);
        if let Some(word) = root_word {
            let over = over.expect("a root that has no room is split");
            let root = nodes.internal();
            let mut fresh = root.begin(true, layer.root);
            root.insert(0, 0, separator, over.as_ptr());
            fresh.set_keys(1);
            drop(fresh);
            word.publish(root.node());
            locked.locks.first_mut().and_then(Option::as_mut).unwrap_or(&mut held).set_root(false);
        }
        debug_assert_eq!(nodes.count, 0, "a split uses what it obtained");
        Some((held.version_after(), replaced))
    }
}

/// Chooses the cut: in the middle, or at the edge for a load in order; never between entries of one slice. `None` only
/// for a leaf that has changed.
fn cut(leaf: Ptr<'_, Leaf>, entry: NewEntry<'_>) -> Option<SplitPoint> {
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
        .find(is_boundary)?;
    Some(SplitPoint { position, left, separator: slice_at(left), in_order })
}

/// The slots of the entries that go to the right.
fn slots_to_move(leaf: Ptr<'_, Leaf>, cut: &SplitPoint) -> impl Iterator<Item = usize> {
    let permutation = leaf.permutation();
    let first = if cut.new_is_right() { cut.left } else { cut.left - 1 };
    (first..LEAF_SLOTS).map(move |position| permutation.slot(position))
}

/// Capacity of the right leaf's suffix block in bytes, if the leaf needs a block.
fn right_suffixes(leaf: Ptr<'_, Leaf>, cut: &SplitPoint, entry: NewEntry<'_>) -> Option<usize> {
    let old = slots_to_move(leaf, cut).filter(|&slot| leaf.kind(slot) == SUFFIX);
    let lengths = old.filter_map(|slot| leaf.suffixes().map(|suffixes| suffixes.suffix(slot).len()));
    let new = (cut.new_is_right() && entry.part.is_long()).then_some(entry.suffix.len());
    let (count, bytes) =
        lengths.chain(new).fold((0, 0), |(count, bytes), length| (count + 1, bytes + length));
    (count > 0).then(|| capacity_for(bytes, count))
}

/// Fills the new leaf with the entries from the cut on, and sets only the new leaf's own links to its neighbours. The
/// new leaf's suffix block has the room.
fn fill_right_half<'p>(leaf: Ptr<'p, Leaf>, right: Ptr<'p, Leaf>, cut: &SplitPoint, entry: NewEntry<'_>) {
    right.next.write(leaf.next.read());
    right.prev.write(leaf.as_ptr());
    let mut count = 0;
    for (to, from) in slots_to_move(leaf, cut).enumerate() {
        let kind = leaf.kind(from);
        right.write_slot(to, leaf.slots[from].slice.read(), kind, leaf.slots[from].value.read());
        if kind == SUFFIX {
            let [new, old] =
                [right, leaf].map(|leaf| leaf.suffixes().expect("a SUFFIX slot has a suffix block"));
            new.append(to, old.suffix(from));
        }
        count = to + 1;
    }
    right.permutation.write(Permutation::identity(count).bits());
    if cut.new_is_right() {
        put_at(right, cut.position - cut.left, entry);
        if cut.in_order {
            right.start_run(RUN_MIN, cut.position - cut.left + 1);
        }
    }
}

/// Makes the left side of a split, within the leaf's change.
fn shrink_to_left_half<'p>(leaf: Ptr<'p, Leaf>, cut: &SplitPoint, entry: NewEntry<'_>, right: Ptr<'p, Leaf>) {
    let permutation = leaf.permutation();
    let new_is_left = !cut.new_is_right();
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

/// Links the new right leaf into its locked parent, and so on up while parents are full and split. A left-over
/// separator and node belong into a new root.
fn link<'p>(
    path: &Path<'p>,
    locked: &mut LockedPath<'p>,
    cut: &SplitPoint,
    nodes: &mut SplitNodes<'p>,
) -> (u64, Option<NodePtr<'p>>) {
    let (mut separator, mut right) = (cut.separator, nodes.right.node());
    for level in (locked.top.unwrap_or(0)..path.length()).rev() {
        let step = path.step(level);
        let keys = step.seen.keys();
        if keys < INTERNAL_KEYS {
            step.node.insert(keys, step.index, separator, right.as_ptr());
            locked.lock(level).set_keys(keys + 1);
            return (separator, None);
        }
        let at_edge = cut.in_order && step.index == INTERNAL_KEYS;
        let keep = if at_edge { INTERNAL_KEYS } else { INTERNAL_KEYS.div_ceil(2) };
        let fresh = nodes.internal();
        separator = split_internal(&step, locked.lock(level), separator, right, keep, fresh);
        right = fresh.node();
    }
    (separator, Some(right))
}

/// Splits a full internal node within its change, for a new key and its right child. Of the sixteen keys, including the
/// new key, `keep` keys stay, the next key goes up and is returned, and the others move to the new node, `right`.
fn split_internal<'p>(
    &PathStep { node, index: at, .. }: &PathStep<'p>,
    held: &mut NodeLock<'_>,
    key: u64,
    child: NodePtr<'p>,
    keep: usize,
    right: Ptr<'p, Internal>,
) -> u64 {
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
    let mut fresh = right.begin(false, first);
    let moved = INTERNAL_KEYS - keep;
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
    keys[keep]
}
