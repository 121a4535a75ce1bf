//! A span: the part of a chunk that serves one size class, and the pool's list of its blocks.
//!
//! ```text
//! 0       4      8       12      16      64
//! +-------+------+-------+-------+-------+---------------
//! |class  |free  |place  |       |head   |blocks ..          free: blocks in the list that begins at head
//! +-------+------+-------+-------+-------+---------------
//! ```
//!
//! Invariants:
//! - M1: a span whose `free` is the number of its slots has no block in use, and no block in a cache: each block is in
//!   one list, a cache's or its span's.
//! - The header without `class` is read and written under the pool's lock only; `class` is written when the span is
//!   cut.
//!
//! Neighbours: [`crate::Cache`] cuts spans and sorts its returned blocks by span; `pool` keeps the lists.

use std::ptr::NonNull;

use ensile_base::sync::plain_access;

use crate::size_class::SizeClass;

/// Bytes of a span, and its alignment.
pub(crate) const SPAN_BYTES: usize = 64 << 10;
/// First bytes of a span, up to the first block (whose alignment the header keeps).
pub(crate) const SPAN_HEADER_BYTES: usize = 64;

#[repr(C)]
struct SpanHeader {
    class: u8,
    free: u32,
    place: u32,
    head: *mut u8,
}

const _: () = assert!(size_of::<SpanHeader>() <= SPAN_HEADER_BYTES);

/// A span that was cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span(NonNull<u8>);

/// A list of free blocks, linked through their first words.
#[derive(Debug)]
pub(crate) struct BlockList {
    pub(crate) head: NonNull<u8>,
    pub(crate) count: usize,
}

/// Free blocks of one span, linked through their first words; the last block's link is not written yet.
#[derive(Debug)]
pub(crate) struct SpanBlocks {
    span: Span,
    head: NonNull<u8>,
    last: NonNull<u8>,
    count: u32,
}

/// Number of blocks of a span of `class`.
pub(crate) const fn slots(class: SizeClass) -> u32 {
    ((SPAN_BYTES - SPAN_HEADER_BYTES) / class.bytes()) as u32
}

impl Span {
    /// Makes a span of `class`.
    ///
    /// # Safety
    /// `start` begins [`SPAN_BYTES`] bytes, aligned to as many, that are the caller's alone.
    pub(crate) unsafe fn cut(start: NonNull<u8>, class: SizeClass) {
        let header = SpanHeader { class: class.index() as u8, free: 0, place: 0, head: std::ptr::null_mut() };
        // SAFETY: by the caller's word; the header fits, and the span's alignment is larger than the header's.
        unsafe { start.cast::<SpanHeader>().write(header) };
        plain_access::store(start.as_ptr(), size_of::<SpanHeader>());
    }

    /// The span around a block.
    pub(crate) fn from_block(block: NonNull<u8>) -> Self {
        let start = block.as_ptr().map_addr(|address| address & !(SPAN_BYTES - 1));
        // SAFETY: a span never begins at address zero, as nothing is mapped there.
        Self(unsafe { NonNull::new_unchecked(start) })
    }

    pub(crate) fn start(self) -> NonNull<u8> {
        self.0
    }

    /// The class of the span.
    ///
    /// # Safety
    /// The span was cut, and its memory has not been released.
    pub(crate) unsafe fn class(self) -> SizeClass {
        // SAFETY: `cut` wrote the class, and no thread writes the class again while a block of the span is in use or in
        // a list.
        SizeClass::from_index(usize::from(unsafe { (&raw const (*self.header()).class).read() }))
    }

    fn header(self) -> *mut SpanHeader {
        self.0.as_ptr().cast()
    }

    /// The span's place in the pool's list of its class.
    ///
    /// # Safety
    /// As [`Span::class`], and the caller has the pool's lock.
    pub(crate) unsafe fn place(self) -> usize {
        // SAFETY: by the caller's word.
        unsafe { (*self.header()).place as usize }
    }

    /// # Safety
    /// As [`Span::place`].
    pub(crate) unsafe fn set_place(self, place: usize) {
        // SAFETY: by the caller's word.
        unsafe { (*self.header()).place = place as u32 };
        plain_access::store(self.header(), size_of::<SpanHeader>());
    }

    /// Number of blocks in the span's list.
    ///
    /// # Safety
    /// As [`Span::place`].
    #[cfg(all(test, not(any(loom, shuttle))))]
    pub(crate) unsafe fn free(self) -> u32 {
        // SAFETY: by the caller's word.
        unsafe { (*self.header()).free }
    }

    /// Adds a run of blocks to their span's list. Returns the numbers of blocks in the list before and after.
    ///
    /// # Safety
    /// As [`Span::place`]; the blocks of the run are free and in no other list.
    pub(crate) unsafe fn add(run: &SpanBlocks) -> (u32, u32) {
        let header = run.span.header();
        // SAFETY: by the caller's word; a block is at least one word long.
        let (before, after) = unsafe {
            let before = (*header).free;
            run.last.cast::<*mut u8>().write((*header).head);
            (*header).head = run.head.as_ptr();
            (*header).free = before + run.count;
            (before, before + run.count)
        };
        plain_access::store(run.last.as_ptr(), size_of::<*mut u8>());
        plain_access::store(header, size_of::<SpanHeader>());
        (before, after)
    }

    /// Takes the whole list of the span.
    ///
    /// # Safety
    /// As [`Span::place`].
    pub(crate) unsafe fn take(self) -> Option<BlockList> {
        let header = self.header();
        // SAFETY: by the caller's word.
        let (head, count) = unsafe {
            let list = ((*header).head, (*header).free as usize);
            (*header).head = std::ptr::null_mut();
            (*header).free = 0;
            list
        };
        plain_access::store(header, size_of::<SpanHeader>());
        Some(BlockList { head: NonNull::new(head)?, count })
    }
}

impl SpanBlocks {
    pub(crate) fn span(&self) -> Span {
        self.span
    }

    /// Sorts free blocks by their spans and links the blocks of each span.
    ///
    /// # Safety
    /// The blocks are free, of one class, each in `blocks` once, and in no list that is still used.
    pub(crate) unsafe fn link(blocks: &mut [NonNull<u8>]) -> Vec<Self> {
        blocks.sort_unstable();
        let of_spans = blocks.chunk_by(|a, b| Span::from_block(*a) == Span::from_block(*b));
        let run = |blocks: &[NonNull<u8>]| {
            for pair in blocks.windows(2) {
                // SAFETY: the block is free, and is therefore ours, and at least one word long.
                unsafe { pair[0].cast::<*mut u8>().write(pair[1].as_ptr()) };
                plain_access::store(pair[0].as_ptr(), size_of::<*mut u8>());
            }
            let (head, last) = (blocks[0], blocks[blocks.len() - 1]);
            Self { span: Span::from_block(head), head, last, count: blocks.len() as u32 }
        };
        of_spans.map(run).collect()
    }
}
