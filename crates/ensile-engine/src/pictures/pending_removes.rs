//! Pending removes: versions that commits displace and a picture still needs. The lists are per page (SIREN, §3.1), or
//! per worker (semi-fuzzy, §3.3). A commit *leaves* a version to a picture: the commit pushes a copy of the version to
//! such a list.
//!
//! ```text
//! 0        8        16    18    20      24       32
//! +--------+--------+-----+-----+-------+--------+------+-------...
//! |next    |TID     |key's|table|value's|since   |key   |value
//! +--------+--------+-----+-----+-------+--------+------+-------...
//! ```
//!
//! Invariants:
//! - A block has one holder: the worker that made the block until its push, then the list, then the taker of the list.
//!   Nothing in a block changes after the push.
//! - N3: A commit leaves a version before any change of the version's record ([`PageState::leave_before`],
//!   [`PageState::leave_beside_before`]).
//! - N5, N6: A commit marks a page before it unbinds ([`PageState::mark`]). Marks are never taken away, and marks do
//!   not depend on the page's close.
//! - N8: A page is closed behind the walk, by one exchange that takes the list ([`PageState::close_behind`]). Nothing
//!   is pushed to a closed page.
//! - N9: A taker of a worker's list behind the close of a page finds the versions that the page's walk has missed
//!   ([`WorkerList::take`]).
//!
//! Neighbours: down, `record::blocks` has the memory; commits push blocks (`commit::pending_removes`), a picture's
//! checkpointers take lists (`checkpoint::pages`); `page_map` has the pages.

use std::ops::ControlFlow;
use std::ptr::NonNull;

use ensile_base::limits::{KEY_BYTES_MAX, TABLES_MAX, VALUE_BYTES_MAX};
use ensile_base::sync::{AtomicU64, Ordering, plain_access};
use ensile_base::{Epoch, Tid};
use ensile_memory::{FREED_WORD, SizeClass};

use crate::record::blocks::Blocks;
use crate::record::layout::ADDRESS_MASK;

/// Header of a block, in front of key and value. The fields are atomics, so that loom sees their order.
#[repr(C)]
struct PendingHeader {
    /// Address of the block that was pushed before this block; 0 ends the list.
    next: AtomicU64,
    tid: AtomicU64,
    /// Lengths in bytes, and the table. From the low end: the key's length and the table, 16 bits each; the value's
    /// length.
    lengths: AtomicU64,
    /// Newest freeze before the freeze of the block's picture, as in the picture's maps.
    since: AtomicU64,
}

const HEADER_BYTES: usize = size_of::<PendingHeader>();
const _: () = {
    assert!(SizeClass::BYTES_MAX >= HEADER_BYTES + KEY_BYTES_MAX + VALUE_BYTES_MAX);
    assert!(KEY_BYTES_MAX < 1 << 16 && TABLES_MAX <= 1 << 16 && VALUE_BYTES_MAX < 1 << 32);
};

/// Table and picture of a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RemovePlace {
    /// Number of a logged table.
    pub(crate) table: u32,
    /// The newest freeze when the picture published its maps. This epoch identifies the picture.
    pub(crate) since: Epoch,
}

/// A version of a row that a picture needs. Not `Copy`: the version's block is freed once.
#[derive(Debug)]
#[must_use = "push it or give it back: its memory is lost otherwise"]
pub(crate) struct PendingRemove(NonNull<PendingHeader>);

// SAFETY: the block belongs to its holder alone, and no part of the block belongs to a thread.
unsafe impl Send for PendingRemove {}

impl PendingRemove {
    /// Size class of a block for a row with these lengths.
    #[inline]
    const fn class(key: usize, value: usize) -> SizeClass {
        SizeClass::of_bytes(HEADER_BYTES + key + value)
    }

    /// Writes the version `tid` of a row into a block of at least [`PendingRemove::class`].
    ///
    /// # Safety
    /// The block belongs to the caller alone, is aligned to words, and is of this class.
    unsafe fn begin(block: NonNull<u8>, place: RemovePlace, tid: Tid, key: &[u8], value: &[u8]) -> Self {
        debug_assert!(
            key.len() <= KEY_BYTES_MAX && value.len() <= VALUE_BYTES_MAX,
            "a row is within its limits"
        );
        debug_assert!((place.table as usize) < TABLES_MAX, "a logged table's id is small");
        let header = block.cast::<PendingHeader>();
        assert_eq!(block.expose_provenance().get() as u64 & !ADDRESS_MASK, 0, "user addresses fit 48 bits");
        debug_assert!(header.is_aligned(), "blocks are cut at words");
        let lengths = key.len() as u64 | u64::from(place.table) << 16 | (value.len() as u64) << 32;
        // SAFETY: the block belongs to the caller alone, is aligned, and has room for the header, the key and the
        // value.
        unsafe {
            header.write(PendingHeader {
                next: AtomicU64::new(0),
                tid: AtomicU64::new(tid.bits()),
                lengths: AtomicU64::new(lengths),
                since: AtomicU64::new(place.since.number()),
            });
            let data = header.add(1).cast::<u8>();
            data.copy_from_nonoverlapping(NonNull::from(key).cast(), key.len());
            data.add(key.len()).copy_from_nonoverlapping(NonNull::from(value).cast(), value.len());
        }
        plain_access::store(block.as_ptr(), HEADER_BYTES + key.len() + value.len());
        Self(header)
    }

