//! The memory of the connections of a server: a limit over its loops, beside the limits of each connection (W16).
//!
//! The first [`NetLimits::free_bytes`](crate::NetLimits::free_bytes) of a connection do not count, so a request and a
//! reply of common size change nothing here. Further bytes count in the loop of the connection. A loop takes blocks
//! from the shared limit and gives blocks back: several threads write a cache line only for a block.
//!
//! Invariants:
//! - W16: loops have taken no more than the limit, except for one reply per loop.
//! - Only the thread of a loop writes the loop's counts.
//!
//! Neighbours: [`crate::replies`] and [`crate::connection`] count bytes; [`crate::NetLoop`] looks again at connections
//! that wait for memory.

use ensile_base::sync::{Arc, AtomicUsize, Ordering};

/// Smallest number of blocks in the limit. A loop takes a block at a time, and keeps at most two free blocks.
const BLOCKS: usize = 256;
/// Largest size of a block in bytes.
const BLOCK_BYTES_MAX: usize = 1 << 20;

/// Limit of the memory of all connections of a server together, beyond
/// [`NetLimits::free_bytes`](crate::NetLimits::free_bytes) of each.
#[derive(Debug)]
pub struct ConnectionMemory {
    bytes_max: usize,
    block_bytes: usize,
    /// Number of bytes that loops have taken.
    taken: AtomicUsize,
    /// Number of connections that have waited for too long. After a change, every loop looks at its own connections.
    demands: AtomicUsize,
}

impl ConnectionMemory {
    /// Creates a limit in bytes; `usize::MAX` is no limit. Loops share the value by
    /// [`NetLoop::with_memory`](crate::NetLoop::with_memory).
    #[must_use]
    pub fn new(bytes_max: usize) -> Arc<Self> {
        let block_bytes = (bytes_max / BLOCKS).clamp(1, BLOCK_BYTES_MAX);
        Arc::new(Self { bytes_max, block_bytes, taken: AtomicUsize::new(0), demands: AtomicUsize::new(0) })
    }

    /// The limit, in bytes.
    #[must_use]
    pub fn bytes_max(&self) -> usize {
        self.bytes_max
    }

    /// Number of bytes that loops have taken, in blocks: the bytes in use are no more.
    #[must_use]
    pub fn bytes(&self) -> usize {
        // Relaxed: a count; the count orders nothing.
        self.taken.load(Ordering::Relaxed)
    }

    /// Takes bytes if the limit allows. True if taken.
    fn try_take(&self, bytes: usize) -> bool {
        let within = |taken: usize| taken.checked_add(bytes).filter(|sum| *sum <= self.bytes_max);
        // Relaxed, twice: a count; the memory itself belongs to its loop alone.
        self.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, within).is_ok()
    }

    /// Takes bytes that are in use already.
    fn take(&self, bytes: usize) {
        // Relaxed: a count; the memory itself belongs to its loop alone.
        self.taken.fetch_add(bytes, Ordering::Relaxed);
    }

    fn give_back(&self, bytes: usize) {
        // Relaxed: a count; the memory itself belongs to its loop alone.
        let before = self.taken.fetch_sub(bytes, Ordering::Relaxed);
        debug_assert!(before >= bytes, "W16: a loop gives back what it has taken");
    }
}

/// A loop's part of the memory.
#[derive(Debug)]
pub(crate) struct LoopMemory {
    shared: Arc<ConnectionMemory>,
    /// Counted bytes of the connections, and bytes taken for the connections. Only the thread of the loop writes both.
    used: AtomicUsize,
    taken: AtomicUsize,
}

impl LoopMemory {
    pub(crate) fn new(shared: Arc<ConnectionMemory>) -> Arc<Self> {
        Arc::new(Self { shared, used: AtomicUsize::new(0), taken: AtomicUsize::new(0) })
    }

    fn used(&self) -> usize {
        // Relaxed: only this thread writes the count.
        self.used.load(Ordering::Relaxed)
    }

    fn taken(&self) -> usize {
        // Relaxed: only this thread writes the count.
        self.taken.load(Ordering::Relaxed)
    }

    fn set(&self, used: usize, taken: usize) {
        debug_assert!(used <= taken, "W16: what is used was taken");
        // Relaxed: only this thread reads the count.
        self.used.store(used, Ordering::Relaxed);
        // Relaxed: only this thread reads the count.
        self.taken.store(taken, Ordering::Relaxed);
    }

    /// Takes the bytes that lack for `used` bytes, a block at a time if the limit allows. Returns the number of taken
    /// bytes; `None` if the limit allows too few.
    fn taken_for(&self, used: usize) -> Option<usize> {
        let taken = self.taken();
        let Some(lacking) = used.checked_sub(taken).filter(|lacking| *lacking > 0) else {
            return Some(taken);
        };
        let blocks = lacking.max(self.shared.block_bytes);
        [blocks, lacking].into_iter().find(|bytes| self.shared.try_take(*bytes)).map(|bytes| taken + bytes)
    }

    /// Counts bytes that a connection is about to have, if the limit has room. True if counted.
    fn try_grow(&self, bytes: usize) -> bool {
        let used = self.used().saturating_add(bytes);
        let Some(taken) = self.taken_for(used) else { return false };
        self.set(used, taken);
        true
    }

