//! The walk of a checkpoint over all objects, one at a time, each under its own lock (SLACH §3.3).
//!
//! Invariants:
//! - O2: an object that is not there is written as absent if its last operation's epoch is not below e_l. Otherwise its
//!   cell goes: no checkpoint and no later operation needs its TID.
//! - O6: the walk fails at a poisoned object: what it was is in the log only.
//!
//! Neighbours: a checkpointer calls in, a block at a time; `crate::pieces` has its place, `shards` the objects.

use std::panic::{AssertUnwindSafe, catch_unwind};

use ensile_base::limits::OBJECT_BYTES_MAX;
use ensile_base::{Epoch, Tid};
use ensile_durability::{CheckpointBlock, Slice, Walk};

use super::ObjectsState;
use super::persistent::{ObjectKey, Persistent};
use super::shards::{ObjectCell, SHARDS};
use crate::pieces::WalkPlace;

/// Cells that are looked at between two looks into a shard.
const TOGETHER: usize = if cfg!(shuttle) { 2 } else { 256 };

/// What a walk writes of a cell.
enum WalkedObject {
    Nothing,
    Absent(Tid),
    /// Its bytes are in the buffer.
    Whole(Tid),
}

impl<K: ObjectKey, T: Persistent> Walk for ObjectsState<K, T> {
    fn slices(&self, parts: usize) -> Vec<Vec<Slice>> {
        *self.refusal.lock() = None;
        let bound = |part: usize| Box::<[u8]>::from(((part * SHARDS / parts) as u32).to_le_bytes());
        let slice = |part| Slice { section: 0, from: bound(part), to: Some(bound(part + 1)) };
        (0..parts).map(|part| vec![slice(part)]).collect()
    }

    fn walk(&self, slice: &Slice, resume: &mut Vec<u8>, low: Epoch, block: &mut CheckpointBlock) -> bool {
        let end = slice.to.as_deref().map_or(SHARDS, shard_of);
        let mut place = WalkPlace::of(resume, (shard_of(&slice.from) as u64) << 32);
        if !place.push_waiting(block) {
            return true;
        }
        let (mut key, mut object) = (Vec::new(), Vec::new());
        loop {
            let (shard, number) = ((place.next() >> 32) as usize, place.next() as u32);
            if shard >= end {
                return false;
            }
            let cells = self.shards.from(shard, number, TOGETHER);
            let Some((last, _)) = cells.last() else {
                place.set_next((shard as u64 + 1) << 32);
                continue;
            };
            let behind = place.next() + u64::from(last - number) + 1;
            for (number, cell) in &cells {
                key.clear();
                cell.key.encode(&mut key);
                let here = (shard as u64) << 32 | u64::from(*number);
                match self.look(cell, low, &mut object) {
                    Err(why) => {
                        *self.refusal.lock() = Some(why);
                        return false;
                    }
                    Ok(WalkedObject::Nothing) => {}
                    Ok(WalkedObject::Absent(tid)) => {
                        place.set_next(here + 1);
                        if !place.push_absent(block, tid, &key) {
                            return true;
                        }
                    }
                    Ok(WalkedObject::Whole(tid)) => {
                        place.set_next(here + 1);
                        if !place.push(block, tid, (T::VERSION, &key), &object) {
                            return true;
                        }
                    }
                }
            }
            place.set_next(behind);
        }
    }

    fn refusal(&self) -> Option<String> {
        self.refusal.lock().clone()
    }
}

impl<K: ObjectKey, T: Persistent> ObjectsState<K, T> {
    /// Looks at a cell under its lock, and puts its object's bytes into the buffer.
    fn look(&self, cell: &ObjectCell<K, T>, low: Epoch, bytes: &mut Vec<u8>) -> Result<WalkedObject, String> {
        // An operation that is logged and not applied yet holds this lock.
        let mut state = cell.state.lock();
        if state.is_removed {
            return Ok(WalkedObject::Nothing);
        }
        if state.is_poisoned {
            let why = "is poisoned, as an operation on it panicked: put a whole value or remove it";
            return Err(format!("object {:?} {why}", cell.key));
        }
        let Some(object) = &state.object else {
            if state.tid.epoch() >= low {
                return Ok(WalkedObject::Absent(state.tid));
            }
            self.shards.remove(&cell.key, state.tid.epoch());
            state.is_removed = true;
            return Ok(WalkedObject::Nothing);
        };
        assert!(state.tid > Tid::ZERO, "an object is made by an operation");
        bytes.clear();
        let encode = AssertUnwindSafe(|| object.encode(bytes));
        catch_unwind(encode)
            .map_err(|_| format!("object {:?} could not be encoded: it panicked", cell.key))?;
        if bytes.len() > OBJECT_BYTES_MAX {
            let why = format!("takes {} bytes, above the limit of {OBJECT_BYTES_MAX}", bytes.len());
            return Err(format!("object {:?} {why}", cell.key));
        }
        Ok(WalkedObject::Whole(state.tid))
    }
}

fn shard_of(bound: &[u8]) -> usize {
    let bytes = bound.try_into().expect("a bound is a shard's number");
    u32::from_le_bytes(bytes) as usize
}
