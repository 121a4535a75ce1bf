//! The source of memory for nodes and blocks, and the only demand of the index on its caller.
//!
//! **E1**: no thread asks for memory, or gives memory back, while holding the lock of a node. A bound commit may wait
//! for such a lock, and memory may come from the kernel.
//!
//! Neighbours: up, the engine (slabs of a worker behind `NodeMemory`, deferred frees by epoch); down, nothing.

use std::alloc::Layout;
use std::ptr::NonNull;

use crate::version::NodeLock;

/// Memory for nodes, suffix blocks and skip blocks.
///
/// # Safety
/// `allocate` returns a block of its own, as large and as aligned as asked, that stays valid until retired or
/// discarded; `retire` keeps the block intact for as long as any pin of now may reach the block (E3).
pub unsafe trait NodeMemory {
    /// A block of this layout, with any content. Never fails: a process out of memory ends here.
    fn allocate(&mut self, layout: Layout) -> NonNull<u8>;

    /// Takes back a block that is linked nowhere any more, to be freed once no pin can reach the block.
    ///
    /// # Safety
    /// `block` came from `allocate` of the same memory (or of a memory that shares its blocks) with the same layout, is
    /// unlinked, and is retired once.
    unsafe fn retire(&mut self, block: NonNull<u8>, layout: Layout);

    /// Takes back a block that was never linked: the block may be used again at once.
    ///
    /// # Safety
    /// `block` came from `allocate` of this memory with the same layout, is unseen by other threads, and is given back
    /// once.
    unsafe fn discard(&mut self, block: NonNull<u8>, layout: Layout);
}

/// A block for a thread that holds no node's lock (E1).
pub(crate) fn allocate(memory: &mut dyn NodeMemory, layout: Layout) -> NonNull<u8> {
    debug_assert_eq!(NodeLock::held_by_this_thread(), 0, "memory is asked for under a node's lock (E1)");
    memory.allocate(layout)
}

/// Retires a block; the thread holds no node's lock (E1).
///
/// # Safety
/// As for [`NodeMemory::retire`].
pub(crate) unsafe fn retire(memory: &mut dyn NodeMemory, block: NonNull<u8>, layout: Layout) {
    debug_assert_eq!(NodeLock::held_by_this_thread(), 0, "memory is given back under a node's lock (E1)");
    // SAFETY: the caller's promise.
    unsafe { memory.retire(block, layout) }
}
