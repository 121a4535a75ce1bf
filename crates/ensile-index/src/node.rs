//! The two kinds of nodes: leaves and internal nodes of the B+-tree of one layer (Masstree §4.1, §4.2).
//!
//! A leaf is five cache lines. The first line has everything that a search needs to find its slot, including a byte of
//! hash (tag) per slot. The other lines have slices with their values (or roots of deeper layers), so a hit reads two
//! lines. An internal node is four lines: version and keys in two, children in two.
//!
//! Invariants:
//! * **VERSIONED**: the reader-visible fields of a node change only between `NodeLock::begin_change` and the drop of
//!   the lock. Exceptions, each harmless on its own: a value exchanged for another, a layer's slot or skip pointed to
//!   the layer's new root, a suffix block replaced by a copy, and `prev`/`next` pointed around a neighbour (a chain is
//!   re-checked by COVER).
//! * **COVER**: a leaf covers the slices `low <= s < high` (`high == 0`: no upper bound); along a layer's chain each
//!   `high` is the next leaf's `low`, the first `low` is 0 and the last `high` 0.
//! * **LINK**: the link between two neighbours, `left.next` and `right.prev`, is written only under the left node's
//!   lock.
//! * **KIND**: a slot's kind is FREE exactly when the permutation does not name the slot among the entries, so a search
//!   by tag, slice and kind needs no permutation.
//! * **CHILD**: child `i` of an internal node covers the slices from key `i - 1` to key `i`; keys not in use are
//!   `u64::MAX`; a node without keys has one child.
//! * **EAGER ROOT**: the slot of a layer (or its skip block, or the tree's root word) names the node whose ROOT bit is
//!   set. A thread that arrives at a root without ROOT holds an old pointer and starts again.
//!
//! Neighbours: up, every operation; down, `version`, `seqlock_word`, `suffix_block`.

use std::alloc::Layout;
use std::marker::PhantomData;
use std::ops::Deref;
use std::ptr::NonNull;

use ensile_base::sync::plain_access;
use ensile_memory::prefetch;

use crate::key::{KeyPart, LONG};
use crate::memory::{NodeMemory, allocate, retire};
use crate::permutation::{LEAF_SLOTS, Permutation};
use crate::seqlock_word::{GuardedPtr, GuardedU64};
use crate::suffix_block::{SuffixBlock, SuffixBlockRef, capacity_for};
use crate::tags::{self, TAGS_PER_WORD, tag};
use crate::version::{NodeLock, Version, VersionWord};

/// Keys of an internal node.
pub(crate) const INTERNAL_KEYS: usize = 15;

/// Kind of a slot: 0..=8 is the number of bytes in the slice of a key that ends here. SUFFIX is a key with a suffix.
pub(crate) const SUFFIX: u8 = LONG;
/// The key continues in a deeper layer; the slot holds the root of the layer.
pub(crate) const LAYER: u8 = 10;
/// As LAYER, with shared bytes between: the keys of the layer have a common prefix, and the slot holds a skip block.
pub(crate) const SKIP: u8 = 11;
/// No entry.
pub(crate) const FREE: u8 = 0xf;

/// True if a slot of this kind leads to a deeper layer.
#[inline(always)]
pub(crate) const fn is_link(kind: u8) -> bool {
    kind == LAYER || kind == SKIP
}

/// A copy of the kinds of a leaf's slots.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kinds(u64);

impl Kinds {
    #[inline(always)]
    pub(crate) fn get(self, slot: usize) -> u8 {
        (self.0 >> (4 * slot) & 0xf) as u8
    }
}

/// A slice with its value.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct LeafSlot {
    pub(crate) slice: GuardedU64,
    pub(crate) value: GuardedU64,
}

/// A leaf: up to fifteen entries, found by tag, slice and kind, ordered by the permutation.
#[repr(C, align(64))]
#[derive(Debug)]
pub(crate) struct Leaf {
    pub(crate) version: VersionWord,
    pub(crate) permutation: GuardedU64,
    /// A nibble per slot.
    kinds: GuardedU64,
    /// A byte per slot. The sixteenth byte belongs to the holder of the lock and is a hint for `split`. The hint
    /// describes the last inserts, as long as each insert went right behind the insert before. The low nibble is the
    /// position behind the last insert; the high nibble is the number of inserts.
    tags: [GuardedU64; 2],
    pub(crate) suffixes: GuardedPtr<SuffixBlock>,
    pub(crate) low: GuardedU64,
    pub(crate) high: GuardedU64,
    pub(crate) slots: [LeafSlot; LEAF_SLOTS],
    pub(crate) next: GuardedPtr<Leaf>,
    pub(crate) prev: GuardedPtr<Leaf>,
}

