//! TIDs and existence of an application's objects, during a recovery (O4, O10).
//!
//! An object's entry in the checkpoint has a TID, and the operations up to the TID are not replayed. The objects have
//! no room for a TID, so the TIDs stand here, by number. A checkpoint lacks an object that was removed before the walk
//! came, and the log may have operations from before the removal. Marks in the log show the object's absence.
//!
//! ```text
//! operation          the object exists                    the object does not exist
//! creation           replayed                             replayed: from here on the object exists
//! change             replayed                             passed over
//! removal            replayed: from here on it does not   passed over
//! without a mark     replayed                             replayed: from here on the object counts as existing
//! ```
//! The list takes at most [`BYTES_EACH`] bytes for every object, and [`LANE_BYTES`] for every lane: it is in the order
//! of numbers, and has little spare room. A hash map takes twice the memory. An object takes up to 31 further bytes for
//! each hash set that has its number, and a hash set keeps its memory until the recovery ends.
//!
//! Neighbours: `recovery` and `shadow_copy` fill the list, and judge operations by the list.

use std::collections::HashSet;

use ensile_base::sync::Mutex;
use ensile_base::{Epoch, Tid};

use crate::format::ObjectLife;
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
    /// Objects that exist although the checkpoint lacks them.
    made: HashSet<u64>,
    /// Objects that do not exist although the checkpoint has them, or notes their absence.
    gone: HashSet<u64>,
    /// Missing objects with a passed over change, and no removal or creation after the change.
    unremoved: HashSet<u64>,
}

/// Loaded objects, in lanes by their numbers.
#[derive(Debug)]
pub(super) struct LoadedObjects {
    lanes: Box<[Mutex<LoadedLane>]>,
    /// Smallest epoch of a logged operation without a mark.
    unmarked: Mutex<Option<Epoch>>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct LoggedOperation {
    pub(super) object: u64,
    pub(super) tid: Tid,
    /// Mark of the object's life, if the application marked lives.
    pub(super) life: Option<ObjectLife>,
}

/// Decision on a logged operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReplayVerdict {
    Replayed,
    /// The loaded object includes the operation.
    Included,
    /// The object does not exist.
    PassedOver,
}

impl LoadedObjects {
    pub(super) fn new() -> Self {
        Self { lanes: (0..LANES).map(|_| Mutex::default()).collect(), unmarked: Mutex::default() }
    }

    fn lane(&self, object: u64) -> &Mutex<LoadedLane> {
        &self.lanes[object as usize % LANES]
    }

    /// Adds an object whose bytes the checkpoint has.
    pub(super) fn add(&self, object: u64, tid: Tid) {
        self.lane(object).lock().add(object, tid);
    }

    /// Adds an object whose absence the checkpoint notes.
    pub(super) fn add_absent(&self, object: u64, tid: Tid) {
        let mut lane = self.lane(object).lock();
        lane.add(object, tid);
        lane.gone.insert(object);
    }

    /// Notes that the log has an operation without a mark in this epoch.
    pub(super) fn note_unmarked(&self, epoch: Epoch) {
        let mut unmarked = self.unmarked.lock();
        *unmarked = Some(unmarked.map_or(epoch, |known| known.min(epoch)));
    }

    /// Smallest epoch of an operation without a mark. Objects of operations without marks are not listed, so that the
    /// log of an application without marks takes no memory here. An unlisted object therefore counts as existing in the
    /// epochs after this epoch. The marks of these epochs are of a later life: the loaded checkpoint's walk came before
    /// the marks, and no marked operation is on an object that the walk missed.
    pub(super) fn first_unmarked(&self) -> Option<Epoch> {
        *self.unmarked.lock()
    }

    /// Decides on the next operation of an object (O4, O10). `unmarked` is [`first_unmarked`](Self::first_unmarked), at
    /// a time when all operations of the epochs up to this operation's have been read.
    pub(super) fn judge(&self, operation: LoggedOperation, unmarked: Option<Epoch>) -> ReplayVerdict {
        let LoggedOperation { object, tid, life } = operation;
        let mut lane = self.lane(object).lock();
        lane.sort();
        debug_assert!(!lane.made.contains(&object) || !lane.gone.contains(&object), "O10: not both");
        let loaded = lane.tid_of(object);
        if loaded.is_some_and(|loaded| tid <= loaded) {
            return ReplayVerdict::Included;
        }
        let is_listed = loaded.is_some() || unmarked.is_some_and(|first| first < tid.epoch());
        if lane.live(object, life, is_listed) { ReplayVerdict::Replayed } else { ReplayVerdict::PassedOver }
    }

