//! Unlinking nodes that removals have emptied: leaves, the internal nodes above, whole layers; and roots with only one
//! child (Masstree §4.6.5). A layer whose only entry leads on is folded (`fold`), and so is a layer above without
//! another entry.
//!
//! An empty leaf's range goes to a neighbour in the chain, such that the way down stays exact (CHILD). If the subtree
//! that dies with the leaf has a left sibling, the leaf on the left takes over by raising its `high`. Otherwise the
//! leaf on the right takes over by lowering its `low`. Nothing is merged, nothing moves.
//!
//! As in `split`, every lock is taken before any change, and no lock is waited for while another is held. Pruning aims
//! at a state ("no empty leaf at this place, and no layer that only leads on"). A prune tries until it sees the state,
//! since another thread may have refilled or unlinked the leaf first. A thread that takes an entry out of a leaf, or
//! makes a leaf a root, prunes afterwards. The state therefore holds everywhere once these threads are done.
//!
//! Neighbours: up, `remove`; down, `fold`, `descent::Path`, `node`.

use ensile_base::sync::Backoff;
use ensile_epoch::Pinned;

use crate::descent::{HEIGHT_MAX, LockedPath, Path, SeenLeaf, find, leaf_for};
use crate::fold::fold_layer;
use crate::key::KeyPart;
use crate::memory::NodeMemory;
use crate::node::{Internal, Leaf, NodePtr, Ptr, is_link};
use crate::remove::{KeyRemoval, clear_slot};
use crate::skip_block::layer_below;
use crate::tree::Masstree;
use crate::version::NodeLock;

/// A layer on the way to the pruned place: its root, and the leaf that the way leads through.
#[derive(Clone, Copy)]
struct Trail<'p> {
    root: NodePtr<'p>,
    leaf: Ptr<'p, Leaf>,
    /// Number of bytes of the key above the layer.
    prefix: usize,
}

/// Outcome of a try.
enum Pruned {
    /// Nothing is left to do at this layer.
    Clean,
    /// A node was unlinked or has changed: look at this layer again.
    Again,
    /// The layer is gone, and its parent leaf has at most one entry.
    LayerAbove,
    /// Another writer was in the way.
    Busy,
}

impl Masstree {
    /// Unlinks the leaf that the removal of `key` left empty, if the leaf still is empty, and the nodes that die with
    /// the leaf. Folds the layer that the removal left with only the way to another layer, and the layer above if it
    /// has no other entry either.
    pub fn prune(&self, key: &[u8], removed: KeyRemoval, memory: &mut dyn NodeMemory, pinned: Pinned<'_>) {
        let Some(mut prefix) = removed.thinned else { return };
        let mut backoff = Backoff::new();
        let mut trail: Vec<Trail<'_>> = Vec::new();
        loop {
            if trail.last().is_none_or(|last| last.prefix != prefix) {
                trail.clear();
                if !self.follow(key, prefix, &mut trail, pinned) {
                    return;
                }
            }
            match self.try_prune(&trail, key, memory, pinned) {
                Pruned::Clean => return,
                Pruned::Again => trail.clear(),
                Pruned::LayerAbove => {
                    trail.pop();
                    prefix = trail.last().map_or(0, |last| last.prefix);
                }
                Pruned::Busy => {
                    trail.clear();
                    backoff.wait();
                }
            }
        }
    }

