//! Finding a key's place within one layer: optimistic, writes nothing shared (Masstree §4.6).
//!
//! **LEAF TRUTH**: the way down is a hint. An internal node is validated after its child was chosen, so every pointer
//! followed is a real pointer. By the time of the child's read, the child may have split or gone. Only the leaf counts:
//! a hit is a hit in any leaf that validates, as entries live in one leaf only; a miss counts only in a live leaf that
//! covers the slice (COVER).
//!
//! Neighbours: up, get, insert, remove, scan; down, `node`.

use ensile_epoch::Pinned;

use crate::key::{KeyPart, SLICE_BYTES};
use crate::node::{INTERNAL_KEYS, Internal, LAYER, Leaf, NodePtr, Ptr, SKIP, SUFFIX};
use crate::skip_block::SkipRef;
use crate::version::{NodeLock, Version};

/// More levels than a layer can have: a level grows only when a node of sixteen children splits into two of at least
/// one and fifteen, and each split of a level takes fifteen splits of the level below.
pub(crate) const HEIGHT_MAX: usize = 24;

/// Hops along the chain of leaves before a search starts again from the root of the layer.
const HOPS_MAX: usize = 4;

/// The start node is no root any more: the layer has a new root, or is gone.
#[derive(Debug)]
pub(crate) struct StaleRoot;

/// Contents of a key's place in a leaf.
#[derive(Clone, Copy, Debug)]
pub(crate) enum InLeaf<'p> {
    /// The key itself.
    Match {
        /// Slot of the key.
        slot: usize,
        /// Value of the key.
        value: u64,
    },
    /// Root of the layer that continues the key.
    Layer(NodePtr<'p>),
    /// A skip before the layer that continues the key. The key is missing if its bytes differ from the skip's.
    Skip {
        /// Slot of the skip.
        slot: usize,
        /// The skip.
        skip: SkipRef<'p>,
    },
    /// Another key with the same slice; both keys continue after the slice.
    Clash {
        /// Slot of the other key.
        slot: usize,
    },
    /// Nothing.
    Absent,
}

impl<'p> InLeaf<'p> {
    /// The root of the deeper layer that continues a key, and the rest of the key there; `rest` is the rest at this
    /// layer.
    #[inline(always)]
    pub(crate) fn deeper<'k>(&self, rest: &'k [u8]) -> Option<(NodePtr<'p>, &'k [u8])> {
        match *self {
            Self::Layer(root) => Some((root, &rest[SLICE_BYTES..])),
            Self::Skip { skip, .. } => follow(skip, rest),
            Self::Match { .. } | Self::Clash { .. } | Self::Absent => None,
        }
    }
}

/// As [`InLeaf::deeper`], below a skip. Out of line, so that keys without skips do not pay for the code.
#[inline(never)]
pub(crate) fn follow<'k, 'p>(skip: SkipRef<'p>, rest: &'k [u8]) -> Option<(NodePtr<'p>, &'k [u8])> {
    let root = skip.root();
    root.prefetch();
    skip.strip_shared(&rest[SLICE_BYTES..]).map(|rest| (root, rest))
}

/// A validated answer of one layer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LeafPlace<'p> {
    pub(crate) leaf: Ptr<'p, Leaf>,
    pub(crate) seen: Version,
    pub(crate) found: InLeaf<'p>,
}

/// A leaf, and the version at which the leaf was seen.
#[derive(Clone, Copy)]
pub(crate) struct SeenLeaf<'p> {
    pub(crate) leaf: Ptr<'p, Leaf>,
    pub(crate) seen: Version,
}

/// Outcome of a look into a leaf.
#[derive(Clone, Copy, Debug)]
pub(crate) enum LeafSearch<'p> {
    /// A validated answer.
    Sure(InLeaf<'p>),
    /// The slice lies further right: continue at this next leaf.
    Right(NodePtr<'p>),
    /// The leaf changed or is gone, or the way down was wrong: start again from the root of the layer.
    Again,
}

/// The leaf for a slice, and the leaf's version at arrival.
#[inline(always)]
pub(crate) fn leaf_for<'p>(
    root: NodePtr<'p>,
    slice: u64,
    pinned: Pinned<'p>,
) -> Result<(Ptr<'p, Leaf>, Version), StaleRoot> {
    'layer: loop {
        let mut node = root;
        let mut seen = node.stable();
        if !seen.is_live_root() {
            return Err(StaleRoot);
        }
        loop {
            if seen.is_leaf() {
                // SAFETY: `seen` was read from this node and says LEAF.
                return Ok((unsafe { node.leaf() }, seen));
            }
            let Some(child) = child_for(node, seen, slice, pinned) else { continue 'layer };
            if seen.is_above_leaves() {
                child.prefetch();
            } else {
                child.prefetch_internal();
            }
            node = child;
            seen = node.stable();
            if seen.is_deleted() {
                continue 'layer;
            }
        }
    }
}

