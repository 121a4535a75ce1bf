//! All memory of one database: the pool of unused memory, and large blocks.
//!
//! The memory is behind one lock that caches take once per chunk, batch or large block, never per record.
//!
//! Neighbours: [`crate::Cache`] takes chunks and batches; `pool` is behind the lock; [`crate::address_space`] asks the
//! kernel.

use std::alloc::Layout;
use std::ptr::NonNull;
use std::sync::Arc;

use ensile_base::sync::{AtomicU64, Condvar, Mutex, MutexGuard, Ordering};

use crate::live_blocks::BlocksInUse;
use crate::meter::{MemoryMeter, MemoryRoom, MemoryUse};
use crate::pool::{CHUNK_BYTES, SpanPool, UncutSpan};
use crate::size_class::SizeClass;
use crate::span::{BlockList, SpanBlocks};
use crate::{IS_LABORATORY, address_space};

/// Alignment of large blocks.
const LARGE_ALIGN: usize = 64;

/// Least size of the chunks in use, in bytes, at which a memory can count as sparse.
pub(crate) const SPARSE_MIN: u64 = 8 << 20;

/// Settings of a [`Memory`].
#[derive(Clone, Debug, Default)]
pub struct MemoryConfig {
    /// Bytes mapped and touched at the start, so that no page fault falls into a timed part (Silo §5.1).
    pub prefault_bytes: usize,
    /// True if blocks come from the process's allocator instead of slabs, in builds with the feature `laboratory`.
    /// Blocks not freed by the end are then never given back.
    pub general: bool,
    /// Limit of the bytes in use; `None` for no limit. The memory only says if the limit is reached (M4).
    pub bytes_max: Option<u64>,
}

impl MemoryConfig {
    /// Slabs with `prefault_bytes` touched beforehand.
    #[must_use]
    pub fn with_prefault(prefault_bytes: usize) -> Self {
        Self { prefault_bytes, ..Self::default() }
    }
}

/// Figures of a [`Memory`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct MemoryStats {
    /// Bytes of chunks in use by caches, in whole or in part.
    pub chunk_bytes: u64,
    /// Bytes of unused chunks. An unused chunk becomes blocks of any size, or goes back to the system.
    pub empty_bytes: u64,
    /// Bytes in large blocks.
    pub large_bytes: u64,
    /// Bytes of blocks in use, with large blocks: rows, versions and index nodes. The error is at most 64 KiB for each
    /// worker. Large commits under way count before they allocate, if the bytes have a limit. The remaining bytes of
    /// `chunk_bytes` are free for further blocks.
    pub live_bytes: u64,
    /// Limit of `live_bytes`; `None` for no limit.
    pub bytes_max: Option<u64>,
}

ensile_base::figures! { MemoryStats {
    chunk_bytes: gauge(Bytes, "memory_chunk_bytes", "Bytes of chunks in use, in whole or in part");
    empty_bytes: gauge(Bytes, "memory_empty_bytes", "Bytes of unused chunks, for any use or for the system");
    large_bytes: gauge(Bytes, "memory_large_bytes", "Bytes in large blocks, outside the chunks");
    live_bytes: gauge(Bytes, "memory_live_bytes", "Bytes of rows, versions and index nodes in use");
    bytes_max: gauge(Bytes, "memory_limit_bytes", "Limit of the bytes in use; absent without a limit");
} }

/// The memory of one database.
pub struct Memory {
    general: bool,
    pool: Mutex<SpanPool>,
    /// Wait of the thread that makes chunks ready.
    wanted: Condvar,
    chunk_bytes: AtomicU64,
    large_bytes: AtomicU64,
    /// Bytes of blocks in use, and the room below the limit.
    meter: MemoryMeter,
    /// Blocks handed out by caches.
    pub(crate) in_use: BlocksInUse,
}

