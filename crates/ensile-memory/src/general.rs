//! Blocks from the process's allocator, one by one: what slabs on huge pages are measured against (Silo §5.7,
//! `Simple`).
//!
//! Only reached where an experiment asks for memory without slabs; otherwise the compiler drops it.
//!
//! Neighbours: [`crate::Cache`] asks for blocks and gives them back.

use std::alloc::Layout;
use std::ptr::NonNull;

use crate::class::SizeClass;

fn layout(class: SizeClass) -> Layout {
    let align = if class.bytes().is_multiple_of(64) { 64 } else { 8 };
    let Ok(layout) = Layout::from_size_align(class.bytes(), align) else { std::process::abort() };
    layout
}

/// A block of `class`, uninitialised, aligned as a slab's would be.
pub(crate) fn allocate(class: SizeClass) -> NonNull<u8> {
    let layout = layout(class);
    // SAFETY: classes are not empty.
    NonNull::new(unsafe { std::alloc::alloc(layout) })
        .unwrap_or_else(|| std::alloc::handle_alloc_error(layout))
}

/// Gives a block back.
///
/// # Safety
/// `block` came from [`allocate`] under `class`, is freed once, and nothing uses it any more.
pub(crate) unsafe fn free(block: NonNull<u8>, class: SizeClass) {
    // SAFETY: passed on to the caller; the layout depends on the class only.
    unsafe { std::alloc::dealloc(block.as_ptr(), layout(class)) }
}
