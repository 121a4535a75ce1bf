//! Many descents at once: their cache misses overlap.
//!
//! Each descent takes one step at a time and asks for the lines of its next step before the others take their turn: a
//! step reads one node, except that a leaf takes two, its first line and then the slot that this line points to, so
//! that two of its five lines cross the memory bus and not all. Sixteen descents are in flight; whoever ends makes
//! room for the next probe.
//!
//! A descent that is made to insert asks for all lines of the leaf where its key is missing, and hands out the place:
//! the insert itself then searches nothing.
//!
//! Neighbours: up, the engine's multi-get, replay and load; down, `descend`, `insert`.

use ensile_epoch::Pinned;
use ensile_memory::prefetch;

use crate::descend::{Found, Look, Spot, child_for, look};
use crate::insert::{Insert, Layer, Outcome};
use crate::key::{Part, SLICE_BYTES};
use crate::memory::NodeMemory;
use crate::node::{Leaf, NodePtr, Ptr};
use crate::tree::{Lookup, Masstree};
use crate::version::Version;
use crate::witness::{NodeChanges, Witness};

/// Descents in flight: about as many as a core has outstanding line fills.
const FLIGHTS: usize = 16;

/// One key to look up in one tree.
#[derive(Clone, Copy, Debug)]
pub struct Probe<'a> {
    /// The tree.
    pub tree: &'a Masstree,
    /// The key.
    pub key: &'a [u8],
}

/// Where the way of a key ended.
#[derive(Clone, Copy, Debug)]
pub enum Place<'a, 'p> {
    /// At its value.
    Found(u64),
    /// Where it would stand.
    Gap(Gap<'a, 'p>),
}

/// Where a missing key would stand.
#[derive(Clone, Copy, Debug)]
pub struct Gap<'a, 'p> {
    tree: &'a Masstree,
    key: &'a [u8],
    layer: Layer<'a, 'p>,
    spot: Spot<'p>,
}

impl<'a, 'p> Gap<'a, 'p>
where
    'a: 'p,
{
    /// Inserts the key, unless it has been inserted meanwhile: as [`Masstree::insert_if_absent`], without a descent as
    /// long as the leaf is as it was.
    #[inline]
    pub fn insert(
        &self,
        value: u64,
        memory: &mut dyn NodeMemory,
        changes: &mut NodeChanges,
        pinned: Pinned<'p>,
    ) -> Insert {
        Masstree::assert_key(self.key);
        let here = self.tree.insert_at(&self.layer, &self.spot, value, memory, changes, pinned);
        match here.map(Outcome::insert) {
            Some(insert) => insert,
            None => self.tree.insert_if_absent(self.key, value, memory, changes, pinned),
        }
    }
}

/// One descent between two steps.
#[derive(Clone, Copy)]
struct Flight<'a, 'p> {
    /// The node to read next.
    node: NodePtr<'p>,
    layer: Layer<'a, 'p>,
    part: Part,
    /// The lines of the leaf `node` that the search needs have been asked for.
    are_slots_coming: bool,
    probe: usize,
}

