//! Scans in both directions, one consistent leaf at a time.
//!
//! A scan stands at a cursor: a place between keys. The scan copies a leaf to the stack under one version, and hands
//! the copy out only after validating the version: first the witness, then the entries. The copy includes the places of
//! suffixes; suffix bytes never change (APPEND). So no changeable part of an entry is read after validation.
//!
//! Going on to a neighbour is checked by COVER: the next leaf must begin at the end of the last leaf. If the check
//! fails, or a leaf or layer is gone, the scan descends again from the root to its cursor, behind the entries already
//! handed out. An empty layer or leaf is an ordinary stop with a witness and no entries, so neither direction can turn
//! on an empty layer or leaf for ever.
//!
//! Neighbours: up, the engine's range reads; down, `descent`, `node`.

use std::cmp::Ordering;
use std::ops::{Bound, ControlFlow};

use ensile_epoch::Pinned;
use ensile_memory::prefetch;

use crate::descent::leaf_for;
use crate::key::{KeyPart, LONG, SLICE_BYTES, shortest};
use crate::node::{Kinds, Leaf, NodePtr, Ptr, SKIP, SUFFIX};
use crate::permutation::LEAF_SLOTS;
use crate::skip_block::SkipRef;
use crate::tree::Masstree;
use crate::version::Version;
use crate::witness::Witness;

/// A range of keys.
#[derive(Clone, Copy, Debug)]
pub struct Range<'a> {
    /// Lower bound of the range.
    pub lower: Bound<&'a [u8]>,
    /// Upper bound of the range.
    pub upper: Bound<&'a [u8]>,
}

/// Order of a scan.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// Smallest key first.
    Forward,
    /// Largest key first.
    Reverse,
}

/// Receiver of a scan's results.
pub trait ScanVisitor {
    /// Receives a leaf that the answer depends on, before the entries read from the leaf. Leaves with only links and
    /// empty leaves count, too. The same leaf may come several times.
    fn witness(&mut self, witness: Witness);

    /// Receives the next entry in order. `Break` ends the scan.
    fn entry(&mut self, key: &[u8], value: u64) -> ControlFlow<()>;

    /// Receives the value of an entry that comes up soon, unless the scan ends before. The visitor can prefetch the
    /// value's target.
    #[inline]
    fn announce(&mut self, value: u64) {
        let _ = value;
    }
}

/// Position where a scan goes on, relative to its key bytes; in reverse read "before" for "behind".
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Edge {
    /// At the key itself.
    At,
    /// Behind the key.
    Behind,
    /// Forward: behind the keys that begin with the cursor's key. Reverse: at the last of these keys.
    AroundPrefix,
}

/// Reason for the end of a run through leaves.
enum Stop {
    /// The scan is done.
    Done,
    /// Descend again to the cursor.
    Lost,
}

/// An entry copied from a leaf.
#[derive(Clone, Copy)]
struct Copied<'p> {
    part: KeyPart,
    value: u64,
    /// Bytes behind the slice: of a key, or shared by the keys of a layer. Valid only for a LONG entry; a shorter entry
    /// has old bytes of another leaf.
    suffix: &'p [u8],
}

/// A leaf as of one version.
struct LeafCopy<'p> {
    /// Entries in the direction of the scan.
    entries: [Copied<'p>; LEAF_SLOTS],
    count: usize,
    /// A bit per entry that is a layer.
    layers: u32,
    low: u64,
    high: u64,
    /// The neighbour in the direction of the scan.
    neighbour: *mut Leaf,
}