    /// First object of a lane that was loaded twice.
    pub(super) fn twice(&self) -> Option<u64> {
        self.lanes.iter().find_map(|lane| {
            let mut lane = lane.lock();
            lane.sort();
            lane.tids.windows(2).find(|two| two[0].0 == two[1].0).map(|two| two[0].0)
        })
    }

    /// Objects with a passed over change and no removal after the change, in the order of numbers: each was made
    /// without a mark (O10). The log has the removal of every other object, because the walk that missed the object
    /// came after the removal.
    pub(super) fn missing_creations(&self) -> Vec<u64> {
        let mut objects = Vec::new();
        self.lanes.iter().for_each(|lane| objects.extend(&lane.lock().unremoved));
        objects.sort_unstable();
        objects
    }

    /// Releases the memory at the end of the recovery.
    pub(super) fn clear(&self) {
        self.lanes.iter().for_each(|lane| *lane.lock() = LoadedLane::default());
    }
}

impl LoadedLane {
    fn add(&mut self, object: u64, tid: Tid) {
        if self.tids.len() == self.tids.capacity() {
            let room = self.tids.len() / ROOM;
            self.tids.reserve_exact(room.max(ROOM_LEAST));
        }
        self.tids.push((object, tid));
        self.is_sorted = false;
        debug_assert!(self.tids.capacity() <= self.tids.len() + ROOM_LEAST.max(self.tids.len() / ROOM));
    }

    /// Takes an operation's effect on the existence of its object. Returns false if the operation is passed over. An
    /// object with neither `made` nor `gone` exists if `is_known`.
    fn live(&mut self, object: u64, life: Option<ObjectLife>, is_known: bool) -> bool {
        let is_gone = !self.gone.is_empty() && self.gone.contains(&object);
        let exists = !is_gone && (is_known || self.made.contains(&object));
        let is_replayed = match life {
            None | Some(ObjectLife::Creation) => {
                if is_gone {
                    self.gone.remove(&object);
                }
                if life.is_some() {
                    // A creation sets the whole state.
                    self.unremoved.remove(&object);
                    if !is_known {
                        self.made.insert(object);
                    }
                }
                true
            }
            Some(ObjectLife::Change) => {
                if !exists {
                    self.unremoved.insert(object);
                }
                exists
            }
            Some(ObjectLife::Removal) => {
                self.unremoved.remove(&object);
                self.made.remove(&object);
                if exists && is_known {
                    self.gone.insert(object);
                }
                exists
            }
        };
        debug_assert!(
            life.is_none_or(|life| {
                let exists_now = !self.gone.contains(&object) && (is_known || self.made.contains(&object));
                exists_now == (life == ObjectLife::Creation || life == ObjectLife::Change && exists)
            }),
            "O10: a creation makes the object, a removal ends it, and a change leaves it"
        );
        is_replayed
    }

    /// Sorts the lane: blocks of a slice come in the order of their objects, blocks of several slices interleaved.
    fn sort(&mut self) {
        if !self.is_sorted {
            self.tids.sort_unstable();
            self.is_sorted = true;
        }
        debug_assert!(self.tids.first() <= self.tids.last());
    }

    fn tid_of(&self, object: u64) -> Option<Tid> {
        debug_assert!(self.is_sorted, "a search needs the order of numbers");
        // Place of the object if the lane's numbers have no gaps.
        let (first, _) = *self.tids.first()?;
        let guess = usize::try_from(object.checked_sub(first)? / LANES as u64).ok()?;
        if let Some((_, tid)) = self.tids.get(guess).filter(|(number, _)| *number == object) {
            debug_assert!(self.tids.binary_search(&(object, *tid)).is_ok(), "O4: a search finds the TID too");
            return Some(*tid);
        }
        let at = self.tids.binary_search_by_key(&object, |(number, _)| *number).ok()?;
        Some(self.tids[at].1)
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
