//! Many point reads at once: their cache misses overlap.
//!
//! Each descent takes one step at a time and asks for the lines of its next step before the others take their turn: a
//! step reads one node, except that a leaf takes two, its first line and then the slot that this line points to, so
//! that two of its five lines cross the memory bus and not all. Sixteen descents are in flight; whoever ends makes
//! room for the next probe.
//!
//! Neighbours: up, the engine's multi-get, replay and load; down, `descend`.

use ensile_epoch::Pinned;
use ensile_memory::prefetch;

use crate::descend::{Found, Look, child_for, look};
use crate::key::{Part, SLICE_BYTES};
use crate::node::{Leaf, NodePtr, Ptr};
use crate::tree::{Lookup, Masstree};
use crate::witness::Witness;

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

/// One descent between two steps.
#[derive(Clone, Copy)]
struct Flight<'a, 'p> {
    /// The node to read next.
    node: NodePtr<'p>,
    /// The root of this layer.
    root: NodePtr<'p>,
    part: Part,
    /// The slot's line of the leaf `node` has been asked for.
    is_slot_coming: bool,
    /// The key from this layer on.
    rest: &'a [u8],
    probe: usize,
}

impl Masstree {
    /// Looks up many keys, in many trees; `found(i, lookup)` is called once for each probe, in any order, as its
    /// descent ends. Allocates nothing.
    pub fn get_batch(probes: &[Probe<'_>], pinned: Pinned<'_>, found: &mut impl FnMut(usize, Lookup)) {
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
                let Some(lookup) = flight.step(probes, pinned) else {
                    index += 1;
                    continue;
                };
                found(flight.probe, lookup);
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
        Self { node: root, root, part: Part::of(key), is_slot_coming: false, rest: key, probe }
    }

    /// One step further; the answer when there is one.
    #[inline(always)]
    fn step(&mut self, probes: &[Probe<'a>], pinned: Pinned<'p>) -> Option<Lookup> {
        let seen = self.node.stable();
        if self.node == self.root && !seen.is_live_root() {
            *self = Self::take_off(self.probe, &probes[self.probe], pinned);
            return None;
        }
        if seen.is_leaf() {
            // SAFETY: `seen` was read from this node and says LEAF.
            let leaf = unsafe { self.node.leaf() };
            if !self.is_slot_coming && self.ask_for_slot(leaf) {
                return None;
            }
            return self.land(leaf, look(leaf, seen, self.part, self.rest), |leaf| Witness::of(leaf, seen));
        }
        let child =
            if seen.is_deleted() { None } else { child_for(self.node, seen, self.part.slice, pinned) };
        match child {
            None => self.go_to(self.root),
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

    /// Asks for the line of the slot where the key is likely to be; false if there is none.
    #[inline(always)]
    fn ask_for_slot(&mut self, leaf: Ptr<'p, Leaf>) -> bool {
        let candidates = leaf.candidates(self.part);
        if candidates == 0 {
            return false;
        }
        prefetch::line(&raw const leaf.slots[candidates.trailing_zeros() as usize]);
        self.is_slot_coming = true;
        true
    }

    /// What a look into a leaf comes to.
    #[inline(always)]
    fn land(
        &mut self,
        leaf: Ptr<'p, Leaf>,
        look: Look<'p>,
        witness: impl FnOnce(Ptr<'p, Leaf>) -> Witness,
    ) -> Option<Lookup> {
        match look {
            Look::Sure(Found::Match { value, .. }) => return Some(Lookup::Found(value)),
            Look::Sure(Found::Clash { .. } | Found::Absent) => return Some(Lookup::Missing(witness(leaf))),
            Look::Sure(Found::Layer(root)) => {
                self.rest = &self.rest[SLICE_BYTES..];
                self.part = Part::of(self.rest);
                self.root = root;
                self.go_to(root);
            }
            Look::Right(next) => self.go_to(next),
            Look::Again => self.go_to(self.root),
        }
        None
    }

    #[inline(always)]
    fn go_to(&mut self, node: NodePtr<'p>) {
        node.prefetch();
        self.node = node;
        self.is_slot_coming = false;
    }
}
