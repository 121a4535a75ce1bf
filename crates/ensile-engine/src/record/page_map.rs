//! Maps of tables' pages: the bounds of the pages, and the state of each page with its displaced versions (SIREN, §2.1,
//! §3.1).
//!
//! Invariants, from `docs/internals/protocols/pictures.md`:
//! - A map serves one picture. Only the states of its pages change, so a search in a map waits for nothing (E1).
//!   Between pictures the map continues to collect marks.
//! - N13: A map knows its attempt at a picture. Nothing of another attempt is taken or ended.
//! - N7: Marks of a map go to every overlapping page of the next map ([`TablePages::carry_over`]).
//! - N17: Pages are cut before their freeze.
//! - E3: Code follows a map under a pin. A map is freed once every pin is newer than the map's unpublication.
//! - E6: Until the free, the map counts as garbage that waits for pins.
//!
//! Neighbours: [`loaded_pages`] has the first maps after a picture is loaded; `open::pages` publishes maps and takes
//! pages, `open::page_partition` finds page bounds; commits find a version's page (`commit::pending_removes`);
//! `pending_removes` has a page's state.

pub(crate) mod loaded_pages;

use std::num::NonZeroUsize;
use std::ptr::NonNull;

use ensile_base::Epoch;
use ensile_base::sync::{Arc, AtomicBool, AtomicPtr, AtomicU64, Mutex, Ordering, fence};
use ensile_durability::PictureAttempt;
use ensile_epoch::{Epochs, GarbageList, Pinned};

use super::layout::pad_with_zeros;
use super::pending_removes::{PageMarks, PageState};

/// Length of a bound's slice in bytes.
const SLICE_BYTES: usize = size_of::<u64>();
/// Largest number of slices that a search compares in sequence.
const FEW_SLICES: usize = 4;

/// The first keys of a table's pages. The first page begins with the empty key.
#[derive(Debug, Default)]
pub(crate) struct PageBounds {
    /// Common prefix of every stored bound, in front of the slices. Empty if each slice holds a whole bound.
    common: Box<[u8]>,
    /// The common prefix as a number, if the prefix has at most eight bytes.
    common_number: u64,
    /// The eight bytes of each stored bound behind the common prefix, as a number with the same order.
    slices: Box<[u64]>,
    starts: SliceStarts,
    /// True if slices hold whole bounds and lie evenly. Then slices alone locate a key of at least eight bytes.
    are_even: bool,
    /// Every bound except the first, concatenated.
    keys: Box<[u8]>,
    /// End of each stored bound in `keys`, in bytes.
    ends: Box<[usize]>,
}

/// Start of a search among slices. Ranges of equal width divide the slices, so a search has few steps where keys lie
/// evenly.
#[derive(Debug, Default)]
struct SliceStarts {
    first: u64,
    /// Width of a range, in bits.
    shift: u32,
    /// Number of slices before each range; the last entry is the number of all slices.
    starts: Box<[u32]>,
}

impl PageBounds {
    /// Pages that begin with the empty key and with each of `bounds`, in ascending order.
    pub(crate) fn new(bounds: &[impl AsRef<[u8]>]) -> Self {
        let bounds = || bounds.iter().map(AsRef::as_ref);
        debug_assert!(bounds().all(|bound| !bound.is_empty()), "the first page begins with the empty key");
        assert!(bounds().is_sorted_by(|a, b| a < b), "a page ends where the next one begins");
        let is_in_slices = bounds().all(|bound| bound.len() <= SLICE_BYTES);
        let common = match (bounds().next(), bounds().next_back()) {
            (Some(first), Some(last)) if !is_in_slices => {
                let bytes = first.iter().zip(last).take_while(|(a, b)| a == b).count();
                &first[..bytes]
            }
            _ => &[],
        };
        let slices: Box<[u64]> = bounds().map(|bound| slice_of(&bound[common.len()..])).collect();
        assert!(u32::try_from(slices.len()).is_ok(), "pages of a table are counted in half a word");
        let starts = SliceStarts::new(&slices);
        let ends = bounds().scan(0, |end, bound| {
            *end += bound.len();
            Some(*end)
        });
        Self {
            common: common.into(),
            common_number: if common.len() <= 8 { number_of(common) } else { 0 },
            are_even: is_in_slices && starts.are_few(),
            starts,
            slices,
            keys: bounds().flatten().copied().collect(),
            ends: ends.collect(),
        }
    }

