//! What exists in the hash table only so that it persists: SLACH's three call-backs, and the log call.
//!
//! Invariant: O7: a bucket's lock is held over the log call and the change, and over the bytes and their `ckpt`.
//!
//! Neighbours: [`super::table`] has the buckets; `ensile-objects` calls back.

use std::panic::{AssertUnwindSafe, catch_unwind};

use ensile_objects::{Application, ApplicationLog, CallBackResult, ObjectWriter, ObjectsResult};

use super::bucket::PhtBucket;
use super::table::{BUCKETS, PhtBuckets, PhtChange};

const SET: u32 = 1;
const DELETE: u32 = 2;
const ADD: u32 = 3;

/// Logs a change of a bucket, whose lock the caller holds. The change is made behind it.
pub(super) fn log(log: &ApplicationLog, bucket: &mut PhtBucket, change: PhtChange<'_>) -> ObjectsResult<()> {
    let (number, key) = (change.key().bucket, change.key().bytes);
    let receipt = match change {
        PhtChange::Set(_, value) => log.log(number, SET, &[key, value])?,
        PhtChange::Delete(_) => log.log(number, DELETE, &[key])?,
        PhtChange::Add(_, by) => log.log(number, ADD, &[key, &by.to_le_bytes()])?,
    };
    bucket.last = receipt.epoch();
    Ok(())
}

impl Application for PhtBuckets {
    fn checkpoint(&self, from: u64, out: &mut ObjectWriter<'_>) -> Option<u64> {
        let mut bytes = Vec::new();
        for number in from..BUCKETS {
            let bucket = match self.lock(number) {
                Ok(bucket) => bucket,
                Err(why) => {
                    out.refuse(why.to_string());
                    return None;
                }
            };
            // One that never had an element has no operation either.
            if bucket.is_unused() {
                continue;
            }
            bytes.clear();
            for part in bucket.iter().flat_map(|(key, value)| [key, value]) {
                bytes.extend_from_slice(&(part.len() as u32).to_le_bytes());
                bytes.extend_from_slice(part);
            }
            if !out.ckpt(number, &bytes) {
                return Some(number + 1);
            }
        }
        None
    }

    fn load_one(&self, object: u64, mut bytes: &[u8]) -> CallBackResult {
        while !bytes.is_empty() {
            let (key, value) = (part(&mut bytes)?, part(&mut bytes)?);
            self.redo(object, PhtChange::Set(self.key(key), value))?;
        }
        Ok(())
    }

    fn replay_one(&self, object: u64, operation: u32, parameters: &[&[u8]]) -> CallBackResult {
        match (operation, parameters) {
            (SET, [key, value]) => self.redo(object, PhtChange::Set(self.key(key), value)),
            (DELETE, [key]) => self.redo(object, PhtChange::Delete(self.key(key))),
            (ADD, [key, by]) => {
                let by = (*by).try_into().map_err(|_| "a sum is of eight bytes")?;
                self.redo(object, PhtChange::Add(self.key(key), i64::from_le_bytes(by)))
            }
            _ => Err("no such operation on a bucket".into()),
        }
    }
}

impl PhtBuckets {
    /// Makes a change again that was logged, or stands in a checkpoint. If it panics again the bucket is poisoned again,
    /// and the others are served (O6).
    fn redo(&self, number: u64, change: PhtChange<'_>) -> CallBackResult {
        let Ok(mut bucket) = self.lock(change.key().bucket) else { return Ok(()) };
        let made = || self.change(&mut bucket, |bucket| bucket.apply(change));
        let Ok(more) = catch_unwind(AssertUnwindSafe(made)) else { return Ok(()) };
        let more = more.filter(|_| change.key().bucket == number).ok_or("it is no change of this bucket")?;
        self.count(more, bucket.last);
        Ok(())
    }
}

/// The next part of a bucket's bytes: its length, then itself.
fn part<'b>(bytes: &mut &'b [u8]) -> Result<&'b [u8], &'static str> {
    let (length, behind) = bytes.split_first_chunk().ok_or("a bucket ends within a length")?;
    let length = u32::from_le_bytes(*length) as usize;
    let (part, behind) = behind.split_at_checked(length).ok_or("a bucket ends within an element")?;
    *bytes = behind;
    Ok(part)
}
