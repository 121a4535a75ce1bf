//! Count of the bytes in use, and the room below the limit.
//!
//! Invariants:
//! - M4: after every count the room is the room of the newest count, with or without other threads' counts. A writer
//!   looks at the room, and at nothing else.
//! - The line of the room is written only if the room changes.
//!
//! Neighbours: [`crate::Memory`] owns the meter; [`crate::Cache`] counts, once for many blocks; the engine's commits
//! look at the room.

use crossbeam_utils::CachePadded;
use ensile_base::limits::MEMORY_EXCESS_BYTES_MAX;
use ensile_base::sync::{AtomicU8, AtomicU64, Ordering, fence};

/// Bytes that a worker may allocate behind its last look at the room, or has allocated without a count.
pub(crate) const WORKER_BYTES: u64 = 256 << 10;
/// Bytes above the limit for the writes under way.
const WRITES_EXCESS: u64 = MEMORY_EXCESS_BYTES_MAX / 2;
/// Bytes above the limit for deletes, which need memory before they free memory.
const DELETES_EXCESS: u64 = MEMORY_EXCESS_BYTES_MAX - WRITES_EXCESS;

/// Room below the limit of a memory, from much to little.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MemoryRoom {
    /// The memory has no limit.
    Unlimited,
    /// The use is below the limit.
    Open,
    /// The use has reached the limit: new data must wait.
    Full,
    /// The reserve for deletes is used up too.
    Exhausted,
}

impl MemoryRoom {
    const ALL: [Self; 4] = [Self::Unlimited, Self::Open, Self::Full, Self::Exhausted];

    const fn from_number(number: u8) -> Self {
        Self::ALL[number as usize]
    }
}

/// Use of a limited memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct MemoryUse {
    /// Bytes in use, with the bytes that writes under way have set aside.
    pub bytes: u64,
    /// Limit of the bytes in use; `u64::MAX` without a limit.
    pub bytes_max: u64,
}

impl MemoryUse {
    /// True if the use exceeds the limit by more than writes and deletes can.
    #[must_use]
    pub const fn is_beyond_excess(self) -> bool {
        self.bytes > self.bytes_max.saturating_add(MEMORY_EXCESS_BYTES_MAX)
    }
}

pub(crate) struct MemoryMeter {
    /// Bytes in use, as the caches have reported, and bytes set aside. A sum of differences: a wrapped number is
    /// negative.
    bytes: AtomicU64,
    /// Number of caches. Each cache may have bytes that the meter does not count yet.
    caches: AtomicU64,
    bytes_max: u64,
    /// The room, as a [`MemoryRoom`].
    room: CachePadded<AtomicU8>,
}

impl MemoryMeter {
    /// A meter with a limit, or without one.
    pub(crate) fn new(bytes_max: Option<u64>) -> Self {
        let room = if bytes_max.is_some() { MemoryRoom::Open } else { MemoryRoom::Unlimited };
        Self {
            bytes: AtomicU64::new(0),
            caches: AtomicU64::new(0),
            bytes_max: bytes_max.unwrap_or(u64::MAX),
            room: CachePadded::new(AtomicU8::new(room as u8)),
        }
    }

    /// The room at the last count.
    #[inline]
    pub(crate) fn room(&self) -> MemoryRoom {
        // Relaxed: a look orders nothing. The bound counts the allocations behind a look (M4).
        MemoryRoom::from_number(self.room.load(Ordering::Relaxed))
    }

    /// Bytes in use, as counted.
    pub(crate) fn bytes(&self) -> u64 {
        // Relaxed: a figure, and a part of `settle` behind its fence. One cache may have reported blocks taken back
        // before another has reported the same blocks handed out.
        self.bytes.load(Ordering::Relaxed).cast_signed().max(0).cast_unsigned()
    }

    pub(crate) fn memory_use(&self) -> MemoryUse {
        MemoryUse { bytes: self.bytes(), bytes_max: self.bytes_max }
    }

    pub(crate) fn bytes_max(&self) -> Option<u64> {
        self.is_limited().then_some(self.bytes_max)
    }

    fn is_limited(&self) -> bool {
        self.bytes_max < u64::MAX
    }

    /// Adds the difference that a cache reports.
    pub(crate) fn count(&self, difference: i64) {
        // Relaxed: `settle` has the fence between this count and the look at the room.
        self.bytes.fetch_add(difference.cast_unsigned(), Ordering::Relaxed);
        self.settle();
    }

    /// Counts a new cache.
    pub(crate) fn add_cache(&self) {
        // Relaxed: as in `count`.
        self.caches.fetch_add(1, Ordering::Relaxed);
        self.settle();
    }

    /// Counts the end of a cache, with the bytes that the cache has not reported.
    pub(crate) fn remove_cache(&self, difference: i64) {
        // Relaxed: as in `count`.
        let before = self.caches.fetch_sub(1, Ordering::Relaxed);
        debug_assert!(before > 0, "a cache ends once");
        self.count(difference);
    }

    /// Counts bytes before their allocation. False, and nothing is counted, if the room is smaller.
    pub(crate) fn set_aside(&self, bytes: u64) -> bool {
        debug_assert!(bytes <= i64::MAX as u64, "bytes of a write-set");
        let full = self.full_bytes();
        // Relaxed: as in `count`.
        let mut counted = self.bytes.load(Ordering::Relaxed);
        loop {
            let used = counted.cast_signed().max(0).cast_unsigned();
            if used.saturating_add(bytes) > full {
                return false;
            }
            let with = counted.wrapping_add(bytes);
            // Relaxed, both: as in `count`.
            match self.bytes.compare_exchange(counted, with, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => break,
                Err(newer) => counted = newer,
            }
        }
        self.settle();
        true
    }

    /// Forgets all counts, at the release of the memory. Caches may be left.
    pub(crate) fn reset(&self) {
        // Relaxed: as in `count`.
        self.bytes.store(0, Ordering::Relaxed);
        self.settle();
    }

    /// Use from which the memory is full: the limit, less the bytes of many caches.
    fn full_bytes(&self) -> u64 {
        // Relaxed: as in `count`.
        let caches = self.caches.load(Ordering::Relaxed);
        let beyond = caches.saturating_mul(WORKER_BYTES).saturating_sub(WRITES_EXCESS);
        self.bytes_max.saturating_sub(beyond)
    }

    fn room_at(&self, bytes: u64) -> MemoryRoom {
        let full = self.full_bytes();
        if bytes < full {
            MemoryRoom::Open
        } else if bytes < full.saturating_add(DELETES_EXCESS) {
            MemoryRoom::Full
        } else {
            MemoryRoom::Exhausted
        }
    }

    /// Brings the room to the newest count.
    fn settle(&self) {
        if !self.is_limited() {
            return;
        }
        loop {
            // SeqCst: a count, or a store of the room, comes before the read of the count and of the room; partner:
            // this fence in another thread's call. Of two threads, the later fence sees the other thread's count and
            // its room. So the thread with the last store of the room has seen the last count (M4).
            fence(Ordering::SeqCst);
            let room = self.room_at(self.bytes()) as u8;
            // Relaxed: ordered by the fence.
            if self.room.load(Ordering::Relaxed) == room {
                return;
            }
            // Relaxed: ordered by the fence of the next round.
            self.room.store(room, Ordering::Relaxed);
        }
    }
}

const _: () = assert!(MEMORY_EXCESS_BYTES_MAX.is_multiple_of(2 * WORKER_BYTES), "M4: whole workers");

#[cfg(all(test, loom))]
mod loom_tests;
#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
