//! Many descents at once: their cache misses overlap.
//!
//! Sixteen descents fly side by side. Each takes one step and asks for the lines of its next one before the others take
//! theirs: a step reads one node, except that a leaf takes two, its first line and then the slot that this line points
//! to, so that two of its five lines cross the memory bus and not all. Only a tree's root and the root's child, which
//! are in the cache, are passed at take-off. They step down together, look together, and those whose key goes on in a
//! deeper layer go on from its root.
//!
//! A descent that is made to insert asks for all lines of the leaf where its key is missing, and hands out the place:
//! the insert itself then searches nothing.
//!
//! Neighbours: up, the engine's multi-get, replay and load; down, `descend`, `insert`.

use std::mem::MaybeUninit;

use ensile_epoch::Pinned;
use ensile_memory::prefetch;

use crate::descend::{InLeaf, LeafPlace, LeafSearch, child_for, search_leaf};
use crate::insert::{Insert, InsertOutcome, Layer};
use crate::key::{KeyPart, SLICE_BYTES};
use crate::memory::NodeMemory;
use crate::node::{Leaf, NodePtr, Ptr};
use crate::skip_block::SkipRef;
use crate::tree::{Lookup, Masstree};
use crate::version::Version;
use crate::witness::{NodeChanges, Witness};

/// Descents in flight: about as many as a core has outstanding line fills.
const FLIGHTS: usize = 16;

/// One key to look up in one tree.
#[derive(Clone, Copy, Debug)]
pub struct Probe<'a, L> {
    /// The tree.
    pub tree: &'a Masstree,
    /// The key.
    pub key: &'a [u8],
    /// What the caller knows it by: handed back with the answer.
    pub label: L,
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
    place: LeafPlace<'p>,
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
        let here = self.tree.insert_at(&self.layer, &self.place, value, memory, changes, pinned);
        match here.map(InsertOutcome::insert) {
            Some(insert) => insert,
            None => self.tree.insert_if_absent(self.key, value, memory, changes, pinned),
        }
    }
}

/// One descent between two steps.
#[derive(Clone, Copy)]
struct Flight<'a, 'p, L> {
    probe: Probe<'a, L>,
    /// The root of the layer, and how many slices of the key lie above it.
    root: NodePtr<'p>,
    depth: u32,
    /// The leaf of the layer above in which the layer's slot was seen.
    parent: Option<Ptr<'p, Leaf>>,
    part: KeyPart,
    /// The node to read next, asked for.
    node: NodePtr<'p>,
    stage: FlightStage,
    /// The skip that stands next on the key's way was asked for.
    asked_for_skip: bool,
}

/// How far down in its layer a flight is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FlightStage {
    /// At the root.
    Root,
    /// At an internal node.
    Inner,
    /// At a leaf.
    Leaf,
}

/// A leaf as of when its slot was asked for.
#[derive(Clone, Copy)]
struct ObservedLeaf {
    seen: Version,
    candidates: u32,
}

