//! Pages of copies of old versions, in sequence (Silo §4.9).
//!
//! The versions that a worker preserves within one snapshot interval begin at about the same time, and leave all
//! snapshots at about the same time. So the versions share pages. A version needs no free list and no entry in the
//! garbage, the processor prefetches its memory, and a free of a page reads nothing inside.
//!
//! While a reader holds an older boundary, versions are not copied into pages: each version is freed by itself (V1).
//!
//! Invariant: A page is retired under an epoch at least as new as the last commit that copied a version into the page.
//! So all of the page's versions are out of snapshots' reach once the page is out of reach (S1).
//!
//! Neighbours: `blocks` cuts versions from pages; `garbage` frees full pages.

use std::ptr::NonNull;

use ensile_memory::{SizeClass, prefetch};

/// Length of a page in bytes. A page is small under shuttle, so that shuttle's short runs fill pages.
const PAGE_BYTES: usize = if cfg!(shuttle) { 128 } else { 8 << 10 };
/// Largest length of a copied version in bytes. The records of larger versions are replaced (V1). So a page loses
/// little room at its end.
const VERSION_BYTES_MAX: usize = if cfg!(shuttle) { 96 } else { 1 << 10 };
/// Distance, in bytes, of the prefetch ahead of a page's use.
const FETCHED_AHEAD: usize = 256;

/// The free part of a worker's present page. A failed commit goes back to a copy of this value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct VersionPage {
    start: *mut u8,
    next: *mut u8,
    end: *mut u8,
}

// SAFETY: the page belongs to its worker alone until a commit publishes versions in the page, and moves with the
// worker.
unsafe impl Send for VersionPage {}

impl VersionPage {
    /// No page yet.
    pub(super) fn null() -> Self {
        let nowhere = std::ptr::null_mut();
        Self { start: nowhere, next: nowhere, end: nowhere }
    }

    /// A block of [`VersionPage::class`], with nothing taken.
    pub(super) fn new(block: NonNull<u8>) -> Self {
        let start = block.as_ptr();
        debug_assert!(start.addr().is_multiple_of(8), "versions are cut at words");
        prefetch::lines(start, FETCHED_AHEAD);
        Self { start, next: start, end: start.wrapping_add(PAGE_BYTES) }
    }

    /// Size class of a page.
    pub(super) const fn class() -> SizeClass {
        SizeClass::of_bytes(PAGE_BYTES)
    }

    /// True if versions of records of this class are copied. Commits may then change these records in place.
    #[inline]
    pub(crate) const fn takes(class: SizeClass) -> bool {
        class.index() <= SizeClass::of_bytes(VERSION_BYTES_MAX).index()
    }

    /// Takes the next `bytes` (a multiple of eight), if the page has the room.
    #[inline]
    pub(super) fn take(&mut self, bytes: usize) -> Option<NonNull<u8>> {
        debug_assert!(bytes.is_multiple_of(8) && bytes > 0, "versions are cut at words");
        debug_assert!(
            self.start <= self.next && self.next <= self.end,
            "a page is used from its start to its end"
        );
        if (self.end as usize) - (self.next as usize) < bytes {
            return None;
        }
        let taken = self.next;
        self.next = taken.wrapping_add(bytes);
        prefetch::lines(taken.wrapping_add(FETCHED_AHEAD), bytes);
        NonNull::new(taken)
    }

    /// Gives back `bytes` at `address` if they were taken last.
    pub(super) fn untake(&mut self, address: usize, bytes: usize) {
        debug_assert!(bytes.is_multiple_of(8), "versions are cut at words");
        if (self.next as usize).wrapping_sub(bytes) == address && address >= self.start as usize {
            self.next = self.next.wrapping_sub(bytes);
        }
    }

    /// The start of the page; `None` without a page.
    pub(super) fn start(&self) -> Option<NonNull<u8>> {
        NonNull::new(self.start)
    }
}

const _: () =
    assert!(VERSION_BYTES_MAX <= PAGE_BYTES, "an empty page takes any version that goes into pages");
const _: () = assert!(VersionPage::class().bytes() == PAGE_BYTES && PAGE_BYTES.is_multiple_of(8));

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use std::ptr::NonNull;

    use super::{PAGE_BYTES, VersionPage};

    #[test]
    fn what_is_taken_lies_side_by_side_and_the_last_can_be_given_back() {
        let mut memory = vec![0u64; PAGE_BYTES / 8];
        let start = NonNull::new(memory.as_mut_ptr().cast::<u8>()).expect("allocated");
        let mut page = VersionPage::new(start);
        let first = page.take(120).expect("empty").as_ptr() as usize;
        let second = page.take(256).expect("almost empty").as_ptr() as usize;
        assert_eq!((first, second), (start.as_ptr() as usize, first + 120));
        page.untake(first, 120);
        assert_eq!(page.take(8).expect("room").as_ptr() as usize, second + 256, "the first was not the last");
        page.untake(second + 256, 8);
        page.untake(second, 256);
        let left = (PAGE_BYTES - 120) / 1000;
        assert_eq!((0..).take_while(|_| page.take(1000).is_some()).count(), left);
        assert!(VersionPage::null().take(8).is_none());
    }

    #[test]
    fn a_page_is_used_to_its_last_byte_and_takes_nothing_of_its_neighbour_back() {
        let mut memory = vec![0u64; 2 * PAGE_BYTES / 8];
        let start = NonNull::new(&raw mut memory[PAGE_BYTES / 8]).expect("allocated").cast::<u8>();
        let mut page = VersionPage::new(start);
        // The last room of the page before, in front of this page.
        page.untake(start.addr().get() - 128, 128);
        let rooms: Vec<_> = std::iter::from_fn(|| page.take(128)).collect();
        assert_eq!((rooms[0], rooms.len()), (start, PAGE_BYTES / 128));
    }
}