    /// Notes the layers along `key` down to the layer below `prefix` bytes of the key. False if the way does not lead
    /// there: another thread was faster.
    fn follow<'p>(
        &'p self,
        key: &[u8],
        prefix: usize,
        trail: &mut Vec<Trail<'p>>,
        pinned: Pinned<'p>,
    ) -> bool {
        'tree: loop {
            trail.clear();
            let (mut root, mut rest) = (self.root(pinned), key);
            loop {
                let here = key.len() - rest.len();
                if here == prefix {
                    let Ok((leaf, _)) = leaf_for(root, KeyPart::from_rest(rest).slice, pinned) else {
                        continue 'tree;
                    };
                    trail.push(Trail { root, leaf, prefix });
                    return true;
                }
                let Ok(place) = find(root, rest, pinned) else { continue 'tree };
                trail.push(Trail { root, leaf: place.leaf, prefix: here });
                // A skip that leads past the place: the layer there is gone.
                let Some(deeper) =
                    place.found.deeper(rest).filter(|(_, rest)| key.len() - rest.len() <= prefix)
                else {
                    return false;
                };
                (root, rest) = deeper;
            }
        }
    }

    /// A try at the last layer of a trail.
    fn try_prune<'p>(
        &'p self,
        trail: &[Trail<'p>],
        key: &[u8],
        memory: &mut dyn NodeMemory,
        pinned: Pinned<'p>,
    ) -> Pruned {
        let Some((&Trail { root, leaf, prefix }, layers_above)) = trail.split_last() else {
            return Pruned::Clean;
        };
        let above = layers_above.last();
        let leaf_above = above.map(|above| above.leaf);
        let root_seen = root.stable();
        if !root_seen.is_live_root() {
            return Pruned::Busy;
        }
        if !root_seen.is_leaf() && root_seen.keys() == 0 {
            return self
                .collapse_root(root, leaf_above, memory, pinned)
                .map_or(Pruned::Busy, |()| Pruned::Again);
        }
        let Some(held) = leaf.get().version.try_lock_now() else { return Pruned::Busy };
        if held.version_before().is_deleted() || !leaf.covers(KeyPart::from_rest(&key[prefix..]).slice) {
            return Pruned::Busy;
        }
        let entries = leaf.permutation().count();
        if !held.version_before().is_root() && entries == 0 {
            return unlink_leaf(root, leaf, held, memory, pinned).map_or(Pruned::Busy, |()| Pruned::Again);
        }
        let Some(above) = above.filter(|_| held.version_before().is_root() && entries <= 1) else {
            return Pruned::Clean;
        };
        let left = if entries == 0 {
            self.unlink_layer(leaf, held, above.leaf, memory)
        } else {
            let seen = held.version_before();
            let leads_on = leaf.permutation().slots().all(|slot| is_link(leaf.kind(slot)));
            // A fold asks for memory first (E1).
            drop(held);
            match leads_on {
                true => {
                    let part = KeyPart::from_rest(&key[above.prefix..]);
                    fold_layer(SeenLeaf { leaf, seen }, above.leaf, part, memory)
                }
                // The entry's key stays in place. The layer above may have only this layer.
                false => Some(above.leaf.permutation().count()),
            }
        };
        match left {
            Some(0 | 1) => Pruned::LayerAbove,
            Some(_) => Pruned::Clean,
            None => Pruned::Busy,
        }
    }

    /// Unlinks a layer whose only leaf is empty and locked. Returns the number of entries that remain in the leaf
    /// above. `None`, without a change, if the leaf above is locked or no longer names the layer.
    fn unlink_layer<'p>(
        &'p self,
        leaf: Ptr<'p, Leaf>,
        mut held: NodeLock<'p>,
        above: Ptr<'p, Leaf>,
        memory: &mut dyn NodeMemory,
    ) -> Option<usize> {
        let word = self.lock_root_word(Some(above), leaf.node())?;
        let crate::tree::RootWord::Slot { slot, held: mut held_above, .. } = word else {
            unreachable!("a layer with a leaf above hangs in a slot")
        };
        held.begin_change();
        held_above.begin_change();
        held.set_deleted();
        // SAFETY: the leaf above is locked by us.
        let skip = unsafe { layer_below(above, slot) }.and_then(|(_, skip)| skip);
        clear_slot(above, slot);
        let entries = above.permutation().count();
        drop(held_above);
        drop(held);
        // SAFETY: no slot names the layer any more, and its only node is marked DELETED under its lock by us alone.
        unsafe { leaf.retire_with_suffixes(memory) };
        if let Some(skip) = skip {
            // SAFETY: the slot that named the skip is free, by this thread's change.
            unsafe { skip.retire(memory) };
        }
        Some(entries)
    }

    /// Makes a node below a root without keys the new root: the first node that is a leaf or has keys.
    fn collapse_root<'p>(
        &'p self,
        root: NodePtr<'p>,
        above: Option<Ptr<'p, Leaf>>,
        memory: &mut dyn NodeMemory,
        pinned: Pinned<'p>,
    ) -> Option<()> {
        let _ = pinned;
        let mut dying: [Option<(Ptr<'p, Internal>, NodeLock<'p>)>; HEIGHT_MAX] = [const { None }; HEIGHT_MAX];
        let mut count = 0;
        let mut node = root;
        let mut heir = loop {
            let held = node.get().try_lock_now()?;
            let seen = held.version_before();
            if seen.is_deleted() || seen.is_root() != (node == root) {
                return None;
            }
            if seen.is_leaf() || seen.keys() > 0 {
                break held;
            }
            // SAFETY: the version under our lock does not say LEAF; the only child is linked while we hold the node.
            let (internal, child) =
                unsafe { (node.internal(), Ptr::new_or_null(node.internal().children[0].read())) };
            dying[count] = Some((internal, held));
            count += 1;
            node = child.expect("children in use are not null (CHILD)");
        };
        if count == 0 {
            return None;
        }
        let word = self.lock_root_word(above, root)?;
        heir.begin_change();
        heir.set_root(true);
        for (_, held) in dying.iter_mut().flatten() {
            held.begin_change();
            held.set_deleted();
        }
        word.publish(node);
        drop((heir, word));
        for internal in dying.map(|node| node.map(|(internal, _held)| internal)).into_iter().flatten() {
            // SAFETY: the layer's word names the heir; nothing else named these nodes, and we alone marked them.
            unsafe { internal.retire(memory) };
        }
        Some(())
    }
}

