//! Prefetch hints: requests for a cache line before the first access.
//!
//! A hint never faults and never changes a result, so the functions are safe for every address.
//! Neighbours: the index's descents and the engine's record reads.

/// Bytes of a cache line on the target machines.
pub const LINE_BYTES: usize = 64;

/// Asks for the line at `address`.
#[inline(always)]
pub fn line<T>(address: *const T) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: PREFETCHT0 is a hint. The hint accepts every address and never faults; SSE is part of x86-64.
    unsafe {
        core::arch::x86_64::_mm_prefetch::<{ core::arch::x86_64::_MM_HINT_T0 }>(address.cast());
    }
    #[cfg(all(target_arch = "aarch64", not(miri)))]
    // SAFETY: PRFM is a hint. The hint accepts every address, never faults, and touches neither memory nor flags.
    unsafe {
        core::arch::asm!("prfm pldl1keep, [{0}]", in(reg) address, options(nostack, preserves_flags, readonly));
    }
    #[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
    let _ = address;
}

/// Asks for the lines of `bytes` bytes from `address`.
#[inline(always)]
pub fn lines<T>(address: *const T, bytes: usize) {
    let start = address.cast::<u8>();
    let mut offset = 0;
    while offset < bytes {
        line(start.wrapping_add(offset));
        offset += LINE_BYTES;
    }
}
