//! A worker's share of the memory: a free list and a span per size class, no shared line touched (Silo §5.1).
//!
//! A block freed by another worker than its allocator stays with the freeing worker. A list that grows past
//! [`keep_max`] hands half of its blocks to the pool, so that a producer and a consumer stay in balance.
//!
//! Neighbours: owned by the engine's workers; [`crate::Memory`] behind the cache.

use std::ptr::NonNull;
use std::sync::Arc;

use ensile_base::sync::plain_access;

use crate::memory::Memory;
use crate::meter::MemoryRoom;
use crate::pool::UncutSpan;
use crate::prefetch;
use crate::size_class::SizeClass;
use crate::span::{BlockList, SPAN_BYTES, SPAN_HEADER_BYTES, Span, SpanBlocks};
use crate::system_allocator;

/// Bytes of free blocks of a class that a cache keeps, within `KEEP_MIN` and `KEEP_MAX` blocks.
const KEEP_BYTES: usize = 1 << 20;
/// Most and fewest free blocks of a class that a cache keeps.
const KEEP_MAX: usize = 8192;
const KEEP_MIN: usize = 64;

/// Byte that fills freed blocks under shuttle.
const FREED_BYTE: u8 = 0xDB;
/// A word of a freed block, under shuttle: memory that a pin protects never reads as this word (E3).
pub const FREED_WORD: u64 = u64::from_ne_bytes([FREED_BYTE; 8]);

/// Bytes of the next free block that are prefetched before use.
const PREFETCHED_BYTES: usize = 128;

struct Shelf {
    free: Option<NonNull<u8>>,
    count: u32,
    keep_max: u32,
    next: *mut u8,
    end: *mut u8,
}

/// Most free blocks of a class that a cache keeps.
const fn keep_max(class: SizeClass) -> u32 {
    let blocks = KEEP_BYTES / class.bytes();
    let limited = if blocks > KEEP_MAX { KEEP_MAX } else { blocks };
    (if limited < KEEP_MIN { KEEP_MIN } else { limited }) as u32
}

/// A worker's cache of blocks. Not shared; moves between threads with its worker.
pub struct Cache {
    memory: Arc<Memory>,
    shelves: Box<[Shelf]>,
    /// Lists from the pool by class, to be used one after the other.
    batches: Box<[Vec<BlockList>]>,
    span: *mut u8,
    spans_left: usize,
    /// Bytes of blocks handed out, less the bytes of blocks taken back, that the memory does not count yet.
    uncounted_bytes: i64,
    /// Bytes that the memory counts already, before the cache hands them out (M4). Never negative.
    bytes_ahead: i64,
}

/// Number of bytes from which a cache reports to the memory: the caches share the memory's count.
const REPORT_BYTES: u64 = 64 << 10;

// SAFETY: a cache owns its blocks until the cache hands the blocks out.
unsafe impl Send for Cache {}

impl std::fmt::Debug for Cache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cache").field("spans_left", &self.spans_left).finish_non_exhaustive()
    }
}

impl Memory {
    /// A cache for one worker.
    #[must_use]
    pub fn cache(self: &Arc<Self>) -> Cache {
        Cache::new(Arc::clone(self))
    }
}

impl Cache {
    fn new(memory: Arc<Memory>) -> Self {
        let null = std::ptr::null_mut;
        let empty = |index| Shelf {
            free: None,
            count: 0,
            keep_max: keep_max(SizeClass::from_index(index)),
            next: null(),
            end: null(),
        };
        let shelves = (0..SizeClass::SPANNED).map(empty).collect();
        let batches = (0..SizeClass::SPANNED).map(|_| Vec::new()).collect();
        memory.meter().add_cache();
        let (uncounted_bytes, bytes_ahead) = (0, 0);
        Self { memory, shelves, batches, span: null(), spans_left: 0, uncounted_bytes, bytes_ahead }
    }

    /// A block of `class`, uninitialised, aligned to 8 bytes, and to 64 if the class is a multiple of 64. Aborts if the
    /// machine is out of memory.
    #[inline]
    pub fn allocate(&mut self, class: SizeClass) -> NonNull<u8> {
        self.memory.in_use.add(class);
        self.count(class.bytes() as i64);
        self.take(class)
    }

    /// Counts bytes handed out, or taken back if negative.
    #[inline]
    fn count(&mut self, bytes: i64) {
        self.uncounted_bytes += bytes;
        if self.uncounted_bytes.unsigned_abs() >= REPORT_BYTES {
            self.report();
        }
    }

