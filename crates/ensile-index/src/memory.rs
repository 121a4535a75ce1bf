//! Where nodes come from and where they go: the one thing that the index asks of its caller.
//!
//! Neighbours: up, the engine (slabs of a worker behind it, deferred frees by epoch); down, nothing.

use std::alloc::Layout;
use std::ptr::NonNull;

/// Memory for nodes and suffix blocks.
///
/// # Safety
/// `allocate` returns a block of its own, as large and as aligned as asked, that stays valid until it is retired;
/// `retire` keeps the block intact for as long as any pin that stands now may reach it (E3).
pub unsafe trait NodeMemory {
    /// A block of this layout, with any content. Never fails: a process out of memory ends here.
    fn allocate(&mut self, layout: Layout) -> NonNull<u8>;

    /// Takes back a block that is linked nowhere any more, to be freed once no pin can reach it.
    ///
    /// # Safety
    /// `block` came from `allocate` of the same memory (or of one that shares its blocks) with the same layout, is
    /// unlinked, and is retired once.
    unsafe fn retire(&mut self, block: NonNull<u8>, layout: Layout);
}
