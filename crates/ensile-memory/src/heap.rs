//! The heap of the global allocator: free memory goes back to the system.
//!
//! An allocator keeps freed memory for later requests. After a peak the kept memory may be many times the memory in
//! use: a block in use at a high address keeps all free memory below. Only glibc's allocator has the calls of this
//! module; with another C library they do nothing.
//!
//! Neighbours: programs whose memory has peaks call.

/// Size from which a block is a mapping of its own, in bytes. Its memory goes back when the block is freed.
#[cfg(all(target_os = "linux", target_env = "gnu", not(miri)))]
const MAPPED_BYTES: i32 = 32 << 20;

/// Largest free memory at the end of a part of the heap, in bytes.
#[cfg(all(target_os = "linux", target_env = "gnu", not(miri)))]
const END_BYTES: i32 = 4 << 20;

/// Largest number of blocks that are mappings: a quarter of the mappings that Linux permits a process by default.
#[cfg(all(target_os = "linux", target_env = "gnu", not(miri)))]
const MAPPED_BLOCKS: i32 = 16 << 10;

/// Fixes the limits of kept memory, for the whole process. Without the call glibc raises its limits with the largest
/// freed block: up to 64 MiB stay at the end of each thread's part of the heap. True if all limits are fixed.
///
/// A program calls once at its start.
pub fn limit_kept_heap() -> bool {
    #[cfg(all(target_os = "linux", target_env = "gnu", not(miri)))]
    {
        let limits = [
            (libc::M_MMAP_THRESHOLD, MAPPED_BYTES),
            (libc::M_TRIM_THRESHOLD, END_BYTES),
            (libc::M_MMAP_MAX, MAPPED_BLOCKS),
        ];
        // SAFETY: the call locks a part of the allocator and stores one word. An allocation of another thread goes by
        // the old word or by the new word, and both are valid.
        limits.into_iter().all(|(limit, value)| unsafe { libc::mallopt(limit, value) } == 1)
    }
    #[cfg(not(all(target_os = "linux", target_env = "gnu", not(miri))))]
    {
        false
    }
}

/// Gives free pages of the heap back to the system. True if some memory went back.
///
/// The call looks at each free block that is larger than a page. Other threads wait meanwhile when they allocate from
/// the same part of the heap: some milliseconds for each gibibyte in small blocks.
pub fn trim_heap() -> bool {
    #[cfg(all(target_os = "linux", target_env = "gnu", not(miri)))]
    {
        // SAFETY: the call has no condition. It locks the allocator, and touches free memory alone.
        unsafe { libc::malloc_trim(0) == 1 }
    }
    #[cfg(not(all(target_os = "linux", target_env = "gnu", not(miri))))]
    {
        false
    }
}

#[cfg(all(test, target_os = "linux", target_env = "gnu", not(any(miri, loom, shuttle))))]
mod tests {
    use super::{limit_kept_heap, trim_heap};

    #[test]
    fn the_limits_are_accepted_and_free_memory_goes_back() {
        assert!(limit_kept_heap());
        // Every second block stays, so no block at the end of the heap gives anything back.
        let mut blocks: Vec<Option<Vec<u8>>> = (0..256).map(|_| Some(vec![1; 128 << 10])).collect();
        blocks.iter_mut().step_by(2).for_each(|block| *block = None);
        assert!(trim_heap());
        assert!(blocks.iter().flatten().all(|block| block.iter().all(|byte| *byte == 1)));
    }
}