    // Not inlined: an allocation must stay small enough to be inlined.
    #[cold]
    #[inline(never)]
    fn report(&mut self) {
        let bytes = std::mem::take(&mut self.uncounted_bytes);
        let counted_before = bytes.clamp(0, self.bytes_ahead);
        self.bytes_ahead -= counted_before;
        self.memory.meter().count(bytes - counted_before);
        if bytes < 0 {
            self.give_scattered();
        }
    }

    /// Reports all bytes to the memory's count, whatever their number.
    pub fn report_now(&mut self) {
        if self.uncounted_bytes != 0 {
            self.report();
        }
    }

    /// Counts bytes before their allocation: no other cache gets the room. False, and nothing is counted, if the room
    /// below the memory's limit is smaller. The caller ends the use by [`Cache::end_set_aside`].
    pub fn set_aside(&mut self, bytes: u64) -> bool {
        debug_assert_eq!(self.bytes_ahead, 0, "bytes are set aside for one commit at a time");
        let has_room = self.memory.meter().set_aside(bytes);
        if has_room {
            self.bytes_ahead = bytes as i64;
        }
        has_room
    }

    /// True while the cache has bytes left that were set aside.
    #[must_use]
    pub fn has_set_aside(&self) -> bool {
        self.bytes_ahead > 0
    }

    /// Gives back the bytes that were set aside and not allocated.
    pub fn end_set_aside(&mut self) {
        if self.bytes_ahead > 0 {
            self.report_now();
            let unused = std::mem::take(&mut self.bytes_ahead);
            self.memory.meter().count(-unused);
        }
    }

    /// The room below the limit of the cache's memory.
    #[inline]
    #[must_use]
    pub fn room(&self) -> MemoryRoom {
        self.memory.room()
    }

    /// Gives all free blocks to the pool, if most of the memory in use is free: a single free block in a cache keeps a
    /// whole chunk from the system.
    pub fn give_scattered(&mut self) {
        if !self.memory.is_sparse() {
            return;
        }
        let Self { memory, shelves, batches, .. } = self;
        for (index, (shelf, batches)) in shelves.iter_mut().zip(batches).enumerate() {
            // The lists are read without the pool's lock: other caches do not wait for the misses.
            // SAFETY: both are the cache's, of one class; the cache is in use, so the memory is there.
            let mut blocks = unsafe { take_lists(shelf, batches) };
            if !blocks.is_empty() {
                // SAFETY: the blocks came from the cache's lists of this class, and are free and in no other list now;
                // the cache is in use, so the memory is there.
                unsafe { memory.give_runs(SizeClass::from_index(index), &SpanBlocks::link(&mut blocks)) };
            }
        }
    }

