//! Single blocks from the process's allocator: the baseline for slabs on huge pages (Silo §5.7, `Simple`).
//!
//! Only measurements of memory without slabs use the module; the compiler drops the module from other builds.
//!
//! Neighbours: [`crate::Cache`] obtains and returns the blocks.

use std::alloc::Layout;
use std::ptr::NonNull;

use crate::size_class::SizeClass;

fn layout(class: SizeClass) -> Layout {
    let align = if class.bytes().is_multiple_of(64) { 64 } else { 8 };
    let Ok(layout) = Layout::from_size_align(class.bytes(), align) else { std::process::abort() };
    layout
}

/// An uninitialised block of `class`, aligned like a block of a slab.
pub(crate) fn allocate(class: SizeClass) -> NonNull<u8> {
    let layout = layout(class);
    // SAFETY: classes are not empty.
    NonNull::new(unsafe { std::alloc::alloc(layout) })
        .unwrap_or_else(|| std::alloc::handle_alloc_error(layout))
}

/// Gives a block back.
///
/// # Safety
/// `block` came from [`allocate`] under `class`, is freed once, and is unused from then on.
pub(crate) unsafe fn free(block: NonNull<u8>, class: SizeClass) {
    // SAFETY: the caller's contract; the layout depends on the class only.
    unsafe { std::alloc::dealloc(block.as_ptr(), layout(class)) }
}
