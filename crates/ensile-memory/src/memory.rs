//! All memory of one database: regions, the chunks cut from them, blocks that caches gave back, large blocks.
//!
//! Everything here is behind one lock that caches take once per chunk, batch or large block, never per record.
//!
//! Neighbours: [`crate::Cache`] takes chunks and batches; [`crate::map`] asks the kernel.

use std::alloc::Layout;
use std::collections::HashMap;
use std::ptr::NonNull;
// Std's, not the door's: `cache` takes `self` by it, which loom's type does not allow.
use std::sync::Arc;

use ensile_base::sync::{AtomicU64, Mutex, MutexGuard, Ordering};

use crate::cache::Cache;
use crate::class::SizeClass;
use crate::map;

/// A chunk: what a cache takes at a time; one huge page, aligned to its size.
pub(crate) const CHUNK_BYTES: usize = 2 << 20;
/// A span: a part of a chunk that serves one size class.
pub(crate) const SPAN_BYTES: usize = 64 << 10;
/// A region: what is mapped at a time.
const REGION_BYTES: usize = 64 << 20;
/// Alignment of large blocks.
const LARGE_ALIGN: usize = 64;

/// How memory is taken.
#[derive(Clone, Debug, Default)]
pub struct MemoryConfig {
    /// Bytes mapped and touched at the start, so that no page fault falls into what is timed (Silo §5.1).
    pub prefault_bytes: usize,
    /// Whether blocks come from the process's allocator instead of slabs, to measure what slabs are worth. What is not
    /// freed by the end is then never given back.
    #[cfg(feature = "experiments")]
    pub general: bool,
}

impl MemoryConfig {
    /// Slabs, of which so many bytes are touched beforehand.
    #[must_use]
    pub fn prefaulted(prefault_bytes: usize) -> Self {
        Self {
            prefault_bytes,
            #[cfg(feature = "experiments")]
            general: false,
        }
    }
}

/// Figures of a [`Memory`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryStats {
    /// Bytes of chunks handed to caches.
    pub chunk_bytes: u64,
    /// Bytes in large blocks.
    pub large_bytes: u64,
}

/// A list of free blocks, linked through their first words.
pub(crate) struct Batch {
    pub(crate) head: NonNull<u8>,
    pub(crate) count: usize,
}

/// The uncut rest of a span.
pub(crate) struct Rest {
    pub(crate) next: NonNull<u8>,
    pub(crate) end: *mut u8,
}

#[derive(Default)]
struct Pool {
    regions: Vec<(NonNull<u8>, usize)>,
    /// The newest region's first chunk that nobody took, and its end.
    fresh: Option<(NonNull<u8>, usize)>,
    /// Chunk tails (next span, spans left) of caches that ended.
    tails: Vec<(NonNull<u8>, usize)>,
    batches: Vec<Vec<Batch>>,
    rests: Vec<Vec<Rest>>,
    large: HashMap<usize, Layout>,
    /// Nothing is taken back any more, since there is nothing behind it.
    is_released: bool,
}

/// The memory of one database.
pub struct Memory {
    #[cfg(feature = "experiments")]
    general: bool,
    pool: Mutex<Pool>,
    chunk_bytes: AtomicU64,
    large_bytes: AtomicU64,
}

// SAFETY: the pool's pointers are to memory that this object owns; they change hands under the lock.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl std::fmt::Debug for Memory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Memory").field("stats", &self.stats()).finish_non_exhaustive()
    }
}

impl Memory {
    /// Memory for one database.
    #[must_use]
    pub fn new(config: &MemoryConfig) -> Arc<Self> {
        let mut pool = Pool::default();
        pool.batches.resize_with(SizeClass::SPANNED, Vec::new);
        pool.rests.resize_with(SizeClass::SPANNED, Vec::new);
        #[cfg(feature = "experiments")]
        let wanted = if config.general { 0 } else { config.prefault_bytes };
        #[cfg(not(feature = "experiments"))]
        let wanted = config.prefault_bytes;
        if wanted > 0 {
            let bytes = wanted.next_multiple_of(CHUNK_BYTES);
            let region = map::map(bytes, CHUNK_BYTES, true);
            pool.regions.push((region, bytes));
            pool.fresh = Some((region, bytes));
        }
        Arc::new(Self {
            #[cfg(feature = "experiments")]
            general: config.general,
            pool: Mutex::new(pool),
            chunk_bytes: AtomicU64::new(0),
            large_bytes: AtomicU64::new(0),
        })
    }

    /// A cache for one worker.
    #[must_use]
    pub fn cache(self: &Arc<Self>) -> Cache {
        Cache::new(Arc::clone(self))
    }

    /// Its figures.
    #[must_use]
    pub fn stats(&self) -> MemoryStats {
        // Relaxed, both: figures for people.
        MemoryStats {
            chunk_bytes: self.chunk_bytes.load(Ordering::Relaxed),
            large_bytes: self.large_bytes.load(Ordering::Relaxed),
        }
    }