impl LeafCopy<'_> {
    /// Room for a leaf. A scan uses one copy for its leaves, because clearing the room costs as much as filling the
    /// room.
    fn new() -> Self {
        let nothing = Copied { part: KeyPart { slice: 0, rank: 0 }, value: 0, suffix: &[] };
        let entries = [nothing; LEAF_SLOTS];
        Self { entries, count: 0, layers: 0, low: 0, high: 0, neighbour: std::ptr::null_mut() }
    }

    /// True if an entry is a layer.
    #[inline(always)]
    fn is_layer(&self, index: usize) -> bool {
        self.layers >> index & 1 != 0
    }

    /// Index of the first layer from entry `from` on; the number of entries if there is none.
    #[inline(always)]
    fn layer_from(&self, from: usize) -> usize {
        ((self.layers >> from << from).trailing_zeros() as usize).min(self.count)
    }
}

/// Number of layers above a scan that need no allocation.
const LAYERS_NEAR: usize = 4;

/// Leaves whose layer slots a scan went down through, outermost first, each with the number of slices above its layer.
struct LayersAbove<'p> {
    near: [Option<(Ptr<'p, Leaf>, u32)>; LAYERS_NEAR],
    far: Vec<(Ptr<'p, Leaf>, u32)>,
    count: usize,
}

impl<'p> LayersAbove<'p> {
    fn new() -> Self {
        Self { near: [None; LAYERS_NEAR], far: Vec::new(), count: 0 }
    }

    fn clear(&mut self) {
        self.far.clear();
        self.count = 0;
    }

    fn push(&mut self, leaf: Ptr<'p, Leaf>, slices: u32) {
        match self.near.get_mut(self.count) {
            Some(near) => *near = Some((leaf, slices)),
            None => self.far.push((leaf, slices)),
        }
        self.count += 1;
    }

    fn pop(&mut self) -> Option<(Ptr<'p, Leaf>, u32)> {
        self.count = self.count.checked_sub(1)?;
        match self.near.get(self.count) {
            Some(near) => *near,
            None => self.far.pop(),
        }
    }
}

struct ScanCursor<'t, 'p, V> {
    tree: &'t Masstree,
    pinned: Pinned<'p>,
    visitor: &'t mut V,
    reverse: bool,
    /// Bound at the end of the scan.
    end: Bound<&'t [u8]>,
    /// Slice of the end bound in the current layer, if the bound lies in the layer. If not, the keys of the layer are
    /// within the range as far as the end is concerned.
    end_slice: Option<u64>,
    /// Key bytes of the cursor. While the entries of a leaf are handed out, their keys stand here, behind their common
    /// bytes. The cursor moves when the scan leaves the leaf.
    key: &'t mut Vec<u8>,
    edge: Edge,
    /// Number of slices of the cursor's key above the current layer. The type is so small that no sum with the slices'
    /// bytes overflows, and the compiler can tell.
    slices: u32,
    /// The leaves whose layer slots the scan went down through.
    above: LayersAbove<'p>,
    /// Number of entries announced ahead. The number grows with every entry passed, so that a scan of one entry
    /// prefetches nothing else.
    ahead: usize,
}

/// Start within one layer: a part, and a flag that includes the entry of the part.
#[derive(Clone, Copy)]
struct Start {
    part: KeyPart,
    inclusive: bool,
    /// True if the cursor's key goes on behind `part` (which is LONG then): the rest of the key decides.
    goes_on: bool,
}

/// Outcome of the visit of a leaf.
enum Left<'p> {
    /// The scan is done.
    Done,
    /// A layer comes next, behind this number of bytes that its keys share.
    Layer(NodePtr<'p>, usize),
    /// The entries are handed out.
    Exhausted,
}

impl Masstree {
    /// Hands the entries of a range to a visitor, in order, while other threads change the tree.
    ///
    /// The entries of one leaf are one consistent state. The whole scan is one consistent state if its witnesses hold
    /// afterwards.
    pub fn scan(
        &self,
        range: Range<'_>,
        direction: Direction,
        visitor: &mut impl ScanVisitor,
        pinned: Pinned<'_>,
    ) {
        self.scan_in(range, direction, &mut Vec::new(), visitor, pinned);
    }

    /// As [`Masstree::scan`], for callers that keep a buffer for the keys of their scans.
    pub fn scan_in(
        &self,
        range: Range<'_>,
        direction: Direction,
        key_buffer: &mut Vec<u8>,
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
        key_buffer.clear();
        key_buffer.reserve(key.len() + 4 * SLICE_BYTES);
        key_buffer.extend_from_slice(key);
        let mut scan = ScanCursor {
            tree: self,
            pinned,
            visitor,
            reverse,
            end,
            end_slice: None,
            key: key_buffer,
            edge,
            slices: 0,
            above: LayersAbove::new(),
            ahead: 0,
        };
        while let Stop::Lost = scan.run() {}
    }
}

impl<'t, 'p, V: ScanVisitor> ScanCursor<'t, 'p, V>
where
    't: 'p,
{
    /// Scans on from the cursor, descending from the root.
    fn run(&mut self) -> Stop {
        self.above.clear();
        self.slices = 0;
        let mut snapshot = LeafCopy::new();
        let mut next = self.enter(self.tree.root(self.pinned));
        loop {
            let Some(leaf) = next else { return Stop::Lost };
            let start = self.start();
            let Some(seen) = self.copy(leaf, start.part.slice, &mut snapshot) else { return Stop::Lost };
            self.visitor.witness(Witness::from_leaf(leaf, seen));
            let end = self.end_near(&snapshot);
            match self.hand_out(&snapshot, start, end) {
                Left::Done => return Stop::Done,
                Left::Layer(root, shared) => {
                    self.above.push(leaf, self.slices);
                    self.slices += 1 + (shared / SLICE_BYTES) as u32;
                    next = self.enter(root);
                }
                Left::Exhausted => match self.leave(&snapshot, end.is_some()) {
                    None => return Stop::Done,
                    Some(leaf) => next = leaf,
                },
            }
        }
    }

    /// Number of bytes of the cursor's key above the current layer.
    #[inline(always)]
    fn prefix(&self) -> usize {
        self.slices as usize * SLICE_BYTES
    }

    /// The leaf of the cursor in the current layer; `root` is the layer's root.
    fn enter(&mut self, root: NodePtr<'p>) -> Option<Ptr<'p, Leaf>> {
        self.end_slice = self.end_in_layer();
        leaf_for(root, self.start().part.slice, self.pinned).ok().map(|(leaf, _)| leaf)
    }

    /// The cursor as seen from the current layer.
    fn start(&self) -> Start {
        let rest = &self.key[self.prefix()..];
        let part = KeyPart::from_rest(rest);
        let inclusive = self.edge == Edge::At;
        if part.is_long() || self.edge != Edge::AroundPrefix {
            return Start { part, inclusive, goes_on: part.is_long() };
        }
        // Around the keys that begin with this slice; in reverse, around a whole layer when no slice is left.
        let slice = if rest.is_empty() { u64::MAX } else { part.slice };
        Start { part: KeyPart { slice, rank: LONG }, inclusive: self.reverse, goes_on: false }
    }

    /// Copies a leaf as of one version, and returns the version; `None` if the leaf is gone, or does not cover the
    /// slice (any more).
    #[inline(always)]
    fn copy(&self, leaf: Ptr<'p, Leaf>, slice: u64, snapshot: &mut LeafCopy<'p>) -> Option<Version> {
        loop {
            let seen = leaf.version.stable();
            if seen.is_deleted() {
                return None;
            }
            let (low, high) = (leaf.low.read(), leaf.high.read());
            let neighbour = if self.reverse { leaf.prev.read() } else { leaf.next.read() };
            prefetch::lines(neighbour, size_of::<Leaf>());
            let (permutation, kinds) = (leaf.permutation(), leaf.kinds());
            let suffixes = leaf.suffixes();
            let (count, mut layers) = (permutation.count(), 0);
            let mut slots = if self.reverse { permutation.nibbles_back() } else { permutation.nibbles() };
            for (index, entry) in snapshot.entries[..count].iter_mut().enumerate() {
                let at = (slots & 0xf) as usize;
                slots >>= 4;
                let (slot, kind) = (&leaf.slots[at], kinds.get(at));
                entry.part = KeyPart { slice: slot.slice.read(), rank: kind };
                entry.value = slot.value.read();
                if kind >= LONG {
                    entry.part.rank = LONG;
                    entry.suffix =
                        suffixes.filter(|_| kind == SUFFIX).map_or(&[], |suffixes| suffixes.suffix(at));
                    layers |= u32::from(kind != SUFFIX) << index;
                }
            }
            if leaf.version.is_unchanged(seen) {
                (snapshot.count, snapshot.layers) = (count, layers);
                (snapshot.low, snapshot.high, snapshot.neighbour) = (low, high, neighbour);
                if layers != 0 {
                    let slots = if self.reverse { permutation.nibbles_back() } else { permutation.nibbles() };
                    // SAFETY: the copied values were validated just now.
                    unsafe { follow_skips(&mut snapshot.entries, layers, slots, kinds) };
                }
                return (low <= slice && (slice < high || high == 0)).then_some(seen);
            }
        }
    }

    /// Hands out the entries of a leaf from `start` on, up to the next layer, the end of the range or the end of the
    /// leaf. The range may end at the slice `end`.
    #[inline(always)]
    fn hand_out(&mut self, snapshot: &LeafCopy<'p>, start: Start, end: Option<u64>) -> Left<'p> {
        let first =
            (0..snapshot.count).find(|&at| self.is_ahead(snapshot, at, start)).unwrap_or(snapshot.count);
        let (prefix, layer) = (self.prefix(), snapshot.layer_from(first));
        let (before_end, within_end) = self.split_at_end(snapshot, end);
        let announced_max = layer.min(within_end).max(first);
        let mut announced = self.announce(snapshot, first..(first + self.ahead).min(announced_max));
        for (index, entry) in (first..).zip(&snapshot.entries[first..layer]) {
            let key = write_key(self.key, prefix, entry);
            if index >= before_end && is_past(self.end, self.reverse, key, Edge::At) {
                return Left::Done;
            }
            if self.visitor.entry(key, entry.value).is_break() {
                return Left::Done;
            }
            if announced < announced_max {
                self.ahead = (2 * self.ahead + 1).min(LEAF_SLOTS);
                announced = self.announce(
                    snapshot,
                    announced.max(index + 1)..(index + 1 + self.ahead).min(announced_max),
                );
            }
        }
        if layer == snapshot.count {
            return Left::Exhausted;
        }
        let entry = &snapshot.entries[layer];
        let is_cursors_slice = start.goes_on && entry.part == start.part;
        debug_assert!(
            !is_cursors_slice || layer == first,
            "a slice has one LONG entry: the key is still the cursor"
        );
        let is_cursors_way = is_cursors_slice
            && (entry.suffix.is_empty() || is_in_layer(entry.suffix, &self.key[prefix + SLICE_BYTES..]));
        if !is_cursors_way {
            self.edge = move_to_layer(self.key, prefix, entry, self.reverse);
        }
        if self.is_past_end() {
            return Left::Done;
        }
        // SAFETY: the value of a LAYER slot, copied under a version that was validated, or the root of a skip.
        Left::Layer(unsafe { NodePtr::from_value(entry.value) }, entry.suffix.len())
    }

    /// Number of entries with slices before the slice of the range's end, and number of entries with slices not behind
    /// the end's slice.
    #[inline(always)]
    fn split_at_end(&self, snapshot: &LeafCopy<'p>, end: Option<u64>) -> (usize, usize) {
        let Some(end) = end else { return (snapshot.count, snapshot.count) };
        let entries = &snapshot.entries[..snapshot.count];
        let is_before = |slice: u64| if self.reverse { slice > end } else { slice < end };
        let before = entries.partition_point(|entry| is_before(entry.part.slice));
        let at = entries[before..].iter().take_while(|entry| entry.part.slice == end).count();
        (before, before + at)
    }

    /// Announces entries that come up soon to the visitor. Returns the index behind the last announced entry.
    #[inline(always)]
    fn announce(&mut self, snapshot: &LeafCopy<'p>, range: std::ops::Range<usize>) -> usize {
        let announced = range.end;
        snapshot.entries[range].iter().for_each(|entry| self.visitor.announce(entry.value));
        announced
    }

    /// True if an entry lies ahead of the cursor, or is a layer that may hold an entry ahead of the cursor.
    fn is_ahead(&self, snapshot: &LeafCopy<'_>, index: usize, start: Start) -> bool {
        let entry = &snapshot.entries[index];
        let order = if self.reverse { start.part.cmp(&entry.part) } else { entry.part.cmp(&start.part) };
        match order {
            Ordering::Less => false,
            Ordering::Greater => true,
            Ordering::Equal if !start.goes_on => start.inclusive,
            Ordering::Equal if snapshot.is_layer(index) => {
                let tail = &self.key[self.prefix() + SLICE_BYTES..];
                entry.suffix.is_empty() || is_layer_ahead(entry.suffix, tail, self.edge, self.reverse)
            }
            Ordering::Equal => {
                let tail = &self.key[self.prefix() + SLICE_BYTES..];
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

    /// Moves the cursor past an exhausted leaf. The range may or may not end within the leaf or right behind the leaf
    /// (`may_end`). `None`: the scan is done; otherwise the leaf to go on with, if known.
    fn leave(&mut self, snapshot: &LeafCopy<'p>, may_end: bool) -> Option<Option<Ptr<'p, Leaf>>> {
        self.key.truncate(self.prefix());
        let (is_last, part, edge) = if self.reverse {
            let slice = snapshot.low.wrapping_sub(1);
            (snapshot.low == 0, KeyPart { slice, rank: SLICE_BYTES as u8 }, Edge::AroundPrefix)
        } else {
            (snapshot.high == 0, shortest(snapshot.high), Edge::At)
        };
        let next = if is_last {
            // Out of the layer: behind its prefix. In reverse the prefix as a key of its own comes next.
            let (leaf, slices) = self.above.pop()?;
            self.slices = slices;
            self.edge = if self.reverse { Edge::At } else { Edge::AroundPrefix };
            self.end_slice = self.end_in_layer();
            Some(leaf)
        } else {
            part.append_to(self.key);
            self.edge = edge;
            // SAFETY: a neighbour of a leaf that was live under our pin at the validated version, so a node that was
            // linked then; `copy` checks that the neighbour (still) covers the cursor.
            unsafe { Ptr::new_or_null(snapshot.neighbour) }
        };
        (!(may_end && self.is_past_end())).then_some(next)
    }

    /// The slice of the range's end in the current layer. An end outside the layer is behind its keys: the scan would
    /// not have entered the layer otherwise.
    fn end_in_layer(&self) -> Option<u64> {
        let (Bound::Included(end) | Bound::Excluded(end)) = self.end else { return None };
        let rest = end.strip_prefix(&self.key[..self.prefix()])?;
        Some(KeyPart::from_rest(rest).slice)
    }

    /// The slice of the range's end, if the range may end within the slices of a leaf or right behind the leaf. If not,
    /// the leaf's entries are in the range as far as the end is concerned, and are not compared with the end.
    #[inline(always)]
    fn end_near(&self, snapshot: &LeafCopy<'p>) -> Option<u64> {
        self.end_slice.filter(|&end| {
            if self.reverse { snapshot.low <= end } else { end <= snapshot.high || snapshot.high == 0 }
        })
    }

    /// True if the range has no key at or behind the cursor.
    fn is_past_end(&self) -> bool {
        is_past(self.end, self.reverse, self.key, self.edge)
    }
}

/// Replaces the address of each skip among a leaf's layers by the skip's bytes and root. `slots` has the nibble of each
/// entry's slot.
///
/// # Safety
/// Entries and kinds are from a version that was validated.
#[inline(never)]
unsafe fn follow_skips(entries: &mut [Copied<'_>; LEAF_SLOTS], mut layers: u32, slots: u64, kinds: Kinds) {
    while layers != 0 {
        let index = layers.trailing_zeros() as usize;
        layers &= layers - 1;
        if kinds.get((slots >> (4 * index) & 0xf) as usize) == SKIP {
            let entry = &mut entries[index];
            // SAFETY: by the caller's word.
            let skip = unsafe { SkipRef::from_value(entry.value) };
            (entry.suffix, entry.value) = (skip.bytes(), skip.root().expose() as u64);
        }
    }
}

/// Puts a cursor in front of the keys of a layer.
#[inline(never)]
fn move_to_layer(key: &mut Vec<u8>, prefix: usize, layer: &Copied<'_>, reverse: bool) -> Edge {
    key.truncate(prefix);
    layer.part.append_to(key);
    key.extend_from_slice(layer.suffix);
    if reverse { Edge::AroundPrefix } else { Edge::Behind }
}

/// True if a cursor stands among the keys of a layer. `shared` is the bytes that the keys share behind the cursor's
/// slice; `tail` is the cursor's key behind the slice.
fn is_in_layer(shared: &[u8], tail: &[u8]) -> bool {
    tail.len() > shared.len() && tail.starts_with(shared)
}

/// True if the layer may hold a key ahead of the cursor.
#[inline(never)]
fn is_layer_ahead(shared: &[u8], tail: &[u8], edge: Edge, reverse: bool) -> bool {
    if is_in_layer(shared, tail) {
        return true;
    }
    if !shared.starts_with(tail) {
        return if reverse { shared < tail } else { shared > tail };
    }
    // The keys of the layer begin with the cursor's key, and are longer.
    match edge {
        Edge::At | Edge::Behind => !reverse,
        Edge::AroundPrefix => reverse,
    }
}

/// Puts an entry's key into `key`; the first `prefix` bytes are the entry's already. Bytes behind the key stay in the
/// buffer: keys mostly have one length, and the buffer keeps its length, too.
#[inline(always)]
fn write_key<'k>(key: &'k mut Vec<u8>, prefix: usize, entry: &Copied<'_>) -> &'k [u8] {
    let (slice, end) = (entry.part.slice.to_be_bytes(), prefix + SLICE_BYTES);
    if let Some(place) = key.get_mut(..end).and_then(<[u8]>::last_chunk_mut) {
        *place = slice;
    } else {
        key.truncate(prefix);
        key.extend_from_slice(&slice);
    }
    if entry.part.is_long() {
        key.truncate(end);
        key.extend_from_slice(entry.suffix);
        return key;
    }
    &key[..prefix + usize::from(entry.part.rank)]
}

/// True if no key at or behind a cursor lies within a range that ends at `end`.
fn is_past(end: Bound<&[u8]>, reverse: bool, key: &[u8], edge: Edge) -> bool {
    let (end, included) = match end {
        Bound::Unbounded => return false,
        Bound::Included(end) => (end, true),
        Bound::Excluded(end) => (end, false),
    };
    let order = if reverse { end.cmp(key) } else { key.cmp(end) };
    let within = end.starts_with(key);
    match edge {
        Edge::At => order.is_gt() || (order.is_eq() && !included),
        Edge::Behind => order.is_ge(),
        Edge::AroundPrefix if reverse => order.is_gt() && !within,
        Edge::AroundPrefix => order.is_ge() || within,
    }
}
