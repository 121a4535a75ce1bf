//! The part of the hash table that only serves persistence: SLACH's three call-backs, and the log call.
//!
//! Invariant: O7: a bucket's lock is held over the log call and the change, and over the bytes and their `ckpt`.
//!
//! Neighbours: [`super::table`] has the buckets; `ensile-objects` calls back.

use ensile_objects::{
    Application, ApplicationLog, CallBackResult, Epoch, ObjectReceipt, ObjectWriter, ObjectsResult, Parts,
};

use super::table::{PhtBuckets, PhtChange};

const SET: u32 = 1;
const DELETE: u32 = 2;
const ADD: u32 = 3;

/// Logs a change of a bucket. The caller holds the bucket's lock, makes the change afterwards, and rests its reply on
/// the receipt.
pub(super) fn log<'l>(log: &'l ApplicationLog, change: PhtChange<'_>) -> ObjectsResult<ObjectReceipt<'l>> {
    let (number, key) = (change.key().bucket, change.key().bytes);
    match change {
        PhtChange::Set(_, value) => log.log(number, SET, &[key, value]),
        PhtChange::Delete(_) => log.log(number, DELETE, &[key]),
        PhtChange::Add(_, by) => log.log(number, ADD, &[key, &by.to_le_bytes()]),
    }
}

impl Application for PhtBuckets {
    fn checkpoint(&self, from: u64, out: &mut ObjectWriter<'_>) -> Option<u64> {
        self.guarded.checkpoint(from, out, |bucket, bytes| {
            bucket.iter().for_each(|(key, value)| Parts::put(bytes, &[key, value]));
            // A bucket that never had an element has no operation either.
            !bucket.slots.is_empty()
        })
    }

    fn slice_starts(&self, parts: usize) -> Vec<u64> {
        self.guarded.slice_starts(parts)
    }

    fn load_one(&self, object: u64, bytes: &[u8]) -> CallBackResult {
        let mut parts = Parts::new(bytes);
        while let Some(key) = parts.next() {
            let value = parts.next().ok_or("a bucket ends within an element")??;
            redo(self, object, PhtChange::Set(self.key(key?), value))?;
        }
        Ok(())
    }

    fn replay_one(&self, object: u64, operation: u32, parameters: &[&[u8]]) -> CallBackResult {
        match (operation, parameters) {
            (SET, [key, value]) => redo(self, object, PhtChange::Set(self.key(key), value)),
            (DELETE, [key]) => redo(self, object, PhtChange::Delete(self.key(key))),
            (ADD, [key, by]) => {
                let by = (*by).try_into().map_err(|_| "a sum is of eight bytes")?;
                redo(self, object, PhtChange::Add(self.key(key), i64::from_le_bytes(by)))
            }
            _ => Err("no such operation on a bucket".into()),
        }
    }
}

/// Makes a change again that was logged, or stands in a checkpoint. If the change panics again, the bucket is poisoned
/// again, and the other buckets are served (O6).
fn redo(buckets: &PhtBuckets, number: u64, change: PhtChange<'_>) -> CallBackResult {
    buckets.guarded.replay(number, |bucket| {
        let more = bucket.apply(change).filter(|_| change.key().bucket == number);
        buckets.elements.add(more.ok_or("it is no change of this bucket")?, Epoch::ZERO);
        Ok(())
    })
}
