//! Pending removes: versions that commits displace and a picture still needs, in lists: one a page (SIREN, §3.1), or
//! one a worker (semi-fuzzy, §3.3).
//!
//! ```text
//! 0        8        16    18    20      24       32
//! +--------+--------+-----+-----+-------+--------+------+-------...
//! |next    |TID     |key's|table|value's|since   |key   |value
//! +--------+--------+-----+-----+-------+--------+------+-------...
//! ```
//!
//! Invariants:
//! - A block has one holder: the worker that made it until it pushes it, then the list, then the one that takes the
//!   list. Nothing of it changes once it is pushed.
//! - N3: a version is left before anything of its record is changed ([`PageState::leave_before`],
//!   [`PageState::leave_beside_before`]).
//! - N5, N6: a commit marks a page before it unbinds ([`PageState::mark`]). Marks are never taken away, and whether a
//!   page is closed does not matter to them.
//! - N8: a page is closed behind the walk, by one exchange that takes the list ([`PageState::close_behind`]). Nothing
//!   is pushed to a closed page.
//! - N9: who takes a worker's list behind the close of a page finds what the walk of that page has missed
//!   ([`WorkerList::take`]).
//!
//! Neighbours: `blocks` makes and frees blocks; commits push them (`commit::displaced`), a picture's checkpointers take
//! them (`open::pages`); `page_map` has the pages.

use std::ops::ControlFlow;
use std::ptr::NonNull;

use ensile_base::limits::{KEY_BYTES_MAX, TABLES_MAX, VALUE_BYTES_MAX};
use ensile_base::sync::{AtomicU64, Ordering, note};
use ensile_base::{Epoch, Tid};
use ensile_memory::{FREED_WORD, SizeClass};

use super::ADDRESS_MASK;

/// What stands before key and value. Atomics, so that loom sees what orders them.
#[repr(C)]
struct PendingHeader {
    /// The block that was pushed before this one; 0 ends the list.
    next: AtomicU64,
    tid: AtomicU64,
    /// From the low end: the key's length and the table, 16 bits each, and the value's length.
    lengths: AtomicU64,
    /// What the picture's maps are of: the newest freeze before its own.
    since: AtomicU64,
}

const HEADER_BYTES: usize = size_of::<PendingHeader>();
const _: () = {
    assert!(SizeClass::BYTES_MAX >= HEADER_BYTES + KEY_BYTES_MAX + VALUE_BYTES_MAX);
    assert!(KEY_BYTES_MAX < 1 << 16 && TABLES_MAX <= 1 << 16 && VALUE_BYTES_MAX < 1 << 32);
};

/// Where a version belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RemovePlace {
    /// A logged table.
    pub(crate) table: u32,
    /// Tells its picture apart: the newest freeze when that published its maps.
    pub(crate) since: Epoch,
}

/// A version of a row that a picture needs. Not to be copied: its block is freed once.
#[derive(Debug)]
#[must_use = "push it or give it back: its memory is lost otherwise"]
pub(crate) struct PendingRemove(NonNull<PendingHeader>);

// SAFETY: the block is its holder's alone, and nothing of it belongs to a thread.
unsafe impl Send for PendingRemove {}

impl PendingRemove {
    /// What a block for a row of these lengths is allocated under.
    #[inline]
    pub(super) const fn class(key: usize, value: usize) -> SizeClass {
        SizeClass::of_bytes(HEADER_BYTES + key + value)
    }

