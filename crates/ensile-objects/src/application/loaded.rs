//! TIDs of an application's loaded objects, during a recovery.
//!
//! An object's entry in the checkpoint has a TID, and the operations up to the TID are not replayed. The objects have
//! no room for a TID, so the TIDs stand here, by number, from the loading of the objects to the end of the recovery.
//!
//! Invariants:
//! - O4: the TID of every loaded object is found.
//! - The list takes at most [`BYTES_EACH`] bytes for every object, and [`LANE_BYTES`] for every lane: the list is in
//!   the order of numbers, and has little spare room. A hash map takes twice the memory.
//!
//! Neighbours: `recover` fills the list, and asks.

use ensile_base::Tid;
use ensile_base::sync::Mutex;

use crate::replay::LANES;

/// Largest memory for an object in bytes.
pub(super) const BYTES_EACH: usize = 18;
/// Memory of a lane with few objects, in bytes.
const LANE_BYTES: usize = 1024;

/// Number of an object, and its TID in the checkpoint.
type LoadedTid = (u64, Tid);

/// Growth divisor of a full list.
const ROOM: usize = 8;
const ROOM_LEAST: usize = LANE_BYTES / size_of::<LoadedTid>();
const _: () = assert!(size_of::<LoadedTid>() * (ROOM + 1) <= BYTES_EACH * ROOM);

#[derive(Debug, Default)]
struct LoadedLane {
    tids: Vec<LoadedTid>,
    is_sorted: bool,
}

/// TIDs of loaded objects, in lanes by their numbers.
#[derive(Debug)]
pub(super) struct LoadedTids {
    lanes: Box<[Mutex<LoadedLane>]>,
}

impl LoadedTids {
    pub(super) fn new() -> Self {
        Self { lanes: (0..LANES).map(|_| Mutex::default()).collect() }
    }

    fn lane(&self, object: u64) -> &Mutex<LoadedLane> {
        &self.lanes[object as usize % LANES]
    }

    pub(super) fn add(&self, object: u64, tid: Tid) {
        let mut lane = self.lane(object).lock();
        if lane.tids.len() == lane.tids.capacity() {
            let room = lane.tids.len() / ROOM;
            lane.tids.reserve_exact(room.max(ROOM_LEAST));
        }
        lane.tids.push((object, tid));
        lane.is_sorted = false;
    }

    /// True if the loaded object includes the operation with this TID.
    pub(super) fn includes(&self, object: u64, tid: Tid) -> bool {
        let mut lane = self.lane(object).lock();
        lane.sort();
        lane.tid_of(object).is_some_and(|loaded| tid <= loaded)
    }

    /// First object of a lane that was loaded twice.
    pub(super) fn twice(&self) -> Option<u64> {
        self.lanes.iter().find_map(|lane| {
            let mut lane = lane.lock();
            lane.sort();
            lane.tids.windows(2).find(|two| two[0].0 == two[1].0).map(|two| two[0].0)
        })
    }

    /// Releases the memory at the end of the recovery.
    pub(super) fn clear(&self) {
        self.lanes.iter().for_each(|lane| *lane.lock() = LoadedLane::default());
    }
}

impl LoadedLane {
    /// Sorts the lane: blocks of a slice come in the order of their objects, blocks of several slices interleaved.
    fn sort(&mut self) {
        if !self.is_sorted {
            self.tids.sort_unstable();
            self.is_sorted = true;
        }
    }

    fn tid_of(&self, object: u64) -> Option<Tid> {
        // Place of the object if the lane's numbers have no gaps.
        let (first, _) = *self.tids.first()?;
        let guess = usize::try_from(object.checked_sub(first)? / LANES as u64).ok()?;
        if let Some((_, tid)) = self.tids.get(guess).filter(|(number, _)| *number == object) {
            return Some(*tid);
        }
        let at = self.tids.binary_search_by_key(&object, |(number, _)| *number).ok()?;
        Some(self.tids[at].1)
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
