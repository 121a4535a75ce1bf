//! The table: buckets with a lock each, and in each a hash map of elements (SLACH §5).
//!
//! Invariants:
//! - A key's bucket is the same for ever: folders name buckets by their numbers. So a scan goes bucket by bucket, and
//!   shows each element that is there all the while exactly once.
//! - A bucket is changed by [`PhtBucket::apply`] alone, when it serves and when it recovers.
//!
//! Neighbours: [`super`] has the commands, `persist` logs changes and writes buckets.

use std::collections::HashMap;

use ensile_base::Epoch;
use ensile_base::sync::{AtomicU64, Mutex, MutexGuard, Ordering};
use rapidhash::fast::RandomState;

use crate::hash::stable_hash;
use crate::number::integer;

/// Buckets of a table. Folders rest on it.
pub(super) const BUCKETS: u64 = 1 << 16;

/// A change of one element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PhtChange<'c> {
    Set(&'c [u8], &'c [u8]),
    Delete(&'c [u8]),
    /// Of an element whose value is a whole number, or that is not there: then of zero.
    Add(&'c [u8], i64),
}

/// A bucket: its elements.
#[derive(Debug, Default)]
pub(super) struct PhtBucket {
    pub(super) elements: HashMap<Box<[u8]>, Box<[u8]>, RandomState>,
    /// The epoch of the last change.
    pub(super) last: Epoch, // persist
}

impl PhtBucket {
    /// The sum that adding would come to; `None` if the value is no number, or the sum none of 64 bits.
    pub(super) fn sum(&self, key: &[u8], by: i64) -> Option<i64> {
        let value = self.elements.get(key).map_or(Some(0), |value| integer(value).ok())?;
        value.checked_add(by)
    }

    /// Makes a change, and tells how many elements there are more than before; `None` if it cannot be made.
    pub(super) fn apply(&mut self, change: PhtChange<'_>) -> Option<i64> {
        let before = self.elements.len() as i64;
        match change {
            PhtChange::Set(key, value) => match self.elements.get_mut(key) {
                // A value of the same length takes the place of the one before.
                Some(there) if there.len() == value.len() => there.copy_from_slice(value),
                Some(there) => *there = value.into(),
                None => drop(self.elements.insert(key.into(), value.into())),
            },
            PhtChange::Delete(key) => drop(self.elements.remove(key)),
            PhtChange::Add(key, by) => {
                let sum = self.sum(key, by)?.to_string();
                return self.apply(PhtChange::Set(key, sum.as_bytes()));
            }
        }
        Some(self.elements.len() as i64 - before)
    }
}

/// All buckets.
#[derive(Debug)]
pub(super) struct PhtBuckets {
    buckets: Box<[Mutex<PhtBucket>]>,
    elements: AtomicU64,
}

impl PhtBuckets {
    pub(super) fn new() -> Self {
        Self { buckets: (0..BUCKETS).map(|_| Mutex::default()).collect(), elements: AtomicU64::new(0) }
    }

    /// The number of a key's bucket.
    #[inline]
    pub(super) fn number_of(key: &[u8]) -> u64 {
        stable_hash(key) % BUCKETS
    }

    /// A bucket, locked; `None` if there is none of this number.
    #[inline]
    pub(super) fn lock(&self, number: u64) -> Option<MutexGuard<'_, PhtBucket>> {
        self.buckets.get(number as usize).map(Mutex::lock)
    }

    /// A key's bucket, locked, and its number.
    #[inline]
    pub(super) fn lock_of(&self, key: &[u8]) -> (MutexGuard<'_, PhtBucket>, u64) {
        let number = Self::number_of(key);
        (self.buckets[number as usize].lock(), number)
    }

    /// Notes how many elements there are more, or less.
    #[inline]
    pub(super) fn count(&self, more: i64) {
        if more != 0 {
            // Relaxed: a figure for people. Adding what is below zero wraps around to the difference.
            self.elements.fetch_add(more as u64, Ordering::Relaxed);
        }
    }

    /// How many elements there are.
    pub(super) fn elements(&self) -> u64 {
        // Relaxed: a figure for people.
        self.elements.load(Ordering::Relaxed)
    }
}
