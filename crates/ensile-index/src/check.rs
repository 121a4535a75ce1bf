//! A check of the whole tree against its invariants, for tests: COVER, LINK, KIND, CHILD, EAGER ROOT, FOLD, order, and
//! no empty remains.
//!
//! Neighbours: up, tests of this crate and of the engine; down, `node`.

use ensile_epoch::Pinned;

use crate::descent::HEIGHT_MAX;
use crate::key::{LONG, SLICE_BYTES};
use crate::node::{FREE, INTERNAL_KEYS, Internal, LAYER, Leaf, NodePtr, Ptr, SKIP, SUFFIX};
use crate::permutation::LEAF_SLOTS;
use crate::skip_block::layer_below;
use crate::tree::Masstree;
use crate::version::Version;

/// Counts and sizes of the parts of a tree, from [`Masstree::check`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Shape {
    /// Number of keys.
    pub keys: usize,
    /// Number of layers, the first included.
    pub layers: usize,
    /// Number of leaves.
    pub leaves: usize,
    /// Number of internal nodes.
    pub internals: usize,
    /// Number of suffix blocks.
    pub suffix_blocks: usize,
    /// Number of skip blocks.
    pub skip_blocks: usize,
    /// Bytes of the nodes and blocks.
    pub bytes: usize,
    /// Layers on the longest way down.
    pub depth: usize,
    /// Levels of the highest layer, its leaves included.
    pub height: usize,
}

/// A subtree still to be checked.
struct UncheckedSubtree<'p> {
    node: NodePtr<'p>,
    /// Slices that the subtree must cover; `high == 0`: no upper bound.
    low: u64,
    high: u64,
    level: usize,
    is_root: bool,
}

/// A layer still to be checked.
struct UncheckedLayer<'p> {
    root: NodePtr<'p>,
    /// Number of layers from the first to this layer.
    depth: usize,
    /// True if the layer above is not the first, and has only the entry that leads to this layer.
    is_above_thin: bool,
}

struct Check<'p> {
    shape: Shape,
    /// Roots of layers still to be checked.
    layers: Vec<UncheckedLayer<'p>>,
}

/// Fails with a message unless the condition holds.
macro_rules! ensure {
    ($condition:expr, $($message:tt)+) => {
        if !$condition {
            return Err(format!($($message)+));
        }
    };
}

impl Masstree {
    /// Checks every invariant of a tree that no thread is changing, and counts its parts.
    ///
    /// # Errors
    /// The first invariant found broken, in words.
    pub fn check(&self, pinned: Pinned<'_>) -> Result<Shape, String> {
        let mut check = Check { shape: Shape::default(), layers: Vec::new() };
        check.layers.push(UncheckedLayer { root: self.root(pinned), depth: 1, is_above_thin: false });
        while let Some(layer) = check.layers.pop() {
            check.shape.layers += 1;
            check.shape.depth = check.shape.depth.max(layer.depth);
            check.layer(&layer)?;
        }
        Ok(check.shape)
    }
}

impl<'p> Check<'p> {
    /// Checks a layer, left to right, so that its leaves come in the order of the chain.
    fn layer(&mut self, layer: &UncheckedLayer<'p>) -> Result<(), String> {
        let mut pending =
            vec![UncheckedSubtree { node: layer.root, low: 0, high: 0, level: 1, is_root: true }];
        let mut previous: Option<Ptr<'p, Leaf>> = None;
        let mut leaf_level = None;
        while let Some(next) = pending.pop() {
            let Some(version) = next.node.at_rest() else {
                return Err("a node is locked or changing".into());
            };
            ensure!(!version.is_deleted(), "a linked node is marked DELETED");
            ensure!(
                version.is_root() == next.is_root,
                "EAGER ROOT: flag {} in the wrong place",
                version.is_root()
            );
            ensure!(next.level <= HEIGHT_MAX, "a layer of more than HEIGHT_MAX levels");
            if !version.is_leaf() {
                // SAFETY: the version does not say LEAF.
                self.internal(unsafe { next.node.internal() }, version, &next, &mut pending)?;
                continue;
            }
            ensure!(*leaf_level.get_or_insert(next.level) == next.level, "leaves at different levels");
            self.shape.height = self.shape.height.max(next.level);
            // SAFETY: the version says LEAF.
            let leaf = unsafe { next.node.leaf() };
            let left = previous.map_or(std::ptr::null_mut(), Ptr::as_ptr);
            ensure!(leaf.prev.read() == left, "LINK: prev is not the leaf on the left");
            ensure!(
                previous.is_none_or(|left| left.next.read() == leaf.as_ptr()),
                "LINK: next is not the leaf on the right"
            );
            ensure!(
                (leaf.low.read(), leaf.high.read()) == (next.low, next.high),
                "COVER: a leaf's bounds {:x}..{:x} are not those of its place, {:x}..{:x}",
                leaf.low.read(),
                leaf.high.read(),
                next.low,
                next.high
            );
            self.leaf(leaf, layer, next.is_root)?;
            previous = Some(leaf);
        }
        ensure!(
            previous.is_some_and(|last| last.next.read().is_null()),
            "LINK: the last leaf has a next one"
        );
        Ok(())
    }