/// An internal node: up to fifteen keys and sixteen children.
#[repr(C, align(64))]
#[derive(Debug)]
pub(crate) struct Internal {
    pub(crate) version: VersionWord,
    pub(crate) keys: [GuardedU64; INTERNAL_KEYS],
    pub(crate) children: [GuardedPtr<VersionWord>; INTERNAL_KEYS + 1],
}

#[cfg(not(any(loom, shuttle)))]
const _: () = {
    assert!(size_of::<Leaf>() == 320, "a leaf is five lines");
    assert!(size_of::<Internal>() == 256, "an internal node is four lines");
    assert!(INTERNAL_KEYS == 15, "index_of finds one of sixteen in two rounds");
    assert!(std::mem::offset_of!(Leaf, slots) == 64, "a search finds its slot in the first line");
};

/// A node, or a part of a node, that is not freed within `'p`: the node was reached under a pin, or the holder owns the
/// node.
#[derive(Debug)]
pub(crate) struct Ptr<'p, T>(NonNull<T>, PhantomData<&'p T>);

/// A node of either kind, by the word at the start of both kinds.
pub(crate) type NodePtr<'p> = Ptr<'p, VersionWord>;

impl<T> Clone for Ptr<'_, T> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Ptr<'_, T> {}

impl<T> PartialEq for Ptr<'_, T> {
    #[inline(always)]
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl<T> Deref for Ptr<'_, T> {
    type Target = T;
    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: by the contract of `new` the target is valid for 'p; nodes have atomic fields only.
        unsafe { self.0.as_ref() }
    }
}

impl<'p, T> Ptr<'p, T> {
    /// A pointer with a valid target.
    ///
    /// # Safety
    /// `target` is a node that was linked in the tree at some time since the pin of `'p` was taken, or a node of the
    /// caller. The first case holds for a pointer loaded from a live node whose version was validated after the load.
    #[inline(always)]
    pub(crate) unsafe fn new(target: NonNull<T>) -> Self {
        Self(target, PhantomData)
    }

    /// As [`Self::new`], for a pointer that may be null.
    ///
    /// # Safety
    /// As for [`Self::new`], unless null.
    #[inline(always)]
    pub(crate) unsafe fn new_or_null(target: *mut T) -> Option<Self> {
        NonNull::new(target).map(|target| Self(target, PhantomData))
    }

    #[inline(always)]
    pub(crate) fn as_ptr(self) -> *mut T {
        self.0.as_ptr()
    }

    /// The target, for as long as the pointer is valid.
    #[inline(always)]
    pub(crate) fn get(self) -> &'p T {
        // SAFETY: as in `deref`.
        unsafe { self.0.as_ref() }
    }

    /// The address as a number that may become a pointer again.
    #[inline(always)]
    pub(crate) fn expose(self) -> usize {
        self.0.as_ptr().expose_provenance()
    }

    /// Gives the node's block back.
    ///
    /// # Safety
    /// The node is linked nowhere any more and is retired once.
    pub(crate) unsafe fn retire(self, memory: &mut dyn NodeMemory) {
        // SAFETY: the caller's promise; nodes are allocated with the layout of their type.
        unsafe { retire(memory, self.0.cast(), Layout::new::<T>()) }
    }

    /// Gives back a node unseen by other threads.
    ///
    /// # Safety
    /// The node was never linked, and is given back once.
    pub(crate) unsafe fn discard(self, memory: &mut dyn NodeMemory) {
        // SAFETY: the caller's promise; nodes are allocated with the layout of their type.
        unsafe { memory.discard(self.0.cast(), Layout::new::<T>()) }
    }
}

impl<'p> NodePtr<'p> {
    /// Prefetches the lines of a node of either kind, before the first is touched.
    #[inline(always)]
    pub(crate) fn prefetch(self) {
        prefetch::lines(self.0.as_ptr(), size_of::<Leaf>());
    }

    /// Prefetches the lines of an internal node.
    #[inline(always)]
    pub(crate) fn prefetch_internal(self) {
        prefetch::lines(self.0.as_ptr(), size_of::<Internal>());
    }