    #[inline]
    fn header(&self) -> &PendingHeader {
        // SAFETY: the block belongs to this value alone, so nothing frees or writes the block during the borrow.
        unsafe { self.0.as_ref() }
    }

    /// The version's TID.
    #[inline]
    pub(crate) fn tid(&self) -> Tid {
        // Relaxed: the write came before the push; the Acquire that took the list saw the write, or this thread wrote
        // the field.
        let bits = self.header().tid.load(Ordering::Relaxed);
        debug_assert_ne!(bits, FREED_WORD, "a version that was freed is read");
        Tid::from_word(bits)
    }

    /// Table and picture of the version.
    pub(crate) fn place(&self) -> RemovePlace {
        let PendingHeader { lengths, since, .. } = self.header();
        // Relaxed, both: the writes came before the push; the Acquire that took the list saw the writes, or this thread
        // wrote the fields.
        let (lengths, since) = (lengths.load(Ordering::Relaxed), since.load(Ordering::Relaxed));
        RemovePlace { table: u32::from((lengths >> 16) as u16), since: Epoch::new(since) }
    }

    /// Lengths of key and value in bytes.
    #[inline]
    fn lengths(&self) -> (usize, usize) {
        // Relaxed: the write came before the push; the Acquire that took the list saw the write, or this thread wrote
        // the field.
        let lengths = self.header().lengths.load(Ordering::Relaxed);
        let (key, value) = (usize::from(lengths as u16), (lengths >> 32) as usize);
        debug_assert!(key <= KEY_BYTES_MAX && value <= VALUE_BYTES_MAX, "a row is within its limits");
        (key, value)
    }

    /// The bytes of the row from byte `from` on. The value follows the key.
    #[inline]
    fn data(&self, from: usize, bytes: usize) -> &[u8] {
        debug_assert!(from + bytes <= KEY_BYTES_MAX + VALUE_BYTES_MAX, "a row is within its limits");
        // SAFETY: callers stay within key and value, which `begin` wrote behind the header. The block belongs to this
        // value alone, so nothing frees or writes the block during the borrow.
        unsafe { std::slice::from_raw_parts(self.0.as_ptr().add(1).cast::<u8>().add(from), bytes) }
    }

    /// The row's key.
    #[inline]
    pub(crate) fn key(&self) -> &[u8] {
        self.data(0, self.lengths().0)
    }

    /// The row's value in this version.
    #[inline]
    pub(crate) fn value(&self) -> &[u8] {
        let (key, value) = self.lengths();
        self.data(key, value)
    }

    /// Length of the block in bytes.
    #[inline]
    pub(crate) fn bytes(&self) -> usize {
        let (key, value) = self.lengths();
        Self::class(key, value).bytes()
    }

    fn into_block(self) -> (NonNull<u8>, SizeClass) {
        let (key, value) = self.lengths();
        (self.0.cast(), Self::class(key, value))
    }

    #[inline]
    fn address(&self) -> u64 {
        let address = self.0.addr().get() as u64;
        debug_assert!(
            address & !ADDRESS_MASK == 0 && address & FLAGS == 0,
            "a block lies at a word's address"
        );
        address
    }
}

impl Blocks {
    /// Copies a version of a row for a picture into a block of its own.
    pub(crate) fn pending_remove(
        &mut self,
        place: RemovePlace,
        tid: Tid,
        key: &[u8],
        value: &[u8],
    ) -> PendingRemove {
        let block = self.allocate_block(PendingRemove::class(key.len(), value.len()));
        // SAFETY: the block was just allocated under this class.
        unsafe { PendingRemove::begin(block, place, tid, key, value) }
    }

    /// Frees a version that no list has. Returns the length of its block in bytes.
    pub(crate) fn free_pending(&mut self, version: PendingRemove) -> usize {
        let (block, class) = version.into_block();
        // SAFETY: the block's holder gives the block away, and the block was allocated under this class.
        unsafe { self.free_block(block, class) }
    }
}

