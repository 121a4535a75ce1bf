//! Many descents at once: their cache misses overlap.
//!
//! Sixteen descents fly side by side. Each descent takes a step and prefetches the lines of its next step before the
//! others take their step. A step reads a node. A leaf takes two steps: its first line, and then the slot that the
//! first line points to, so that two of the leaf's five lines cross the memory bus. Only a tree's root and the root's
//! child, which are in the cache, are passed at take-off. The descents step down together and look together. A descent
//! whose key goes on in a deeper layer goes on from the layer's root.
//!
//! A descent that is made to insert prefetches every line of the leaf where its key is missing, and hands out the
//! place: the insert then searches nothing.
//!
//! Neighbours: up, the engine's multi-get, replay and load; down, `descent`, `insert`.

use std::mem::MaybeUninit;

use ensile_epoch::Pinned;
use ensile_memory::prefetch;

use crate::descent::{InLeaf, LeafPlace, LeafSearch, child_for, search_leaf};
use crate::insert::{Insert, InsertOutcome, Layer};
use crate::key::{KeyPart, SLICE_BYTES};
use crate::memory::NodeMemory;
use crate::node::{Leaf, NodePtr, Ptr};
use crate::skip_block::SkipRef;
use crate::tree::{Lookup, Masstree};
use crate::version::Version;
use crate::witness::{NodeChanges, Witness};

/// Number of descents in flight: about the number of a core's outstanding line fills.
const FLIGHTS: usize = 16;

/// A key to look up in a tree.
#[derive(Clone, Copy, Debug)]
pub struct Probe<'a, L> {
    /// The tree.
    pub tree: &'a Masstree,
    /// The key.
    pub key: &'a [u8],
    /// The caller's label of the key, handed back with the answer.
    pub label: L,
}

/// End of a key's way.
#[derive(Clone, Copy, Debug)]
pub enum Place<'a, 'p> {
    /// At the key's value.
    Found(u64),
    /// At the place where the key would stand.
    Gap(Gap<'a, 'p>),
}

/// Place where a missing key would stand.
#[derive(Clone, Copy, Debug)]
pub struct Gap<'a, 'p> {
    tree: &'a Masstree,
    key: &'a [u8],
    layer: Layer<'a, 'p>,
    place: LeafPlace<'p>,
}

impl<'a, 'p> Gap<'a, 'p>
where
    'a: 'p,
{
    /// Inserts the key, unless another thread has inserted the key meanwhile. As [`Masstree::insert_if_absent`],
    /// without a descent as long as the leaf is unchanged.
    #[inline]
    pub fn insert(
        &self,
        value: u64,
        memory: &mut dyn NodeMemory,
        changes: &mut NodeChanges,
        pinned: Pinned<'p>,
    ) -> Insert {
        Masstree::assert_key(self.key);
        let here = self.tree.insert_at(&self.layer, &self.place, value, memory, changes, pinned);
        match here.map(InsertOutcome::insert) {
            Some(insert) => insert,
            None => self.tree.insert_if_absent(self.key, value, memory, changes, pinned),
        }
    }
}

/// A descent between two steps.
#[derive(Clone, Copy)]
struct Flight<'a, 'p, L> {
    probe: Probe<'a, L>,
    /// Root of the layer. `depth` is the number of slices of the key above the layer.
    root: NodePtr<'p>,
    depth: u32,
    /// Leaf of the layer above in which the layer's slot was seen.
    parent: Option<Ptr<'p, Leaf>>,
    part: KeyPart,
    /// Next node to read, already prefetched.
    node: NodePtr<'p>,
    stage: FlightStage,
    /// True if the next skip on the key's way was prefetched.
    asked_for_skip: bool,
}

/// Depth of a flight in its layer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FlightStage {
    /// At the root.
    Root,
    /// At an internal node.
    Inner,
    /// At a leaf.
    Leaf,
}

/// A leaf as of the prefetch of its slot.
#[derive(Clone, Copy)]
struct ObservedLeaf {
    seen: Version,
    candidates: u32,
}

