//! Scans in both directions, one consistent leaf at a time.
//!
//! A scan stands at a [`Cursor`]: a place between keys. Each leaf is copied to the stack under one version and handed
//! out only after that version was validated: first the witness, then the entries. What is copied includes the places
//! of suffixes, whose bytes never change (APPEND), so nothing of an entry is read after validation that could change.
//!
//! Going on to a neighbour is checked by COVER: the next leaf must begin where the last one ended. Where it does not,
//! or a leaf or layer is gone, the scan descends again from the root to its cursor, behind everything it has handed
//! out. An empty layer or leaf is an ordinary stop with a witness and no entries, so neither direction can turn on it
//! for ever.
//!
//! Neighbours: up, the engine's range reads; down, `descend`, `node`.

use std::cmp::Ordering;
use std::ops::{Bound, ControlFlow};

use ensile_base::planted::{Bug, is_planted};
use ensile_epoch::Pinned;
use ensile_memory::prefetch;

use crate::descend::leaf_for;
use crate::key::{LONG, Part, SLICE_BYTES, shortest};
use crate::node::{LAYER, LEAF_SLOTS, Leaf, NodePtr, Ptr, SUFFIX};
use crate::tree::Masstree;
use crate::version::Version;
use crate::witness::Witness;

/// A range of keys.
#[derive(Clone, Copy, Debug)]
pub struct Range<'a> {
    /// Where it begins.
    pub lower: Bound<&'a [u8]>,
    /// Where it ends.
    pub upper: Bound<&'a [u8]>,
}

/// Which end of the range comes first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// Smallest key first.
    Forward,
    /// Largest key first.
    Reverse,
}

/// What a scan calls.
pub trait ScanVisitor {
    /// A leaf that the answer depends on, link-only and empty ones included; before the entries read from it. The
    /// same leaf may be handed in several times.
    fn witness(&mut self, witness: Witness);

    /// The next entry in order. `Break` ends the scan.
    fn entry(&mut self, key: &[u8], value: u64) -> ControlFlow<()>;

    /// The value of an entry that comes up soon, unless the scan ends before: what it stands for can be asked for.
    #[inline]
    fn soon(&mut self, value: u64) {
        let _ = value;
    }
}

/// Where a scan goes on, relative to its key bytes; in reverse read "before" for "behind".
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Edge {
    /// At the key itself.
    At,
    /// Behind the key.
    Behind,
    /// Forward: behind all keys that begin with it. Reverse: at the last of them.
    AroundPrefix,
}

/// Why a run through leaves ended.
enum Stop {
    /// The scan is done.
    Done,
    /// Descend again to the cursor.
    Lost,
}

/// An entry as copied from a leaf.
#[derive(Clone, Copy)]
struct Copied<'p> {
    part: Part,
    is_layer: bool,
    value: u64,
    suffix: &'p [u8],
}

/// A leaf as of one version.
struct Snapshot<'p> {
    seen: Version,
    entries: [Copied<'p>; LEAF_SLOTS],
    count: usize,
    low: u64,
    high: u64,
    /// The neighbour in the direction of the scan.
    neighbour: *mut Leaf,
}

impl<'p> Snapshot<'p> {
    /// The entry at an index, counted in the direction of the scan.
    #[inline(always)]
    fn entry(&self, index: usize, reverse: bool) -> &Copied<'p> {
        &self.entries[if reverse { self.count - 1 - index } else { index }]
    }
}

struct Scan<'t, 'p, V> {
    tree: &'t Masstree,
    pinned: Pinned<'p>,
    visitor: &'t mut V,
    reverse: bool,
    /// The bound where the scan ends.
    end: Bound<&'t [u8]>,
    /// The key bytes of the cursor: after an entry, that entry's key.
    key: Vec<u8>,
    edge: Edge,
    /// The leaves whose layer slots we went down through, outermost first.
    above: Vec<Ptr<'p, Leaf>>,
    /// How many entries ahead the visitor hears of: more with each that it has gone past, so that a scan of one entry
    /// asks for nothing else.
    reach: usize,
}

