//! One worker's share of the memory: a free list and a span per size class, no shared line touched (Silo §5.1).
//!
//! A block freed by another worker than the one that allocated it stays with the freeing one; a list that grows past
//! [`KEEP_MAX`] hands half of itself to the pool, so that a producer and a consumer stay in balance.
//!
//! Neighbours: owned by the engine's workers; [`crate::Memory`] behind it.

use std::ptr::NonNull;
use std::sync::Arc;

use ensile_base::sync::note;

use crate::class::SizeClass;
use crate::general;
use crate::memory::{Batch, Memory, Rest, SPAN_BYTES};
use crate::prefetch;

/// First bytes of a span: its size class, then unused up to the first block (whose alignment this keeps).
const SPAN_HEADER_BYTES: usize = 64;
/// Most free blocks of a class that a cache keeps.
const KEEP_MAX: usize = 8192;

/// What freed blocks are filled with under shuttle.
const FREED_BYTE: u8 = 0xDB;
/// A word of a block that was freed, under shuttle: nothing that a pin protects ever reads so (E3).
pub const FREED_WORD: u64 = u64::from_ne_bytes([FREED_BYTE; 8]);

/// Bytes of the next free block that are asked for ahead of its use.
const PREFETCHED_BYTES: usize = 128;

struct Shelf {
    free: Option<NonNull<u8>>,
    count: usize,
    next: *mut u8,
    end: *mut u8,
}

/// A worker's cache of blocks. Not shared; moves between threads with its worker.
pub struct Cache {
    memory: Arc<Memory>,
    shelves: Box<[Shelf]>,
    span: *mut u8,
    spans_left: usize,
}

// SAFETY: the blocks that a cache holds are its own until it hands them out.
unsafe impl Send for Cache {}

impl std::fmt::Debug for Cache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cache").field("spans_left", &self.spans_left).finish_non_exhaustive()
    }
}

impl Cache {
    pub(crate) fn new(memory: Arc<Memory>) -> Self {
        let empty = || Shelf { free: None, count: 0, next: std::ptr::null_mut(), end: std::ptr::null_mut() };
        let shelves = (0..SizeClass::SPANNED).map(|_| empty()).collect();
        Self { memory, shelves, span: std::ptr::null_mut(), spans_left: 0 }
    }

    /// A block of `class`, uninitialised, aligned to 8 bytes, and to 64 if the class is a multiple of 64. Aborts when
    /// the machine is out of memory.
    #[inline]
    pub fn allocate(&mut self, class: SizeClass) -> NonNull<u8> {
        if !self.memory.has_slabs() {
            return general::allocate(class);
        }
        if !class.is_spanned() {
            return self.memory.allocate_large(class);
        }
        let shelf = &mut self.shelves[class.index()];
        if let Some(block) = shelf.free {
            // SAFETY: a free block's first word links to the next one (`free` wrote it).
            shelf.free = NonNull::new(unsafe { block.cast::<*mut u8>().read() });
            shelf.count -= 1;
            // The next allocation reads the next block's link and then fills it: ask for it now.
            if let Some(next) = shelf.free {
                prefetch::lines(next.as_ptr(), class.bytes().min(PREFETCHED_BYTES));
            }
            return block;
        }
        let bytes = class.bytes();
        if (shelf.end as usize).wrapping_sub(shelf.next as usize) >= bytes {
            let block = shelf.next;
            shelf.next = block.wrapping_add(bytes);
            // SAFETY: inside a span, so not null.
            return unsafe { NonNull::new_unchecked(block) };
        }
        self.allocate_slowly(class)
    }

    #[cold]
    fn allocate_slowly(&mut self, class: SizeClass) -> NonNull<u8> {
        if let Some(batch) = self.memory.take_batch(class) {
            let shelf = &mut self.shelves[class.index()];
            (shelf.free, shelf.count) = (Some(batch.head), batch.count);
        } else if let Some(rest) = self.memory.take_rest(class) {
            let shelf = &mut self.shelves[class.index()];
            (shelf.next, shelf.end) = (rest.next.as_ptr(), rest.end);
        } else {
            let span = self.take_span();
            // SAFETY: a span of SPAN_BYTES begins here and is ours alone; its header is one byte.
            unsafe { span.write(class.index() as u8) };
            note::store(span, 1);
            let shelf = &mut self.shelves[class.index()];
            shelf.next = span.wrapping_add(SPAN_HEADER_BYTES);
            shelf.end = span.wrapping_add(SPAN_BYTES);
        }
        self.allocate(class)
    }