    /// Counts bytes that a connection has.
    fn grow(&self, bytes: usize) {
        if !self.try_grow(bytes) {
            let used = self.used() + bytes;
            self.shared.take(used - self.taken());
            self.set(used, used);
        }
    }

    /// Uncounts bytes of a connection. While memory is short, every free byte goes back: other loops wait for memory.
    fn shrink(&self, bytes: usize) {
        debug_assert!(bytes <= self.used(), "W16: what goes was counted");
        let (used, taken) = (self.used() - bytes, self.taken());
        let block = self.shared.block_bytes;
        let is_short = self.shared.bytes() > self.shared.bytes_max.saturating_sub(block);
        let keeps = if is_short || used == 0 { 0 } else { 2 * block };
        let given = (taken - used).saturating_sub(keeps);
        if given > 0 {
            self.shared.give_back(given);
        }
        self.set(used, taken - given);
    }

    /// Announces to every loop that a connection has waited for too long. Returns the number of announcements so far.
    pub(crate) fn demand(&self) -> usize {
        // Relaxed: the count guards no data; a loop that sees the demand looks at its own connections.
        self.shared.demands.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Number of demands of all loops so far.
    #[inline]
    pub(crate) fn demands(&self) -> usize {
        // Relaxed: the count guards no data, and the next step sees a demand that is not seen yet.
        self.shared.demands.load(Ordering::Relaxed)
    }

    /// Checks that connections have counted this many bytes, and that no more than two blocks are free.
    #[cfg(feature = "simulation")]
    pub(crate) fn check(&self, counted: usize) {
        let (used, taken) = (self.used(), self.taken());
        assert_eq!(used, counted, "W16: the loop counts as its connections do");
        assert!(used <= taken && taken - used <= 2 * self.shared.block_bytes, "W16: {used} of {taken}");
        assert!(taken <= self.shared.bytes(), "W16: the loop has taken {taken}");
    }

    /// True if the loop has given back all memory.
    #[cfg(feature = "simulation")]
    pub(crate) fn is_unused(&self) -> bool {
        (self.used(), self.taken()) == (0, 0)
    }

    /// True if `bytes` more could be counted now.
    fn fits(&self, bytes: usize) -> bool {
        let lacking = self.used().saturating_add(bytes).saturating_sub(self.taken());
        lacking == 0 || self.shared.bytes().saturating_add(lacking) <= self.shared.bytes_max
    }
}

/// Answer to a request for memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryFit {
    /// The memory is available.
    Fits,
    /// Not now: other connections may give memory back.
    Later,
    /// The request alone exceeds the memory of all connections.
    Never,
}

/// Memory of a connection.
#[derive(Debug)]
pub(crate) struct MemoryAccount {
    memory: Arc<LoopMemory>,
    free_bytes: usize,
    /// Bytes that count in the loop.
    counted: usize,
}

impl MemoryAccount {
    pub(crate) fn new(memory: &Arc<LoopMemory>, free_bytes: usize) -> Self {
        Self { memory: Arc::clone(memory), free_bytes, counted: 0 }
    }

    /// Sets the number of bytes of the connection.
    #[inline]
    pub(crate) fn set(&mut self, bytes: usize) {
        let counts = bytes.saturating_sub(self.free_bytes);
        if counts > self.counted {
            self.memory.grow(counts - self.counted);
        } else if counts < self.counted {
            self.memory.shrink(self.counted - counts);
        }
        self.counted = counts;
    }

    /// True if the connection may have this number of bytes. The bytes count from now on.
    pub(crate) fn try_set(&mut self, bytes: usize) -> bool {
        let more = bytes.saturating_sub(self.free_bytes).saturating_sub(self.counted);
        let may = more == 0 || self.memory.try_grow(more);
        self.counted += if may { more } else { 0 };
        may
    }

    /// Answer to a request for `bytes` in total. The answer is never if `least` alone exceeds the limit; `least` is the
    /// part that stays when the client has taken every reply.
    pub(crate) fn fits(&self, bytes: usize, least: usize) -> MemoryFit {
        debug_assert!(least <= bytes, "W16: replies are a part of what a connection has");
        let more = bytes.saturating_sub(self.free_bytes).saturating_sub(self.counted);
        if more == 0 || self.memory.fits(more) {
            MemoryFit::Fits
        } else if least.saturating_sub(self.free_bytes) > self.memory.shared.bytes_max {
            MemoryFit::Never
        } else {
            MemoryFit::Later
        }
    }

    /// True if the connection has more than `free_bytes`.
    pub(crate) fn counts(&self) -> bool {
        self.counted > 0
    }

    /// Checks that a connection with `bytes` has counted the bytes beyond `free_bytes`. Returns the count.
    #[cfg(feature = "simulation")]
    pub(crate) fn check(&self, bytes: usize) -> usize {
        assert_eq!(self.counted, bytes.saturating_sub(self.free_bytes), "W16: {bytes} bytes");
        self.counted
    }

    /// True if the connection may have more bytes: the connection has few, or memory is available.
    #[inline]
    pub(crate) fn has_some(&self) -> bool {
        self.counted == 0 || self.memory.fits(1)
    }
}

impl Drop for MemoryAccount {
    fn drop(&mut self) {
        self.set(0);
    }
}

#[cfg(test)]
mod tests;