impl Masstree {
    /// Looks up many keys, in many trees. `found(label, lookup)` is called once per probe, in any order, as its descent
    /// ends. Allocates nothing.
    #[inline]
    pub fn get_batch<'a, L: Copy>(
        probes: impl IntoIterator<Item = Probe<'a, L>>,
        pinned: Pinned<'_>,
        found: &mut impl FnMut(L, Lookup),
    ) {
        Self::descend_batch::<L, false>(probes.into_iter(), pinned, &mut |flight, place| {
            found(
                flight.probe.label,
                match place.found {
                    InLeaf::Match { value, .. } => Lookup::Found(value),
                    _ => Lookup::Missing(Witness::from_leaf(place.leaf, place.seen)),
                },
            );
        });
    }

    /// As [`Masstree::get_batch`], for keys of which many will be inserted.
    #[inline]
    pub fn place_batch<'a, 'p, L: Copy>(
        probes: impl IntoIterator<Item = Probe<'a, L>>,
        pinned: Pinned<'p>,
        placed: &mut impl FnMut(L, Place<'a, 'p>),
    ) where
        'a: 'p,
    {
        Self::descend_batch::<L, true>(probes.into_iter(), pinned, &mut |flight, place| {
            let Probe { tree, key, label } = flight.probe;
            placed(
                label,
                match place.found {
                    InLeaf::Match { value, .. } => Place::Found(value),
                    _ => Place::Gap(Gap { tree, key, layer: flight.layer(), place }),
                },
            );
        });
    }

    /// Calls `landed` once per probe, in any order, with the place where the key stands or would stand. `TO_INSERT`
    /// prefetches whole leaves.
    #[inline(always)]
    fn descend_batch<'a, 'p, L: Copy, const TO_INSERT: bool>(
        mut probes: impl Iterator<Item = Probe<'a, L>>,
        pinned: Pinned<'p>,
        landed: &mut impl FnMut(&Flight<'a, 'p, L>, LeafPlace<'p>),
    ) where
        'a: 'p,
    {
        let mut places = [const { MaybeUninit::uninit() }; FLIGHTS];
        let mut all_observed = [ObservedLeaf { seen: Version::leaf(false), candidates: 0 }; FLIGHTS];
        loop {
            let all_flights = Flight::take_off(&mut places, &mut probes, pinned);
            let taken = all_flights.len();
            let mut flying = taken;
            while flying > 0 {
                let flights = &mut all_flights[..flying];
                Flight::all_to_leaves(flights, pinned);
                for (flight, observed) in flights.iter().zip(&mut all_observed) {
                    *observed = flight.ask_for_slots::<TO_INSERT>();
                }
                flying = 0;
                for (at, &observed) in (0..flights.len()).zip(&all_observed) {
                    let flight = &mut flights[at];
                    if let Some(place) = flight.hit(observed).or_else(|| flight.look_closely(observed)) {
                        landed(flight, place);
                    } else {
                        flights[flying] = flights[at];
                        flying += 1;
                    }
                }
            }
            if taken < FLIGHTS {
                return;
            }
        }
    }
}

