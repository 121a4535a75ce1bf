//! The version word of a node, and the one place where the index orders memory.
//!
//! One 64-bit word per node (C4):
//!
//! ```text
//! 63                10  9   8    5 4    3    2       1        0
//! +-------------------+----+------+----+----+-------+--------+------+
//! | counter (54 bits) | LOW| keys |LEAF|ROOT|DELETED|CHANGING|LOCKED|
//! +-------------------+----+------+----+----+-------+--------+------+
//! ```
//!
//! * LOCKED: a writer owns the node. Readers pass.
//! * CHANGING: the owner is changing reader-visible fields. Set before the first store of the change, cleared together
//!   with LOCKED by the store that bumps the counter. Readers wait.
//! * DELETED: the node is out of the tree for good; only readers that came earlier still stand on the node.
//! * ROOT: root of its layer. LEAF: set at birth, never changed.
//! * keys: the number of keys of an internal node (a leaf keeps its count in the permutation).
//! * LOW: an internal node whose children are leaves. Set at birth, never changed.
//!
//! The counter would wrap after 2^54 changes of one node: five centuries at a million changes a second.
//!
//! **Seqlock recipe** (stands here once; everything else in the crate reads and writes [`crate::seqlock_word`] words):
//! the writer dirties the word, fences Release, stores data, stores the new word with Release. The reader loads the
//! word with Acquire, loads data, fences Acquire, loads the word again. If the reader saw any store of a change, the
//! writer's fence and the reader's fence pair, so its second look at the word sees CHANGING or a later word. If its
//! first look saw the end of a change, the Acquire load pairs with the Release store that ended the change.
//!
//! Neighbours: up, every operation of the tree; down, `ensile_base::sync`.

use ensile_base::sync::{AtomicU64, Backoff, Ordering, fence};
use ensile_memory::FREED_WORD;

const LOCKED: u64 = 1 << 0;
const CHANGING: u64 = 1 << 1;
const DELETED: u64 = 1 << 2;
const ROOT: u64 = 1 << 3;
const LEAF: u64 = 1 << 4;
const KEYS_SHIFT: u32 = 5;
const KEYS_MASK: u64 = 0xf << KEYS_SHIFT;
const LOW: u64 = 1 << 9;
const COUNTER_SHIFT: u32 = 10;
const COUNTER_ONE: u64 = 1 << COUNTER_SHIFT;

const _: () = assert!(64 - COUNTER_SHIFT >= 48, "C4: a counter that never wraps in practice");

/// A version word at rest: neither LOCKED nor CHANGING is ever set here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Version(u64);

impl Version {
    /// The version of a new leaf.
    pub(crate) const fn leaf(root: bool) -> Self {
        Self(COUNTER_ONE | LEAF | if root { ROOT } else { 0 })
    }

    /// The version of a new internal node without keys.
    pub(crate) const fn internal(root: bool, above_leaves: bool) -> Self {
        Self(COUNTER_ONE | if above_leaves { LOW } else { 0 } | if root { ROOT } else { 0 })
    }

    #[inline(always)]
    pub(crate) const fn is_leaf(self) -> bool {
        self.0 & LEAF != 0
    }

    /// True if the node is an internal node whose children are leaves.
    #[inline(always)]
    pub(crate) const fn is_above_leaves(self) -> bool {
        self.0 & LOW != 0
    }

    #[inline(always)]
    pub(crate) const fn is_deleted(self) -> bool {
        self.0 & DELETED != 0
    }

    #[inline(always)]
    pub(crate) const fn is_root(self) -> bool {
        self.0 & ROOT != 0
    }

    /// True if the node is still the root of its layer, and the layer still in the tree.
    #[inline(always)]
    pub(crate) const fn is_live_root(self) -> bool {
        self.0 & (ROOT | DELETED) == ROOT
    }

    /// Number of keys of an internal node.
    #[inline(always)]
    pub(crate) const fn keys(self) -> usize {
        ((self.0 & KEYS_MASK) >> KEYS_SHIFT) as usize
    }