impl Masstree {
    /// Looks up many keys, in many trees; `found(label, lookup)` is called once for each probe, in any order, as its
    /// descent ends. Allocates nothing.
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
                    _ => Lookup::Missing(Witness::of(place.leaf, place.seen)),
                },
            );
        });
    }

    /// As [`Masstree::get_batch`], for keys of which many are to be inserted.
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

    /// Lands once for each probe, in any order, where its key stands or would stand.
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
    /// Takes all flights down to a leaf of their layers, a step of each at a time.
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
            place.write(Self::before(probe, pinned)).enter(pinned);
            flying += 1;
        }
        // SAFETY: the first `flying` places were written just now.
        unsafe { places[..flying].assume_init_mut() }
    }

    #[inline(always)]
    fn before(probe: Probe<'a, L>, pinned: Pinned<'p>) -> Self {
        let root = probe.tree.root(pinned);
        let part = KeyPart::of(probe.key);
        let stage = FlightStage::Root;
        Self { probe, root, depth: 0, parent: None, part, node: root, stage, asked_for_skip: false }
    }

    /// What of the key is left at this layer.
    #[inline(always)]
    fn rest(&self) -> &'a [u8] {
        &self.probe.key[self.depth as usize * SLICE_BYTES..]
    }

    #[inline(always)]
    fn layer(&self) -> Layer<'a, 'p> {
        Layer { root: self.root, parent: self.parent, rest: self.rest() }
    }

    /// Through the root of the layer.
    #[inline(always)]
    fn enter(&mut self, pinned: Pinned<'p>) {
        loop {
            let (mut node, mut seen) = (self.root, self.root.stable());
            if !seen.is_live_root() {
                (self.root, self.depth, self.parent) = (self.probe.tree.root(pinned), 0, None);
                self.part = KeyPart::of(self.probe.key);
                continue;
            }
            if seen.is_leaf() {
                (self.node, self.stage) = (node, FlightStage::Leaf);
                return;
            }
            // The child of a tree's root is in the cache as the root is.
            if self.depth == 0 && !seen.is_above_leaves() {
                let Some(child) = child_for(node, seen, self.part.slice, pinned) else { continue };
                (node, seen) = (child, child.stable());
            }
            if let Some(child) = live_child(node, seen, self.part.slice, pinned) {
                return self.go_to(child, seen.is_above_leaves());
            }
        }
    }

    /// One step down from an internal node.
    #[inline(always)]
    fn step_down(&mut self, pinned: Pinned<'p>) {
        let seen = self.node.stable();
        match live_child(self.node, seen, self.part.slice, pinned) {
            Some(child) => self.go_to(child, seen.is_above_leaves()),
            None => self.enter_again(pinned),
        }
    }

    /// As [`Flight::enter`], where there is no need for a copy of it: at a deeper layer, or after a change on the way.
    #[inline(never)]
    fn enter_again(&mut self, pinned: Pinned<'p>) {
        self.enter(pinned);
    }

    /// Stands at a node from now on, which is asked for: of a leaf, the line that tells the slot.
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

    /// Asks for the line of the slot where the key is likely to be, or for all lines of a leaf where it is to be
    /// inserted.
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

    /// The usual end: a short key, whole in this layer, in the slot that was asked for.
    #[inline(always)]
    fn hit(&self, ObservedLeaf { seen, candidates }: ObservedLeaf) -> Option<LeafPlace<'p>> {
        let leaf = self.leaf();
        let slot = candidates.trailing_zeros() as usize;
        let there = leaf.slots.get(slot)?;
        let is_it = there.slice.read() == self.part.slice && leaf.kind(slot) == self.part.rank;
        let value = there.value.read();
        let is_sure = is_it && !self.part.is_long() && leaf.version.unchanged(seen);
        is_sure.then_some(LeafPlace { leaf, seen, found: InLeaf::Match { slot, value } })
    }

    /// A look into the leaf; if the way goes on from there, the place is yet to be found.
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

    /// On to the root of a deeper layer, that these slices more of the key stand above.
    #[inline(always)]
    fn go_deeper(&mut self, root: NodePtr<'p>, leaf: Ptr<'p, Leaf>, slices: u32) {
        root.prefetch();
        (self.root, self.parent, self.depth) = (root, Some(leaf), self.depth + slices);
        self.part = KeyPart::of(self.rest());
        self.stage = FlightStage::Root;
    }

    /// Asks for a skip; when it is met again, behind the steps of all others, goes on below it. `None` if the key parts
    /// from it.
    #[inline(never)]
    fn follow_skip(&mut self, skip: SkipRef<'p>, leaf: Ptr<'p, Leaf>) -> Option<()> {
        self.asked_for_skip = !self.asked_for_skip;
        if self.asked_for_skip {
            skip.prefetch();
            return Some(());
        }
        skip.lead(&self.rest()[SLICE_BYTES..])?;
        self.go_deeper(skip.root(), leaf, 1 + (skip.bytes().len() / SLICE_BYTES) as u32);
        Some(())
    }

    #[inline(always)]
    fn leaf(&self) -> Ptr<'p, Leaf> {
        debug_assert!(self.stage == FlightStage::Leaf && self.node.is_leaf());
        // SAFETY: the node is a root whose version says LEAF, or a child of one that says LOW, or a leaf's neighbour.
        unsafe { self.node.leaf() }
    }
}

/// The child of an internal node that covers a slice; `None` if the node changed, or is gone.
#[inline(always)]
fn live_child<'p>(node: NodePtr<'p>, seen: Version, slice: u64, pinned: Pinned<'p>) -> Option<NodePtr<'p>> {
    if seen.is_deleted() { None } else { child_for(node, seen, slice, pinned) }
}