    /// Whether blocks come from slabs.
    #[cfg(feature = "experiments")]
    #[inline]
    pub(crate) fn has_slabs(&self) -> bool {
        !self.general
    }

    /// Whether blocks come from slabs.
    #[cfg(not(feature = "experiments"))]
    #[inline(always)]
    pub(crate) const fn has_slabs(&self) -> bool {
        true
    }

    fn lock(&self) -> MutexGuard<'_, Pool> {
        // Nothing panics between two consistent states of the pool.
        self.pool.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Spans in a row: a fresh chunk, or what is left of an ended cache's.
    pub(crate) fn take_spans(&self) -> (NonNull<u8>, usize) {
        let mut pool = self.lock();
        if let Some(tail) = pool.tails.pop() {
            return tail;
        }
        let (chunk, left) = pool.fresh.take().unwrap_or_else(|| {
            let region = map::map(REGION_BYTES, CHUNK_BYTES, false);
            pool.regions.push((region, REGION_BYTES));
            (region, REGION_BYTES)
        });
        if left > CHUNK_BYTES {
            // SAFETY: `left` bytes of the region begin at `chunk`.
            pool.fresh = Some((unsafe { chunk.add(CHUNK_BYTES) }, left - CHUNK_BYTES));
        }
        // Relaxed: a figure.
        self.chunk_bytes.fetch_add(CHUNK_BYTES as u64, Ordering::Relaxed);
        (chunk, CHUNK_BYTES / SPAN_BYTES)
    }

    /// The pool, for a cache that gives something back to it; `None` once all was given back to the system.
    fn lock_to_give(&self) -> Option<MutexGuard<'_, Pool>> {
        Some(self.lock()).filter(|pool| !pool.is_released)
    }

    pub(crate) fn give_spans(&self, next: NonNull<u8>, spans: usize) {
        if let Some(mut pool) = self.lock_to_give() {
            pool.tails.push((next, spans));
        }
    }

    pub(crate) fn take_batch(&self, class: SizeClass) -> Option<Batch> {
        self.lock().batches[class.index()].pop()
    }

    pub(crate) fn give_batch(&self, class: SizeClass, batch: Batch) {
        if let Some(mut pool) = self.lock_to_give() {
            pool.batches[class.index()].push(batch);
        }
    }

    pub(crate) fn take_rest(&self, class: SizeClass) -> Option<Rest> {
        self.lock().rests[class.index()].pop()
    }

    pub(crate) fn give_rest(&self, class: SizeClass, rest: Rest) {
        if let Some(mut pool) = self.lock_to_give() {
            pool.rests[class.index()].push(rest);
        }
    }

    /// A block too large for a span.
    pub(crate) fn allocate_large(&self, class: SizeClass) -> NonNull<u8> {
        let Ok(layout) = Layout::from_size_align(class.bytes(), LARGE_ALIGN) else { std::process::abort() };
        // SAFETY: classes are not empty.
        let Some(block) = NonNull::new(unsafe { std::alloc::alloc(layout) }) else {
            std::alloc::handle_alloc_error(layout)
        };
        self.lock().large.insert(block.as_ptr() as usize, layout);
        // Relaxed: a figure.
        self.large_bytes.fetch_add(layout.size() as u64, Ordering::Relaxed);
        block
    }

    /// # Safety
    /// `block` came from `allocate_large` and nothing uses it any more.
    pub(crate) unsafe fn free_large(&self, block: NonNull<u8>) {
        let layout = self.lock().large.remove(&(block.as_ptr() as usize));
        let Some(layout) = layout else {
            debug_assert!(false, "a large block is freed once");
            return;
        };
        // Relaxed: a figure.
        self.large_bytes.fetch_sub(layout.size() as u64, Ordering::Relaxed);
        // SAFETY: allocated with this layout, and unused by the caller's word.
        unsafe { std::alloc::dealloc(block.as_ptr(), layout) };
    }

    /// Gives everything back to the system, though caches are left: a thread may keep one for as long as it lives.
    /// Dropping a cache afterwards touches no block.
    ///
    /// # Safety
    /// Nothing uses a block of this memory any more, and from now on nothing is done with its caches but dropping them.
    pub unsafe fn release(&self) {
        let mut pool = self.lock();
        let given = std::mem::take(&mut *pool);
        pool.is_released = true;
        for (address, layout) in given.large {
            // SAFETY: allocated with this layout in `allocate_large`, and unused by the caller's word.
            unsafe { std::alloc::dealloc(address as *mut u8, layout) };
        }
        for (region, bytes) in given.regions {
            // SAFETY: mapped with these bytes, and unused by the caller's word; what pointed into it went with `given`,
            // but for caches, which are dropped without a look at what they have.
            unsafe { map::unmap(region, bytes, CHUNK_BYTES) };
        }
        // Relaxed, both: figures.
        self.chunk_bytes.store(0, Ordering::Relaxed);
        self.large_bytes.store(0, Ordering::Relaxed);
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: caches hold an Arc of this object, so none is left, and whoever had a block has let go of it.
        unsafe { self.release() };
    }
}