    /// Number of pages.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.slices.len() + 1
    }

    /// First key of the page.
    pub(crate) fn lower(&self, page: usize) -> &[u8] {
        debug_assert!(page < self.len());
        if page == 0 { &[] } else { self.bound(page - 1) }
    }

    /// End of the page, exclusive; `None` is the table's end.
    pub(crate) fn upper(&self, page: usize) -> Option<&[u8]> {
        debug_assert!(page < self.len());
        (page < self.slices.len()).then(|| self.bound(page))
    }

    /// The stored bound at this index.
    #[inline]
    fn bound(&self, at: usize) -> &[u8] {
        let from = if at == 0 { 0 } else { self.ends[at - 1] };
        &self.keys[from..self.ends[at]]
    }

    /// Compares the key's first bytes with the common prefix. Most keys have at least eight bytes, so a comparison of
    /// numbers is the usual case.
    #[inline]
    fn compare_with_common(&self, key: &[u8]) -> std::cmp::Ordering {
        let bytes = self.common.len();
        match key.first_chunk() {
            Some(first) if bytes <= 8 => {
                // With an empty prefix the shift removes all bits.
                let first = u64::from_be_bytes(*first).unbounded_shr(u64::BITS - 8 * bytes as u32);
                first.cmp(&self.common_number)
            }
            _ => key[..key.len().min(bytes)].cmp(&self.common),
        }
    }

    /// Number of bounds with a smaller slice.
    #[inline]
    fn count_below(&self, slice: u64) -> usize {
        let (from, to) = self.starts.candidate_range(slice);
        let mut below = from;
        if to - from <= FEW_SLICES {
            while below < to && self.slices[below] < slice {
                below += 1;
            }
        } else {
            // A search without branches that depend on the key.
            below += self.slices[from..to].partition_point(|bound| *bound < slice);
        }
        debug_assert_eq!(below, self.slices.partition_point(|bound| *bound < slice));
        below
    }

    /// The page of a key: the number of stored bounds that are not above the key.
    #[inline(always)]
    pub(crate) fn page_of(&self, key: &[u8]) -> usize {
        let page = match key.first_chunk() {
            Some(slice) if self.are_even => self.page_of_slice(u64::from_be_bytes(*slice)),
            _ => self.search(key),
        };
        debug_assert!(page == 0 || self.bound(page - 1) <= key, "a page begins at its first key, or before");
        debug_assert!(page == self.slices.len() || key < self.bound(page), "a page ends behind its keys");
        page
    }

    /// As [`PageBounds::page_of`], for a key that begins with `slice`. Every bound ends within its slice, so a bound
    /// with an equal slice is not above the key.
    #[inline(always)]
    fn page_of_slice(&self, slice: u64) -> usize {
        debug_assert!(self.are_even);
        let Some(mut page) = self.starts.begin(slice) else { return self.slices.len() };
        while self.slices.get(page).is_some_and(|bound| *bound <= slice) {
            page += 1;
        }
        page
    }

    /// As [`PageBounds::page_of`], for any key and any bounds.
    #[inline(never)]
    fn search(&self, key: &[u8]) -> usize {
        let slice = if self.common.is_empty() {
            slice_of(key)
        } else {
            match self.compare_with_common(key) {
                // Covers a key that ends within the common prefix: every bound is above the key.
                std::cmp::Ordering::Less => return 0,
                std::cmp::Ordering::Greater => return self.slices.len(),
                std::cmp::Ordering::Equal => slice_of(&key[self.common.len()..]),
            }
        };
        let below = self.count_below(slice);
        if self.slices.get(below) == Some(&slice) { self.page_among(below, key) } else { below }
    }

    /// As [`PageBounds::page_of`], for a key whose slice equals the slice of the bounds from `low` on. Equal slices
    /// decide nothing: bounds may differ behind the slices, or in zeros at the end.
    #[cold]
    #[inline(never)]
    fn page_among(&self, mut low: usize, key: &[u8]) -> usize {
        let slice = self.slices[low];
        let mut high = low + self.slices[low..].partition_point(|bound| *bound == slice);
        while low < high {
            let middle = low.midpoint(high);
            if self.bound(middle) <= key { low = middle + 1 } else { high = middle }
        }
        low
    }
}