/// Where to start within one layer: a part, and whether the entry there is itself meant.
#[derive(Clone, Copy)]
struct Start {
    part: Part,
    inclusive: bool,
    /// Whether the cursor's key goes on behind `part` (which is LONG then): what is left of it decides.
    goes_on: bool,
}

/// How a leaf was left.
enum Left<'p> {
    /// The scan is done.
    Done,
    /// A layer comes next.
    Layer(NodePtr<'p>),
    /// All entries are handed out.
    Exhausted,
}

impl Masstree {
    /// Hands the entries of a range to a visitor, in order, while other threads change the tree.
    ///
    /// Each leaf's entries are one consistent state; the whole is one if all witnesses hold afterwards.
    pub fn scan(
        &self,
        range: Range<'_>,
        direction: Direction,
        visitor: &mut impl ScanVisitor,
        pinned: Pinned<'_>,
    ) {
        let reverse = direction == Direction::Reverse;
        let (begin, end) = if reverse { (range.upper, range.lower) } else { (range.lower, range.upper) };
        let (key, edge) = match begin {
            Bound::Included(key) => (key, Edge::At),
            Bound::Excluded(key) => (key, Edge::Behind),
            // Every key begins with the empty prefix.
            Bound::Unbounded => (&[][..], if reverse { Edge::AroundPrefix } else { Edge::At }),
        };
        let mut bytes = Vec::with_capacity(key.len() + 4 * SLICE_BYTES);
        bytes.extend_from_slice(key);
        let above = Vec::new();
        let mut scan = Scan { tree: self, pinned, visitor, reverse, end, key: bytes, edge, above, reach: 0 };
        while let Stop::Lost = scan.run() {}
    }
}

