//! Maps of tables' pages: where each page begins, and what was displaced of it (SIREN, §2.1, §3.1).
//!
//! Invariants, from `docs/protocols/pictures.md`:
//! - A map serves one picture and does not change, but for its pages' states. So a search in it waits for nothing (E1).
//!   Between pictures it goes on collecting marks.
//! - N13: a map knows its attempt at a picture. Nothing of another attempt is taken or ended.
//! - N7: marks of a map go to every page of the next one that overlaps ([`TablePages::carry_over`]).
//! - N17: pages are cut before their freeze.
//! - E3: a map is followed under a pin, and freed once every pin is newer than its unpublication.
//! - E6: until then it is counted with what else waits for pins.
//!
//! Neighbours: [`loaded`] has the first maps behind a picture that was loaded; `open::pages` publishes maps and takes
//! pages, `open::cut` finds their bounds; commits find a version's page (`commit::displaced`); `pending` has a page's
//! state.

pub(crate) mod loaded;

use std::num::NonZeroUsize;
use std::ptr::NonNull;

use ensile_base::Epoch;
use ensile_base::sync::{Arc, AtomicBool, AtomicPtr, AtomicU64, Mutex, Ordering, fence};
use ensile_durability::PictureAttempt;
use ensile_epoch::{Epochs, GarbageList, Pinned};

use super::padded;
use super::pending::{PageMarks, PageState};

/// Bytes of a bound's slice.
const SLICE_BYTES: usize = size_of::<u64>();
/// Up to this many slices are compared one by one.
const FEW_SLICES: usize = 4;

/// Where pages begin. The first one begins with the empty key.
#[derive(Debug, Default)]
pub(crate) struct PageBounds {
    /// Bytes with which every bound but the first begins, and behind which slices begin: none where a slice has all of
    /// a bound.
    common: Box<[u8]>,
    /// The same as a number, if they are eight or fewer.
    common_number: u64,
    /// Of every bound but the first, the eight bytes behind the common ones, as a number that is ordered as they are.
    slices: Box<[u64]>,
    starts: SliceStarts,
    /// Slices have all of the bounds, and lie evenly: a key of a slice or more is found by them alone.
    are_even: bool,
    /// Every bound but the first, one behind the other.
    keys: Box<[u8]>,
    /// Where each of them ends.
    ends: Box<[usize]>,
}

/// Where a search among slices begins: they are dealt into ranges of equal width, so that a search has few steps where
/// keys lie evenly.
#[derive(Debug, Default)]
struct SliceStarts {
    first: u64,
    /// Bits of a range's width.
    shift: u32,
    /// Of each range, how many slices lie before it; and how many there are.
    starts: Box<[u32]>,
}

impl PageBounds {
    /// Pages that begin with the empty key and with each of `bounds`, which grow.
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