impl SliceStarts {
    /// The starts of these slices, in ascending order, with about as many ranges as slices.
    fn new(slices: &[u64]) -> Self {
        let (Some(&first), Some(&last)) = (slices.first(), slices.last()) else { return Self::default() };
        let range_bits = u64::BITS - (last - first).leading_zeros();
        // The shift is below a word's bits: a range of 64 bits has at least two slices.
        let shift = range_bits.saturating_sub(slices.len().ilog2());
        let ranges = (last - first).wrapping_shr(shift) + 1;
        let start =
            |range: u64| slices.partition_point(|slice| (slice - first).wrapping_shr(shift) < range) as u32;
        Self { first, shift, starts: (0..=ranges).map(start).collect() }
    }

    /// True if every range has at most [`FEW_SLICES`] slices.
    fn are_few(&self) -> bool {
        self.starts.windows(2).all(|range| (range[1] - range[0]) as usize <= FEW_SLICES)
    }

    /// Number of slices below the range of `slice`; `None` if `slice` is above all ranges.
    #[inline(always)]
    fn begin(&self, slice: u64) -> Option<usize> {
        let Some(behind) = slice.checked_sub(self.first) else { return Some(0) };
        self.starts.get(behind.wrapping_shr(self.shift) as usize).map(|begin| *begin as usize)
    }

    /// Bounds of the slices in the range of `slice`, as indices from and to. The bounds are equal if `slice` is below
    /// all ranges, or above.
    #[inline]
    fn candidate_range(&self, slice: u64) -> (usize, usize) {
        let Some(behind) = slice.checked_sub(self.first) else { return (0, 0) };
        let range = behind.wrapping_shr(self.shift) as usize;
        match self.starts.get(range..).unwrap_or_default() {
            [from, to, ..] => {
                debug_assert!(from <= to);
                (*from as usize, *to as usize)
            }
            _ => {
                let all = self.starts.last().map_or(0, |all| *all as usize);
                (all, all)
            }
        }
    }
}

/// A key's first eight bytes, padded with zeros, as a number. Of two keys the smaller key never has the larger number.
#[inline]
fn slice_of(key: &[u8]) -> u64 {
    match (key.first_chunk(), key.first_chunk(), key.last_chunk()) {
        (Some(all), _, _) => u64::from_be_bytes(*all),
        (None, Some(head), Some(tail)) => {
            // Two loads overlap: both put the same bytes in the same places.
            let tail = u64::from(u32::from_be_bytes(*tail)) << (u64::BITS as usize - 8 * key.len());
            u64::from(u32::from_be_bytes(*head)) << 32 | tail
        }
        _ => u64::from_be_bytes(pad_with_zeros(key)),
    }
}

