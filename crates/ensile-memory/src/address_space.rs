//! Address space from the kernel: aligned regions, advised to huge pages, optionally pre-faulted (Silo §5.1).
//!
//! A page lands on the NUMA node of the thread that touches it first. Chunks are first touched by the worker that
//! cuts them, so a pinned worker's nodes and records are on its own node without a policy of ours. A machine with one
//! node may have a thread that touches them before ([`touch`]).
//!
//! Neighbours: [`crate::Memory`] maps and unmaps.

use std::ptr::NonNull;

/// Maps `bytes` zeroed bytes aligned to `align` (a power of two, a multiple of the page size). Aborts when the
/// address space is used up, as the global allocator does.
pub(crate) fn map(bytes: usize, align: usize, prefault: bool) -> NonNull<u8> {
    try_map(bytes, align, prefault).unwrap_or_else(|| out_of_memory(bytes, align))
}

/// The same. `None` when the address space is used up.
#[cfg(not(miri))]
pub(crate) fn try_map(bytes: usize, align: usize, prefault: bool) -> Option<NonNull<u8>> {
    use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
    let reserve = bytes + align;
    // SAFETY: a fresh anonymous mapping at an address of the kernel's choice aliases nothing.
    let mapped = unsafe {
        mmap_anonymous(
            std::ptr::null_mut(),
            reserve,
            ProtFlags::READ | ProtFlags::WRITE,
            MapFlags::PRIVATE | MapFlags::NORESERVE,
        )
    };
    let mapped = mapped.ok()?;
    let start = mapped as usize;
    let aligned = start.next_multiple_of(align);
    let (head, tail) = (aligned - start, start + reserve - (aligned + bytes));
    let block = mapped.cast::<u8>().wrapping_add(head);
    // SAFETY: head and tail are parts of the mapping just made, outside [block, block + bytes), and unused. Failing
    // to give them back only wastes address space.
    unsafe {
        if head > 0 {
            let _ = munmap(mapped, head);
        }
        if tail > 0 {
            let _ = munmap(block.add(bytes).cast(), tail);
        }
    }
    // Shuttle's databases live for a moment each: not worth a huge page.
    if !cfg!(shuttle) {
        // SAFETY: the range is ours; huge pages are advice (a kernel without them says so and nothing changes).
        let _ = unsafe { madvise(block.cast(), bytes, Advice::LinuxHugepage) };
    }
    if prefault {
        // SAFETY: the range is ours; populating is advice: where the kernel cannot, pages come at first touch.
        let _ = unsafe { madvise(block.cast(), bytes, Advice::LinuxPopulateWrite) };
    }
    NonNull::new(block)
}

/// Gives a mapping back.
///
/// # Safety
/// `block` came from [`map`] with the same `bytes`, and nothing in it is used any more.
#[cfg(not(miri))]
pub(crate) unsafe fn unmap(block: NonNull<u8>, bytes: usize, _align: usize) {
    // SAFETY: passed on to the caller. An error would mean that the range was not ours; then nothing is unmapped.
    let _ = unsafe { rustix::mm::munmap(block.as_ptr().cast(), bytes) };
}

/// Gives the pages of a part of a mapping back to the system. It stays mapped, and reads as zeros.
///
/// # Safety
/// The range is a part of a mapping of [`map`], aligned to pages, and nothing in it is used.
#[cfg(not(miri))]
pub(crate) unsafe fn give_back(block: NonNull<u8>, bytes: usize) {
    // SAFETY: by the caller's word. A kernel that refuses keeps the pages: nothing else changes.
    let _ = unsafe { rustix::mm::madvise(block.as_ptr().cast(), bytes, rustix::mm::Advice::LinuxDontNeed) };
}

/// Has the system put memory behind each page of a part of a mapping, as a first write does: that takes a while, as
/// the pages are cleared.
///
/// # Safety
/// The range is a part of a mapping of [`map`], and nobody uses a byte of it.
pub(crate) unsafe fn touch(block: NonNull<u8>, bytes: usize) {
    // The smallest pages there are: each has one of these.
    const PAGE_BYTES: usize = 4096;
    for offset in (0..bytes).step_by(PAGE_BYTES) {
        // SAFETY: inside the range, which is the caller's. Volatile, as nothing reads it.
        unsafe { block.as_ptr().add(offset).write_volatile(0) };
    }
}

/// Under miri nothing is given back before the end.
///
/// # Safety
/// As for the real one.
#[cfg(miri)]
pub(crate) unsafe fn give_back(_block: NonNull<u8>, _bytes: usize) {}

pub(crate) fn out_of_memory(bytes: usize, align: usize) -> ! {
    match std::alloc::Layout::from_size_align(bytes, align) {
        Ok(layout) => std::alloc::handle_alloc_error(layout),
        Err(_) => std::process::abort(),
    }
}

/// Under miri there are no mappings: the global allocator stands in.
#[cfg(miri)]
pub(crate) fn try_map(bytes: usize, align: usize, _prefault: bool) -> Option<NonNull<u8>> {
    let layout = std::alloc::Layout::from_size_align(bytes, align).ok()?;
    // SAFETY: the layout is not empty.
    NonNull::new(unsafe { std::alloc::alloc_zeroed(layout) })
}

/// Under miri: back to the global allocator.
///
/// # Safety
/// As for the real one.
#[cfg(miri)]
pub(crate) unsafe fn unmap(block: NonNull<u8>, bytes: usize, align: usize) {
    // SAFETY: the same layout as in `map`.
    unsafe {
        std::alloc::dealloc(block.as_ptr(), std::alloc::Layout::from_size_align_unchecked(bytes, align))
    }
}
