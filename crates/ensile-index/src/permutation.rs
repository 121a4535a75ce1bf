//! The permutation word of a leaf: the used slots and their order.
//!
//! Nibble 0 is the number of entries; nibble `i + 1` is the slot of the entry at position `i`. The nibbles behind the
//! last entry hold the free slots, so the word always names each of the fifteen slots once (checked by `check`).
//!
//! Neighbours: up, `node` and the operations that change leaves.

/// Most entries of a leaf.
pub(crate) const LEAF_SLOTS: usize = 15;

const _: () = assert!(LEAF_SLOTS == 15, "fifteen nibbles and a count fill the word");

/// A copy of a leaf's permutation word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Permutation(u64);

impl Permutation {
    /// No entries; slots are free in order.
    pub(crate) const EMPTY: Self = Self(0xedcb_a987_6543_2100);

    /// `count` entries in slots `0..count`, in order.
    pub(crate) const fn identity(count: usize) -> Self {
        Self(Self::EMPTY.0 | count as u64)
    }

    #[inline(always)]
    pub(crate) const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    #[inline(always)]
    pub(crate) const fn bits(self) -> u64 {
        self.0
    }

    /// Number of entries.
    #[inline(always)]
    pub(crate) const fn count(self) -> usize {
        (self.0 & 0xf) as usize
    }

    /// The slot at a position; behind the entries, a free slot.
    #[inline(always)]
    pub(crate) const fn slot(self, position: usize) -> usize {
        debug_assert!(position < LEAF_SLOTS);
        ((self.0 >> (4 * position + 4)) & 0xf) as usize
    }

    /// The slots of the entries, in order.
    pub(crate) fn slots(self) -> impl DoubleEndedIterator<Item = usize> {
        (0..self.count()).map(move |position| self.slot(position))
    }

    /// The slots of the entries as nibbles, the first entry's lowest. Cheaper than [`Self::slot`] for a walk over the
    /// entries.
    #[inline(always)]
    pub(crate) const fn nibbles(self) -> u64 {
        self.0 >> 4
    }

    /// As [`Self::nibbles`], the last entry's lowest.
    #[inline(always)]
    pub(crate) const fn nibbles_back(self) -> u64 {
        const LOW: u64 = 0x0f0f_0f0f_0f0f_0f0f;
        // The sixteen nibbles in reverse order, the count highest; after the shift, the last entry's slot is lowest.
        let bytes = self.0.swap_bytes();
        let nibbles = (bytes & LOW) << 4 | bytes >> 4 & LOW;
        nibbles >> (4 * (LEAF_SLOTS - self.count()))
    }

    /// The slot that the next [`Self::insert`] will use.
    pub(crate) const fn free_slot(self) -> usize {
        self.slot(self.count())
    }

    /// Puts the first free slot at `position`.
    #[must_use]
    pub(crate) const fn insert(self, position: usize) -> Self {
        debug_assert!(position <= self.count() && self.count() < LEAF_SLOTS);
        let slot = self.free_slot() as u64;
        let shift = 4 * position + 4;
        let low = self.0 & ((1 << shift) - 1);
        // Positions from `position` up to the free slot's own move up by one; nibbles behind stay.
        let end = 4 * self.count() + 8;
        let behind = if end == 64 { 0 } else { self.0 >> end << end };
        let moved = (self.0 ^ behind) >> shift << shift << 4;
        let moved = if end == 64 { moved } else { moved & ((1 << end) - 1) };
        Self((behind | moved | slot << shift | low) + 1)
    }

    /// Removes the entry at `position`; its slot becomes the first free slot.
    #[must_use]
    pub(crate) const fn remove(self, position: usize) -> Self {
        debug_assert!(position < self.count());
        let slot = self.slot(position) as u64;
        let shift = 4 * position + 4;
        let low = self.0 & ((1 << shift) - 1);
        let end = 4 * self.count() + 4;
        let behind = if end == 64 { 0 } else { self.0 >> end << end };
        let moved = ((self.0 ^ behind) >> (shift + 3) >> 1) << shift;
        Self((behind | slot << (end - 4) | moved | low) - 1)
    }

    /// Keeps the first `count` entries; the slots of the others become free.
    #[must_use]
    pub(crate) const fn truncate(self, count: usize) -> Self {
        debug_assert!(count <= self.count());
        Self(self.0 & !0xf | count as u64)
    }

    /// True if the word names each slot once.
    pub(crate) fn is_whole(self) -> bool {
        let named = (0..LEAF_SLOTS).fold(0u32, |named, position| named | 1 << self.slot(position));
        named == (1 << LEAF_SLOTS) - 1
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