/// Eight bytes or fewer as a number.
fn number_of(bytes: &[u8]) -> u64 {
    debug_assert!(bytes.len() <= 8);
    bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// Attempt of the loaded picture. The attempts of this process follow.
pub(crate) const LOADED: PictureAttempt = PictureAttempt::new(1);

/// State of an attempt at a picture, shared by all maps of the attempt: under way, or over.
#[derive(Debug)]
pub(crate) struct PictureOfMaps {
    attempt: PictureAttempt,
    /// The newest freeze at the publication of the maps.
    since: Epoch,
    is_over: AtomicBool,
}

impl PictureOfMaps {
    /// An attempt at the picture behind the newest freeze, `since`.
    pub(crate) fn new(attempt: PictureAttempt, since: Epoch) -> Arc<Self> {
        Arc::new(Self { attempt, since, is_over: AtomicBool::new(false) })
    }

    /// The attempt of first maps after a load. The attempt is over, so commits leave nothing to the maps. `since` is
    /// the newest freeze.
    pub(crate) fn of_loaded(since: Epoch) -> Arc<Self> {
        Arc::new(Self { attempt: LOADED, since, is_over: AtomicBool::new(true) })
    }

    /// Ends the attempt. Maps made afterwards have no open page, and every open page is closed afterwards.
    pub(crate) fn end(&self) {
        // Relaxed: additions of tables and closes of pages happen under the locks that the caller of `end` holds. A
        // checkpointer that misses the store closes its own page, which is whole, and sees the store at its next page
        // (N13).
        self.is_over.store(true, Ordering::Relaxed);
    }

    fn is_over(&self) -> bool {
        // Relaxed: the reason in `end` holds.
        self.is_over.load(Ordering::Relaxed)
    }
}

/// A table's pages in one picture.
#[derive(Debug)]
pub(crate) struct PageMap {
    picture: Arc<PictureOfMaps>,
    /// The picture's `since`, copied because commits read the epoch with each key.
    since: Epoch,
    bounds: PageBounds,
    states: Box<[PageState]>,
}

/// Identity of a map. Maps followed under one pin have different addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MapAddress(NonZeroUsize);

impl PageMap {
    /// A map for this attempt at a picture; all pages have the marks `marks`.
    pub(crate) fn new(picture: &Arc<PictureOfMaps>, bounds: PageBounds, marks: PageMarks) -> Self {
        let states: Box<[PageState]> = (0..bounds.len()).map(|_| PageState::new(marks)).collect();
        debug_assert_eq!(states.len(), bounds.len(), "each page has a state");
        Self { picture: Arc::clone(picture), since: picture.since, bounds, states }
    }

    /// The map of an added table: one page, which is in no picture yet. So the first picture that deals out pages
    /// afterwards writes the page. If the attempt is over, the page is closed, as every other page.
    pub(crate) fn of_added_table(picture: &Arc<PictureOfMaps>) -> Self {
        let map = Self::new(picture, PageBounds::default(), PageMarks::BOTH);
        if picture.is_over() {
            let ((), list) = map.page(0).close_behind(|| ());
            debug_assert!(list.is_some_and(|list| list.is_empty()), "nobody has left anything there");
        }
        map
    }

    /// The newest freeze at the publication of the map. The freeze of the map's picture is later.
    #[inline]
    pub(crate) fn publication_freeze(&self) -> Epoch {
        self.since
    }

    /// The map's attempt at a picture.
    pub(crate) fn attempt(&self) -> PictureAttempt {
        self.picture.attempt
    }

    /// True if the map's attempt has ended. An attempt may end at any time.
    pub(crate) fn is_over(&self) -> bool {
        self.picture.is_over()
    }

    /// Bounds of the pages.
    #[inline]
    pub(crate) fn bounds(&self) -> &PageBounds {
        &self.bounds
    }

    /// The state of a page.
    #[inline]
    pub(crate) fn page(&self, page: usize) -> &PageState {
        debug_assert_eq!(self.states.len(), self.bounds.len(), "each page has a state");
        &self.states[page]
    }

    /// The states of all pages.
    pub(crate) fn pages(&self) -> &[PageState] {
        &self.states
    }

    /// Marks every page that overlaps a page of `before` with a mark in `marks`: the page's rows have changed below the
    /// freeze of this map's picture (N7).
    pub(crate) fn mark_from(&self, before: &Self, marks: PageMarks) {
        debug_assert!(before.attempt() < self.attempt(), "marks go to a later map");
        for (page, _) in before.states.iter().enumerate().filter(|(_, state)| state.has_any(marks)) {
            let upper = before.bounds.upper(page);
            let first = self.bounds.page_of(before.bounds.lower(page));
            let overlapping = (first..self.bounds.len())
                .take_while(|own| *own == first || upper.is_none_or(|upper| self.bounds.lower(*own) < upper));
            overlapping.for_each(|own| self.states[own].mark(PageMarks::BEFORE));
        }
    }

    /// Memory of the map in bytes.
    pub(crate) fn bytes(&self) -> usize {
        let PageBounds { common, slices, starts, keys, ends, common_number: _, are_even: _ } = &self.bounds;
        debug_assert_eq!(slices.len(), ends.len(), "each bound has its slice and its end");
        let slices = size_of_val(&**slices) + size_of_val(&*starts.starts);
        let bounds = common.len() + slices + keys.len() + size_of_val(&**ends);
        size_of::<Self>() + bounds + size_of_val(&*self.states)
    }

    /// Identity of the map.
    #[inline]
    pub(crate) fn address(&self) -> MapAddress {
        MapAddress(NonNull::from(self).addr())
    }
}

/// Counters of the maps that wait for pins, over all tables (E6).
#[derive(Debug, Default)]
pub(crate) struct WaitingMaps {
    count: AtomicU64,
    bytes: AtomicU64,
    /// Bytes of all maps that ever waited.
    made_bytes: AtomicU64,
}

impl WaitingMaps {
    /// Number of waiting maps.
    pub(crate) fn count(&self) -> u64 {
        // Relaxed: the counter is only reported.
        self.count.load(Ordering::Relaxed)
    }

    /// Memory of the waiting maps in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        // Relaxed: the counter is only reported.
        self.bytes.load(Ordering::Relaxed)
    }

    /// Bytes of all maps that ever waited.
    pub(crate) fn made_bytes(&self) -> u64 {
        // Relaxed: the counter is only reported.
        self.made_bytes.load(Ordering::Relaxed)
    }

    /// Counts a map that begins to wait.
    fn add(&self, map: &PageMap) {
        let bytes = map.bytes() as u64;
        // Relaxed, all: the counters are only reported. The lock around frees of maps orders each removal after its
        // addition.
        self.count.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.made_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Uncounts a map before its free.
    fn remove(&self, map: &PageMap) {
        let bytes = map.bytes() as u64;
        // Relaxed, both: the counters are only reported.
        let before = self.count.fetch_sub(1, Ordering::Relaxed);
        let bytes_before = self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        debug_assert!(before >= 1 && bytes_before >= bytes, "what is freed was counted");
    }
}

/// Place where commits find a table's map, from the first picture or its load on.
#[derive(Debug)]
pub(crate) struct TablePages {
    /// Pointer to the published map; null before the first map.
    map: AtomicPtr<PageMap>,
    waiting: Arc<WaitingMaps>,
    replaced: Mutex<ReplacedMaps>,
}

/// Maps that are no longer published.
#[derive(Debug, Default)]
struct ReplacedMaps {
    /// The map before the published map, until its marks are carried over. Commits may still mark it.
    before: Option<UnpublishedMap>,
    /// The other maps, until no pin reaches them.
    unpublished: GarbageList<UnpublishedMap>,
}

/// A map that is no longer published. The type is not `Copy`, so that a map is freed once.
#[derive(Debug)]
struct UnpublishedMap(NonNull<PageMap>);

// SAFETY: threads share maps, and no part of a map belongs to a thread.
unsafe impl Send for UnpublishedMap {}

impl TablePages {
    /// The pages of a table with this first map. `waiting` counts maps that wait for pins.
    pub(crate) fn new(map: Option<PageMap>, waiting: &Arc<WaitingMaps>) -> Self {
        let map = map.map_or(std::ptr::null_mut(), |map| Box::into_raw(Box::new(map)));
        Self { map: AtomicPtr::new(map), waiting: Arc::clone(waiting), replaced: Mutex::default() }
    }

    /// The map, if a picture was loaded or has begun since the open. The map lives as long as the pin and the table
    /// (E3).
    #[inline(always)]
    pub(crate) fn load<'m>(&'m self, _pinned: Pinned<'m>) -> Option<&'m PageMap> {
        // Acquire: the map is complete; partner: the Release in `publish`.
        let map = self.map.load(Ordering::Acquire);
        // SAFETY: a published map is whole and is never replaced in place. The map is freed once every pin is newer
        // than its unpublication, or together with `self`, which is borrowed (E3).
        unsafe { map.as_ref() }
    }

    /// Publishes a map for a picture that begins. If the picture carries marks over, the table keeps the map before
    /// until then.
    pub(crate) fn publish(&self, map: PageMap, is_carried_over: bool, epochs: &Epochs) {
        debug_assert!(
            map.publication_freeze() <= epochs.newest_freeze(),
            "its picture's freeze is yet to be announced (N1)"
        );
        // Release: the map is complete; partner: the Acquire in `load`.
        // Acquire: this thread may free the map that was published before.
        let before = self.map.swap(Box::into_raw(Box::new(map)), Ordering::AcqRel);
        let before = NonNull::new(before).map(UnpublishedMap);
        let mut replaced = self.replaced.lock();
        // A map of an attempt that ended before a carry-over of its marks.
        let older = replaced.before.take();
        if is_carried_over {
            assert!(older.is_none(), "marks are carried over from a map that has all of them (N7, N13)");
            replaced.before = before;
        } else {
            older.into_iter().chain(before).for_each(|map| self.wait_for_pins(&mut replaced, map, epochs));
        }
    }

    /// Carries marks of the map before over to the published map, and gives the map before to the pins to free. Every
    /// commit that may have the map before has ended (N7). Only a table added since the freeze has no map before.
    pub(crate) fn carry_over(&self, marks: PageMarks, epochs: &Epochs, pinned: Pinned<'_>) {
        let map = self.load(pinned);
        let mut replaced = self.replaced.lock();
        let Some(before) = replaced.before.take() else {
            debug_assert!(
                map.is_some_and(|map| map.bounds.len() == 1 && map.page(0).has_any(PageMarks::BEFORE)),
                "a table that is added has a page that is marked"
            );
            return;
        };
        if let Some(map) = map {
            // SAFETY: `publish` or `new` made the map from a box. The map does not wait for pins yet, so nothing frees
            // it.
            map.mark_from(unsafe { before.0.as_ref() }, marks);
        }
        self.wait_for_pins(&mut replaced, before, epochs);
    }

    /// Gives an unpublished map to the list of maps that wait for pins, under the current epoch.
    fn wait_for_pins(&self, replaced: &mut ReplacedMaps, map: UnpublishedMap, epochs: &Epochs) {
        // SeqCst: the unpublication of the map comes before the read of the tag's epoch (E3); partner: the heavy fence
        // of the scan.
        fence(Ordering::SeqCst);
        // SAFETY: `publish` or `new` made the map from a box, and nothing frees the map before the lock is released.
        self.waiting.add(unsafe { map.0.as_ref() });
        replaced.unpublished.push(epochs.now(), map);
    }

    /// Frees the maps that no pin reaches any more. True if no unpublished map is left. `epochs` are the database's
    /// own.
    pub(crate) fn collect(&self, epochs: &Epochs) -> bool {
        self.collect_below(epochs.limits().pins())
    }

    /// Frees all unpublished maps that wait for no carry-over of marks. No thread uses the database any more.
    #[cfg(feature = "audit")]
    pub(crate) fn collect_at_rest(&self, _at_rest: &super::block_audit::AtRest<'_>) {
        self.collect_below(Epoch::MAX);
    }

    /// True if commits may still leave versions to a page of the published map.
    #[cfg(feature = "audit")]
    pub(crate) fn has_open_pages(&self, _at_rest: &super::block_audit::AtRest<'_>) -> bool {
        // SAFETY: no thread uses the database any more, so nothing frees the map before its table.
        let map = self.load(unsafe { Pinned::assume() });
        map.is_some_and(|map| map.pages().iter().any(|page| !page.is_closed()))
    }

    /// Frees maps with a tag below `limit`; every pin is at `limit` or above. True if no unpublished map is left.
    fn collect_below(&self, limit: Epoch) -> bool {
        let ReplacedMaps { unpublished, .. } = &mut *self.replaced.lock();
        while let Some(UnpublishedMap(map)) = unpublished.pop_below(limit) {
            // SAFETY: `publish` or `new` made the map from a box, and every pin is newer than the map's unpublication
            // (E3).
            let map = unsafe { Box::from_raw(map.as_ptr()) };
            self.waiting.remove(&map);
        }
        unpublished.is_empty()
    }
}

impl Drop for TablePages {
    fn drop(&mut self) {
        // Relaxed: no other thread has the table.
        let published = NonNull::new(self.map.load(Ordering::Relaxed)).map(UnpublishedMap);
        let ReplacedMaps { before, unpublished } = &mut *self.replaced.lock();
        let waiting = std::iter::from_fn(|| unpublished.pop_below(Epoch::MAX));
        for UnpublishedMap(map) in waiting.chain(before.take()).chain(published) {
            // SAFETY: `publish` or `new` made the map from a box. A reader of a map borrows `self`, so no reader is
            // left.
            drop(unsafe { Box::from_raw(map.as_ptr()) });
        }
    }
}

#[cfg(all(test, loom))]
mod loom_tests;
#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