    /// How many pages there are.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.slices.len() + 1
    }

    /// Where the page begins.
    pub(crate) fn lower(&self, page: usize) -> &[u8] {
        debug_assert!(page < self.len());
        if page == 0 { &[] } else { self.bound(page - 1) }
    }

    /// Where the page ends, this bound left out; `None` is the table's end.
    pub(crate) fn upper(&self, page: usize) -> Option<&[u8]> {
        debug_assert!(page < self.len());
        (page < self.slices.len()).then(|| self.bound(page))
    }

    /// One of the bounds that are stored.
    #[inline]
    fn bound(&self, at: usize) -> &[u8] {
        let from = if at == 0 { 0 } else { self.ends[at - 1] };
        &self.keys[from..self.ends[at]]
    }

    /// The key's first bytes beside those with which every bound begins. Most keys have a number's bytes or more.
    #[inline]
    fn compare_with_common(&self, key: &[u8]) -> std::cmp::Ordering {
        let bytes = self.common.len();
        match key.first_chunk() {
            Some(first) if bytes <= 8 => {
                // Shifted by all of its bits where nothing is common.
                let first = u64::from_be_bytes(*first).unbounded_shr(u64::BITS - 8 * bytes as u32);
                first.cmp(&self.common_number)
            }
            _ => key[..key.len().min(bytes)].cmp(&self.common),
        }
    }

    /// How many bounds have a smaller slice.
    #[inline]
    fn below(&self, slice: u64) -> usize {
        let (from, to) = self.starts.around(slice);
        let mut below = from;
        if to - from <= FEW_SLICES {
            while below < to && self.slices[below] < slice {
                below += 1;
            }
        } else {
            // Without branches that depend on the key.
            below += self.slices[from..to].partition_point(|bound| *bound < slice);
        }
        debug_assert_eq!(below, self.slices.partition_point(|bound| *bound < slice));
        below
    }

    /// The page of a key: as many bounds are stored that are not above it.
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

    /// As [`PageBounds::page_of`], of a key that begins with this slice. No bound goes on behind its own, so those of
    /// an equal one are not above the key.
    #[inline(always)]
    fn page_of_slice(&self, slice: u64) -> usize {
        debug_assert!(self.are_even);
        let Some(mut page) = self.starts.begin(slice) else { return self.slices.len() };
        while self.slices.get(page).is_some_and(|bound| *bound <= slice) {
            page += 1;
        }
        page
    }

    /// As [`PageBounds::page_of`], whatever keys and bounds are.
    #[inline(never)]
    fn search(&self, key: &[u8]) -> usize {
        let slice = if self.common.is_empty() {
            slice_of(key)
        } else {
            match self.compare_with_common(key) {
                // Also if the key ends within the common bytes: what they begin is above it.
                std::cmp::Ordering::Less => return 0,
                std::cmp::Ordering::Greater => return self.slices.len(),
                std::cmp::Ordering::Equal => slice_of(&key[self.common.len()..]),
            }
        };
        let below = self.below(slice);
        if self.slices.get(below) == Some(&slice) { self.page_among(below, key) } else { below }
    }

    /// As [`PageBounds::page_of`], of a key whose slice is that of the bounds from `low` on. Equal slices say nothing:
    /// bounds may differ behind them, or in zeros at their ends.
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
    /// Of these slices, which grow: about as many ranges as there are slices.
    fn new(slices: &[u64]) -> Self {
        let (Some(&first), Some(&last)) = (slices.first(), slices.last()) else { return Self::default() };
        let range_bits = u64::BITS - (last - first).leading_zeros();
        // Below a word's bits: a range of all of them has two slices or more.
        let shift = range_bits.saturating_sub(slices.len().ilog2());
        let ranges = (last - first).wrapping_shr(shift) + 1;
        let start =
            |range: u64| slices.partition_point(|slice| (slice - first).wrapping_shr(shift) < range) as u32;
        Self { first, shift, starts: (0..=ranges).map(start).collect() }
    }

    /// Whether no range has more slices than are compared one by one.
    fn are_few(&self) -> bool {
        self.starts.array_windows().all(|[from, to]| (to - from) as usize <= FEW_SLICES)
    }

    /// How many slices lie below the range of this one; `None`: it is above all of them.
    #[inline(always)]
    fn begin(&self, slice: u64) -> Option<usize> {
        let Some(behind) = slice.checked_sub(self.first) else { return Some(0) };
        self.starts.get(behind.wrapping_shr(self.shift) as usize).map(|begin| *begin as usize)
    }

    /// Between which places the slices are among which this one belongs: those of its range, and none if it is below
    /// all ranges, or above.
    #[inline]
    fn around(&self, slice: u64) -> (usize, usize) {
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

/// A key's first eight bytes, with zeros behind its end, as a number: of two keys the smaller one never has the larger
/// number.
#[inline]
fn slice_of(key: &[u8]) -> u64 {
    match (key.first_chunk(), key.first_chunk(), key.last_chunk()) {
        (Some(all), _, _) => u64::from_be_bytes(*all),
        (None, Some(head), Some(tail)) => {
            // Two loads that overlap: both put the same bytes in the same places.
            let tail = u64::from(u32::from_be_bytes(*tail)) << (u64::BITS as usize - 8 * key.len());
            u64::from(u32::from_be_bytes(*head)) << 32 | tail
        }
        _ => u64::from_be_bytes(padded(key)),
    }
}

/// Eight bytes or fewer as a number.
fn number_of(bytes: &[u8]) -> u64 {
    debug_assert!(bytes.len() <= 8);
    bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// What stands for an attempt where a picture was loaded: those of this life come behind it.
pub(crate) const LOADED: PictureAttempt = PictureAttempt::new(1);

/// An attempt at a picture, as all of its maps know it: under way, or over.
#[derive(Debug)]
pub(crate) struct PictureOfMaps {
    attempt: PictureAttempt,
    since: Epoch,
    is_over: AtomicBool,
}

impl PictureOfMaps {
    /// An attempt at the picture behind the newest freeze, which is `since`.
    pub(crate) fn new(attempt: PictureAttempt, since: Epoch) -> Arc<Self> {
        Arc::new(Self { attempt, since, is_over: AtomicBool::new(false) })
    }

    /// What first maps are of, behind a picture that was loaded: nothing is left to them. `since` is the newest freeze.
    pub(crate) fn of_loaded(since: Epoch) -> Arc<Self> {
        Arc::new(Self { attempt: LOADED, since, is_over: AtomicBool::new(true) })
    }

    /// The attempt has ended: maps that are made from now on have no open page, and those that are open are closed from
    /// now on.
    pub(crate) fn end(&self) {
        // Relaxed: a table is added, and pages are closed, under locks under which this is called. A checkpointer that
        // misses it closes its own page, which is whole, and sees it at its next one (N13).
        self.is_over.store(true, Ordering::Relaxed);
    }

    fn is_over(&self) -> bool {
        // Relaxed: as in `end`.
        self.is_over.load(Ordering::Relaxed)
    }
}

/// A table's pages in one picture.
#[derive(Debug)]
pub(crate) struct PageMap {
    picture: Arc<PictureOfMaps>,
    /// The picture's: commits ask for it with each key.
    since: Epoch,
    bounds: PageBounds,
    states: Box<[PageState]>,
}

/// Which map. Maps that are followed under one pin have different ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MapAddress(NonZeroUsize);

impl PageMap {
    /// A map for this attempt at a picture, all of whose pages have these marks.
    pub(crate) fn new(picture: &Arc<PictureOfMaps>, bounds: PageBounds, marks: PageMarks) -> Self {
        let states: Box<[PageState]> = (0..bounds.len()).map(|_| PageState::new(marks)).collect();
        debug_assert_eq!(states.len(), bounds.len(), "each page has a state");
        Self { picture: Arc::clone(picture), since: picture.since, bounds, states }
    }

    /// The map of a table that is added: one page, which is in no picture yet. So the first one that deals pages out
    /// behind this writes it. If the attempt is over the page is closed, as all others are.
    pub(crate) fn of_added_table(picture: &Arc<PictureOfMaps>) -> Self {
        let map = Self::new(picture, PageBounds::default(), PageMarks::BOTH);
        if picture.is_over() {
            let ((), list) = map.page(0).close_behind(|| ());
            debug_assert!(list.is_some_and(|list| list.is_empty()), "nobody has left anything there");
        }
        map
    }

    /// The newest freeze when the map was published. Its picture's freeze is above.
    #[inline]
    pub(crate) fn since(&self) -> Epoch {
        self.since
    }

    /// Whose map it is.
    pub(crate) fn attempt(&self) -> PictureAttempt {
        self.picture.attempt
    }

    /// Whether that has ended. If not by now, it may at any time.
    pub(crate) fn is_over(&self) -> bool {
        self.picture.is_over()
    }

    /// Where pages begin.
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

    /// Marks every page that overlaps one of `before` with any of these marks: its rows have changed below the freeze
    /// of this map's picture (N7).
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

    /// Bytes of memory that it takes.
    pub(crate) fn bytes(&self) -> usize {
        let PageBounds { common, slices, starts, keys, ends, common_number: _, are_even: _ } = &self.bounds;
        debug_assert_eq!(slices.len(), ends.len(), "each bound has its slice and its end");
        let slices = size_of_val(&**slices) + size_of_val(&*starts.starts);
        let bounds = common.len() + slices + keys.len() + size_of_val(&**ends);
        size_of::<Self>() + bounds + size_of_val(&*self.states)
    }

    /// Which map it is.
    #[inline]
    pub(crate) fn address(&self) -> MapAddress {
        MapAddress(NonNull::from(self).addr())
    }
}

/// The maps of all tables that wait for pins (E6).
#[derive(Debug, Default)]
pub(crate) struct WaitingMaps {
    count: AtomicU64,
    bytes: AtomicU64,
    /// Bytes that ever began to wait.
    made_bytes: AtomicU64,
}

impl WaitingMaps {
    /// How many there are.
    pub(crate) fn count(&self) -> u64 {
        // Relaxed: a figure.
        self.count.load(Ordering::Relaxed)
    }

    /// Their bytes.
    pub(crate) fn bytes(&self) -> u64 {
        // Relaxed: a figure.
        self.bytes.load(Ordering::Relaxed)
    }

    /// Bytes of all that ever waited.
    pub(crate) fn made_bytes(&self) -> u64 {
        // Relaxed: a figure.
        self.made_bytes.load(Ordering::Relaxed)
    }

    fn add(&self, map: &PageMap) {
        let bytes = map.bytes() as u64;
        // Relaxed, all: figures. The lock under which maps are freed orders them behind their addition.
        self.count.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.made_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    fn remove(&self, map: &PageMap) {
        let bytes = map.bytes() as u64;
        // Relaxed, both: figures.
        let before = self.count.fetch_sub(1, Ordering::Relaxed);
        let bytes_before = self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        debug_assert!(before >= 1 && bytes_before >= bytes, "what is freed was counted");
    }
}

/// Where commits find a table's map, from the first picture on, or the load of one.
#[derive(Debug)]
pub(crate) struct TablePages {
    /// Null while there is none.
    map: AtomicPtr<PageMap>,
    waiting: Arc<WaitingMaps>,
    replaced: Mutex<ReplacedMaps>,
}

/// Maps that are no longer published.
#[derive(Debug, Default)]
struct ReplacedMaps {
    /// The one before the map that is published, until its marks are carried over: commits may still mark it.
    before: Option<UnpublishedMap>,
    /// The others, until no pin reaches them.
    unpublished: GarbageList<UnpublishedMap>,
}

/// A map that is no longer published. Not to be copied: it is freed once.
#[derive(Debug)]
struct UnpublishedMap(NonNull<PageMap>);

// SAFETY: a map is shared between threads anyway, and nothing of it belongs to one.
unsafe impl Send for UnpublishedMap {}

impl TablePages {
    /// With this map from the beginning. Maps that wait for pins are counted there.
    pub(crate) fn new(map: Option<PageMap>, waiting: &Arc<WaitingMaps>) -> Self {
        let map = map.map_or(std::ptr::null_mut(), |map| Box::into_raw(Box::new(map)));
        Self { map: AtomicPtr::new(map), waiting: Arc::clone(waiting), replaced: Mutex::default() }
    }

    /// The map, if a picture was loaded or has begun since the open. It stands while the pin and the table do (E3).
    #[inline(always)]
    pub(crate) fn load<'m>(&'m self, _pinned: Pinned<'m>) -> Option<&'m PageMap> {
        // Acquire: the map is complete; partner: the Release in `publish`.
        let map = self.map.load(Ordering::Acquire);
        // SAFETY: what is published is a whole map that is never written as a whole again. It is freed once every pin
        // is newer than its unpublication, or together with `self`, which is borrowed (E3).
        unsafe { map.as_ref() }
    }

    /// Publishes a map for a picture that begins. If that carries marks over, the one before is kept until then.
    pub(crate) fn publish(&self, map: PageMap, is_carried_over: bool, epochs: &Epochs) {
        debug_assert!(
            map.since() <= epochs.newest_freeze(),
            "its picture's freeze is yet to be announced (N1)"
        );
        // Release: the map is complete; partner: the Acquire in `load`. Acquire: what was published is ours to free.
        let before = self.map.swap(Box::into_raw(Box::new(map)), Ordering::AcqRel);
        let before = NonNull::new(before).map(UnpublishedMap);
        let mut replaced = self.replaced.lock();
        // Of an attempt that has ended before its marks were carried over.
        let older = replaced.before.take();
        if is_carried_over {
            assert!(older.is_none(), "marks are carried over from a map that has all of them (N7, N13)");
            replaced.before = before;
        } else {
            older.into_iter().chain(before).for_each(|map| self.wait_for_pins(&mut replaced, map, epochs));
        }
    }

    /// Carries marks of the map before over to the one that is published, and lets that go. Every commit that may have
    /// it has ended (N7). Only a table that was added since has none.
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
            // SAFETY: `publish` or `new` has made it from a box, and it waits for no pins yet, so nobody frees it.
            map.mark_from(unsafe { before.0.as_ref() }, marks);
        }
        self.wait_for_pins(&mut replaced, before, epochs);
    }

    fn wait_for_pins(&self, replaced: &mut ReplacedMaps, map: UnpublishedMap, epochs: &Epochs) {
        // SeqCst: the map was unpublished before the tag's epoch is read (E3); partner: the heavy fence of the scan.
        fence(Ordering::SeqCst);
        // SAFETY: `publish` or `new` has made it from a box, and nobody frees it before the lock is given back.
        self.waiting.add(unsafe { map.0.as_ref() });
        replaced.unpublished.push(epochs.now(), map);
    }

    /// Frees maps that no pin reaches any more. True if none is left to free. `epochs` are the database's own.
    pub(crate) fn collect(&self, epochs: &Epochs) -> bool {
        self.collect_below(epochs.limits().pins())
    }

    /// Frees all maps that are unpublished and wait for no marks: nobody uses the database any more.
    #[cfg(feature = "audit")]
    pub(crate) fn collect_at_rest(&self, _at_rest: &super::at_rest::AtRest<'_>) {
        self.collect_below(Epoch::MAX);
    }

    /// Whether commits may still leave versions to a page of the published map.
    #[cfg(feature = "audit")]
    pub(crate) fn has_open_pages(&self, _at_rest: &super::at_rest::AtRest<'_>) -> bool {
        // SAFETY: nobody uses the database any more, so nobody frees the map before its table.
        let map = self.load(unsafe { Pinned::assume() });
        map.is_some_and(|map| map.pages().iter().any(|page| !page.is_closed()))
    }

    /// Frees maps whose tag is below this limit, which no pin is.
    fn collect_below(&self, limit: Epoch) -> bool {
        let ReplacedMaps { unpublished, .. } = &mut *self.replaced.lock();
        while let Some(UnpublishedMap(map)) = unpublished.pop_below(limit) {
            // SAFETY: `publish` or `new` has made it from a box, and every pin is newer than its unpublication (E3).
            let map = unsafe { Box::from_raw(map.as_ptr()) };
            self.waiting.remove(&map);
        }
        unpublished.is_empty()
    }
}

impl Drop for TablePages {
    fn drop(&mut self) {
        // Relaxed: nobody else has the table.
        let published = NonNull::new(self.map.load(Ordering::Relaxed)).map(UnpublishedMap);
        let ReplacedMaps { before, unpublished } = &mut *self.replaced.lock();
        let waiting = std::iter::from_fn(|| unpublished.pop_below(Epoch::MAX));
        for UnpublishedMap(map) in waiting.chain(before.take()).chain(published) {
            // SAFETY: `publish` or `new` has made it from a box. Who follows a map borrows `self`, so nobody does.
            drop(unsafe { Box::from_raw(map.as_ptr()) });
        }
    }
}

#[cfg(all(test, loom))]
mod loom_tests;
#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