/// The child of an internal node that covers a slice; `None` if the node changed.
#[inline(always)]
pub(crate) fn child_for<'p>(
    node: NodePtr<'p>,
    seen: Version,
    slice: u64,
    _pinned: Pinned<'p>,
) -> Option<NodePtr<'p>> {
    debug_assert!(!seen.is_leaf());
    // SAFETY: the caller's `seen` was read from this node and does not say LEAF.
    let internal = unsafe { node.internal() };
    let child = internal.children[internal.index_of(seen.keys(), slice)].read();
    if !node.is_unchanged(seen) {
        return None;
    }
    // SAFETY: validated: this was a child of a live node under our pin.
    unsafe { Ptr::new_or_null(child) }
}

/// Looks for a key in a leaf among the leaf's candidates at version `seen`; `rest` is the rest of the key at the leaf's
/// layer.
#[inline(always)]
pub(crate) fn search_leaf<'p, 'k>(
    leaf: Ptr<'p, Leaf>,
    seen: Version,
    mut candidates: u32,
    part: KeyPart,
    rest: impl Fn() -> &'k [u8],
) -> LeafSearch<'p> {
    let mut found = InLeaf::Absent;
    let mut layer = 0;
    while candidates != 0 {
        let slot = candidates.trailing_zeros() as usize;
        candidates &= candidates - 1;
        if leaf.slots[slot].slice.read() != part.slice {
            continue;
        }
        let kind = leaf.kind(slot);
        if kind == part.rank {
            if kind == SUFFIX
                && leaf.suffixes().is_none_or(|suffixes| suffixes.suffix(slot) != &rest()[SLICE_BYTES..])
            {
                found = InLeaf::Clash { slot };
            } else {
                found = InLeaf::Match { slot, value: leaf.slots[slot].value.read() };
            }
            break;
        }
        if kind == LAYER && part.is_long() {
            layer = leaf.slots[slot].value.read();
            break;
        }
        if kind == SKIP && part.is_long() {
            return search_skip(leaf, seen, slot);
        }
    }
    if !matches!(found, InLeaf::Match { .. }) && layer == 0 {
        return search_bounds(leaf, seen, part.slice, found);
    }
    if !leaf.version.is_unchanged(seen) {
        return LeafSearch::Again;
    }
    if layer != 0 {
        // SAFETY: the value of a LAYER slot, validated just now.
        found = InLeaf::Layer(unsafe { NodePtr::from_value(layer) });
    }
    LeafSearch::Sure(found)
}

/// Searches a slot that leads to a skip. Out of line, so that keys without skips do not pay for the code.
#[inline(never)]
fn search_skip(leaf: Ptr<'_, Leaf>, seen: Version, slot: usize) -> LeafSearch<'_> {
    let value = leaf.slots[slot].value.read();
    if !leaf.get().version.is_unchanged(seen) {
        return LeafSearch::Again;
    }
    // SAFETY: the value of a SKIP slot, validated just now.
    LeafSearch::Sure(InLeaf::Skip { slot, skip: unsafe { SkipRef::from_value(value) } })
}

/// Outcome of a search without a match: the miss is sure only if the leaf lives and covers the slice.
#[inline]
fn search_bounds<'p>(leaf: Ptr<'p, Leaf>, seen: Version, slice: u64, miss: InLeaf<'p>) -> LeafSearch<'p> {
    let (low, high, next) = (leaf.low.read(), leaf.high.read(), leaf.next.read());
    if !leaf.version.is_unchanged(seen) || seen.is_deleted() || slice < low {
        return LeafSearch::Again;
    }
    if slice < high || high == 0 {
        return LeafSearch::Sure(miss);
    }
    // SAFETY: validated: the neighbour of a live leaf under our pin.
    match unsafe { Ptr::new_or_null(next) } {
        Some(next) => LeafSearch::Right(next.node()),
        None => LeafSearch::Again,
    }
}

/// Finds the place of a key with this `rest` within the layer below `root`.
#[inline(always)]
pub(crate) fn find<'p>(
    root: NodePtr<'p>,
    rest: &[u8],
    pinned: Pinned<'p>,
) -> Result<LeafPlace<'p>, StaleRoot> {
    let part = KeyPart::from_rest(rest);
    loop {
        let (mut leaf, mut seen) = leaf_for(root, part.slice, pinned)?;
        for _ in 0..HOPS_MAX {
            match search_leaf(leaf, seen, leaf.candidates(part), part, || rest) {
                LeafSearch::Sure(found) => return Ok(LeafPlace { leaf, seen, found }),
                LeafSearch::Again => break,
                LeafSearch::Right(next) => {
                    seen = next.stable();
                    // SAFETY: the chain of leaves links leaves only.
                    leaf = unsafe { next.leaf() };
                }
            }
        }
    }
}

