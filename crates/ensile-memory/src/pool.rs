//! The pool of memory outside the caches: unused regions, chunks and spans, and free blocks by their spans.
//!
//! ```text
//! region (mapped) -> chunk (2 MiB) -> span (64 KiB, one size class) -> block
//!       fresh <--take--    empty <--all spans free--    free spans <--all blocks in the list--   span's list <--give-- cache
//!            --touch-->          --idle for a while--> released --touch--> empty
//! ```
//! Invariants:
//! - M1: a span changes its class only once its blocks are all in its list here.
//! - M2: a chunk goes back to the system only if none of its spans is in use, and the chunk is in no list that a cache
//!   takes from. Afterwards the chunk is taken like a fresh chunk, and reads as zeros.
//! - M3: a chunk that is being touched is in no list.
//! - Taking and giving cost the same however much is free.
//!
//! Neighbours: behind the lock of [`crate::Memory`]; caches give and take.

use std::alloc::Layout;
use std::collections::{BTreeMap, HashMap};
use std::ptr::NonNull;

use crate::address_space;
use crate::size_class::SizeClass;
use crate::span::{BlockList, SPAN_BYTES, Span, SpanBlocks, slots};

/// Bytes of a chunk: a cache's unit of taking; one huge page, aligned to its size.
pub(crate) const CHUNK_BYTES: usize = 2 << 20;
/// Bytes of a region: the unit of mapping.
const REGION_BYTES: usize = 64 << 20;
/// Number of spans of a chunk; a bit per span.
const SPANS: usize = CHUNK_BYTES / SPAN_BYTES;
const ALL_SPANS: u32 = u32::MAX;
const _: () = assert!(SPANS == u32::BITS as usize);

/// Number of blocks after which a cache without blocks of a class stops taking lists of spans.
const TAKEN_BLOCKS: usize = 256;
/// Number of steps in a window. A chunk that stays empty for a whole window was not needed.
const WINDOW_STEPS: u32 = 256;
/// Number of chunks that a step gives back.
const GIVEN_BACK_A_STEP: usize = 4;
/// Number of chunks in use per chunk kept ready, within limits.
const IN_USE_A_READY_ONE: usize = 16;
const READY_MIN: usize = 1;
const READY_MAX: usize = 8;

/// The uncut rest of a span.
pub(crate) struct UncutSpan {
    pub(crate) next: NonNull<u8>,
    pub(crate) end: *mut u8,
}

#[derive(Default)]
pub(crate) struct SpanPool {
    pub(crate) regions: Vec<(NonNull<u8>, usize)>,
    /// First chunk of the newest region that was never taken, and the number of bytes to the region's end.
    pub(crate) fresh: Option<(NonNull<u8>, usize)>,
    /// Number of fresh chunks touched beforehand; touched chunks come before the others.
    touched_fresh: usize,
    /// Chunks with some free spans: a bit per free span. By address, so that the lowest chunks are used first.
    partly_free: BTreeMap<NonNull<u8>, u32>,
    /// Unused chunks.
    empty: Vec<NonNull<u8>>,
    /// Unused chunks that were given back to the system.
    released: Vec<NonNull<u8>>,
    /// Spans with blocks in their lists, by class.
    spans: Vec<Vec<Span>>,
    rests: Vec<Vec<UncutSpan>>,
    pub(crate) large: HashMap<usize, Layout>,
    /// True if the pool's memory was unmapped: nothing is taken back any more.
    pub(crate) is_released: bool,
    /// Number of chunks in use by caches, in whole or in part.
    in_use: usize,
    /// True if a thread makes chunks ready.
    pub(crate) is_prepared: bool,
    pace: GiveBackPace,
}

/// Pace at which empty chunks go back to the system.
#[derive(Default)]
struct GiveBackPace {
    /// Number of chunks that stay, used or not.
    kept: usize,
    /// Steps of the window so far, and the fewest empty chunks in the window.
    steps: u32,
    fewest: usize,
    /// Number of chunks to give back: chunks that stayed empty through the last window.
    surplus: usize,
}

impl SpanPool {
    /// A pool for a database that wants `prefault_bytes` touched beforehand.
    pub(crate) fn new(prefault_bytes: usize) -> Self {
        let mut pool = Self::default();
        pool.spans.resize_with(SizeClass::SPANNED, Vec::new);
        pool.rests.resize_with(SizeClass::SPANNED, Vec::new);
        if prefault_bytes > 0 {
            let bytes = prefault_bytes.next_multiple_of(CHUNK_BYTES);
            let region = address_space::map(bytes, CHUNK_BYTES, true);
            pool.regions.push((region, bytes));
            pool.fresh = Some((region, bytes));
            pool.touched_fresh = bytes / CHUNK_BYTES;
            pool.pace.kept = bytes / CHUNK_BYTES;
        }
        pool
    }

