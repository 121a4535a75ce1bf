//! The table: buckets with a lock each (SLACH §5), and searches for several keys at once.
//!
//! ```text
//! several keys   hash all, ask for their buckets | lock those that are free, ask for slots | ask for elements | show each
//! ```
//! Invariants:
//! - A key's bucket is the same for ever: folders name buckets by their numbers. A scan therefore goes bucket by
//!   bucket, and shows an element that is present all the while exactly once.
//! - [`PhtBucket::apply`] alone changes a bucket, in service and in recovery.
//! - A thread that holds a bucket's lock takes another bucket's lock only if the lock is free. A thread waits for a
//!   lock only without holding a lock.
//!
//! Neighbours: [`super`] has the commands, `bucket` the elements, `persistence` logs changes and writes buckets;
//! `GuardedObjects` has the locks, and poisons a bucket whose change panics (O6).

use std::mem;

use ensile_base::random::Random;
use ensile_objects::{EpochCount, GuardedObjects, ObjectGuard}; // persist
use rapidhash::v3::{RapidSecrets, rapidhash_v3_seeded};

use super::bucket::{PhtBucket, PhtKey};
use crate::hash::stable_hash;
use crate::number::{Digits, integer};
use crate::service::{CallResult, RestsOn};

/// Number of buckets of a table. Folders depend on the number.
pub(super) const BUCKETS: u64 = 1 << 16;

/// Number of keys that are looked up side by side. More keys do not shorten the wait for memory.
const TOGETHER: usize = 16;

/// Filler for the free places of a group of keys.
const NO_KEY: PhtKey<'static> = PhtKey { bytes: &[], bucket: 0, tag: 0 };

/// A change of one element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PhtChange<'c> {
    Set(PhtKey<'c>, &'c [u8]),
    Delete(PhtKey<'c>),
    /// Adds to a whole number; an absent element counts as zero.
    Add(PhtKey<'c>, i64),
}

impl<'c> PhtChange<'c> {
    /// Key of the changed element.
    pub(super) fn key(self) -> PhtKey<'c> {
        let (Self::Set(key, _) | Self::Delete(key) | Self::Add(key, _)) = self;
        key
    }
}

impl PhtBucket {
    /// Sum after an addition; `None` if the value is no number, or the sum exceeds 64 bits.
    pub(super) fn sum(&self, key: PhtKey<'_>, by: i64) -> Option<i64> {
        let value = self.get(key).map_or(Some(0), |value| integer(value).ok())?;
        value.checked_add(by)
    }

    /// Makes a change. Returns the growth of the number of elements; `None` if the change is impossible.
    pub(super) fn apply(&mut self, change: PhtChange<'_>) -> Option<i64> {
        let before = self.len() as i64;
        match change {
            PhtChange::Set(key, value) => {
                self.set(key, value);
                debug_assert_eq!(self.get(key), Some(value), "a set value is shown");
            }
            PhtChange::Delete(key) => self.remove(key),
            PhtChange::Add(key, by) => self.set(key, Digits::from_number(self.sum(key, by)?).bytes()),
        }
        let more = self.len() as i64 - before;
        debug_assert!(more.abs() <= 1, "a change is of one element");
        Some(more)
    }
}

/// All buckets.
pub(crate) struct PhtBuckets {
    pub(super) guarded: GuardedObjects<PhtBucket>,
    /// Secrets of hashes within buckets, drawn, so that colliding keys are hard to choose.
    secrets: RapidSecrets,
    /// Number of elements. A poisoned bucket counts as before its failed change.
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

    /// Place of the search for a key.
    #[inline]
    pub(super) fn key<'k>(&self, bytes: &'k [u8]) -> PhtKey<'k> {
        let tag = rapidhash_v3_seeded(bytes, &self.secrets) as u32;
        PhtKey { bytes, bucket: stable_hash(bytes) % BUCKETS, tag }
    }

    /// Shows the locked bucket of every key, in the order of the keys. The memory of up to [`TOGETHER`] keys is
    /// requested at once, so a thread waits for memory once per group. Up to as many buckets are locked while a bucket
    /// is shown.
    ///
    /// # Errors
    /// The first error of `show`, or of the first poisoned bucket; later keys are not shown.
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
        // A bucket that is not free is waited for without holding another bucket.
        let mut locked = self.lock_free_ones(keys, rests);
        let mut is_holding = true;
        for (at, key) in keys.iter().enumerate() {
            let bucket = match locked[at].take() {
                Some(bucket) => bucket,
                None => {
                    if mem::take(&mut is_holding) {
                        locked.iter_mut().for_each(|bucket| *bucket = None);
                    }
                    debug_assert!(
                        locked.iter().all(Option::is_none),
                        "a thread waits for a lock without holding a lock"
                    );
                    self.guarded.lock(key.bucket, rests)?
                }
            };
            show(*key, &bucket)?;
        }
        Ok(())
    }

    /// Prefetches the memory of these keys' elements, as [`look_at_many`](Self::look_at_many) does. The call waits for
    /// no lock, and holds no lock afterwards.
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

    /// Locks the free buckets, and prefetches slots and elements. A bucket that is not free may be the bucket of an
    /// earlier key.
    fn lock_free_ones(
        &self,
        keys: &[PhtKey<'_>],
        rests: &RestsOn,
    ) -> [Option<ObjectGuard<'_, PhtBucket>>; TOGETHER] {
        debug_assert!(keys.len() <= TOGETHER, "each key has a place");
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