    /// Prefetches the first line only, where a search of a leaf finds its slot.
    #[inline(always)]
    pub(crate) fn prefetch_first_line(self) {
        prefetch::line(self.0.as_ptr());
    }

    /// The node as a leaf.
    ///
    /// # Safety
    /// A version read from this node said LEAF (which never changes).
    #[inline(always)]
    pub(crate) unsafe fn leaf(self) -> Ptr<'p, Leaf> {
        Ptr(self.0.cast(), PhantomData)
    }

    /// The node as an internal node.
    ///
    /// # Safety
    /// A version read from this node did not say LEAF.
    #[inline(always)]
    pub(crate) unsafe fn internal(self) -> Ptr<'p, Internal> {
        Ptr(self.0.cast(), PhantomData)
    }

    /// The root of a layer as a slot holds it.
    ///
    /// # Safety
    /// `value` is the value of a LAYER slot, read under a version that was validated since.
    #[inline(always)]
    pub(crate) unsafe fn from_value(value: u64) -> Self {
        let root = std::ptr::with_exposed_provenance_mut(value as usize);
        // SAFETY: LAYER slots hold the address of a node, never null.
        Self(unsafe { NonNull::new_unchecked(root) }, PhantomData)
    }
}

impl<'p> Ptr<'p, Leaf> {
    /// Allocates a leaf that no other thread knows yet.
    pub(crate) fn create(root: bool, low: u64, high: u64, memory: &mut dyn NodeMemory) -> Self {
        let block = allocate(memory, Layout::new::<Leaf>()).cast::<Leaf>();
        let leaf = Leaf {
            version: VersionWord::new(Version::leaf(root)),
            permutation: GuardedU64::new(Permutation::EMPTY.bits()),
            kinds: GuardedU64::new(u64::MAX),
            tags: [GuardedU64::new(0), GuardedU64::new(0)],
            suffixes: GuardedPtr::new(std::ptr::null_mut()),
            low: GuardedU64::new(low),
            high: GuardedU64::new(high),
            slots: std::array::from_fn(|_| LeafSlot { slice: GuardedU64::new(0), value: GuardedU64::new(0) }),
            next: GuardedPtr::new(std::ptr::null_mut()),
            prev: GuardedPtr::new(std::ptr::null_mut()),
        };
        // SAFETY: the block is ours, large and aligned enough for a leaf.
        unsafe { block.write(leaf) };
        plain_access::store(block.as_ptr(), size_of::<Leaf>());
        Self(block, PhantomData)
    }

    #[inline(always)]
    pub(crate) fn node(self) -> NodePtr<'p> {
        Ptr(self.0.cast(), PhantomData)
    }

    /// The leaf's suffix block, if it has one.
    #[inline(always)]
    pub(crate) fn suffixes(self) -> Option<SuffixBlockRef<'p>> {
        // SAFETY: a suffix block in a leaf's field is retired only after the field names another one, and a leaf's last
        // suffix block only with the leaf: under the pin of 'p it is not freed.
        NonNull::new(self.get().suffixes.read_to_follow())
            .map(|suffixes| unsafe { SuffixBlockRef::from_raw(suffixes) })
    }

    /// True if the leaf's suffix block has room for the suffix of an entry. Without a lock the result holds for the
    /// version that the caller validates.
    #[inline(always)]
    pub(crate) fn has_room_for(self, suffix: &[u8]) -> bool {
        self.suffixes().is_some_and(|suffixes| suffixes.has_room(suffix.len()))
    }

    /// A copy of the leaf's suffix block with room for one more suffix of `length` bytes. The copy is made before the
    /// leaf is locked at `seen` (E1). `None` if the leaf has changed.
    pub(crate) fn larger_suffixes(
        self,
        seen: Version,
        length: usize,
        memory: &mut dyn NodeMemory,
    ) -> Option<SuffixBlockRef<'p>> {
        let mut suffixes: [&[u8]; LEAF_SLOTS] = [&[]; LEAF_SLOTS];
        if let Some(old) = self.suffixes() {
            let live = self.permutation().slots().filter(|&slot| self.kind(slot) == SUFFIX);
            live.for_each(|slot| suffixes[slot] = old.suffix(slot));
        }
        if !self.get().version.is_unchanged(seen) {
            return None;
        }
        // No suffix is empty: a key without a suffix ends with the slice.
        let live = || suffixes.iter().enumerate().filter(|(_, suffix)| !suffix.is_empty());
        let bytes = live().map(|(_, suffix)| suffix.len()).sum::<usize>();
        let grown = SuffixBlockRef::create(capacity_for(bytes + length, live().count() + 1), memory);
        live().for_each(|(slot, suffix)| grown.append(slot, suffix));
        Some(grown)
    }

    /// Makes a larger copy the leaf's suffix block; under the lock, in no change, because readers may use either block.
    /// Returns the old block for the caller to retire on unlock.
    pub(crate) fn exchange_suffixes(self, grown: SuffixBlockRef<'p>) -> Option<SuffixBlockRef<'p>> {
        let old = self.suffixes();
        self.suffixes.publish(grown.as_ptr());
        old
    }

    /// Gives back a leaf unseen by other threads, and its suffix block.
    ///
    /// # Safety
    /// As for [`Ptr::discard`].
    pub(crate) unsafe fn discard_with_suffixes(self, memory: &mut dyn NodeMemory) {
        if let Some(suffixes) = self.suffixes() {
            // SAFETY: the suffix block belongs to this leaf alone, by the caller's promise.
            unsafe { suffixes.discard(memory) }
        }
        // SAFETY: the caller's promise.
        unsafe { self.discard(memory) }
    }

    /// Gives back a leaf and its suffix block.
    ///
    /// # Safety
    /// As for [`Ptr::retire`].
    pub(crate) unsafe fn retire_with_suffixes(self, memory: &mut dyn NodeMemory) {
        if let Some(suffixes) = self.suffixes() {
            // SAFETY: the suffix block belongs to this leaf alone, which is unlinked by the caller's promise.
            unsafe { suffixes.retire(memory) }
        }
        // SAFETY: the caller's promise.
        unsafe { self.retire(memory) }
    }
}