// SAFETY: the pool's pointers are to memory that this object owns; the pointers change hands under the lock.
unsafe impl Send for Memory {}
// SAFETY: threads that share the object reach the pool's pointers under the lock only.
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
        debug_assert!(
            IS_LABORATORY || !config.general,
            "memory without slabs needs the feature `laboratory`"
        );
        let wanted = if config.general { 0 } else { config.prefault_bytes };
        Arc::new(Self {
            general: config.general,
            pool: Mutex::new(SpanPool::new(wanted)),
            wanted: Condvar::new(),
            chunk_bytes: AtomicU64::new(0),
            large_bytes: AtomicU64::new(0),
            meter: MemoryMeter::new(config.bytes_max),
            in_use: BlocksInUse::new(),
        })
    }

    /// Figures of the memory.
    #[must_use]
    pub fn stats(&self) -> MemoryStats {
        let empty_bytes = (self.lock().empty_chunks() * CHUNK_BYTES) as u64;
        // Relaxed, both: figures for people.
        MemoryStats {
            empty_bytes,
            chunk_bytes: self.chunk_bytes.load(Ordering::Relaxed),
            large_bytes: self.large_bytes.load(Ordering::Relaxed),
            live_bytes: self.meter.bytes(),
            bytes_max: self.meter.bytes_max(),
        }
    }

    /// True if most of the memory in use is free, and the free part is worth giving back.
    pub(crate) fn is_sparse(&self) -> bool {
        // Relaxed: a figure, a little old.
        let in_use = self.chunk_bytes.load(Ordering::Relaxed);
        let live = self.meter.bytes();
        // Relaxed: a figure. Large blocks are live, and lie outside the chunks.
        let live_in_chunks = live.saturating_sub(self.large_bytes.load(Ordering::Relaxed));
        in_use >= SPARSE_MIN && live_in_chunks < in_use / 2
    }

    /// The count of the bytes in use, for the caches.
    pub(crate) fn meter(&self) -> &MemoryMeter {
        &self.meter
    }

    /// The room below the limit, a little old. The look costs a read of a line that is rarely written.
    #[inline]
    #[must_use]
    pub fn room(&self) -> MemoryRoom {
        self.meter.room()
    }

    /// Bytes in use, and the limit. The error is at most 64 KiB for each cache.
    #[must_use]
    pub fn memory_use(&self) -> MemoryUse {
        self.meter.memory_use()
    }

    /// Number of blocks of a class that were allocated and not freed.
    #[cfg(any(feature = "audit", all(test, not(any(loom, shuttle)))))]
    #[must_use]
    pub fn blocks_in_use(&self, class: SizeClass) -> usize {
        self.in_use.count(class)
    }

    /// True if blocks come from slabs.
    #[inline(always)]
    pub(crate) const fn has_slabs(&self) -> bool {
        !IS_LABORATORY || !self.general
    }

    fn lock(&self) -> MutexGuard<'_, SpanPool> {
        // Nothing panics between two consistent states of the pool.
        self.pool.lock()
    }

    /// Spans in a row: free spans of a chunk, or a whole chunk.
    pub(crate) fn take_spans(&self) -> (NonNull<u8>, usize) {
        let mut pool = self.lock();
        let (first, count, is_chunk) = pool.take_spans();
        let wants_ready = pool.wants_ready();
        drop(pool);
        if is_chunk {
            // Relaxed: a figure.
            self.chunk_bytes.fetch_add(CHUNK_BYTES as u64, Ordering::Relaxed);
        }
        if wants_ready {
            self.wanted.notify_one();
        }
        (first, count)
    }

    /// Starts to keep chunks ready, by a thread that calls [`prepare`](Self::prepare) again and again. The pages of a
    /// ready chunk are there before a worker writes to the chunk (M3).
    pub fn begin_preparing(&self) {
        self.lock().is_prepared = true;
    }

    /// Waits until a chunk is wanted, and makes a chunk ready. False after [`stop_preparing`](Self::stop_preparing), or
    /// if the address space is used up: a later allocation will report the lack of memory.
    pub fn prepare(&self) -> bool {
        let mut pool = self.lock();
        while pool.is_prepared && !pool.wants_ready() {
            pool = self.wanted.wait(pool);
        }
        if !pool.is_prepared {
            return false;
        }
        let Some(chunk) = pool.take_untouched() else { return false };
        drop(pool);
        // SAFETY: the chunk is a part of a region that is mapped, as nothing is released while this call is under way;
        // the chunk is in no list and not in use (M3).
        unsafe { address_space::touch(chunk, CHUNK_BYTES) };
        self.lock().give_ready(chunk);
        true
    }

    /// Ends [`prepare`](Self::prepare), on whatever thread `prepare` waits.
    pub fn stop_preparing(&self) {
        self.lock().is_prepared = false;
        self.wanted.notify_all();
    }

    /// Free blocks of a class, if there are any.
    pub(crate) fn take_batches(&self, class: SizeClass, batches: &mut Vec<BlockList>) {
        self.lock().take_batches(class, batches);
    }

    pub(crate) fn take_rest(&self, class: SizeClass) -> Option<UncutSpan> {
        self.lock().take_rest(class)
    }

    /// Takes free blocks back, by their spans.
    ///
    /// # Safety
    /// The blocks are of this class, free, and in no other list; the memory has not been released.
    pub(crate) unsafe fn give_runs(&self, class: SizeClass, runs: &[SpanBlocks]) {
        // SAFETY: passed on to the caller.
        let emptied = unsafe { self.lock().give_runs(class, runs) };
        self.note_emptied(emptied);
    }

    /// Lets an ended cache give back its blocks, under the lock, and counts the emptied chunks that `give` returns.
    /// Does nothing after a release.
    pub(crate) fn give_all(&self, give: impl FnOnce(&mut SpanPool) -> usize) {
        let mut pool = self.lock();
        if !pool.is_released {
            let emptied = give(&mut pool);
            drop(pool);
            self.note_emptied(emptied);
        }
    }

    fn note_emptied(&self, chunks: usize) {
        if chunks > 0 {
            // Relaxed: a figure.
            self.chunk_bytes.fetch_sub((chunks * CHUNK_BYTES) as u64, Ordering::Relaxed);
        }
    }

    /// A step of giving long-empty chunks back to the system; returns the bytes given back. A window is some hundred
    /// steps. The database's heartbeat calls this function once in a while.
    pub fn give_back_step(&self) -> usize {
        let mut pool = self.lock();
        if pool.is_released { 0 } else { pool.give_back_step() * CHUNK_BYTES }
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

    /// Frees a large block.
    ///
    /// # Safety
    /// `block` came from `allocate_large` and is not used any more.
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

    /// Gives the memory back to the system, even if caches are left: a thread may keep a cache for as long as the
    /// thread lives. Dropping a cache afterwards touches no block.
    ///
    /// # Safety
    /// No block of this memory is in use any more, and no call of [`prepare`](Self::prepare) is under way. From now on
    /// the only use of its caches is dropping them.
    pub unsafe fn release(&self) {
        let mut pool = self.lock();
        let given = std::mem::take(&mut *pool);
        pool.is_released = true;
        for (address, layout) in given.large {
            // SAFETY: allocated with this layout in `allocate_large`, and unused by the caller's word.
            unsafe { std::alloc::dealloc(address as *mut u8, layout) };
        }
        for (region, bytes) in given.regions {
            // SAFETY: mapped with these bytes, and unused by the caller's word. The pointers into the region went with
            // `given`, except the pointers of caches, and a cache is dropped without a look at its blocks.
            unsafe { address_space::unmap(region, bytes, CHUNK_BYTES) };
        }
        drop(pool);
        self.meter.reset();
        // Relaxed, both: figures.
        self.chunk_bytes.store(0, Ordering::Relaxed);
        self.large_bytes.store(0, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
impl Memory {
    /// Panics unless no block is in use, and the pool has all memory. No cache is left.
    pub(crate) fn check_at_rest(&self) {
        for class in (0..SizeClass::COUNT).map(SizeClass::from_index) {
            assert_eq!(self.blocks_in_use(class), 0, "blocks of {class:?} are in use at the end");
        }
        let pool = self.lock();
        let chunks = pool.check_at_rest();
        drop(pool);
        let stats = self.stats();
        assert_eq!((stats.chunk_bytes, stats.large_bytes), ((chunks * CHUNK_BYTES) as u64, 0));
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: caches hold an Arc of this object, so no cache is left, and every owner of a block has let go of the
        // block.
        unsafe { self.release() };
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