impl<'t, 'p, V: ScanVisitor> Scan<'t, 'p, V>
where
    't: 'p,
{
    /// Scans on from the cursor, descending from the root.
    fn run(&mut self) -> Stop {
        self.above.clear();
        let mut next = self.enter(self.tree.root(self.pinned));
        loop {
            let Some(leaf) = next else { return Stop::Lost };
            let start = self.start();
            let Some(snapshot) = self.snapshot(leaf, start.part.slice) else { return Stop::Lost };
            if snapshot.count > 0 || !is_planted(Bug::EmptyLeafNotWitnessed) {
                self.visitor.witness(Witness::of(leaf, snapshot.seen));
            }
            match self.hand_out(&snapshot, start) {
                Left::Done => return Stop::Done,
                Left::Layer(root) => {
                    self.above.push(leaf);
                    next = self.enter(root);
                }
                Left::Exhausted => match self.leave(&snapshot) {
                    None => return Stop::Done,
                    Some(leaf) => next = leaf,
                },
            }
        }
    }

    /// The leaf of the cursor in the layer that we stand in, whose root is given.
    fn enter(&self, root: NodePtr<'p>) -> Option<Ptr<'p, Leaf>> {
        leaf_for(root, self.start().part.slice, self.pinned).ok().map(|(leaf, _)| leaf)
    }

    /// The cursor as seen from the layer that we stand in.
    fn start(&self) -> Start {
        let rest = &self.key[self.above.len() * SLICE_BYTES..];
        let part = Part::of(rest);
        let inclusive = self.edge == Edge::At;
        if part.is_long() || self.edge != Edge::AroundPrefix {
            return Start { part, inclusive, goes_on: part.is_long() };
        }
        // Around all keys that begin with this slice; in reverse, around a whole layer when no slice is left.
        let slice = if rest.is_empty() { u64::MAX } else { part.slice };
        Start { part: Part { slice, rank: LONG }, inclusive: self.reverse, goes_on: false }
    }

    /// A consistent copy of a leaf; `None` if it is gone, or does not cover the slice (any more).
    fn snapshot(&self, leaf: Ptr<'p, Leaf>, slice: u64) -> Option<Snapshot<'p>> {
        let nothing = Copied { part: Part { slice: 0, rank: 0 }, is_layer: false, value: 0, suffix: &[] };
        let mut entries = [nothing; LEAF_SLOTS];
        loop {
            let seen = leaf.version.stable();
            if seen.is_deleted() {
                return None;
            }
            let (low, high) = (leaf.low.read(), leaf.high.read());
            let neighbour = if self.reverse { leaf.prev.read() } else { leaf.next.read() };
            prefetch::lines(neighbour, size_of::<Leaf>());
            let (permutation, kinds) = (leaf.permutation(), leaf.kinds());
            let bag = leaf.bag();
            for (position, entry) in entries[..permutation.count()].iter_mut().enumerate() {
                let at = permutation.slot(position);
                let (slot, kind) = (&leaf.slots[at], kinds.of(at));
                *entry = Copied {
                    part: Part { slice: slot.slice.read(), rank: kind.min(LONG) },
                    is_layer: kind == LAYER,
                    value: slot.value.read(),
                    suffix: bag.filter(|_| kind == SUFFIX).map_or(&[], |bag| bag.suffix(at)),
                };
            }
            if leaf.version.unchanged(seen) {
                let covers = low <= slice && (slice < high || high == 0);
                let count = permutation.count();
                return covers.then_some(Snapshot { seen, entries, count, low, high, neighbour });
            }
        }
    }

    /// Hands out the entries of a leaf from `start` on, up to the next layer, the end of the range or of the leaf.
    /// The cursor moves along.
    fn hand_out(&mut self, snapshot: &Snapshot<'p>, start: Start) -> Left<'p> {
        let first = (0..snapshot.count).find(|&at| self.is_ahead(snapshot.entry(at, self.reverse), start));
        let prefix = self.above.len() * SLICE_BYTES;
        let end = self.end_in(snapshot);
        let start_at = first.unwrap_or(snapshot.count);
        let mut told = self.tell(snapshot, start_at..start_at + self.reach, end);
        for index in start_at..snapshot.count {
            let entry = snapshot.entry(index, self.reverse);
            if entry.is_layer {
                let is_cursors_way = start.goes_on && entry.part == start.part;
                if !(is_cursors_way && Some(index) == first) {
                    self.key.truncate(prefix);
                    entry.part.append_to(&mut self.key);
                    self.edge = if self.reverse { Edge::AroundPrefix } else { Edge::Behind };
                }
                if self.is_past_end() {
                    return Left::Done;
                }
                // SAFETY: the value of a LAYER slot, copied under a version that was validated.
                return Left::Layer(unsafe { NodePtr::from_value(entry.value) });
            }
            self.key.truncate(prefix);
            entry.part.append_to(&mut self.key);
            if !entry.suffix.is_empty() {
                self.key.extend_from_slice(entry.suffix);
            }
            self.edge = Edge::At;
            if end.is_some() && self.is_past_end() {
                return Left::Done;
            }
            self.edge = Edge::Behind;
            if self.visitor.entry(&self.key, entry.value).is_break() {
                return Left::Done;
            }
            if told < snapshot.count {
                self.reach = (2 * self.reach + 1).min(LEAF_SLOTS);
                told = self.tell(snapshot, told.max(index + 1)..index + 1 + self.reach, end);
            }
        }
        Left::Exhausted
    }

    /// Tells the visitor of entries that come up soon, as far as the next layer: behind that the leaf is handed out anew.
    /// The index behind the last of them, or behind all if no more are to be told.
    #[inline(always)]
    fn tell(&mut self, snapshot: &Snapshot<'p>, range: std::ops::Range<usize>, end: Option<u64>) -> usize {
        let upper = range.end.min(snapshot.count);
        for index in range.start..upper {
            let entry = snapshot.entry(index, self.reverse);
            let slice = entry.part.slice;
            let is_past = end.is_some_and(|end| if self.reverse { slice < end } else { slice > end });
            if is_past || entry.is_layer {
                return snapshot.count;
            }
            self.visitor.soon(entry.value);
        }
        upper.max(range.start)
    }

    /// Whether an entry lies ahead of the cursor, or is a layer that may hold something ahead of it.
    fn is_ahead(&self, entry: &Copied<'_>, start: Start) -> bool {
        let order = if self.reverse { start.part.cmp(&entry.part) } else { entry.part.cmp(&start.part) };
        match order {
            Ordering::Less => false,
            Ordering::Greater => true,
            Ordering::Equal if !start.goes_on => start.inclusive,
            Ordering::Equal if entry.is_layer => true,
            Ordering::Equal => {
                let tail = &self.key[(self.above.len() + 1) * SLICE_BYTES..];
                let within = entry.suffix.starts_with(tail);
                let order = if self.reverse { tail.cmp(entry.suffix) } else { entry.suffix.cmp(tail) };
                match self.edge {
                    Edge::At => order.is_ge(),
                    Edge::Behind => order.is_gt(),
                    Edge::AroundPrefix if self.reverse => within || order.is_gt(),
                    Edge::AroundPrefix => !within && order.is_gt(),
                }
            }
        }
    }

    /// Moves the cursor past an exhausted leaf. `None`: the scan is done; otherwise the leaf to go on with, if known.
    fn leave(&mut self, snapshot: &Snapshot<'p>) -> Option<Option<Ptr<'p, Leaf>>> {
        let depth = self.above.len();
        self.key.truncate(depth * SLICE_BYTES);
        let (is_last, part, edge) = if self.reverse {
            let slice = snapshot.low.wrapping_sub(1);
            (snapshot.low == 0, Part { slice, rank: SLICE_BYTES as u8 }, Edge::AroundPrefix)
        } else {
            (snapshot.high == 0, shortest(snapshot.high), Edge::At)
        };
        let next = if is_last {
            // Out of the layer: behind its prefix. In reverse the prefix as a key of its own comes next.
            let leaf = self.above.pop()?;
            self.edge = if self.reverse { Edge::At } else { Edge::AroundPrefix };
            Some(leaf)
        } else {
            part.append_to(&mut self.key);
            self.edge = edge;
            // SAFETY: a neighbour of a leaf that was live under our pin at the validated version, so a node that was
            // linked then; `snapshot` checks that it is (still) the one that covers the cursor.
            unsafe { Ptr::new_or_null(snapshot.neighbour) }
        };
        (!self.is_past_end()).then_some(next)
    }

    /// The last slice of the range, if the range may end within the slices that a leaf covers; if not, all its entries are
    /// in the range as far as that end is concerned, and need no look at it.
    fn end_in(&self, snapshot: &Snapshot<'p>) -> Option<u64> {
        let (Bound::Included(end) | Bound::Excluded(end)) = self.end else { return None };
        let Some(rest) = end.strip_prefix(&self.key[..self.above.len() * SLICE_BYTES]) else {
            // The end lies in another layer: nothing is known of it here.
            return Some(if self.reverse { 0 } else { u64::MAX });
        };
        let slice = Part::of(rest).slice;
        let may_end =
            if self.reverse { snapshot.low <= slice } else { slice < snapshot.high || snapshot.high == 0 };
        may_end.then_some(slice)
    }

    /// Whether nothing at or behind the cursor lies within the range.
    fn is_past_end(&self) -> bool {
        let (end, included) = match self.end {
            Bound::Unbounded => return false,
            Bound::Included(end) => (end, true),
            Bound::Excluded(end) => (end, false),
        };
        let order = if self.reverse { end.cmp(&self.key) } else { self.key.as_slice().cmp(end) };
        let within = end.starts_with(&self.key);
        match self.edge {
            Edge::At => order.is_gt() || (order.is_eq() && !included),
            Edge::Behind => order.is_ge(),
            Edge::AroundPrefix if self.reverse => order.is_gt() && !within,
            Edge::AroundPrefix => order.is_ge() || within,
        }
    }
}
