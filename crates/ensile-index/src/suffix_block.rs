//! Suffix blocks: the bytes of keys behind the slice, for the LONG entries of one leaf.
//!
//! **APPEND**: a suffix block's bytes are written once, into space that no place word names yet, and never again. A
//! reader that got a place under a validated version may therefore compare or copy the bytes afterwards, in spite of
//! later changes of the leaf: the suffix block itself lives as long as its pin. A full suffix block is replaced by a
//! larger copy and retired; the copy leaves out the space of removed keys.
//!
//! Neighbours: up, `node` and the operations; down, `memory`, `seqlock_word`.

use std::alloc::Layout;
use std::marker::PhantomData;
use std::ptr::NonNull;

use ensile_base::limits;
use ensile_base::sync::{AtomicU64, Ordering, plain_access};

use crate::memory::{NodeMemory, allocate, retire};
use crate::permutation::LEAF_SLOTS;
use crate::seqlock_word::GuardedU64;

/// Place of a suffix in its suffix block: offset in the high half, length in the low half.
#[derive(Debug)]
struct SuffixPlace(AtomicU64);

/// The head of a suffix block; `capacity` bytes follow the head.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct SuffixBlock {
    capacity: u64,
    /// Bytes handed out so far. Written only under the leaf's lock, within a change of the leaf.
    used: GuardedU64,
    places: [SuffixPlace; LEAF_SLOTS],
}

/// A suffix block that is not freed within `'p`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SuffixBlockRef<'p>(NonNull<SuffixBlock>, PhantomData<&'p SuffixBlock>);

const _: () =
    assert!(limits::INDEX_KEY_BYTES_MAX * LEAF_SLOTS * 2 < u32::MAX as usize, "places are halves of a word");

impl<'p> SuffixBlockRef<'p> {
    /// A suffix block known by its address.
    ///
    /// # Safety
    /// `suffixes` was made by [`Self::create`] and is not freed within `'p`.
    pub(crate) unsafe fn from_raw(suffixes: NonNull<SuffixBlock>) -> Self {
        Self(suffixes, PhantomData)
    }

    /// An empty suffix block.
    pub(crate) fn create(capacity: usize, memory: &mut dyn NodeMemory) -> Self {
        let block = allocate(memory, Self::layout(capacity)).cast::<SuffixBlock>();
        let suffixes = SuffixBlock {
            capacity: capacity as u64,
            used: GuardedU64::new(0),
            places: std::array::from_fn(|_| SuffixPlace(AtomicU64::new(0))),
        };
        // SAFETY: the block is ours, large and aligned enough for a head and its bytes.
        unsafe { block.write(suffixes) };
        plain_access::store(block.as_ptr(), size_of::<SuffixBlock>());
        Self(block, PhantomData)
    }

    pub(crate) fn as_ptr(self) -> *mut SuffixBlock {
        self.0.as_ptr()
    }

    fn head(self) -> &'p SuffixBlock {
        // SAFETY: by the contract of `from_raw` and by `create` the head is valid for 'p; the head has atomic fields
        // only, but for the capacity, which never changes.
        unsafe { self.0.as_ref() }
    }

    /// Bytes of the whole block.
    pub(crate) fn block_bytes(self) -> usize {
        Self::layout(self.head().capacity as usize).size()
    }

    fn layout(capacity: usize) -> Layout {
        let bytes = size_of::<SuffixBlock>() + capacity;
        Layout::from_size_align(bytes, align_of::<SuffixBlock>())
            .expect("a suffix block is far smaller than the address space")
    }

    fn bytes(self, offset: usize) -> *mut u8 {
        debug_assert!(offset <= self.head().capacity as usize);
        // SAFETY: the bytes follow the head in the same block, and the offset lies within them.
        unsafe { self.0.as_ptr().add(1).cast::<u8>().add(offset) }
    }

    /// The suffix of a slot. A slot without a suffix gets other bytes of the suffix block: the caller's validation
    /// throws the bytes away.
    #[inline]
    pub(crate) fn suffix(self, slot: usize) -> &'p [u8] {
        // Acquire: pairs with the Release store of `append`: the bytes of this place are seen.
        let place = self.head().places[slot].0.load(Ordering::Acquire);
        let (offset, length) = ((place >> 32) as usize, (place & 0xffff_ffff) as usize);
        debug_assert!(offset + length <= self.head().capacity as usize);
        // SAFETY: places are written by `append` only, which keeps places inside the block; the bytes were written
        // before the place and are never written again (APPEND).
        let suffix = unsafe { std::slice::from_raw_parts(self.bytes(offset), length) };
        plain_access::load(suffix);
        suffix
    }

    /// True if another suffix of this length fits. Without the leaf's lock the result holds for the version that the
    /// caller validates.
    #[inline]
    pub(crate) fn has_room(self, length: usize) -> bool {
        self.head().used.read() + length as u64 <= self.head().capacity
    }

    /// Adds a slot's suffix. Under the leaf's lock, or in a suffix block that no other thread knows; there must be
    /// room.
    pub(crate) fn append(self, slot: usize, suffix: &[u8]) {
        assert!(self.has_room(suffix.len()), "room is reserved before a suffix is added");
        let offset = self.head().used.read();
        // SAFETY: the target lies within the block, behind every place handed out so far, and is therefore never read;
        // the source is not in the target's space.
        unsafe { self.bytes(offset as usize).copy_from_nonoverlapping(suffix.as_ptr(), suffix.len()) };
        plain_access::store(self.bytes(offset as usize), suffix.len());
        self.head().used.write(offset + suffix.len() as u64);
        let place = offset << 32 | suffix.len() as u64;
        // Release: pairs with the Acquire load of `suffix`: a thread that sees the place sees its bytes.
        self.head().places[slot].0.store(place, Ordering::Release);
    }

    /// Gives the block back.
    ///
    /// # Safety
    /// The suffix block is linked nowhere any more and is retired once.
    pub(crate) unsafe fn retire(self, memory: &mut dyn NodeMemory) {
        let layout = Self::layout(self.head().capacity as usize);
        // SAFETY: the caller's promise; the layout is the layout that `create` asked for.
        unsafe { retire(memory, self.0.cast(), layout) }
    }

    /// Gives back a block unseen by other threads.
    ///
    /// # Safety
    /// The suffix block was never linked, and is given back once.
    pub(crate) unsafe fn discard(self, memory: &mut dyn NodeMemory) {
        let layout = Self::layout(self.head().capacity as usize);
        // SAFETY: the caller's promise; the layout is the layout that `create` asked for.
        unsafe { memory.discard(self.0.cast(), layout) }
    }
}

/// Capacity in bytes for a suffix block that must hold `needed` bytes in `entries` suffixes. The block has room for a
/// leaf full of such suffixes, but at most for twice the needed bytes.
pub(crate) fn capacity_for(needed: usize, entries: usize) -> usize {
    let full = needed.div_ceil(entries.max(1)) * LEAF_SLOTS;
    full.clamp(needed, needed * 2).next_multiple_of(8)
}