/// The internal nodes from a layer's root down to a leaf's parent. A step has the version at which the node was read
/// and the index of the child taken.
pub(crate) struct Path<'p> {
    steps: [Option<PathStep<'p>>; HEIGHT_MAX],
    length: usize,
}

/// An internal node on a path.
#[derive(Clone, Copy)]
pub(crate) struct PathStep<'p> {
    pub(crate) node: Ptr<'p, Internal>,
    pub(crate) seen: Version,
    pub(crate) index: usize,
}

impl<'p> Path<'p> {
    /// The path to a leaf, for a caller that locks the leaf at a version seen earlier, before or after this call;
    /// `None` if the tree around the leaf is changing.
    pub(crate) fn descend_to(root: NodePtr<'p>, leaf: Ptr<'p, Leaf>, pinned: Pinned<'p>) -> Option<Self> {
        let slice = leaf.low.read();
        let mut path = Self { steps: [None; HEIGHT_MAX], length: 0 };
        let mut node = root;
        let mut seen = node.stable();
        if !seen.is_live_root() {
            return None;
        }
        while node != leaf.node() {
            if seen.is_leaf() || seen.is_deleted() {
                return None;
            }
            // SAFETY: `seen` was read from this node and does not say LEAF.
            let internal = unsafe { node.internal() };
            let index = internal.index_of(seen.keys(), slice);
            debug_assert!(index <= INTERNAL_KEYS);
            let child = child_for(node, seen, slice, pinned)?;
            path.steps[path.length] = Some(PathStep { node: internal, seen, index });
            path.length += 1;
            node = child;
            seen = node.stable();
        }
        Some(path)
    }

    /// Number of internal nodes.
    pub(crate) fn length(&self) -> usize {
        self.length
    }

    /// The node at a level, the root at 0.
    pub(crate) fn step(&self, level: usize) -> PathStep<'p> {
        self.steps[level].expect("a level below the length")
    }

    /// Locks the nodes from the leaf's parent up to the first node that `is_last` accepts. `None` if a node changed or
    /// is locked: the caller drops `locked`.
    pub(crate) fn lock_up(
        &self,
        is_last: impl Fn(Version) -> bool,
        locked: &mut LockedPath<'p>,
    ) -> Option<()> {
        for level in (0..self.length).rev() {
            let step = self.step(level);
            locked.locks[level] = Some(step.node.get().version.try_lock(step.seen)?);
            if is_last(step.seen) {
                locked.top = Some(level);
                return Some(());
            }
        }
        Some(())
    }
}

/// The locks of the lower end of a path.
pub(crate) struct LockedPath<'p> {
    pub(crate) locks: [Option<NodeLock<'p>>; HEIGHT_MAX],
    /// Level of the topmost locked node, if `is_last` accepted the node; `None` if the root was passed.
    pub(crate) top: Option<usize>,
}

impl<'p> LockedPath<'p> {
    /// A path without locks. Do not move the value: it is large.
    pub(crate) fn new() -> Self {
        Self { locks: [const { None }; HEIGHT_MAX], top: None }
    }
}

impl<'p> LockedPath<'p> {
    /// Begins a change in each locked node.
    pub(crate) fn begin_change(&mut self) {
        self.locks.iter_mut().flatten().for_each(NodeLock::begin_change);
    }

    pub(crate) fn lock(&mut self, level: usize) -> &mut NodeLock<'p> {
        self.locks[level].as_mut().expect("a locked level")
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