    /// Checks and counts an internal node, and adds its children to `pending`, the last child first.
    fn internal(
        &mut self,
        node: Ptr<'p, Internal>,
        version: Version,
        place: &UncheckedSubtree<'p>,
        pending: &mut Vec<UncheckedSubtree<'p>>,
    ) -> Result<(), String> {
        self.shape.internals += 1;
        self.shape.bytes += size_of::<Internal>();
        let keys = version.keys();
        ensure!(keys > 0 || !place.is_root, "a root with one child");
        let mut bounds = vec![place.low];
        for (index, key) in node.keys.iter().map(|key| key.read()).enumerate() {
            ensure!(index < keys || key == u64::MAX, "CHILD: an unused key is not u64::MAX");
            if index < keys {
                ensure!(key > *bounds.last().unwrap_or(&0), "CHILD: keys out of order");
                ensure!(key < place.high || place.high == 0, "CHILD: a key beyond the node's bounds");
                bounds.push(key);
            }
        }
        bounds.push(place.high);
        debug_assert!(keys <= INTERNAL_KEYS);
        for index in (0..=keys).rev() {
            // SAFETY: CHILD: the children in use are nodes; null is caught.
            let child = unsafe { Ptr::new_or_null(node.children[index].read()) };
            let Some(node) = child else { return Err("CHILD: a child in use is null".into()) };
            ensure!(version.is_above_leaves() == node.is_leaf(), "a child's kind is not what LOW says");
            let (low, high) = (bounds[index], bounds[index + 1]);
            pending.push(UncheckedSubtree { node, low, high, level: place.level + 1, is_root: false });
        }
        Ok(())
    }

    /// Checks and counts a leaf, and adds the roots of its deeper layers to `layers`.
    fn leaf(
        &mut self,
        leaf: Ptr<'p, Leaf>,
        &UncheckedLayer { depth, is_above_thin, .. }: &UncheckedLayer<'p>,
        is_root: bool,
    ) -> Result<(), String> {
        self.shape.leaves += 1;
        self.shape.bytes += size_of::<Leaf>();
        if let Some(suffixes) = leaf.suffixes() {
            self.shape.suffix_blocks += 1;
            self.shape.bytes += suffixes.block_bytes();
        }
        let permutation = leaf.permutation();
        ensure!(permutation.is_whole(), "the permutation {permutation:?} does not name each slot once");
        let may_be_empty = is_root && depth == 1;
        ensure!(permutation.count() > 0 || may_be_empty, "an empty leaf was left behind at depth {depth}");
        let is_thin = permutation.count() == 1 && is_root && depth > 1;
        ensure!(!is_thin || !is_above_thin, "FOLD: layers of one entry at depths {} and {depth}", depth - 1);
        let mut used = 0u32;
        let mut last = None;
        for slot in permutation.slots() {
            used |= 1 << slot;
            let (part, kind) = (leaf.part(slot), leaf.kind(slot));
            ensure!(kind <= SKIP, "KIND: a used slot has kind {kind}");
            ensure!(last.is_none_or(|last| last < part), "entries out of order: {last:?} then {part:?}");
            ensure!(leaf.covers(part.slice), "COVER: an entry outside the leaf's bounds");
            ensure!(depth == 1 || part.rank > 0, "an empty rest in a deeper layer");
            let spare = 64 - 8 * u32::from(part.rank.min(8));
            ensure!(spare == 0 || part.slice.trailing_zeros() >= spare, "a slice is not zero-padded");
            last = Some(part);
            match kind {
                LAYER | SKIP => {
                    // SAFETY: the tree is at rest.
                    let (root, skip) = unsafe { layer_below(leaf, slot) }.expect("a slot that leads on");
                    self.layers.push(UncheckedLayer { root, depth: depth + 1, is_above_thin: is_thin });
                    if let Some(skip) = skip {
                        self.shape.skip_blocks += 1;
                        self.shape.bytes += skip.block_bytes();
                        let length = skip.bytes().len();
                        ensure!(length > 0 && length.is_multiple_of(SLICE_BYTES), "SKIP: {length} bytes");
                    }
                }
                SUFFIX => {
                    let Some(suffixes) = leaf.suffixes() else {
                        return Err("a SUFFIX slot in a leaf without a suffix block".into());
                    };
                    ensure!(!suffixes.suffix(slot).is_empty(), "an empty suffix");
                    self.shape.keys += 1;
                }
                _ => self.shape.keys += 1,
            }
        }
        debug_assert!(last.is_none_or(|part| part.rank <= LONG));
        for slot in (0..LEAF_SLOTS).filter(|slot| used & 1 << slot == 0) {
            ensure!(leaf.kind(slot) == FREE, "KIND: a free slot is not marked FREE");
        }
        Ok(())
    }
}