impl Leaf {
    #[inline(always)]
    pub(crate) fn permutation(&self) -> Permutation {
        Permutation::from_bits(self.permutation.read())
    }

    /// The part of the entry in a slot.
    #[inline]
    pub(crate) fn part(&self, slot: usize) -> KeyPart {
        KeyPart { slice: self.slots[slot].slice.read(), rank: self.kind(slot).min(LONG) }
    }

    /// Position of the first entry that is not before `part`.
    pub(crate) fn position(&self, permutation: Permutation, part: KeyPart) -> usize {
        permutation.slots().take_while(|&slot| self.part(slot) < part).count()
    }

    /// True if the leaf covers a slice (COVER).
    #[inline(always)]
    pub(crate) fn covers(&self, slice: u64) -> bool {
        let high = self.high.read();
        self.low.read() <= slice && (slice < high || high == 0)
    }

    /// The kinds of all slots.
    #[inline(always)]
    pub(crate) fn kinds(&self) -> Kinds {
        Kinds(self.kinds.read())
    }

    #[inline(always)]
    pub(crate) fn kind(&self, slot: usize) -> u8 {
        self.kinds().get(slot)
    }

    pub(crate) fn set_kind(&self, slot: usize, kind: u8) {
        let shift = 4 * slot;
        self.kinds.write(self.kinds.read() & !(0xf << shift) | u64::from(kind) << shift);
    }

    /// A bit per slot whose tag is the tag of `part`, for used and unused slots.
    #[inline(always)]
    pub(crate) fn candidates(&self, part: KeyPart) -> u32 {
        // The sixteenth byte is no tag.
        tags::equal([self.tags[0].read(), self.tags[1].read()], tag(part)) & ((1 << LEAF_SLOTS) - 1)
    }

    /// Word of a slot's tag in `tags`, and position of the tag in the word, in bits. Slot 15 is the hint for `split`.
    fn byte(slot: usize) -> (usize, usize) {
        (slot / TAGS_PER_WORD, 8 * (slot % TAGS_PER_WORD))
    }

    fn set_tag(&self, slot: usize, tag: u8) {
        let (word, shift) = Self::byte(slot);
        self.tags[word].write(self.tags[word].read() & !(0xff << shift) | u64::from(tag) << shift);
    }

    /// Counts inserts right behind one another, so that `split` can tell an ordered load from chance.
    pub(crate) fn note_run(&self, position: usize) {
        let (word, shift) = Self::byte(LEAF_SLOTS);
        let run = (self.tags[word].read() >> shift) as u8;
        let count =
            if usize::from(run & 0xf) == position { (run >> 4).saturating_add(1).min(0xf) } else { 0 };
        self.start_run(count, position + 1);
    }