    /// Makes a block of at least [`PendingRemove::class`] the version `tid` of a row.
    ///
    /// # Safety
    /// The block is the caller's alone, lies at a word's address, and is of that class.
    pub(super) unsafe fn begin(
        block: NonNull<u8>,
        (place, tid): (RemovePlace, Tid),
        key: &[u8],
        value: &[u8],
    ) -> Self {
        debug_assert!(
            key.len() <= KEY_BYTES_MAX && value.len() <= VALUE_BYTES_MAX,
            "a row is within its limits"
        );
        debug_assert!((place.table as usize) < TABLES_MAX, "a logged table's id is small");
        let header = block.cast::<PendingHeader>();
        assert_eq!(block.expose_provenance().get() as u64 & !ADDRESS_MASK, 0, "user addresses fit 48 bits");
        debug_assert!(header.is_aligned(), "blocks are cut at words");
        let lengths = key.len() as u64 | u64::from(place.table) << 16 | (value.len() as u64) << 32;
        // SAFETY: the block is ours alone, aligned, and has room for the header, the key and the value behind each
        // other.
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
        note::store(block.as_ptr(), HEADER_BYTES + key.len() + value.len());
        Self(header)
    }

    #[inline]
    fn header(&self) -> &PendingHeader {
        // SAFETY: the block is this value's alone, so nothing frees it or writes to it while it is borrowed.
        unsafe { self.0.as_ref() }
    }

    /// The version's TID.
    #[inline]
    pub(crate) fn tid(&self) -> Tid {
        // Relaxed: written before the push; the Acquire that took the list has seen it, or we wrote it.
        let bits = self.header().tid.load(Ordering::Relaxed);
        debug_assert_ne!(bits, FREED_WORD, "a version that was freed is read");
        Tid::from_word(bits)
    }

    /// Where it belongs.
    pub(crate) fn place(&self) -> RemovePlace {
        let PendingHeader { lengths, since, .. } = self.header();
        // Relaxed, both: written before the push; the Acquire that took the list has seen it, or we wrote it.
        let (lengths, since) = (lengths.load(Ordering::Relaxed), since.load(Ordering::Relaxed));
        RemovePlace { table: u32::from((lengths >> 16) as u16), since: Epoch::new(since) }
    }

    #[inline]
    fn lengths(&self) -> (usize, usize) {
        // Relaxed: written before the push; the Acquire that took the list has seen it, or we wrote it.
        let lengths = self.header().lengths.load(Ordering::Relaxed);
        let (key, value) = (usize::from(lengths as u16), (lengths >> 32) as usize);
        debug_assert!(key <= KEY_BYTES_MAX && value <= VALUE_BYTES_MAX, "a row is within its limits");
        (key, value)
    }