    /// Spans in a row, and true if the spans are a whole unused chunk.
    pub(crate) fn take_spans(&mut self) -> (NonNull<u8>, usize, bool) {
        if let Some(mut chunk) = self.partly_free.first_entry() {
            let bits = *chunk.get();
            let first = bits.trailing_zeros();
            let count = (bits >> first).trailing_ones();
            // SAFETY: span `first` is inside the chunk.
            let span = unsafe { chunk.key().add(first as usize * SPAN_BYTES) };
            let left = bits & !bits_of(first as usize, count as usize);
            if left == 0 {
                chunk.remove();
            } else {
                *chunk.get_mut() = left;
            }
            return (span, count as usize, false);
        }
        let chunk = self.empty.pop();
        self.pace.fewest = self.pace.fewest.min(self.empty.len());
        self.in_use += 1;
        let chunk = chunk.or_else(|| self.take_untouched());
        (chunk.unwrap_or_else(|| address_space::out_of_memory(REGION_BYTES, CHUNK_BYTES)), SPANS, true)
    }

    /// Number of chunks to be kept ready: touched and unused. Zero if no thread makes chunks ready.
    fn ready_wanted(&self) -> usize {
        if self.is_prepared { (self.in_use / IN_USE_A_READY_ONE).clamp(READY_MIN, READY_MAX) } else { 0 }
    }

    /// True if fewer chunks are ready than wanted.
    pub(crate) fn wants_ready(&self) -> bool {
        !self.is_released && self.touched_fresh == 0 && self.empty.len() < self.ready_wanted()
    }

    /// An unused chunk that may have no memory behind its addresses. The chunk is in no list now (M3). None if the
    /// address space is used up.
    pub(crate) fn take_untouched(&mut self) -> Option<NonNull<u8>> {
        self.released.pop().or_else(|| self.take_fresh())
    }

    /// Takes a chunk that was touched.
    pub(crate) fn give_ready(&mut self, chunk: NonNull<u8>) {
        self.empty.push(chunk);
    }

    fn take_fresh(&mut self) -> Option<NonNull<u8>> {
        if self.fresh.is_none() {
            let region = address_space::try_map(REGION_BYTES, CHUNK_BYTES, false)?;
            self.regions.push((region, REGION_BYTES));
            self.fresh = Some((region, REGION_BYTES));
        }
        let (chunk, left) = self.fresh.take()?;
        self.touched_fresh = self.touched_fresh.saturating_sub(1);
        if left > CHUNK_BYTES {
            // SAFETY: `left` bytes of the region begin at `chunk`.
            self.fresh = Some((unsafe { chunk.add(CHUNK_BYTES) }, left - CHUNK_BYTES));
        }
        Some(chunk)
    }

    /// Takes unused spans in a row back. True if their chunk is empty now.
    pub(crate) fn give_spans(&mut self, first: NonNull<u8>, count: usize) -> bool {
        let start = first.as_ptr().map_addr(|address| address & !(CHUNK_BYTES - 1));
        // SAFETY: a chunk never begins at address zero.
        let chunk = unsafe { NonNull::new_unchecked(start) };
        let at = (first.as_ptr().addr() - start.addr()) / SPAN_BYTES;
        let bits = self.partly_free.entry(chunk).or_default();
        debug_assert_eq!(*bits & bits_of(at, count), 0, "a span is given back once");
        *bits |= bits_of(at, count);
        if *bits != ALL_SPANS {
            return false;
        }
        self.partly_free.remove(&chunk);
        self.empty.push(chunk);
        self.in_use -= 1;
        true
    }

    /// Lists of free blocks of a class, about [`TAKEN_BLOCKS`]; no lists if the class has no free blocks.
    pub(crate) fn take_batches(&mut self, class: SizeClass, batches: &mut Vec<BlockList>) {
        let mut taken = 0;
        while taken < TAKEN_BLOCKS
            && let Some(span) = self.spans[class.index()].pop()
        {
            // SAFETY: a span in the list was cut, and its memory is mapped: the caller has the lock, and nothing is
            // released.
            if let Some(batch) = unsafe { span.take() } {
                taken += batch.count;
                batches.push(batch);
            }
        }
    }

    /// Takes free blocks back, by their spans. Returns the number of newly empty chunks.
    ///
    /// # Safety
    /// The blocks are of this class, free, and in no other list; the memory has not been released.
    pub(crate) unsafe fn give_runs(&mut self, class: SizeClass, runs: &[SpanBlocks]) -> usize {
        let mut emptied = 0;
        for run in runs {
            let span = run.span();
            // SAFETY: the caller vouches for the run, and `self` shows that the caller has the lock.
            let (before, after) = unsafe { Span::add(run) };
            if after == slots(class) {
                if before > 0 {
                    self.forget(class, span);
                }
                emptied += usize::from(self.give_spans(span.start(), 1));
            } else if before == 0 {
                let spans = &mut self.spans[class.index()];
                // SAFETY: by the caller's word the span was cut and its memory is there; `self` shows the lock.
                unsafe { span.set_place(spans.len()) };
                spans.push(span);
            }
        }
        emptied
    }

