//! Keys that cut a tree into parts of roughly equal numbers of entries, from its upper levels alone.
//!
//! A tree is a list of runs in key order, at first one run: the whole tree. A run whose estimated weight is too large
//! for a part is opened, an internal node into its children, a leaf with deeper layers into its entries. Opening ends
//! if every run is small or there are enough runs. A subtree's weight is estimated along one way down its middle, so
//! the estimate overlooks a single deep layer among thousands of keys. Estimates and concurrent changes only make parts
//! less equal, as any keys cut a tree into parts that cover the tree.
//!
//! Neighbours: up, walks of a table by several threads; down, `node`.

use ensile_epoch::Pinned;

use crate::key::{SLICE_BYTES, shortest};
use crate::node::{NodePtr, Ptr, is_link};
use crate::skip_block::{SkipRef, layer_of};
use crate::tree::Masstree;

/// Divisor of a part's weight: runs are opened until each weighs at most the quotient.
const FINENESS: u64 = 8;
/// Most runs per part.
const RUNS_MAX: usize = 64;
/// Most levels, over the layers, that an estimate descends.
const LEVELS_MAX: usize = 64;

/// A run of keys, from `from` to the next run's `from`.
struct KeyRun<'p> {
    from: Vec<u8>,
    /// Subtree of the run, and the key bytes of the layers above; `None` if there is nothing to open.
    subtree: Option<(NodePtr<'p>, Vec<u8>)>,
    weight: u64,
}

impl<'p> KeyRun<'p> {
    /// A run of the subtree below `node`, with its estimated weight; `prefix` is the key bytes of the layers above.
    fn subtree(from: Vec<u8>, node: NodePtr<'p>, prefix: Vec<u8>, pinned: Pinned<'p>) -> Self {
        Self { from, subtree: Some((node, prefix)), weight: weight(node, pinned) }
    }
}

impl Masstree {
    /// At most `parts - 1` keys, in order, that cut the tree into parts of roughly equal numbers of entries.
    #[must_use]
    pub fn separators(&self, parts: usize, pinned: Pinned<'_>) -> Vec<Vec<u8>> {
        let root = self.root(pinned);
        let mut runs = vec![KeyRun::subtree(Vec::new(), root, Vec::new(), pinned)];
        if parts < 2 {
            return Vec::new();
        }
        loop {
            let total: u64 = runs.iter().map(|run| run.weight).sum();
            let most = total / (parts as u64 * FINENESS);
            let is_large = |run: &KeyRun<'_>| run.weight > most && run.subtree.is_some();
            if runs.len() >= parts * RUNS_MAX || !runs.iter().any(is_large) {
                return cut(&runs, parts, total);
            }
            runs = runs
                .into_iter()
                .flat_map(|run| if is_large(&run) { open(run, pinned) } else { vec![run] })
                .collect();
        }
    }
}