    #[inline]
    fn data(&self, from: usize, bytes: usize) -> &[u8] {
        debug_assert!(from + bytes <= KEY_BYTES_MAX + VALUE_BYTES_MAX, "a row is within its limits");
        // SAFETY: callers stay within key and value, which `begin` wrote behind the header. The block is this value's
        // alone, so nothing frees it or writes to it while it is borrowed.
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

    /// Bytes of its block.
    #[inline]
    pub(crate) fn bytes(&self) -> usize {
        let (key, value) = self.lengths();
        Self::class(key, value).bytes()
    }

    /// The block, and what it was allocated under.
    pub(super) fn into_block(self) -> (NonNull<u8>, SizeClass) {
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

/// The state word of a page: the block that was pushed last, whether the page is closed, and its marks. Semi-fuzzy, it
/// has no blocks.
#[derive(Debug)]
pub(crate) struct PageState(AtomicU64);

/// The page's part of the picture is taken, or is known to be what it was: commits leave nothing there any more. Never
/// cleared.
const CLOSED: u64 = 1;

/// Marks of a page: when its rows were changed, as seen from the freeze of its map's picture (N6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PageMarks(u64);

impl PageMarks {
    /// No row was changed.
    pub(crate) const NONE: Self = Self(0);
    /// Below the freeze: the picture has the change.
    pub(crate) const BEFORE: Self = Self(2);
    /// From the freeze on: the next picture has it.
    pub(crate) const AFTER: Self = Self(4);
    pub(crate) const BOTH: Self = Self(Self::BEFORE.0 | Self::AFTER.0);
}

/// All rows of the page are in its list: an experiment's, in a bit above all addresses.
#[cfg(feature = "experiments")]
const COPIED: u64 = 1 << 63;
#[cfg(not(feature = "experiments"))]
const COPIED: u64 = 0;

/// What is no part of a block's address.
const FLAGS: u64 = CLOSED | PageMarks::BOTH.0 | COPIED;
const _: () = {
    assert!(CLOSED & PageMarks::BOTH.0 == 0 && PageMarks::BEFORE.0 & PageMarks::AFTER.0 == 0);
    let low = CLOSED | PageMarks::BOTH.0;
    assert!(align_of::<PendingHeader>() > low as usize, "a block's address has its low bits free");
    assert!(COPIED & ADDRESS_MASK == 0, "and its high bits");
};

impl PageState {
    /// A page that is open, and of which nothing was displaced.
    pub(super) fn new(marks: PageMarks) -> Self {
        Self(AtomicU64::new(marks.0))
    }

    /// A page that is closed from the beginning, and has no mark yet.
    pub(super) fn closed() -> Self {
        Self(AtomicU64::new(CLOSED))
    }

    /// Marks the page: a commit, whose epoch selects the mark, or who carries marks over (N6, N7); also who
    /// loads or replays (N10, N14).
    #[inline]
    pub(crate) fn mark(&self, marks: PageMarks) {
        debug_assert_ne!(marks, PageMarks::NONE);
        // Relaxed: most pages have the mark, and nothing is written. Who settles or carries over looks once E says that
        // the commit has ended (E2): it finds what this found, or what this stores.
        if self.0.load(Ordering::Relaxed) & marks.0 != marks.0 {
            // Relaxed: as the look before. Blocks that were pushed stay visible, as this goes on with their release
            // sequence.
            self.0.fetch_or(marks.0, Ordering::Relaxed);
        }
    }

    /// Whether it has any of these marks.
    #[inline]
    pub(crate) fn has_any(&self, marks: PageMarks) -> bool {
        // Relaxed: final where it matters, as every commit that could still mark the page has ended, and E has shown
        // that (E2).
        self.0.load(Ordering::Relaxed) & marks.0 != 0
    }

    /// Whether commits leave nothing there any more.
    #[inline]
    pub(crate) fn is_closed(&self) -> bool {
        // Acquire: what a commit stores after it has seen this comes behind the walk's loads; partner: the Release in
        // `close_behind` (N8).
        self.0.load(Ordering::Acquire) & CLOSED != 0
    }

    /// Whether a commit with these marks need neither leave nor mark anything: the page is closed, and has them.
    #[inline]
    pub(crate) fn is_closed_with(&self, marks: PageMarks) -> bool {
        let wanted = CLOSED | marks.0;
        // Acquire: as in `is_closed`. The marks are as in `mark`, where nothing is written if they are there.
        self.0.load(Ordering::Acquire) & wanted == wanted
    }

    /// Leaves a version, and only then lets its record be changed (N3): who reads what was changed finds the version in
    /// the list. Gives the version back if the page was closed.
    #[inline(always)]
    pub(crate) fn leave_before<R>(
        &self,
        left: PendingRemove,
        change: impl FnOnce() -> R,
    ) -> (Result<(), PendingRemove>, R) {
        let pushed = self.push(left);
        (pushed, change())
    }

    /// As [`PageState::leave_before`], where the version goes to the list of the worker that leaves it.
    #[inline(always)]
    pub(crate) fn leave_beside_before<R>(
        &self,
        own: &WorkerList,
        left: PendingRemove,
        change: impl FnOnce() -> R,
    ) -> (Result<(), PendingRemove>, R) {
        // If the page is closed behind this look, its walk has read the record as it was: nobody needs the version.
        let pushed = if self.is_closed() {
            Err(left)
        } else {
            own.push(left);
            Ok(())
        };
        (pushed, change())
    }

    fn push(&self, left: PendingRemove) -> Result<(), PendingRemove> {
        // Acquire: as in `is_closed`; partner: the Release in `close_behind` (N8).
        let mut seen = self.0.load(Ordering::Acquire);
        while seen & CLOSED == 0 {
            // Relaxed: the block is ours until the exchange publishes it.
            left.header().next.store(seen & !FLAGS, Ordering::Relaxed);
            let pushed = left.address() | seen & FLAGS;
            // Release: the block is complete; partner: the Acquire in `close_behind`. Acquire on failure: as in
            // `is_closed`.
            let pushed = self.0.compare_exchange(seen, pushed, Ordering::Release, Ordering::Acquire);
            match pushed {
                // The list owns it now.
                Ok(_) => return Ok(()),
                Err(now) => seen = now,
            }
        }
        Err(left)
    }

    /// Calls `walk`, which reads the page's records, and closes the page behind that. The versions that commits have
    /// left are the caller's then; `None` if somebody else has closed the page (N8).
    #[inline]
    pub(crate) fn close_behind<R>(&self, walk: impl FnOnce() -> R) -> (R, Option<PendingList>) {
        let walked = walk();
        // Release: the walk's loads come before; partner: Acquire in `is_closed` and `push`. Acquire: the blocks are
        // complete; partner: Release in `push`.
        let before = self.0.fetch_or(CLOSED, Ordering::AcqRel);
        (walked, (before & CLOSED == 0).then_some(PendingList { next: before & !FLAGS }))
    }

    /// As [`PageState::close_behind`], where `walk` reads some of the page's records and breaks off if there are more:
    /// the page is closed behind the last of them only.
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

#[cfg(feature = "experiments")]
impl PageState {
    /// Whether all rows of the page are in its list.
    pub(crate) fn is_copied(&self) -> bool {
        // Acquire: what the caller changes comes behind the copies; partner: the Release in `has_copied`.
        self.0.load(Ordering::Acquire) & COPIED != 0
    }

    /// All of its rows are in its list from here on.
    pub(crate) fn has_copied(&self) {
        // Release: the copies were pushed; partner: the Acquire in `is_copied`.
        self.0.fetch_or(COPIED, Ordering::Release);
    }
}

/// A worker's list, semi-fuzzy: the block that it pushed last. Checkpointers take the whole list.
#[derive(Debug, Default)]
pub(crate) struct WorkerList(AtomicU64);

impl WorkerList {
    /// Adds a version. Its own worker calls this.
    fn push(&self, left: PendingRemove) {
        // Relaxed: what the worker has pushed itself, or 0.
        let mut seen = self.0.load(Ordering::Relaxed);
        loop {
            // Relaxed: the block is ours until the exchange publishes it.
            left.header().next.store(seen, Ordering::Relaxed);
            // Release: the block is complete; partner: the Acquire in `take`. Relaxed on failure: the list was taken,
            // and nothing of it is looked at.
            let pushed = self.0.compare_exchange(seen, left.address(), Ordering::Release, Ordering::Relaxed);
            match pushed {
                // The list owns it now.
                Ok(_) => return,
                Err(now) => seen = now,
            }
        }
    }

    /// Takes what is there. Who has read a record's new TID before finds the version that was left for it, unless it
    /// was taken already: the push comes before that TID (N3, N9).
    pub(crate) fn take(&self) -> Option<PendingList> {
        // Relaxed: a push that comes before is seen, as this reads the word that it stored; most lists are empty.
        if self.0.load(Ordering::Relaxed) == 0 {
            return None;
        }
        // Acquire: the blocks are complete; partner: the Release in `push`.
        let next = self.0.swap(0, Ordering::Acquire);
        (next != 0).then_some(PendingList { next })
    }
}

/// What commits have left of a page that is closed, or a worker. Not to be copied: who takes a list owns it.
#[derive(Debug)]
#[must_use = "free its blocks: their memory is lost otherwise"]
pub(crate) struct PendingList {
    next: u64,
}

impl PendingList {
    /// Whether nothing was left.
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
        // Relaxed: written before the push, which the Acquire that took the list has seen.
        self.next = first.header().next.load(Ordering::Relaxed);
        Some(first)
    }
}

#[cfg(all(test, loom))]
mod loom_tests;
#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
