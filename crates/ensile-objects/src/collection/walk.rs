//! The walk of a checkpoint over the objects, one at a time, under the object's own lock (SLACH §3.3).
//!
//! Invariants:
//! - O2: an absent object is written as absent if its last operation's epoch is not below e_l. Otherwise its cell is
//!   removed: no checkpoint and no later operation needs the TID.
//! - O6: the walk fails at a poisoned object: only the log has the object's state.
//!
//! Neighbours: a checkpointer calls, a block at a time; `crate::chunks` has the walk's place, `shards` the objects.

use std::panic::{AssertUnwindSafe, catch_unwind};

use ensile_base::limits::{KEY_BYTES_MAX, OBJECT_BYTES_MAX};
use ensile_base::{Epoch, Tid};
use ensile_durability::{CheckpointBlock, Slice, UserCode, Walk};

use super::cell::ObjectCell;
use super::persistent::{ObjectKey, Persistent};
use super::shards::{CellPlace, SHARDS};
use super::state::ObjectsState;
use crate::chunks::WalkPlace;
use crate::format::ObjectBody;

/// Number of cells between two looks into a shard.
const TOGETHER: u32 = if cfg!(shuttle) { 2 } else { 256 };

/// Number of cells between a prefetched cell and the cell being read: most cells were last used long ago.
const FETCHED_AHEAD: u32 = 16;

impl CellPlace {
    fn first_of(shard: usize) -> Self {
        Self { shard, number: 0 }
    }

    /// Place with this number in a walk.
    fn of_walk(number: u64) -> Self {
        debug_assert!(number >> 32 <= SHARDS as u64, "the end of a walk is behind the last shard");
        Self { shard: (number >> 32) as usize, number: number as u32 }
    }

    /// Number in a walk, which visits the cells in the order of these numbers.
    fn in_walk(self) -> u64 {
        (self.shard as u64) << 32 | u64::from(self.number)
    }
}

impl<K: ObjectKey, T: Persistent> Walk for ObjectsState<K, T> {
    fn slices(&self, parts: usize) -> Vec<Vec<Slice>> {
        *self.refusal.lock() = None;
        assert!(parts > 0, "a checkpoint has checkpointers");
        let bound = |part: usize| Box::<[u8]>::from(((part * SHARDS / parts) as u32).to_le_bytes());
        let slice = |part| Slice { section: 0, from: bound(part), to: Some(bound(part + 1)) };
        (0..parts).map(|part| vec![slice(part)]).collect()
    }

    fn walk(&self, slice: &Slice, resume: &mut Vec<u8>, low: Epoch, block: &mut CheckpointBlock) -> bool {
        let _user_code = UserCode::begin();
        let end = slice.to.as_deref().map_or(SHARDS, shard_of);
        let mut place = WalkPlace::from_bytes(resume, CellPlace::first_of(shard_of(&slice.from)).in_walk());
        assert!(shard_of(&slice.from) <= end && end <= SHARDS, "slices ascend");
        if !place.push_waiting(block) {
            return true;
        }
        let (mut key, mut object) = (Vec::new(), Vec::new());
        loop {
            let CellPlace { shard, number } = CellPlace::of_walk(place.next());
            if shard >= end {
                return false;
            }
            let mut behind = None;
            let mut ahead = self.shards.from(shard, number.saturating_add(FETCHED_AHEAD), TOGETHER);
            for (number, cell) in self.shards.from(shard, number, TOGETHER) {
                ahead.next().into_iter().for_each(|(_, later)| prefetch(later));
                let here = CellPlace { shard, number };
                let next = here.in_walk() + 1;
                debug_assert!(next > place.next(), "a walk comes to each cell once");
                behind = Some(next);
                match self.look(cell, here, low, &mut key, &mut object) {
                    Err(why) => {
                        *self.refusal.lock() = Some(why);
                        return false;
                    }
                    Ok(None) => {}
                    Ok(Some((tid, entry))) => {
                        place.set_next(next);
                        if !place.push(block, tid, &entry) {
                            return true;
                        }
                    }
                }
            }
            place.set_next(behind.unwrap_or(CellPlace::first_of(shard + 1).in_walk()));
        }
    }

    fn refusal(&self) -> Option<String> {
        self.refusal.lock().clone()
    }

    fn applied_nanos(&self) -> Option<u64> {
        Some(self.applied.total())
    }
}

impl<K: ObjectKey, T: Persistent> ObjectsState<K, T> {
    /// Looks at a cell under its lock. Returns the entry of its object, if there is one to write, with the bytes of key
    /// and object in the buffers.
    fn look<'b>(
        &self,
        cell: &ObjectCell<K, T>,
        place: CellPlace,
        low: Epoch,
        key_bytes: &'b mut Vec<u8>,
        bytes: &'b mut Vec<u8>,
    ) -> Result<Option<(Tid, ObjectBody<'b>)>, String> {
        // An operation between its log entry and its change holds this lock.
        let mut state = cell.lock();
        let Some(key) = &state.key else { return Ok(None) };
        if state.is_poisoned {
            let why = "is poisoned, as an operation on it panicked: put a whole value or remove it";
            return Err(format!("object {key:?} {why}"));
        }
        if state.object.is_none() && state.tid.epoch() < low {
            self.shards.remove(place, &mut state);
            return Ok(None);
        }
        key_bytes.clear();
        bytes.clear();
        let encode = AssertUnwindSafe(|| {
            key.encode(key_bytes);
            state.object.iter().for_each(|object| object.encode(bytes));
        });
        catch_unwind(encode).map_err(|_| format!("object {key:?} could not be encoded: it panicked"))?;
        if key_bytes.len() > KEY_BYTES_MAX {
            let why = format!("has a key of {} bytes, above the limit of {KEY_BYTES_MAX}", key_bytes.len());
            return Err(format!("object {key:?} {why}"));
        }
        if state.object.is_none() {
            return Ok(Some((state.tid, ObjectBody::absent(key_bytes))));
        }
        assert!(state.tid > Tid::ZERO, "an object is made by an operation");
        if bytes.len() > OBJECT_BYTES_MAX {
            let why = format!("takes {} bytes, above the limit of {OBJECT_BYTES_MAX}", bytes.len());
            return Err(format!("object {key:?} {why}"));
        }
        Ok(Some((state.tid, ObjectBody::whole(T::VERSION, key_bytes, bytes))))
    }
}

/// Prefetches the parts of a cell that a walk soon reads. A cell in use is skipped: its memory is near.
fn prefetch<K: ObjectKey, T: Persistent>(cell: &ObjectCell<K, T>) {
    let Some(state) = cell.try_lock() else { return };
    // A hint that panics is dropped; nothing was changed.
    let _ = catch_unwind(AssertUnwindSafe(|| {
        state.key.iter().for_each(ObjectKey::prefetch);
        state.object.iter().for_each(Persistent::prefetch);
    }));
}

fn shard_of(bound: &[u8]) -> usize {
    let bytes = bound.try_into().expect("a bound is a shard's number");
    u32::from_le_bytes(bytes) as usize
}
