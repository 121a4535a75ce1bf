//! The place where commits find the map of a table's pages, and the life of maps.
//!
//! Invariants, from `docs/internals/protocols/pictures.md`:
//! - N7: Marks of a replaced map are carried over to the published map ([`TablePages::carry_over`]).
//! - E3: Code follows a map under a pin. A map is freed once every pin is newer than the map's unpublication.
//! - E6: Until the free, the map counts as garbage that waits for pins.
//!
//! Neighbours: `page_map` has the maps; `checkpoint::pages` publishes maps and takes pages; `tables::logged_tables`
//! makes the value with the first map of a table.

use std::ptr::NonNull;

use ensile_base::Epoch;
use ensile_base::sync::{Arc, AtomicPtr, AtomicU64, Mutex, Ordering, fence};
use ensile_epoch::{Epochs, GarbageList, Pinned};

use super::page_map::PageMap;
use super::pending_removes::PageMarks;

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
                map.is_some_and(|map| map.bounds().len() == 1 && map.page(0).has_any(PageMarks::BEFORE)),
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
    pub(crate) fn collect_at_rest(&self, _at_rest: &crate::record::block_audit::AtRest<'_>) {
        self.collect_below(Epoch::MAX);
    }

    /// True if commits may still leave versions to a page of the published map.
    #[cfg(feature = "audit")]
    pub(crate) fn has_open_pages(&self, _at_rest: &crate::record::block_audit::AtRest<'_>) -> bool {
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
