//! A memory with a check at its drop: no memory is in use, and the pool has every span of every region once.
//!
//! Neighbours: up, the tests of `cache` and `memory`; down, `pool`, with the list of free spans.

use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::Arc;

use crate::{Cache, Memory, MemoryConfig, SizeClass};

/// A memory that panics at its drop if a span is missing. The test drops the caches first.
pub(crate) struct CheckedMemory(Arc<Memory>);

impl CheckedMemory {
    pub(crate) fn new(config: &MemoryConfig) -> Self {
        Self(Memory::new(config))
    }
}

impl Default for CheckedMemory {
    fn default() -> Self {
        Self::new(&MemoryConfig::default())
    }
}

impl Deref for CheckedMemory {
    type Target = Arc<Memory>;

    fn deref(&self) -> &Arc<Memory> {
        &self.0
    }
}

impl Drop for CheckedMemory {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            assert_eq!(Arc::strong_count(&self.0), 1, "caches end before their memory is checked");
            self.0.check_at_rest();
        }
    }
}

/// Blocks of the size class of `bytes`, with `total_bytes` bytes in total.
pub(crate) fn blocks(cache: &mut Cache, bytes: usize, total_bytes: usize) -> Vec<NonNull<u8>> {
    let class = SizeClass::of_bytes(bytes);
    (0..total_bytes / class.bytes()).map(|_| cache.allocate(class)).collect()
}

/// Frees blocks of a class.
pub(crate) fn free(cache: &mut Cache, bytes: usize, blocks: impl IntoIterator<Item = NonNull<u8>>) {
    for block in blocks {
        // SAFETY: allocated under this class from the same memory, freed once.
        unsafe { cache.free(block, SizeClass::of_bytes(bytes)) };
    }
}
