//! The memory of the connections of a server: a limit over its loops, beside the limits of each connection (W16).
//!
//! If the buffers of all connections exceed the limit, the connection with the largest buffers is closed. The loop that
//! has this connection closes it. A loop that notices the excess wakes that loop, and takes nothing more meanwhile.
//!
//! Invariants:
//! - W16: a loop closes a connection for its memory only if no connection of any loop has more.
//! - The shared count is the sum of the loops' counts, and a loop's count the sum of its connections' counts.
//!
//! Neighbours: [`crate::NetLoop`] counts its connections and closes the largest; connections, replies and transports
//! have the buffers.

use std::collections::BTreeSet;

use ensile_base::sync::{Arc, AtomicUsize, Mutex, Ordering};

use crate::event::ConnectionId;
use crate::transport::LoopWakeUp;

/// Unit of a connection's count in bytes. The usual requests and replies change no count, so loops do not write the
/// shared count.
const UNIT_BYTES: usize = 4 << 10;

/// The count of a connection with this number of bytes.
pub(crate) fn round_to_unit(bytes: usize) -> usize {
    bytes.next_multiple_of(UNIT_BYTES)
}

/// Limit of the memory of all connections of a server together.
#[derive(Debug)]
pub struct ConnectionMemory {
    bytes_max: usize,
    /// Sum of the counts of all connections.
    bytes: AtomicUsize,
    loops: Mutex<Vec<Arc<LoopPart>>>,
}

/// The part of a loop that other loops see.
#[derive(Debug)]
struct LoopPart {
    /// Count of the largest connection.
    largest_bytes: AtomicUsize,
    wake_up: LoopWakeUp,
}

impl ConnectionMemory {
    /// Creates a limit in bytes; `usize::MAX` is no limit. Loops share the value by
    /// [`NetLoop::with_memory`](crate::NetLoop::with_memory).
    #[must_use]
    pub fn new(bytes_max: usize) -> Arc<Self> {
        Arc::new(Self { bytes_max, bytes: AtomicUsize::new(0), loops: Mutex::new(Vec::new()) })
    }

    /// The limit, in bytes.
    #[must_use]
    pub fn bytes_max(&self) -> usize {
        self.bytes_max
    }

    /// Memory of all connections, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        // Acquire: pairs with the addition in `LoopMemory::change`. A loop that sees the sum sees the largest
        // connection that was added.
        self.bytes.load(Ordering::Acquire)
    }
}

#[derive(Debug)]
pub(crate) struct LoopMemory {
    shared: Arc<ConnectionMemory>,
    part: Arc<LoopPart>,
    /// Connections with a count, in the order of their counts.
    by_bytes: BTreeSet<(usize, ConnectionId)>,
    /// Sum of the counts, and the largest sum since the last report.
    bytes: usize,
    peak_bytes: usize,
}

impl LoopMemory {
    /// The memory of a loop without connections, which `wake_up` wakes.
    pub(crate) fn new(shared: Arc<ConnectionMemory>, wake_up: LoopWakeUp) -> Self {
        let part = Arc::new(LoopPart { largest_bytes: AtomicUsize::new(0), wake_up });
        shared.loops.lock().push(Arc::clone(&part));
        Self { shared, part, by_bytes: BTreeSet::new(), bytes: 0, peak_bytes: 0 }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Largest memory since the last call.
    pub(crate) fn take_peak(&mut self) -> usize {
        std::mem::replace(&mut self.peak_bytes, self.bytes)
    }

    /// Connections with memory.
    pub(crate) fn connections(&self) -> impl Iterator<Item = ConnectionId> {
        self.by_bytes.iter().map(|(_, id)| *id)
    }

    pub(crate) fn change(&mut self, id: ConnectionId, before: usize, bytes: usize) {
        if before == bytes {
            return;
        }
        let was_there = self.by_bytes.remove(&(before, id));
        debug_assert_eq!(was_there, before > 0, "W16: the count of a connection is the noted count");
        if bytes > 0 {
            self.by_bytes.insert((bytes, id));
        }
        self.bytes = self.bytes - before + bytes;
        self.peak_bytes = self.peak_bytes.max(self.bytes);
        debug_assert_eq!(
            self.by_bytes.is_empty(),
            self.bytes == 0,
            "W16: a loop counts its connections alone"
        );
        let largest = self.by_bytes.last().map_or(0, |(bytes, _)| *bytes);
        if bytes > before {
            // Release: a loop that sees this count, and not the last, still sees the sum of the last.
            self.part.largest_bytes.store(largest, Ordering::Release);
            // Release: pairs with the Acquire in `ConnectionMemory::bytes`.
            self.shared.bytes.fetch_add(bytes - before, Ordering::Release);
        } else {
            // Relaxed: the Release of the store orders the subtraction.
            let all = self.shared.bytes.fetch_sub(before - bytes, Ordering::Relaxed);
            debug_assert!(all >= before - bytes, "W16: the shared count has the count of each connection");
            // Release: pairs with the Acquire in `to_close`. A loop that sees the smaller count sees the smaller sum.
            self.part.largest_bytes.store(largest, Ordering::Release);
        }
    }

    /// True if all connections together exceed the limit.
    #[inline]
    pub(crate) fn exceeds_limit(&self) -> bool {
        self.shared.bytes() > self.shared.bytes_max
    }

    /// The connection to be closed, while the limit is exceeded: the largest, if it is a connection of this loop.
    /// Otherwise wakes the loop of the largest connection.
    pub(crate) fn to_close(&self) -> Option<ConnectionId> {
        let loops = self.shared.loops.lock();
        let bytes = self.shared.bytes();
        // Acquire: pairs with the stores of `change`. If the largest connection of a loop has just gone, the sum is
        // read again behind it. A sum that has changed meanwhile says nothing: the next step looks again.
        let part = loops.iter().max_by_key(|part| part.largest_bytes.load(Ordering::Acquire))?;
        if !Arc::ptr_eq(part, &self.part) {
            part.wake_up.wake();
            return None;
        }
        let (_, largest) =
            self.by_bytes.last().filter(|_| self.exceeds_limit() && self.shared.bytes() == bytes)?;
        Some(*largest)
    }

    /// Checks that the loop counts as its connections do.
    ///
    /// # Panics
    /// If a count is missing or wrong.
    #[cfg(feature = "simulation")]
    pub(crate) fn check(&self, counted: &BTreeSet<(usize, ConnectionId)>) {
        assert_eq!(&self.by_bytes, counted, "W16: the loop counts as its connections do");
        let sum: usize = counted.iter().map(|(bytes, _)| *bytes).sum();
        assert!(self.bytes == sum && sum <= self.shared.bytes(), "W16: {sum} bytes");
        // Relaxed: only this thread writes the count.
        let largest = self.part.largest_bytes.load(Ordering::Relaxed);
        assert_eq!(largest, counted.last().map_or(0, |(bytes, _)| *bytes), "W16: the largest is known");
    }
}

impl Drop for LoopMemory {
    fn drop(&mut self) {
        let mut loops = self.shared.loops.lock();
        // Relaxed: the lock orders the subtraction for `to_close`, before the loop's largest connection goes.
        let all = self.shared.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
        let panics = std::thread::panicking();
        debug_assert!(panics || all >= self.bytes, "W16: the shared count has the count of each loop");
        let before = loops.len();
        loops.retain(|part| !Arc::ptr_eq(part, &self.part));
        debug_assert!(panics || loops.len() + 1 == before, "W16: a loop is listed once");
    }
}

#[cfg(test)]
mod tests;