    /// The bits, as a witness carries them.
    #[inline(always)]
    pub(crate) const fn bits(self) -> u64 {
        self.0
    }

    const fn successor(self) -> Self {
        Self(self.0.wrapping_add(COUNTER_ONE))
    }

    const fn with_bit(self, bit: u64, set: bool) -> Self {
        if set { Self(self.0 | bit) } else { Self(self.0 & !bit) }
    }
}

/// The shared word: first field of every node.
#[derive(Debug)]
#[repr(transparent)]
pub(crate) struct VersionWord(AtomicU64);

impl VersionWord {
    pub(crate) fn new(version: Version) -> Self {
        Self(AtomicU64::new(version.0))
    }

    /// The version of a node that is not changing; waits during a change. A lock alone does not keep readers out.
    #[inline(always)]
    pub(crate) fn stable(&self) -> Version {
        // Acquire: pairs with the Release store of `NodeLock::drop` (end of a change): the data of the loaded version
        // is seen.
        let word = self.0.load(Ordering::Acquire);
        if word & CHANGING == 0 { Version(word & !LOCKED) } else { self.stable_later() }
    }

    /// Slow path of [`Self::stable`]: waits for the end of a change.
    #[cold]
    #[inline(never)]
    fn stable_later(&self) -> Version {
        let mut backoff = Backoff::new();
        loop {
            // Acquire: as in `stable`.
            let word = self.0.load(Ordering::Acquire);
            debug_assert_ne!(word, FREED_WORD, "a node that was freed is reached (E3)");
            if word & CHANGING == 0 {
                return Version(word & !LOCKED);
            }
            backoff.wait();
        }
    }

    /// True if the data read since the load of `seen` belongs to version `seen`.
    #[inline(always)]
    #[must_use]
    pub(crate) fn is_unchanged(&self, seen: Version) -> bool {
        // Acquire fence: pairs with the Release fence of `NodeLock::begin_change`. If a data load before this line saw
        // a store of some change, the load below sees the CHANGING bit of the same change or a later word.
        fence(Ordering::Acquire);
        // Relaxed: ordered after the data loads by the fence above.
        self.0.load(Ordering::Relaxed) & !LOCKED == seen.0
    }

    /// True if the word is exactly `bits`, at rest: the check of [`crate::Witness::holds`].
    #[inline(always)]
    #[must_use]
    pub(crate) fn is_exactly(&self, bits: u64) -> bool {
        // Acquire: pairs with `NodeLock::drop`, and keeps the caller's reads after a good validation behind this load.
        // The store-load order that C1 asks for comes from the caller's SeqCst fence before validation: a thread that
        // made a change which the caller must not miss had dirtied this word (`NodeLock::begin_change`) before its own
        // fence.
        let word = self.0.load(Ordering::Acquire);
        debug_assert_ne!(word, FREED_WORD, "a node that was freed is reached (E3)");
        word == bits
    }

    /// Locks the node if its version still is `seen`: data read under `seen` is then true under the lock as well.
    #[inline]
    #[must_use]
    pub(crate) fn try_lock(&self, seen: Version) -> Option<NodeLock<'_>> {
        // Acquire fence: as in `is_unchanged`, as the exchange below is also the second look of an optimistic read.
        fence(Ordering::Acquire);
        // Acquire on success: pairs with the Release store of `NodeLock::drop` by the lock's previous owner. Relaxed on
        // failure: nothing is concluded from the value.
        let swap = self.0.compare_exchange(seen.0, seen.0 | LOCKED, Ordering::Acquire, Ordering::Relaxed);
        swap.ok().map(|_| NodeLock::new(self, seen))
    }

    /// Locks the node at its present version, unless another writer holds the node right now.
    #[inline]
    #[must_use]
    pub(crate) fn try_lock_now(&self) -> Option<NodeLock<'_>> {
        self.try_lock(self.stable())
    }

    /// Gives a fresh node, unknown to other threads, its first version, and locks the node within a change.
    pub(crate) fn begin(&self, version: Version) -> NodeLock<'_> {
        // Relaxed: the node is published later, by a Release store to a word of another node.
        self.0.store(version.0 | LOCKED, Ordering::Relaxed);
        let mut held = NodeLock::new(self, version);
        held.begin_change();
        held
    }

    /// True if the node is a leaf, changing or not.
    pub(crate) fn is_leaf(&self) -> bool {
        // Relaxed: LEAF is set before the node is known to other threads, and never changes.
        self.0.load(Ordering::Relaxed) & LEAF != 0
    }

    /// The raw word, for a check of a tree at rest; `None` if the word is LOCKED or CHANGING.
    pub(crate) fn at_rest(&self) -> Option<Version> {
        // Acquire: pairs with `NodeLock::drop`; the caller reads the node next.
        let word = self.0.load(Ordering::Acquire);
        (word & (LOCKED | CHANGING) == 0).then_some(Version(word))
    }
}