    fn take_span(&mut self) -> *mut u8 {
        if self.spans_left == 0 {
            let (chunk, spans) = self.memory.take_spans();
            (self.span, self.spans_left) = (chunk.as_ptr(), spans);
        }
        let span = self.span;
        self.span = span.wrapping_add(SPAN_BYTES);
        self.spans_left -= 1;
        span
    }

    /// Takes a block back.
    ///
    /// # Safety
    /// `block` was allocated under `class` from a cache of the same [`Memory`], is freed once, and nothing uses it
    /// any more.
    #[inline]
    pub unsafe fn free(&mut self, block: NonNull<u8>, class: SizeClass) {
        if !self.memory.has_slabs() {
            // SAFETY: passed on to the caller; memory without slabs has only ever handed out such blocks.
            return unsafe { general::free(block, class) };
        }
        if !class.is_spanned() {
            // SAFETY: passed on to the caller.
            return unsafe { self.memory.free_large(block) };
        }
        debug_assert_eq!(Self::class_of_span(block), class, "a block is freed under its class");
        if cfg!(shuttle) {
            // Never used again, and nothing that a word of a record or a node can be: whoever still reaches it is seen.
            // SAFETY: the block is ours now, and this long.
            return unsafe { block.write_bytes(FREED_BYTE, class.bytes()) };
        }
        let shelf = &mut self.shelves[class.index()];
        let next = shelf.free.map_or(std::ptr::null_mut(), NonNull::as_ptr);
        // SAFETY: the block is ours now and at least one word long.
        unsafe { block.cast::<*mut u8>().write(next) };
        note::store(block.as_ptr(), size_of::<*mut u8>());
        shelf.free = Some(block);
        shelf.count += 1;
        if shelf.count > KEEP_MAX {
            self.give_half(class);
        }
    }

    /// The class that the span around a spanned block serves.
    fn class_of_span(block: NonNull<u8>) -> SizeClass {
        let span = (block.as_ptr() as usize) & !(SPAN_BYTES - 1);
        // SAFETY: spans are aligned to their size, so this is the header of the block's span, written when it was cut.
        SizeClass::from_index(unsafe { *(span as *const u8) } as usize)
    }

    #[cold]
    fn give_half(&mut self, class: SizeClass) {
        let shelf = &mut self.shelves[class.index()];
        let keep = shelf.count / 2;
        let Some(mut last) = shelf.free else { return };
        for _ in 1..keep {
            // SAFETY: the list has `count` blocks and each links to the next.
            let Some(next) = NonNull::new(unsafe { last.cast::<*mut u8>().read() }) else { return };
            last = next;
        }
        // SAFETY: as above; `last` is the end of what is kept.
        let rest = unsafe { last.cast::<*mut u8>().replace(std::ptr::null_mut()) };
        note::store(last.as_ptr(), size_of::<*mut u8>());
        let given = shelf.count - keep;
        shelf.count = keep;
        if let Some(head) = NonNull::new(rest) {
            self.memory.give_batch(class, Batch { head, count: given });
        }
    }
}

