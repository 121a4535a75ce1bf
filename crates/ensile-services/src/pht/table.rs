//! The table: buckets with a lock each (SLACH §5), and searches for several keys at once.
//!
//! ```text
//! several keys   hash all, ask for their buckets | lock those that are free, ask for slots | ask for elements | show each
//! ```
//! Invariants:
//! - A key's bucket is the same for ever: folders name buckets by their numbers. So a scan goes bucket by bucket, and
//!   shows each element that is there all the while exactly once.
//! - A bucket is changed by [`PhtBucket::apply`] alone, when it serves and when it recovers.
//! - A thread that holds a bucket's lock takes another one only if it is free. It waits for one while it holds none.
//!
//! Neighbours: [`super`] has the commands, `bucket` the elements, `persist` logs changes and writes buckets; locks, and
//! what becomes of a bucket whose change panics (O6), are `GuardedObjects`'.

use std::mem;

use ensile_base::random::Random;
use ensile_objects::{EpochCount, GuardedObjects, ObjectGuard}; // persist
use rapidhash::v3::{RapidSecrets, rapidhash_v3_seeded};

use super::bucket::{PhtBucket, PhtKey};
use crate::hash::stable_hash;
use crate::number::{Digits, integer};
use crate::service::{CallResult, RestsOn};

/// Buckets of a table. Folders rest on it.
pub(super) const BUCKETS: u64 = 1 << 16;

/// Keys that are looked up side by side. More of them do not wait less for memory.
const TOGETHER: usize = 16;

/// The place of a key in a group that has fewer.
const NO_KEY: PhtKey<'static> = PhtKey { bytes: &[], bucket: 0, tag: 0 };

/// A change of one element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PhtChange<'c> {
    Set(PhtKey<'c>, &'c [u8]),
    Delete(PhtKey<'c>),
    /// Of an element whose value is a whole number, or that is not there: then of zero.
    Add(PhtKey<'c>, i64),
}

impl<'c> PhtChange<'c> {
    /// Of which element.
    pub(super) fn key(self) -> PhtKey<'c> {
        let (Self::Set(key, _) | Self::Delete(key) | Self::Add(key, _)) = self;
        key
    }
}

impl PhtBucket {
    /// The sum that adding would come to; `None` if the value is no number, or the sum none of 64 bits.
    pub(super) fn sum(&self, key: PhtKey<'_>, by: i64) -> Option<i64> {
        let value = self.get(key).map_or(Some(0), |value| integer(value).ok())?;
        value.checked_add(by)
    }

    /// Makes a change, and tells how many elements there are more than before; `None` if it cannot be made.
    pub(super) fn apply(&mut self, change: PhtChange<'_>) -> Option<i64> {
        let before = self.len() as i64;
        match change {
            PhtChange::Set(key, value) => self.set(key, value),
            PhtChange::Delete(key) => self.remove(key),
            PhtChange::Add(key, by) => self.set(key, Digits::of(self.sum(key, by)?).bytes()),
        }
        Some(self.len() as i64 - before)
    }
}

/// All buckets.
pub(crate) struct PhtBuckets {
    pub(super) guarded: GuardedObjects<PhtBucket>,
    /// Of hashes within buckets. It is drawn, so that keys that meet there are hard to choose.
    secrets: RapidSecrets,
    /// Those of a poisoned bucket count as they were before.
    pub(super) elements: EpochCount,
}

impl std::fmt::Debug for PhtBuckets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PhtBuckets").field("elements", &self.elements.read().0).finish_non_exhaustive()
    }
}

impl PhtBuckets {
    pub(crate) fn new() -> Self {
        Self {
            guarded: GuardedObjects::new(BUCKETS, |_| PhtBucket::default()),
            secrets: RapidSecrets::seed(Random::unpredictable().next_u64()),
            elements: EpochCount::default(),
        }
    }

    /// Where a key is looked for.
    #[inline]
    pub(super) fn key<'k>(&self, bytes: &'k [u8]) -> PhtKey<'k> {
        let tag = rapidhash_v3_seeded(bytes, &self.secrets) as u32;
        PhtKey { bytes, bucket: stable_hash(bytes) % BUCKETS, tag }
    }

    /// Shows the bucket of each key, locked, in the order of the keys. The memory of up to [`TOGETHER`] of them is
    /// asked for at once, so a thread waits for it once and not as often as there are keys. Up to as many buckets are
    /// locked while one is shown.
    ///
    /// # Errors
    /// The first that `show` returns, or of the first bucket that is poisoned; the keys behind that are not shown.
    pub(super) fn look_at_many<'k>(
        &self,
        mut keys: impl Iterator<Item = &'k [u8]>,
        rests: &RestsOn,
        mut show: impl FnMut(PhtKey<'k>, &PhtBucket) -> CallResult,
    ) -> CallResult {
        let mut found = [NO_KEY; TOGETHER];
        loop {
            let mut count = 0;
            for (place, bytes) in found.iter_mut().zip(&mut keys) {
                *place = self.key(bytes);
                self.guarded.prefetch(place.bucket);
                count += 1;
            }
            if count == 0 {
                return Ok(());
            }
            self.look_at_few(&found[..count], rests, &mut show)?;
        }
    }

    fn look_at_few<'k>(
        &self,
        keys: &[PhtKey<'k>],
        rests: &RestsOn,
        show: &mut impl FnMut(PhtKey<'k>, &PhtBucket) -> CallResult,
    ) -> CallResult {
        // One that is not free is waited for when no other one is held.
        let mut locked = self.lock_free_ones(keys, rests);
        let mut is_holding = true;
        for (at, key) in keys.iter().enumerate() {
            let bucket = match locked[at].take() {
                Some(bucket) => bucket,
                None => {
                    if mem::take(&mut is_holding) {
                        locked.iter_mut().for_each(|bucket| *bucket = None);
                    }
                    self.guarded.lock(key.bucket, rests)?
                }
            };
            show(*key, &bucket)?;
        }
        Ok(())
    }

    /// Asks for the memory of what has these keys, as [`look_at_many`](Self::look_at_many) does. No lock is waited for,
    /// nor held behind this.
    pub(super) fn prefetch(&self, keys: &[&[u8]]) {
        for keys in keys.chunks(TOGETHER) {
            let mut found = [NO_KEY; TOGETHER];
            for (place, bytes) in found.iter_mut().zip(keys) {
                *place = self.key(bytes);
                self.guarded.prefetch(place.bucket);
            }
            self.lock_free_ones(&found[..keys.len()], &RestsOn::default());
        }
    }

    /// Locks the buckets that are free, and asks for slots and elements. A bucket that is not free may be that of a key
    /// before.
    fn lock_free_ones(
        &self,
        keys: &[PhtKey<'_>],
        rests: &RestsOn,
    ) -> [Option<ObjectGuard<'_, PhtBucket>>; TOGETHER] {
        let mut locked = [const { None }; TOGETHER];
        for (bucket, key) in locked.iter_mut().zip(keys) {
            *bucket = self.guarded.try_lock(key.bucket, rests);
            bucket.iter().for_each(|bucket: &ObjectGuard<'_, PhtBucket>| bucket.prefetch_slots(*key));
        }
        for (bucket, key) in locked.iter().zip(keys) {
            bucket.iter().for_each(|bucket| bucket.prefetch_element(*key));
        }
        locked
    }
}

#[cfg(test)]
mod tests;
