//! Many descents at once: their cache misses overlap.
//!
//! Sixteen descents fly side by side. Each takes one step and asks for the lines of its next one before the others take
//! theirs: a step reads one node, except that a leaf takes two, its first line and then the slot that this line points
//! to, so that two of its five lines cross the memory bus and not all. They step down together, look together, and
//! those whose key goes on in a deeper layer start again from its root.
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
    /// The node to read next, asked for.
    node: NodePtr<'p>,
    /// It is a leaf.
    is_low: bool,
    layer: Layer<'a, 'p>,
    part: Part,
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
        for start in (0..probes.len()).step_by(FLIGHTS) {
            let mut flying = FLIGHTS.min(probes.len() - start);
            let first = Flight::take_off(start, &probes[start], pinned);
            let mut flights: [_; FLIGHTS] = std::array::from_fn(|at| match start + at {
                probe if at > 0 && at < flying => Flight::take_off(probe, &probes[probe], pinned),
                _ => first,
            });
            while flying > 0 {
                let flights = &mut flights[..flying];
                while flights.iter_mut().fold(false, |high, flight| flight.step_down(probes, pinned) | high) {
                }
                flights.iter_mut().for_each(|flight| flight.ask_for_slots::<TO_INSERT>());
                flying = 0;
                for at in 0..flights.len() {
                    match flights[at].look() {
                        Some(spot) => landed(flights[at].probe, flights[at].layer, spot),
                        None => {
                            flights[flying] = flights[at];
                            flying += 1;
                        }
                    }
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
        root.prefetch_first_line();
        let layer = Layer { root, parent: None, rest: key };
        Self { node: root, is_low: false, layer, part: Part::of(key), probe }
    }

    /// One step further down; whether a leaf is yet to be reached.
    #[inline(always)]
    fn step_down(&mut self, probes: &[Probe<'a>], pinned: Pinned<'p>) -> bool {
        if self.is_low {
            return false;
        }
        let (mut node, mut seen) = (self.node, self.node.stable());
        if node == self.layer.root {
            if !seen.is_live_root() {
                *self = Self::take_off(self.probe, &probes[self.probe], pinned);
                return true;
            }
            if seen.is_leaf() {
                self.is_low = true;
                return false;
            }
            // A root's children are in the cache as the root is: on through one of them at once.
            if !seen.is_above_leaves() {
                let Some(child) = child_for(node, seen, self.part.slice, pinned) else { return true };
                (node, seen) = (child, child.stable());
            }
        }
        let child = if seen.is_deleted() { None } else { child_for(node, seen, self.part.slice, pinned) };
        match child {
            None => self.go_to(self.layer.root, false),
            Some(child) if seen.is_above_leaves() => {
                child.prefetch_first_line();
                (self.node, self.is_low) = (child, true);
            }
            Some(child) => {
                child.prefetch_internal();
                self.node = child;
            }
        }
        !self.is_low
    }

    /// Asks for the line of the slot where the key is likely to be, or for all lines of a leaf where it is to be
    /// inserted.
    #[inline(always)]
    fn ask_for_slots<const TO_INSERT: bool>(&self) {
        let leaf = self.leaf();
        let candidates = leaf.candidates(self.part);
        if candidates != 0 {
            prefetch::line(&raw const leaf.slots[candidates.trailing_zeros() as usize]);
        } else if TO_INSERT {
            leaf.node().prefetch();
        }
    }

    /// A look into the leaf; if the way goes on from there, the place is yet to be found.
    #[inline(always)]
    fn look(&mut self) -> Option<Spot<'p>> {
        let leaf = self.leaf();
        let seen = leaf.version.stable();
        match look(leaf, seen, self.part, self.layer.rest) {
            Look::Sure(Found::Layer(root)) => {
                self.layer = Layer { root, parent: Some(leaf), rest: &self.layer.rest[SLICE_BYTES..] };
                self.part = Part::of(self.layer.rest);
                self.go_to(root, false);
            }
            Look::Sure(found) => return Some(Spot { leaf, seen, found }),
            Look::Right(next) => self.go_to(next, true),
            Look::Again => self.go_to(self.layer.root, false),
        }
        None
    }

    #[inline(always)]
    fn leaf(&self) -> Ptr<'p, Leaf> {
        debug_assert!(self.is_low && self.node.is_leaf());
        // SAFETY: the node is a root whose version says LEAF, or a child of one that says LOW, or a leaf's neighbour.
        unsafe { self.node.leaf() }
    }

    #[inline(always)]
    fn go_to(&mut self, node: NodePtr<'p>, is_low: bool) {
        node.prefetch();
        (self.node, self.is_low) = (node, is_low);
    }
}
