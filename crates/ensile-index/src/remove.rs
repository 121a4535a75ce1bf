//! Removing a key. `prune` unlinks the nodes that the removal leaves without use.
//!
//! Neighbours: up, the engine's unhooking of absent records (U1, U2); down, `tree::find`, `prune`.

use ensile_base::sync::Backoff;
use ensile_epoch::Pinned;

use crate::descent::{InLeaf, find};
use crate::memory::NodeMemory;
use crate::node::{FREE, Leaf, Ptr, is_link};
use crate::tree::Masstree;

/// Remaining work of a removal: perhaps a leaf is empty, or a layer has only the way to another layer left.
/// [`Masstree::prune`] does the work.
#[derive(Clone, Copy, Debug)]
#[must_use = "an empty leaf, or a layer that only leads on, is to be pruned"]
pub struct KeyRemoval {
    /// Number of key bytes above the thinned layer; `None` if no layer was thinned.
    pub(crate) thinned: Option<usize>,
}

impl Masstree {
    /// Removes a key if its value is `expected`. Leaves emptied by the removal are unlinked and retired, and so are
    /// layers left with only the way to another layer. True if the key was removed.
    #[must_use]
    pub fn remove(&self, key: &[u8], expected: u64, memory: &mut dyn NodeMemory, pinned: Pinned<'_>) -> bool {
        let Some(removed) = self.take_out(key, expected, pinned) else { return false };
        self.prune(key, removed, memory, pinned);
        true
    }

    /// Removes a key if its value is `expected`, and nothing else: no memory is given back, and one leaf is locked.
    /// `None` if the key is missing or has another value.
    pub fn take_out(&self, key: &[u8], expected: u64, pinned: Pinned<'_>) -> Option<KeyRemoval> {
        let mut backoff = Backoff::new();
        loop {
            match self.try_remove(key, expected, pinned) {
                Try::Missing => return None,
                Try::Removed(removed) => return Some(removed),
                Try::Again => backoff.wait(),
            }
        }
    }

    /// A try of [`Masstree::take_out`].
    fn try_remove(&self, key: &[u8], expected: u64, pinned: Pinned<'_>) -> Try {
        let (mut root, mut rest) = (self.root(pinned), key);
        // True if the layer above has only the entry that leads here. If a later removal thins the layer above, the
        // later removal prunes the layer.
        let mut is_above_thin = false;
        loop {
            let Ok(place) = find(root, rest, pinned) else { return Try::Again };
            let is_first = key.len() == rest.len();
            if let Some(deeper) = place.found.deeper(rest) {
                is_above_thin = !is_first && place.seen.is_root() && place.leaf.permutation().count() == 1;
                (root, rest) = deeper;
                continue;
            }
            let InLeaf::Match { slot, .. } = place.found else { return Try::Missing };
            let Some(mut held) = place.leaf.get().version.try_lock(place.seen) else { return Try::Again };
            // Read under the lock: a `replace` moves no version.
            if place.leaf.slots[slot].value.read() != expected {
                return Try::Missing;
            }
            held.begin_change();
            clear_slot(place.leaf, slot);
            // An empty tree is an empty root of layer 0.
            let is_thin = match place.leaf.permutation().count() {
                0 => !(is_first && place.seen.is_root()),
                1 if place.seen.is_root() && !is_first => {
                    is_above_thin
                        || place.leaf.permutation().slots().all(|slot| is_link(place.leaf.kind(slot)))
                }
                _ => false,
            };
            let above = key.len() - rest.len();
            return Try::Removed(KeyRemoval { thinned: is_thin.then_some(above) });
        }
    }
}

/// Outcome of a try.
enum Try {
    Missing,
    Removed(KeyRemoval),
    Again,
}

/// Takes an entry out of a leaf, within its change.
pub(crate) fn clear_slot(leaf: Ptr<'_, Leaf>, slot: usize) {
    let permutation = leaf.permutation();
    let position = permutation.slots().position(|entry| entry == slot).expect("a slot in use has a position");
    leaf.set_kind(slot, FREE);
    leaf.permutation.write(permutation.remove(position).bits());
}