/// A held lock. Dropping the lock unlocks, and ends the change if the owner began a change.
#[derive(Debug)]
pub(crate) struct NodeLock<'p> {
    word: &'p VersionWord,
    seen: Version,
    next: Option<Version>,
}

#[cfg(debug_assertions)]
ensile_base::sync::thread_local! {
    /// Number of node locks that this thread holds (E1).
    static LOCKS_HELD: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

impl<'p> NodeLock<'p> {
    #[inline(always)]
    fn new(word: &'p VersionWord, seen: Version) -> Self {
        #[cfg(debug_assertions)]
        LOCKS_HELD.with(|locks| locks.set(locks.get() + 1));
        Self { word, seen, next: None }
    }
}

impl NodeLock<'_> {
    /// Number of node locks that this thread holds; always 0 without debug assertions. Memory is asked for without
    /// locks (E1).
    pub(crate) fn held_by_this_thread() -> usize {
        #[cfg(debug_assertions)]
        return LOCKS_HELD.with(std::cell::Cell::get);
        #[cfg(not(debug_assertions))]
        0
    }

    /// The version at which the lock was taken.
    pub(crate) fn version_before(&self) -> Version {
        self.seen
    }

    /// The version of the node after the drop of this lock.
    pub(crate) fn version_after(&self) -> Version {
        self.next.unwrap_or(self.seen)
    }

    /// Dirties the word. The call must stand before the first store that a reader could notice.
    pub(crate) fn begin_change(&mut self) {
        if self.next.is_some() {
            return;
        }
        self.next = Some(self.seen.successor());
        // Relaxed: the fence below orders the store before the data stores that follow; only the lock's owner stores
        // here.
        self.word.0.store(self.seen.0 | LOCKED | CHANGING, Ordering::Relaxed);
        // Release fence: pairs with the Acquire fence of `VersionWord::is_unchanged` and `try_lock`.
        fence(Ordering::Release);
    }

    /// Sets or clears ROOT in the version to come. Only within a change.
    pub(crate) fn set_root(&mut self, root: bool) {
        self.adjust(|next| next.with_bit(ROOT, root));
    }

    /// Takes the node out of the tree for good. Only within a change.
    pub(crate) fn set_deleted(&mut self) {
        self.adjust(|next| next.with_bit(DELETED, true));
    }

    /// Sets the number of keys of an internal node. Only within a change.
    pub(crate) fn set_keys(&mut self, keys: usize) {
        debug_assert!(keys <= 15 && !self.seen.is_leaf());
        self.adjust(|next| Version(next.0 & !KEYS_MASK | (keys as u64) << KEYS_SHIFT));
    }

    fn adjust(&mut self, change: impl FnOnce(Version) -> Version) {
        let next = self.next.expect("a version is adjusted only within a change");
        self.next = Some(change(next));
    }
}

impl Drop for NodeLock<'_> {
    fn drop(&mut self) {
        // Release: pairs with the Acquire loads of `stable`, `is_exactly` and the Acquire exchange of `try_lock`: a
        // thread that sees the new word sees the whole change.
        self.word.0.store(self.version_after().0, Ordering::Release);
        #[cfg(debug_assertions)]
        LOCKS_HELD.with(|locks| locks.set(locks.get() - 1));
    }
}

#[cfg(test)]
mod tests;
