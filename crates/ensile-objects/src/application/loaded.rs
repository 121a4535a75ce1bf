//! Which operations an application's loaded objects include, while they are recovered.
//!
//! An object's entry in the checkpoint has a TID, and the operations up to it are not replayed. The objects have no
//! room for it, so TIDs stand here, by number, from the loading of their objects to the end of the recovery.
//!
//! Invariants:
//! - O4: what is asked is answered of each object that was loaded.
//! - There are at most [`BYTES_EACH`] bytes for each object, besides [`LANE_BYTES`] for each lane: a list in the order
//!   of numbers, which has room for few more than there are. A hash map takes twice as many.
//!
//! Neighbours: `recover` fills it, and asks.

use ensile_base::Tid;
use ensile_base::sync::Mutex;

use crate::replay::LANES;

/// Bytes of memory for each object, at most.
pub(super) const BYTES_EACH: usize = 18;
/// Bytes of a lane that has few objects.
const LANE_BYTES: usize = 1024;

/// An object's number, and its TID in the checkpoint.
type LoadedTid = (u64, Tid);

/// A full list gets room for one more of this many.
const ROOM: usize = 8;
const ROOM_LEAST: usize = LANE_BYTES / size_of::<LoadedTid>();
const _: () = assert!(size_of::<LoadedTid>() * (ROOM + 1) <= BYTES_EACH * ROOM);

#[derive(Debug, Default)]
struct LoadedLane {
    tids: Vec<LoadedTid>,
    is_sorted: bool,
}

/// The TIDs of loaded objects, in lanes by their numbers.
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

    /// Whether the object was loaded, with an operation of this TID in it.
    pub(super) fn includes(&self, object: u64, tid: Tid) -> bool {
        let mut lane = self.lane(object).lock();
        lane.sort();
        lane.tid_of(object).is_some_and(|loaded| tid <= loaded)
    }

    /// The first object of a lane that was loaded twice.
    pub(super) fn twice(&self) -> Option<u64> {
        self.lanes.iter().find_map(|lane| {
            let mut lane = lane.lock();
            lane.sort();
            lane.tids.windows(2).find(|two| two[0].0 == two[1].0).map(|two| two[0].0)
        })
    }

    /// The recovery has ended.
    pub(super) fn clear(&self) {
        self.lanes.iter().for_each(|lane| *lane.lock() = LoadedLane::default());
    }
}

impl LoadedLane {
    /// The blocks of a slice come in the order of their objects, those of several slices beside each other.
    fn sort(&mut self) {
        if !self.is_sorted {
            self.tids.sort_unstable();
            self.is_sorted = true;
        }
    }

    fn tid_of(&self, object: u64) -> Option<Tid> {
        // Where the lane's numbers have no gaps it stands here.
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