impl Masstree {
    /// Looks up many keys, in many trees; `found(i, lookup)` is called once for each probe, in any order, as its
    /// descent ends. Allocates nothing.
    #[inline]
    pub fn get_batch(probes: &[Probe<'_>], pinned: Pinned<'_>, found: &mut impl FnMut(usize, Lookup)) {
        Self::descend_batch::<false>(probes, pinned, &mut |probe, _, spot| {
            found(
                probe,
                match spot.found {
                    Found::Match { value, .. } => Lookup::Found(value),
                    _ => Lookup::Missing(Witness::of(spot.leaf, spot.seen)),
                },
            );
        });
    }

    /// As [`Masstree::get_batch`], for keys of which many are to be inserted.
    #[inline]
    pub fn place_batch<'a, 'p>(
        probes: &[Probe<'a>],
        pinned: Pinned<'p>,
        placed: &mut impl FnMut(usize, Place<'a, 'p>),
    ) where
        'a: 'p,
    {
        Self::descend_batch::<true>(probes, pinned, &mut |probe, layer, spot| {
            let Probe { tree, key } = probes[probe];
            placed(
                probe,
                match spot.found {
                    Found::Match { value, .. } => Place::Found(value),
                    _ => Place::Gap(Gap { tree, key, layer, spot }),
                },
            );
        });
    }

    /// Lands once for each probe, in any order, where its key stands or would stand.
    #[inline(always)]
    fn descend_batch<'a, 'p, const TO_INSERT: bool>(
        probes: &[Probe<'a>],
        pinned: Pinned<'p>,
        landed: &mut impl FnMut(usize, Layer<'a, 'p>, Spot<'p>),
    ) where
        'a: 'p,
    {
        let Some(first) = probes.first() else { return };
        let mut flights = [Flight::take_off(0, first, pinned); FLIGHTS];
        let mut flying = probes.len().min(FLIGHTS);
        for (index, flight) in flights.iter_mut().enumerate().take(flying).skip(1) {
            *flight = Flight::take_off(index, &probes[index], pinned);
        }
        let mut next = flying;
        while flying > 0 {
            let mut index = 0;
            while index < flying {
                let flight = &mut flights[index];
                let Some(spot) = flight.step::<TO_INSERT>(probes, pinned) else {
                    index += 1;
                    continue;
                };
                landed(flight.probe, flight.layer, spot);
                if next < probes.len() {
                    *flight = Flight::take_off(next, &probes[next], pinned);
                    next += 1;
                } else {
                    flying -= 1;
                    flights[index] = flights[flying];
                }
            }
        }
    }
}

impl<'a, 'p> Flight<'a, 'p>
where
    'a: 'p,
{
    #[inline(always)]
    fn take_off(probe: usize, &Probe { tree, key }: &Probe<'a>, pinned: Pinned<'p>) -> Self {
        let root = tree.root(pinned);
        root.prefetch();
        let layer = Layer { root, parent: None, rest: key };
        Self { node: root, layer, part: Part::of(key), are_slots_coming: false, probe }
    }

    /// One step further; the place when there is one.
    #[inline(always)]
    fn step<const TO_INSERT: bool>(&mut self, probes: &[Probe<'a>], pinned: Pinned<'p>) -> Option<Spot<'p>> {
        let seen = self.node.stable();
        if self.node == self.layer.root && !seen.is_live_root() {
            *self = Self::take_off(self.probe, &probes[self.probe], pinned);
            return None;
        }
        if seen.is_leaf() {
            // SAFETY: `seen` was read from this node and says LEAF.
            let leaf = unsafe { self.node.leaf() };
            if !self.are_slots_coming && self.ask_for_slots::<TO_INSERT>(leaf) {
                return None;
            }
            return self.land(leaf, seen);
        }
        let child =
            if seen.is_deleted() { None } else { child_for(self.node, seen, self.part.slice, pinned) };
        match child {
            None => self.go_to(self.layer.root),
            Some(child) if seen.is_above_leaves() => {
                child.prefetch_first_line();
                self.node = child;
            }
            Some(child) => {
                child.prefetch_internal();
                self.node = child;
            }
        }
        None
    }

    /// Asks for the line of the slot where the key is likely to be, or for all lines of a leaf where it is to be
    /// inserted; false if there is nothing to ask for.
    #[inline(always)]
    fn ask_for_slots<const TO_INSERT: bool>(&mut self, leaf: Ptr<'p, Leaf>) -> bool {
        let candidates = leaf.candidates(self.part);
        if candidates != 0 {
            prefetch::line(&raw const leaf.slots[candidates.trailing_zeros() as usize]);
        } else if TO_INSERT {
            leaf.node().prefetch();
        } else {
            return false;
        }
        self.are_slots_coming = true;
        true
    }

    /// What a look into a leaf comes to.
    #[inline(always)]
    fn land(&mut self, leaf: Ptr<'p, Leaf>, seen: Version) -> Option<Spot<'p>> {
        match look(leaf, seen, self.part, self.layer.rest) {
            Look::Sure(Found::Layer(root)) => {
                self.layer = Layer { root, parent: Some(leaf), rest: &self.layer.rest[SLICE_BYTES..] };
                self.part = Part::of(self.layer.rest);
                self.go_to(root);
            }
            Look::Sure(found) => return Some(Spot { leaf, seen, found }),
            Look::Right(next) => self.go_to(next),
            Look::Again => self.go_to(self.layer.root),
        }
        None
    }

    #[inline(always)]
    fn go_to(&mut self, node: NodePtr<'p>) {
        node.prefetch();
        self.node = node;
        self.are_slots_coming = false;
    }
}