impl Drop for Cache {
    /// Hands on pointers and reads nothing behind them: the memory may have been released.
    fn drop(&mut self) {
        for (index, shelf) in self.shelves.iter().enumerate() {
            let class = SizeClass::from_index(index);
            if let Some(head) = shelf.free {
                self.memory.give_batch(class, Batch { head, count: shelf.count });
            }
            if let Some(next) = NonNull::new(shelf.next)
                && (shelf.end as usize) - (shelf.next as usize) >= class.bytes()
            {
                self.memory.give_rest(class, Rest { next, end: shelf.end });
            }
        }
        if let Some(span) = NonNull::new(self.span)
            && self.spans_left > 0
        {
            self.memory.give_spans(span, self.spans_left);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use crate::{Memory, MemoryConfig, SizeClass};

    #[test]
    fn blocks_do_not_overlap_and_keep_their_alignment() {
        let memory = Memory::new(&MemoryConfig::default());
        let mut cache = memory.cache();
        let mut taken = Vec::new();
        for bytes in [8, 24, 120, 320, 64, 4096, 8192, 9000, 100_000] {
            for _ in 0..50 {
                let class = SizeClass::of_bytes(bytes);
                let block = cache.allocate(class);
                assert_eq!(block.as_ptr() as usize % 8, 0);
                if class.bytes().is_multiple_of(64) {
                    assert_eq!(block.as_ptr() as usize % 64, 0);
                }
                // SAFETY: the block is ours and this long.
                unsafe { block.as_ptr().write_bytes(0xAB, class.bytes()) };
                taken.push((block.as_ptr() as usize, class));
            }
        }
        taken.sort_unstable();
        for pair in taken.windows(2) {
            assert!(pair[0].0 + pair[0].1.bytes() <= pair[1].0);
        }
        for (address, class) in taken {
            // SAFETY: allocated above under this class, freed once.
            unsafe { cache.free(std::ptr::NonNull::new(address as *mut u8).unwrap(), class) };
        }
        assert_eq!(memory.stats().large_bytes, 0);
    }

    #[test]
    fn freed_blocks_come_back_before_new_spans_are_cut() {
        let memory = Memory::new(&MemoryConfig::default());
        let class = SizeClass::of_bytes(120);
        let mut seen = HashSet::new();
        let mut cache = memory.cache();
        for _ in 0..100_000 {
            let block = cache.allocate(class);
            seen.insert(block.as_ptr() as usize);
            // SAFETY: just allocated.
            unsafe { cache.free(block, class) };
        }
        assert_eq!(seen.len(), 1);
    }

    #[test]
    fn a_consumer_of_anothers_blocks_gives_them_back_to_the_pool() {
        let memory = Memory::new(&MemoryConfig::default());
        let class = SizeClass::of_bytes(120);
        let (mut producer, mut consumer) = (memory.cache(), memory.cache());
        for _ in 0..40 {
            let blocks: Vec<_> = (0..10_000).map(|_| producer.allocate(class)).collect();
            for block in blocks {
                // SAFETY: just allocated from the same memory.
                unsafe { consumer.free(block, class) };
            }
        }
        assert!(memory.stats().chunk_bytes <= 16 << 20, "{:?}", memory.stats());
    }

    #[test]
    fn a_cache_may_be_dropped_after_its_memory_was_released() {
        let memory = Memory::new(&MemoryConfig::default());
        let mut cache = memory.cache();
        for bytes in [24, 120, 4096, 100_000] {
            let class = SizeClass::of_bytes(bytes);
            let blocks: Vec<_> =
                (0..10_000_usize.min((8 << 20) / bytes)).map(|_| cache.allocate(class)).collect();
            for block in blocks.into_iter().step_by(2) {
                // SAFETY: allocated above under this class, freed once.
                unsafe { cache.free(block, class) };
            }
        }
        assert!(memory.stats().chunk_bytes > 0 && memory.stats().large_bytes > 0);
        // SAFETY: the blocks are used no more, and the cache is only dropped.
        unsafe { memory.release() };
        assert_eq!(memory.stats(), crate::MemoryStats::default());
        drop(cache);
        assert_eq!(memory.stats(), crate::MemoryStats::default(), "nothing came back");
    }

    #[test]
    fn an_ended_cache_leaves_everything_to_the_next() {
        let memory = Memory::new(&MemoryConfig::prefaulted(1 << 20));
        for _ in 0..100 {
            let mut cache = memory.cache();
            for _ in 0..100 {
                cache.allocate(SizeClass::of_bytes(64));
            }
        }
        assert_eq!(memory.stats().chunk_bytes, 2 << 20);
    }
}