    /// Takes a span out of its class's list.
    fn forget(&mut self, class: SizeClass, span: Span) {
        let spans = &mut self.spans[class.index()];
        // SAFETY: the span was cut, and `self` shows the lock.
        let place = unsafe { span.place() };
        debug_assert_eq!(spans.get(place), Some(&span));
        spans.swap_remove(place);
        if let Some(moved) = spans.get(place) {
            // SAFETY: a span in this list was cut, and `self` shows the lock.
            unsafe { moved.set_place(place) };
        }
    }

    pub(crate) fn take_rest(&mut self, class: SizeClass) -> Option<UncutSpan> {
        self.rests[class.index()].pop()
    }

    pub(crate) fn give_rest(&mut self, class: SizeClass, rest: UncutSpan) {
        self.rests[class.index()].push(rest);
    }

    /// Number of unused chunks that the system has not got back.
    pub(crate) fn empty_chunks(&self) -> usize {
        self.empty.len()
    }

    /// A step of giving back chunks that were empty for a whole window. Returns the number of chunks given back.
    pub(crate) fn give_back_step(&mut self) -> usize {
        let stay = self.pace.kept.max(self.ready_wanted());
        let pace = &mut self.pace;
        pace.steps += 1;
        if pace.steps >= WINDOW_STEPS {
            pace.surplus = pace.fewest.saturating_sub(stay);
            (pace.steps, pace.fewest) = (0, self.empty.len());
        }
        // Caches may have taken some of the surplus since.
        pace.surplus = pace.surplus.min(self.empty.len().saturating_sub(stay));
        let most = pace.surplus.min(GIVEN_BACK_A_STEP);
        for _ in 0..most {
            let Some(chunk) = self.empty.pop() else { break };
            // SAFETY: the chunk is a part of a region that is mapped, as nothing was released; no byte of the chunk is
            // in use, and the chunk is in no list now (M2).
            unsafe { address_space::give_back(chunk, CHUNK_BYTES) };
            self.released.push(chunk);
        }
        self.pace.surplus -= most;
        self.pace.fewest = self.pace.fewest.min(self.empty.len());
        most
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
impl SpanPool {
    /// Checks that the pool has every span of every region, once. No cache is left, and no block is in use: a cut span
    /// therefore has its blocks in its list, or uncut. Returns the number of chunks with such spans. Panics if the
    /// check fails.
    pub(crate) fn check_at_rest(&self) -> usize {
        let mut found: HashMap<usize, u32> = HashMap::new();
        let mut add = |chunk: usize, bits: u32| {
            let before = found.entry(chunk).or_default();
            assert_eq!(*before & bits, 0, "the pool has a span twice");
            *before |= bits;
        };
        if let Some((first, bytes)) = self.fresh {
            (0..bytes).step_by(CHUNK_BYTES).for_each(|at| add(first.addr().get() + at, ALL_SPANS));
        }
        self.empty.iter().chain(&self.released).for_each(|chunk| add(chunk.addr().get(), ALL_SPANS));
        self.partly_free.iter().for_each(|(chunk, bits)| add(chunk.addr().get(), *bits));
        let mut cut = std::collections::HashSet::new();
        for (index, rests) in self.rests.iter().enumerate() {
            for UncutSpan { next, end } in rests {
                let (span, class) = (Span::from_block(*next), SizeClass::from_index(index));
                let uncut = (end.addr() - next.addr().get()) / class.bytes();
                // SAFETY: the span was cut, its memory is there, and `self` shows the lock.
                let (is_of_class, free) = unsafe { (span.class() == class, span.free()) };
                assert!(is_of_class, "a rest is of its span's class");
                assert_eq!(free + uncut as u32, slots(class), "blocks of a span are missing");
                let (address, at) = (span.start().addr().get(), span.start().addr().get() % CHUNK_BYTES);
                add(address - at, bits_of(at / SPAN_BYTES, 1));
                cut.insert(address);
            }
        }
        let mut listed = self.spans.iter().flatten().map(|span| span.start().addr().get());
        assert!(
            listed.all(|span| cut.contains(&span)),
            "a span whose blocks are all free serves every class"
        );
        let chunks: usize = self.regions.iter().map(|(_, bytes)| bytes / CHUNK_BYTES).sum();
        assert_eq!(found.len(), chunks, "chunks are missing");
        assert!(found.values().all(|bits| *bits == ALL_SPANS), "spans are missing");
        let cut_chunks: std::collections::HashSet<_> = cut.iter().map(|span| span / CHUNK_BYTES).collect();
        assert_eq!(self.in_use, cut_chunks.len(), "a chunk in use has a span that is cut");
        self.in_use
    }
}

/// The bits of spans in a row.
fn bits_of(first: usize, count: usize) -> u32 {
    debug_assert!(count > 0 && first + count <= SPANS);
    (ALL_SPANS >> (SPANS - count)) << first
}