    #[inline]
    fn take(&mut self, class: SizeClass) -> NonNull<u8> {
        if !self.memory.has_slabs() {
            return system_allocator::allocate(class);
        }
        if !class.is_spanned() {
            return self.memory.allocate_large(class);
        }
        let shelf = &mut self.shelves[class.index()];
        if let Some(block) = shelf.free {
            // SAFETY: a free block's first word links to the next block (`free` wrote the link).
            shelf.free = NonNull::new(unsafe { block.cast::<*mut u8>().read() });
            shelf.count -= 1;
            // The next allocation reads the next block's link and then fills the block: prefetch the block now.
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
        let batches = &mut self.batches[class.index()];
        if batches.is_empty() {
            self.memory.take_batches(class, batches);
        }
        if let Some(batch) = batches.pop() {
            let shelf = &mut self.shelves[class.index()];
            (shelf.free, shelf.count) = (Some(batch.head), batch.count as u32);
        } else if let Some(rest) = self.memory.take_rest(class) {
            let shelf = &mut self.shelves[class.index()];
            (shelf.next, shelf.end) = (rest.next.as_ptr(), rest.end);
        } else {
            let span = self.take_span();
            // SAFETY: a span begins here, so not null, aligned, and ours alone.
            unsafe { Span::cut(NonNull::new_unchecked(span), class) };
            let shelf = &mut self.shelves[class.index()];
            shelf.next = span.wrapping_add(SPAN_HEADER_BYTES);
            shelf.end = span.wrapping_add(SPAN_BYTES);
        }
        self.take(class)
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
    /// `block` was allocated under `class` from a cache of the same [`Memory`], is freed once, and is not used any
    /// more.
    #[inline]
    pub unsafe fn free(&mut self, block: NonNull<u8>, class: SizeClass) {
        self.memory.in_use.remove(class);
        self.count(-(class.bytes() as i64));
        if !self.memory.has_slabs() {
            // SAFETY: passed on to the caller; memory without slabs has only ever handed out such blocks.
            return unsafe { system_allocator::free(block, class) };
        }
        if !class.is_spanned() {
            // SAFETY: passed on to the caller.
            return unsafe { self.memory.free_large(block) };
        }
        debug_assert_eq!(
            // SAFETY: the block is of a span that was cut, and in use until now.
            unsafe { Span::from_block(block).class() },
            class,
            "a block is freed under its class"
        );
        if cfg!(shuttle) {
            // The block is never used again. No word of a record or a node has the pattern of freed blocks, and the
            // pattern exposes a thread that still reaches the block. SAFETY: the block is ours now, and has
            // `class.bytes()` bytes.
            return unsafe { block.write_bytes(FREED_BYTE, class.bytes()) };
        }
        let shelf = &mut self.shelves[class.index()];
        let next = shelf.free.map_or(std::ptr::null_mut(), NonNull::as_ptr);
        // SAFETY: the block is ours now and at least one word long.
        unsafe { block.cast::<*mut u8>().write(next) };
        plain_access::store(block.as_ptr(), size_of::<*mut u8>());
        shelf.free = Some(block);
        shelf.count += 1;
        if shelf.count > shelf.keep_max {
            self.give_half(class);
        }
    }

    /// Counts a block as not in use: its owner ends, and leaves the block to the memory's end.
    #[cfg(feature = "audit")]
    pub fn leave(&self, class: SizeClass) {
        self.memory.in_use.remove(class);
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
        // SAFETY: `last` is a free block of the list, the last block that is kept; the first word of `last` is the
        // link.
        let rest = unsafe { last.cast::<*mut u8>().replace(std::ptr::null_mut()) };
        plain_access::store(last.as_ptr(), size_of::<*mut u8>());
        let given = shelf.count - keep;
        shelf.count = keep;
        let mut blocks = Vec::with_capacity(given as usize);
        // SAFETY: behind `last` the list goes on as before, and no other list has the blocks; the blocks were allocated
        // from the cache's memory, in use now, and under `class`.
        unsafe {
            collect(NonNull::new(rest), &mut blocks);
            self.memory.give_runs(class, &SpanBlocks::link(&mut blocks));
        }
    }
}

/// Collects the blocks of a list.
///
/// # Safety
/// Each block links to the next block, the last block to none, and the list is the caller's.
unsafe fn collect(head: Option<NonNull<u8>>, blocks: &mut Vec<NonNull<u8>>) {
    let mut next = head;
    while let Some(block) = next {
        blocks.push(block);
        // SAFETY: by the caller's word.
        next = NonNull::new(unsafe { block.cast::<*mut u8>().read() });
    }
}

/// Takes all free blocks of a class out of a cache.
///
/// # Safety
/// The shelf and the batches are of one cache and one class, and the cache's memory is there.
unsafe fn take_lists(shelf: &mut Shelf, batches: &mut Vec<BlockList>) -> Vec<NonNull<u8>> {
    let mut blocks = Vec::new();
    for head in shelf.free.take().into_iter().chain(batches.drain(..).map(|batch| batch.head)) {
        // SAFETY: the lists are the cache's, and the memory is there, by the caller's word.
        unsafe { collect(Some(head), &mut blocks) };
    }
    shelf.count = 0;
    blocks
}

impl Drop for Cache {
    /// Reads nothing behind its pointers if the memory was released.
    fn drop(&mut self) {
        let Self { memory, shelves, batches, span, spans_left, uncounted_bytes, bytes_ahead } = self;
        debug_assert!(*bytes_ahead >= 0, "no more is handed out of bytes ahead than was set aside");
        memory.give_all(|pool| {
            memory.meter().remove_cache(*uncounted_bytes - *bytes_ahead);
            let mut emptied = 0;
            for (index, (shelf, batches)) in shelves.iter_mut().zip(batches).enumerate() {
                let class = SizeClass::from_index(index);
                // SAFETY: both are the cache's, of one class; the memory is there, and stays while the lock is held.
                let mut blocks = unsafe { take_lists(shelf, batches) };
                // SAFETY: the blocks came from the cache's lists of `class`, and are free and in no other list now.
                emptied += unsafe { pool.give_runs(class, &SpanBlocks::link(&mut blocks)) };
                if let Some(next) = NonNull::new(shelf.next)
                    && (shelf.end as usize) - (shelf.next as usize) >= class.bytes()
                {
                    pool.give_rest(class, UncutSpan { next, end: shelf.end });
                }
            }
            if let Some(span) = NonNull::new(*span)
                && *spans_left > 0
            {
                emptied += usize::from(pool.give_spans(span, *spans_left));
            }
            emptied
        });
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
