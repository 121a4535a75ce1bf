//! Inserts in key order, as a load of sorted keys makes inserts: a key that falls into the leaf of the key before needs
//! no descent.
//!
//! Several loads may work on one tree at a time, each on its own runs of keys. If two loads meet, or another thread
//! changes the leaf, the version shows the change and the key goes the long way. `split` sees the order too and leaves
//! full nodes behind.
//!
//! Neighbours: up, the engine's load of a checkpoint; down, `insert`.

use ensile_base::sync::Backoff;
use ensile_epoch::Pinned;

use crate::entry::NewEntry;
use crate::insert::{Insert, InsertOutcome, put};
use crate::memory::NodeMemory;
use crate::node::{Leaf, Ptr};
use crate::permutation::LEAF_SLOTS;
use crate::tree::Masstree;
use crate::version::Version;
use crate::witness::NodeChanges;

/// A run of inserts in key order. Keys out of order are inserted as well, only slower.
#[derive(Debug)]
pub struct OrderedInserts<'a, 'p> {
    tree: &'a Masstree,
    last: Option<Last<'a, 'p>>,
}

/// Place of the last key.
#[derive(Debug)]
struct Last<'a, 'p> {
    leaf: Ptr<'p, Leaf>,
    /// Version that the insert left.
    seen: Version,
    /// The part of the key in front of the leaf's layer.
    prefix: &'a [u8],
}

impl<'a, 'p> OrderedInserts<'a, 'p>
where
    'a: 'p,
{
    /// A fresh run.
    #[must_use]
    pub fn new(tree: &'a Masstree) -> Self {
        Self { tree, last: None }
    }

    /// Inserts the next key unless the key exists: as [`Masstree::insert_if_absent`].
    pub fn insert(
        &mut self,
        key: &'a [u8],
        value: u64,
        memory: &mut dyn NodeMemory,
        changes: &mut NodeChanges,
        pinned: Pinned<'p>,
    ) -> Insert {
        Masstree::assert_key(key);
        if self.insert_beside_last(key, value, changes).is_some() {
            return Insert::Inserted;
        }
        let mut backoff = Backoff::new();
        loop {
            if let Some((layer, place)) = self.tree.deepest(key, pinned)
                && let Some(outcome) = self.tree.insert_at(&layer, &place, value, memory, changes, pinned)
            {
                let prefix = &key[..key.len() - layer.rest.len()];
                self.last = match outcome {
                    InsertOutcome::Put(seen) => Some(Last { leaf: place.leaf, seen, prefix }),
                    InsertOutcome::Exists(_) | InsertOutcome::Rebuilt => None,
                };
                return outcome.insert();
            }
            backoff.wait();
        }
    }

    /// Puts a key into the leaf of the key before. `None`, with nothing changed, if the key does not belong there, may
    /// be there already, or finds no room.
    #[inline]
    fn insert_beside_last(&mut self, key: &'a [u8], value: u64, changes: &mut NodeChanges) -> Option<()> {
        let last = self.last.as_mut()?;
        // A key that ends at the begin of the layer stands in the layer above.
        let rest = key.strip_prefix(last.prefix).filter(|rest| !rest.is_empty() || last.prefix.is_empty())?;
        let (leaf, entry) = (last.leaf, NewEntry::new(rest, value));
        if entry.part.is_long() && !leaf.has_room_for(entry.suffix) {
            return None;
        }
        let held = leaf.get().version.try_lock(last.seen)?;
        let permutation = leaf.permutation();
        if permutation.count() == LEAF_SLOTS || !leaf.covers(entry.part.slice) {
            return None;
        }
        // In order, so behind the other entries as a rule.
        let is_behind = leaf.part(permutation.slot(permutation.count().checked_sub(1)?)) < entry.part;
        let position = if is_behind { permutation.count() } else { leaf.position(permutation, entry.part) };
        if position < permutation.count() && leaf.part(permutation.slot(position)) == entry.part {
            return None;
        }
        last.seen = put(leaf, held, position, entry, changes);
        Some(())
    }
}