    /// Begins a run of `count` inserts; the next insert of the run would go to position `next`.
    pub(crate) fn start_run(&self, count: u8, next: usize) {
        self.set_tag(LEAF_SLOTS, count << 4 | (next & 0xf) as u8);
    }

    /// Length of the run of inserts right behind one another (at most 15).
    pub(crate) fn run_length(&self) -> u8 {
        let (word, shift) = Self::byte(LEAF_SLOTS);
        (self.tags[word].read() >> shift) as u8 >> 4
    }

    /// Writes an entry into a slot, without its suffix.
    pub(crate) fn write_slot(&self, slot: usize, slice: u64, kind: u8, value: u64) {
        self.slots[slot].slice.write(slice);
        self.slots[slot].value.write(value);
        self.set_tag(slot, tag(KeyPart { slice, rank: kind.min(LONG) }));
        self.set_kind(slot, kind);
    }
}

impl<'p> Ptr<'p, Internal> {
    /// Memory for an internal node that no other thread knows yet. The node has no children, so link the node only
    /// after [`Self::begin`].
    pub(crate) fn create(memory: &mut dyn NodeMemory) -> Self {
        let block = allocate(memory, Layout::new::<Internal>()).cast::<Internal>();
        let internal = Internal {
            version: VersionWord::new(Version::internal(false, false)),
            keys: std::array::from_fn(|_| GuardedU64::new(u64::MAX)),
            children: std::array::from_fn(|_| GuardedPtr::new(std::ptr::null_mut())),
        };
        // SAFETY: the block is ours, large and aligned enough for an internal node.
        unsafe { block.write(internal) };
        plain_access::store(block.as_ptr(), size_of::<Internal>());
        Self(block, PhantomData)
    }

    /// Initializes a fresh node with its first child only, and locks the node, which no other thread knows yet.
    pub(crate) fn begin(self, root: bool, first: NodePtr<'p>) -> NodeLock<'p> {
        // LEAF never changes, so the first child may be changing just now.
        let held = self.get().version.begin(Version::internal(root, first.is_leaf()));
        self.children[0].write(first.as_ptr());
        held
    }

    #[inline(always)]
    pub(crate) fn node(self) -> NodePtr<'p> {
        Ptr(self.0.cast(), PhantomData)
    }
}

impl Internal {
    /// Index of the child that covers `slice`, in a node of `keys` keys.
    #[inline(always)]
    pub(crate) fn index_of(&self, keys: usize, slice: u64) -> usize {
        // A short chain without a branch that depends on the keys. Unused keys are u64::MAX (CHILD), so fifteen keys
        // count, and three keys select the three others to compare.
        let passes = |index: usize| usize::from(self.keys[index].read() <= slice);
        let groups = passes(3) + passes(7) + passes(11);
        // SAFETY: a sum of three numbers, none above one.
        unsafe { std::hint::assert_unchecked(groups <= 3) };
        let group = 4 * groups;
        let rest = passes(group) + passes(group + 1) + passes(group + 2);
        // SAFETY: again a sum of three numbers, none above one.
        unsafe { std::hint::assert_unchecked(rest <= 3) };
        if slice == u64::MAX {
            // Only this slice passes keys that are not in use.
            return last_child(keys);
        }
        group + rest
    }

    /// Inserts `key` and its right child at key index `at` into a node of `keys` keys, within a change.
    pub(crate) fn insert(&self, keys: usize, at: usize, key: u64, right: *mut VersionWord) {
        debug_assert!(at <= keys && keys < INTERNAL_KEYS);
        for index in (at..keys).rev() {
            self.keys[index + 1].write(self.keys[index].read());
            self.children[index + 2].write(self.children[index + 1].read());
        }
        self.keys[at].write(key);
        self.children[at + 1].write(right);
    }

    /// Removes the key of index `key` and the child of index `child` from a node of `keys` keys, within a change.
    pub(crate) fn remove(&self, keys: usize, key: usize, child: usize) {
        debug_assert!(key < keys && (child == key || child == key + 1));
        for index in key..keys - 1 {
            self.keys[index].write(self.keys[index + 1].read());
        }
        for index in child..keys {
            self.children[index].write(self.children[index + 1].read());
        }
        self.keys[keys - 1].write(u64::MAX);
    }
}
/// Child behind the last key, out of the line of the other slices.
#[cold]
#[inline(never)]
fn last_child(keys: usize) -> usize {
    keys
}