/// Unlinks an empty, locked leaf that is not the root, and the internal nodes without another child.
fn unlink_leaf<'p>(
    root: NodePtr<'p>,
    leaf: Ptr<'p, Leaf>,
    mut held: NodeLock<'p>,
    memory: &mut dyn NodeMemory,
    pinned: Pinned<'p>,
) -> Option<()> {
    let path = Path::descend_to(root, leaf, pinned)?;
    let mut locked = LockedPath::new();
    path.lock_up(|seen| seen.keys() > 0, &mut locked)?;
    // A root always has keys here (`try_prune` collapses other roots first), unless the root changed since: try again.
    let top = locked.top?;
    let step = path.step(top);
    // `prev` belongs to the left neighbour's lock, which we do not have yet (LINK).
    let (prev, next) = (leaf.prev.read_to_follow(), leaf.next.read());
    // SAFETY: neighbours of a leaf that we hold locked: `next` is linked (LINK); `prev` was linked under our pin, and
    // the code checks under the lock of `prev` that `prev` still is our neighbour.
    let (prev, next) = unsafe { (Ptr::new_or_null(prev), Ptr::new_or_null(next)) };
    let held_prev = match prev {
        None => None,
        Some(prev) => Some(lock_left_neighbour(prev, leaf)?),
    };
    let goes_left = step.index > 0;
    let (heir, mut held_heir, held_prev) = if goes_left {
        (prev?, held_prev?, None)
    } else {
        (next?, next?.get().version.try_lock_now()?, held_prev)
    };

    held.begin_change();
    held_heir.begin_change();
    locked.begin_change();
    if goes_left {
        heir.high.write(leaf.high.read());
    } else {
        heir.low.write(leaf.low.read());
    }
    if let Some(prev) = prev {
        prev.next.publish(next.map_or(std::ptr::null_mut(), Ptr::as_ptr));
    }
    if let Some(next) = next {
        next.prev.publish(prev.map_or(std::ptr::null_mut(), Ptr::as_ptr));
    }
    let key = step.index.saturating_sub(1);
    step.node.remove(step.seen.keys(), key, step.index);
    locked.lock(top).set_keys(step.seen.keys() - 1);
    held.set_deleted();
    for level in top + 1..path.length() {
        locked.lock(level).set_deleted();
    }
    drop((locked, held_heir, held_prev, held));
    for level in top + 1..path.length() {
        // SAFETY: unlinked above, under locks, by us alone.
        unsafe { path.step(level).node.retire(memory) };
    }
    // SAFETY: as for the internal nodes.
    unsafe { leaf.retire_with_suffixes(memory) };
    Some(())
}

/// Locks a leaf if the leaf is (still) the left neighbour of another leaf.
fn lock_left_neighbour<'p>(left: Ptr<'p, Leaf>, leaf: Ptr<'p, Leaf>) -> Option<NodeLock<'p>> {
    let held = left.get().version.try_lock_now()?;
    (!held.version_before().is_deleted() && left.next.read() == leaf.as_ptr()).then_some(held)
}