impl<'a, 'p, L: Copy> Flight<'a, 'p, L>
where
    'a: 'p,
{
    /// Takes the flights down to a leaf of their layers, a step of each at a time.
    #[inline(always)]
    fn all_to_leaves(flights: &mut [Self], pinned: Pinned<'p>) {
        let mut is_high = true;
        while is_high {
            is_high = false;
            for flight in &mut *flights {
                match flight.stage {
                    FlightStage::Leaf => continue,
                    FlightStage::Inner => flight.step_down(pinned),
                    FlightStage::Root => flight.enter_again(pinned),
                }
                is_high |= flight.stage != FlightStage::Leaf;
            }
        }
    }

    /// Lets as many probes take off as there is room for.
    #[inline(never)]
    fn take_off<'f>(
        places: &'f mut [MaybeUninit<Self>; FLIGHTS],
        probes: &mut impl Iterator<Item = Probe<'a, L>>,
        pinned: Pinned<'p>,
    ) -> &'f mut [Self] {
        let mut flying = 0;
        // Room first: a probe that was taken must not be lost.
        for (place, probe) in places.iter_mut().zip(probes) {
            place.write(Self::new(probe, pinned)).enter(pinned);
            flying += 1;
        }
        // SAFETY: the first `flying` places were written just now, and `MaybeUninit` has the layout of its content.
        unsafe { &mut *(&raw mut places[..flying] as *mut [Self]) }
    }

    #[inline(always)]
    fn new(probe: Probe<'a, L>, pinned: Pinned<'p>) -> Self {
        let root = probe.tree.root(pinned);
        let part = KeyPart::from_rest(probe.key);
        let stage = FlightStage::Root;
        Self { probe, root, depth: 0, parent: None, part, node: root, stage, asked_for_skip: false }
    }

    /// Rest of the key at this layer.
    #[inline(always)]
    fn rest(&self) -> &'a [u8] {
        &self.probe.key[self.depth as usize * SLICE_BYTES..]
    }

    #[inline(always)]
    fn layer(&self) -> Layer<'a, 'p> {
        Layer { root: self.root, parent: self.parent, rest: self.rest() }
    }

    /// Passes through the root of the layer.
    #[inline(always)]
    fn enter(&mut self, pinned: Pinned<'p>) {
        loop {
            let (mut node, mut seen) = (self.root, self.root.stable());
            if !seen.is_live_root() {
                (self.root, self.depth, self.parent) = (self.probe.tree.root(pinned), 0, None);
                self.part = KeyPart::from_rest(self.probe.key);
                continue;
            }
            if seen.is_leaf() {
                (self.node, self.stage) = (node, FlightStage::Leaf);
                return;
            }
            // The child of a tree's root is in the cache, like the root.
            if self.depth == 0 && !seen.is_above_leaves() {
                let Some(child) = child_for(node, seen, self.part.slice, pinned) else { continue };
                (node, seen) = (child, child.stable());
            }
            if let Some(child) = live_child(node, seen, self.part.slice, pinned) {
                return self.go_to(child, seen.is_above_leaves());
            }
        }
    }

    /// Takes a step down from an internal node.
    #[inline(always)]
    fn step_down(&mut self, pinned: Pinned<'p>) {
        let seen = self.node.stable();
        match live_child(self.node, seen, self.part.slice, pinned) {
            Some(child) => self.go_to(child, seen.is_above_leaves()),
            None => self.enter_again(pinned),
        }
    }

    /// As [`Flight::enter`], where an inlined copy is not needed: at a deeper layer, or after a change on the way.
    #[inline(never)]
    fn enter_again(&mut self, pinned: Pinned<'p>) {
        self.enter(pinned);
    }

    /// Moves to a node and prefetches the node; for a leaf, the line that tells the slot.
    #[inline(always)]
    fn go_to(&mut self, node: NodePtr<'p>, is_leaf: bool) {
        self.node = node;
        if is_leaf {
            node.prefetch_first_line();
            self.stage = FlightStage::Leaf;
        } else {
            node.prefetch_internal();
            self.stage = FlightStage::Inner;
        }
    }

    /// Prefetches the line of the key's likely slot, or every line of a leaf for an insert.
    #[inline(always)]
    fn ask_for_slots<const TO_INSERT: bool>(&self) -> ObservedLeaf {
        let leaf = self.leaf();
        let seen = leaf.version.stable();
        let candidates = leaf.candidates(self.part);
        if candidates != 0 {
            prefetch::line(&raw const leaf.slots[candidates.trailing_zeros() as usize]);
        } else if TO_INSERT {
            leaf.node().prefetch();
        }
        ObservedLeaf { seen, candidates }
    }

    /// The usual end: a short key, whole in this layer, in the prefetched slot.
    #[inline(always)]
    fn hit(&self, ObservedLeaf { seen, candidates }: ObservedLeaf) -> Option<LeafPlace<'p>> {
        let leaf = self.leaf();
        let slot = candidates.trailing_zeros() as usize;
        let there = leaf.slots.get(slot)?;
        let is_it = there.slice.read() == self.part.slice && leaf.kind(slot) == self.part.rank;
        let value = there.value.read();
        let is_sure = is_it && !self.part.is_long() && leaf.version.is_unchanged(seen);
        is_sure.then_some(LeafPlace { leaf, seen, found: InLeaf::Match { slot, value } })
    }

    /// Searches the leaf; `None` if the search continues in another node.
    #[inline(never)]
    fn look_closely(&mut self, ObservedLeaf { seen, candidates }: ObservedLeaf) -> Option<LeafPlace<'p>> {
        let leaf = self.leaf();
        match search_leaf(leaf, seen, candidates, self.part, || self.rest()) {
            LeafSearch::Sure(InLeaf::Layer(root)) => self.go_deeper(root, leaf, 1),
            LeafSearch::Sure(found @ InLeaf::Skip { skip, .. }) => {
                let place = LeafPlace { leaf, seen, found };
                return self.follow_skip(skip, leaf).is_none().then_some(place);
            }
            LeafSearch::Sure(found) => return Some(LeafPlace { leaf, seen, found }),
            LeafSearch::Right(next) => {
                next.prefetch();
                self.node = next;
            }
            LeafSearch::Again => self.stage = FlightStage::Root,
        }
        None
    }

    /// Moves on to the root of a deeper layer; `slices` more slices of the key stand above the layer.
    #[inline(always)]
    fn go_deeper(&mut self, root: NodePtr<'p>, leaf: Ptr<'p, Leaf>, slices: u32) {
        root.prefetch();
        (self.root, self.parent, self.depth) = (root, Some(leaf), self.depth + slices);
        self.part = KeyPart::from_rest(self.rest());
        self.stage = FlightStage::Root;
    }

    /// Prefetches a skip. At the second visit, behind the steps of the other flights, goes on below the skip. `None` if
    /// the key parts from the skip.
    #[inline(never)]
    fn follow_skip(&mut self, skip: SkipRef<'p>, leaf: Ptr<'p, Leaf>) -> Option<()> {
        self.asked_for_skip = !self.asked_for_skip;
        if self.asked_for_skip {
            skip.prefetch();
            return Some(());
        }
        skip.strip_shared(&self.rest()[SLICE_BYTES..])?;
        self.go_deeper(skip.root(), leaf, 1 + (skip.bytes().len() / SLICE_BYTES) as u32);
        Some(())
    }

    #[inline(always)]
    fn leaf(&self) -> Ptr<'p, Leaf> {
        debug_assert!(self.stage == FlightStage::Leaf && self.node.is_leaf());
        // SAFETY: the node is a root whose version says LEAF, or a child of a node that says LOW, or a leaf's
        // neighbour.
        unsafe { self.node.leaf() }
    }
}

/// The child of an internal node that covers a slice; `None` if the node changed, or is gone.
#[inline(always)]
fn live_child<'p>(node: NodePtr<'p>, seen: Version, slice: u64, pinned: Pinned<'p>) -> Option<NodePtr<'p>> {
    if seen.is_deleted() { None } else { child_for(node, seen, slice, pinned) }
}