/// State word of a page: address of the last pushed block, the bit for a closed page, and marks. In semi-fuzzy mode the
/// page has no blocks.
#[derive(Debug)]
pub(crate) struct PageState(AtomicU64);

/// Flag: the page's part of the picture is taken, or is known to be unchanged, so commits leave nothing there any more.
/// The flag is never cleared.
const CLOSED: u64 = 1;

/// Marks of a page: the times of changes to the page's rows, relative to the freeze of the map's picture (N6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PageMarks(u64);

impl PageMarks {
    /// No row was changed.
    pub(crate) const NONE: Self = Self(0);
    /// A row was changed below the freeze: the picture has the change.
    pub(crate) const BEFORE: Self = Self(2);
    /// A row was changed from the freeze on: the next picture has the change.
    pub(crate) const AFTER: Self = Self(4);
    pub(crate) const BOTH: Self = Self(Self::BEFORE.0 | Self::AFTER.0);
}

/// Bits that are no part of a block's address.
const FLAGS: u64 = CLOSED | PageMarks::BOTH.0;
const _: () = {
    assert!(CLOSED & PageMarks::BOTH.0 == 0 && PageMarks::BEFORE.0 & PageMarks::AFTER.0 == 0);
    assert!(align_of::<PendingHeader>() > FLAGS as usize, "a block's address has its low bits free");
};

impl PageState {
    /// An open page without displaced versions.
    pub(super) fn new(marks: PageMarks) -> Self {
        Self(AtomicU64::new(marks.0))
    }

    /// A page that is closed from the beginning, without marks.
    pub(super) fn new_closed() -> Self {
        Self(AtomicU64::new(CLOSED))
    }

    /// Marks the page. Callers are commits, with the mark of their epoch, the carry-over of marks (N6, N7), and load
    /// and replay (N10, N14).
    #[inline]
    pub(crate) fn mark(&self, marks: PageMarks) {
        debug_assert_ne!(marks, PageMarks::NONE);
        // Relaxed: most pages have the mark, so most calls write nothing. A reader that settles or carries over looks
        // once E says that the commit has ended (E2): the reader finds the mark that this load found, or the mark
        // stored here.
        if self.0.load(Ordering::Relaxed) & marks.0 != marks.0 {
            // Relaxed: the reason of the load before holds. Pushed blocks stay visible, because this exchange continues
            // their release sequence.
            self.0.fetch_or(marks.0, Ordering::Relaxed);
        }
    }

    /// True if the page has any of these marks.
    #[inline]
    pub(crate) fn has_any(&self, marks: PageMarks) -> bool {
        // Relaxed: the marks are final where they matter: every commit that could still mark the page has ended, and E
        // has shown the end (E2).
        self.0.load(Ordering::Relaxed) & marks.0 != 0
    }

    /// True if commits leave nothing to the page any more.
    #[inline]
    pub(crate) fn is_closed(&self) -> bool {
        // Acquire: stores of a commit after a load of the flag come behind the walk's loads; partner: the Release in
        // `close_behind` (N8).
        self.0.load(Ordering::Acquire) & CLOSED != 0
    }

    /// True if a commit with these marks needs neither leave nor mark anything: the page is closed, and has the marks.
    #[inline]
    pub(crate) fn is_closed_with(&self, marks: PageMarks) -> bool {
        let wanted = CLOSED | marks.0;
        // Acquire: the reason in `is_closed` holds. For the marks the reason in `mark` holds: present marks need no
        // store.
        self.0.load(Ordering::Acquire) & wanted == wanted
    }

    /// Pushes a version to the page's list, and only then runs `change` on the version's record (N3): a reader of the
    /// change finds the version in the list. Gives the version back if the page was closed.
    #[inline(always)]
    pub(crate) fn leave_before<R>(
        &self,
        left: PendingRemove,
        change: impl FnOnce() -> R,
    ) -> (Result<(), PendingRemove>, R) {
        let pushed = self.push(left);
        (pushed, change())
    }

    /// As [`PageState::leave_before`], with a push to the list of the worker that leaves the version.
    #[inline(always)]
    pub(crate) fn leave_beside_before<R>(
        &self,
        own: &WorkerList,
        left: PendingRemove,
        change: impl FnOnce() -> R,
    ) -> (Result<(), PendingRemove>, R) {
        // If the page is closed after this load, the page's walk has read the record before the change, so no picture
        // needs the version.
        let pushed = if self.is_closed() {
            Err(left)
        } else {
            own.push(left);
            Ok(())
        };
        (pushed, change())
    }