/// The first keys of the runs at which the parts begin.
fn cut(runs: &[KeyRun<'_>], parts: usize, total: u64) -> Vec<Vec<u8>> {
    let mut separators: Vec<Vec<u8>> = Vec::new();
    let (mut before, mut part) = (0, 1);
    for run in runs {
        let due = total * part / parts as u64;
        if before >= due && before > 0 && part < parts as u64 {
            if separators.last().is_none_or(|last| *last < run.from) && !run.from.is_empty() {
                separators.push(run.from.clone());
            }
            // A run as large as several parts leaves fewer parts.
            part = (before * parts as u64 / total.max(1)).max(part) + 1;
        }
        before += run.weight;
    }
    separators
}

/// Opens a run into smaller runs. If the run's node is changing, returns the run unchanged, not to be opened again.
fn open<'p>(run: KeyRun<'p>, pinned: Pinned<'p>) -> Vec<KeyRun<'p>> {
    let KeyRun { from, subtree, weight } = run;
    let opened = subtree.and_then(|(node, prefix)| open_node(&from, node, &prefix, pinned));
    opened.unwrap_or_else(|| vec![KeyRun { from, subtree: None, weight }])
}

/// The children or entries of a node as runs; `None` if the node is changing or out of the tree.
fn open_node<'p>(
    from: &[u8],
    node: NodePtr<'p>,
    prefix: &[u8],
    pinned: Pinned<'p>,
) -> Option<Vec<KeyRun<'p>>> {
    let seen = node.stable();
    if seen.is_deleted() {
        return None;
    }
    let mut runs = Vec::new();
    if seen.is_leaf() {
        // SAFETY: `seen` was read from this node and says LEAF.
        let leaf = unsafe { node.leaf() };
        let entries: Vec<_> = leaf
            .permutation()
            .slots()
            .map(|slot| (leaf.part(slot), leaf.kind(slot), leaf.slots[slot].value.read()))
            .collect();
        if !node.is_unchanged(seen) {
            return None;
        }
        for (part, kind, value) in entries {
            let mut key = prefix.to_vec();
            part.append_to(&mut key);
            let from = if runs.is_empty() { from.to_vec() } else { key.clone() };
            // SAFETY: kind and value were validated just now.
            let Some((root, skip)) = (unsafe { layer_of(kind, value) }) else {
                runs.push(KeyRun { from, subtree: None, weight: 1 });
                continue;
            };
            debug_assert_eq!(key.len(), prefix.len() + SLICE_BYTES);
            key.extend_from_slice(skip.map_or(&[], SkipRef::bytes));
            runs.push(KeyRun::subtree(from, root, key, pinned));
        }
    } else {
        // SAFETY: `seen` was read from this node and does not say LEAF.
        let internal = unsafe { node.internal() };
        let keys = seen.keys();
        let children: Vec<_> = (0..=keys)
            .map(|at| (at.checked_sub(1).map(|key| internal.keys[key].read()), internal.children[at].read()))
            .collect();
        if !node.is_unchanged(seen) {
            return None;
        }
        for (low, child) in children {
            let mut from = from.to_vec();
            if let Some(low) = low {
                from = prefix.to_vec();
                shortest(low).append_to(&mut from);
            }
            // SAFETY: validated: this was a child of a live node under our pin.
            let child = unsafe { Ptr::new_or_null(child) }?;
            runs.push(KeyRun::subtree(from, child, prefix.to_vec(), pinned));
        }
    }
    (!runs.is_empty()).then_some(runs)
}

/// An estimate of the entries below a node: as if every way down were like the way in the middle.
fn weight<'p>(node: NodePtr<'p>, _pinned: Pinned<'p>) -> u64 {
    let (mut node, mut ways, mut entries) = (node, 1_u64, 0_u64);
    for _ in 0..LEVELS_MAX {
        let seen = node.stable();
        if seen.is_deleted() {
            break;
        }
        let next = if seen.is_leaf() {
            // SAFETY: `seen` was read from this node and says LEAF.
            let leaf = unsafe { node.leaf() };
            let permutation = leaf.permutation();
            let layers: Vec<(u8, u64)> = permutation
                .slots()
                .map(|slot| (leaf.kind(slot), leaf.slots[slot].value.read()))
                .filter(|(kind, _)| is_link(*kind))
                .collect();
            entries =
                entries.saturating_add(ways.saturating_mul((permutation.count() - layers.len()) as u64));
            if layers.is_empty() || !node.is_unchanged(seen) {
                break;
            }
            ways = ways.saturating_mul(layers.len() as u64);
            let (kind, value) = layers[layers.len() / 2];
            // SAFETY: kind and value were validated just now.
            unsafe { layer_of(kind, value) }.map(|(root, _)| root)
        } else {
            // SAFETY: `seen` was read from this node and does not say LEAF.
            let internal = unsafe { node.internal() };
            let child = internal.children[seen.keys() / 2].read();
            ways = ways.saturating_mul(seen.keys() as u64 + 1);
            if !node.is_unchanged(seen) {
                break;
            }
            // SAFETY: validated: this was a child of a live node under our pin.
            unsafe { Ptr::new_or_null(child) }
        };
        let Some(next) = next else { break };
        node = next;
    }
    // A node that changed during the look weighs something too; no sum of runs overflows.
    entries.max(ways).clamp(1, 1 << 40)
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