    /// Adds a version to the list. Gives the version back if the page is closed.
    fn push(&self, left: PendingRemove) -> Result<(), PendingRemove> {
        // Acquire: the reason in `is_closed` holds; partner: the Release in `close_behind` (N8).
        let mut seen = self.0.load(Ordering::Acquire);
        while seen & CLOSED == 0 {
            // Relaxed: the block belongs to this thread until the exchange publishes the block.
            left.header().next.store(seen & !FLAGS, Ordering::Relaxed);
            let pushed = left.address() | seen & FLAGS;
            // Release: the block is complete; partner: the Acquire in `close_behind`.
            // Acquire on failure: the reason in `is_closed` holds.
            let pushed = self.0.compare_exchange(seen, pushed, Ordering::Release, Ordering::Acquire);
            match pushed {
                // The list owns the block now.
                Ok(_) => return Ok(()),
                Err(now) => seen = now,
            }
        }
        Err(left)
    }

    /// Calls `walk`, which reads the page's records, and closes the page behind the walk. Returns the versions that
    /// commits have left; `None` if another thread has closed the page (N8).
    #[inline]
    pub(crate) fn close_behind<R>(&self, walk: impl FnOnce() -> R) -> (R, Option<PendingList>) {
        let walked = walk();
        // Release: the walk's loads come before; partner: Acquire in `is_closed` and `push`.
        // Acquire: the blocks are complete; partner: Release in `push`.
        let before = self.0.fetch_or(CLOSED, Ordering::AcqRel);
        (walked, (before & CLOSED == 0).then_some(PendingList { next: before & !FLAGS }))
    }

    /// As [`PageState::close_behind`], for a `walk` that reads some of the page's records and breaks off if more are
    /// left: the page is closed only behind the last record.
    #[inline]
    pub(crate) fn close_behind_last<B>(
        &self,
        walk: impl FnOnce() -> Option<B>,
    ) -> ControlFlow<B, Option<PendingList>> {
        match walk() {
            Some(more) => ControlFlow::Break(more),
            None => ControlFlow::Continue(self.close_behind(|| ()).1),
        }
    }
}

/// A worker's list in semi-fuzzy mode: address of the last pushed block. Checkpointers take the whole list.
#[derive(Debug, Default)]
pub(crate) struct WorkerList(AtomicU64);

impl WorkerList {
    /// Adds a version. Only the list's worker calls `push`.
    fn push(&self, left: PendingRemove) {
        // Relaxed: the value is the worker's own push, or 0.
        let mut seen = self.0.load(Ordering::Relaxed);
        loop {
            // Relaxed: the block belongs to this thread until the exchange publishes the block.
            left.header().next.store(seen, Ordering::Relaxed);
            // Release: the block is complete; partner: the Acquire in `take`.
            // Relaxed on failure: a checkpointer took the list, and this thread reads nothing of the list.
            let pushed = self.0.compare_exchange(seen, left.address(), Ordering::Release, Ordering::Relaxed);
            match pushed {
                // The list owns the block now.
                Ok(_) => return,
                Err(now) => seen = now,
            }
        }
    }

    /// Takes the list. A caller that has read a record's new TID before finds the version left for the record, unless
    /// an earlier call took the version: the push comes before the TID (N3, N9).
    pub(crate) fn take(&self) -> Option<PendingList> {
        // Relaxed: a push that comes before is visible, as this load reads the word of the push; most lists are empty.
        if self.0.load(Ordering::Relaxed) == 0 {
            return None;
        }
        // Acquire: the blocks are complete; partner: the Release in `push`.
        let next = self.0.swap(0, Ordering::Acquire);
        (next != 0).then_some(PendingList { next })
    }
}

/// Versions that commits have left to a closed page, or in a worker's list. Not `Copy`: the taker of a list owns it.
#[derive(Debug)]
#[must_use = "free its blocks: their memory is lost otherwise"]
pub(crate) struct PendingList {
    next: u64,
}

impl PendingList {
    /// True if the list is empty.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        debug_assert!(self.next & FLAGS == 0, "a list ends with no block");
        self.next == 0
    }
}

impl Iterator for PendingList {
    type Item = PendingRemove;

    #[inline]
    fn next(&mut self) -> Option<PendingRemove> {
        debug_assert!(self.next & FLAGS == 0, "a list ends with no block");
        let first = NonNull::new(std::ptr::with_exposed_provenance_mut::<PendingHeader>(self.next as usize))?;
        let first = PendingRemove(first);
        // Relaxed: the write came before the push, and the Acquire that took the list saw the push.
        self.next = first.header().next.load(Ordering::Relaxed);
        Some(first)
    }
}

#[cfg(all(test, loom))]
mod loom_tests;
#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
