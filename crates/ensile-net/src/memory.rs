//! The memory of the connections of a server: a limit over its loops, beside the limits of each connection (W16).
//!
//! The first [`NetLimits::free_bytes`](crate::NetLimits::free_bytes) of a connection do not count, so a request and a
//! reply of common size touch nothing here. Further bytes count in the loop of the connection. A loop takes blocks from
//! the shared limit and gives them back: several threads write a cache line only for a block.
//!
//! Invariants:
//! - W16: loops have taken no more than the limit, but for one reply a loop.
//! - A loop's counts are written by its thread alone.
//!
//! Neighbours: [`crate::replies`] and [`crate::connection`] count bytes; [`crate::NetLoop`] looks again at connections
//! that wait for memory.

use ensile_base::sync::{Arc, AtomicUsize, Ordering};

/// A loop takes and keeps at most this part of the limit at once.
const BLOCKS: usize = 256;
/// Most bytes of a block.
const BLOCK_BYTES_MAX: usize = 1 << 20;

/// Limit of the memory of all connections of a server together, beyond
/// [`NetLimits::free_bytes`](crate::NetLimits::free_bytes) of each.
#[derive(Debug)]
pub struct ConnectionMemory {
    bytes_max: usize,
    block_bytes: usize,
    /// Bytes that loops have taken.
    taken: AtomicUsize,
    /// Number of times that a connection has waited for too long. Each loop looks at its own connections then.
    demands: AtomicUsize,
}

impl ConnectionMemory {
    /// With a limit in bytes; `usize::MAX` is none. Loops share the value by
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

    /// Bytes that loops have taken, in blocks: no more are in use.
    #[must_use]
    pub fn bytes(&self) -> usize {
        // Relaxed: a count; nothing is ordered by it.
        self.taken.load(Ordering::Relaxed)
    }

    /// Takes bytes if the limit allows it.
    fn try_take(&self, bytes: usize) -> bool {
        let within = |taken: usize| taken.checked_add(bytes).filter(|sum| *sum <= self.bytes_max);
        // Relaxed, both: a count; the memory itself is its loop's alone.
        self.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, within).is_ok()
    }

    /// Takes bytes that are in use already.
    fn take(&self, bytes: usize) {
        // Relaxed: a count; the memory itself is its loop's alone.
        self.taken.fetch_add(bytes, Ordering::Relaxed);
    }

    fn give_back(&self, bytes: usize) {
        // Relaxed: a count; the memory itself is its loop's alone.
        let before = self.taken.fetch_sub(bytes, Ordering::Relaxed);
        debug_assert!(before >= bytes, "W16: a loop gives back what it has taken");
    }
}

/// A loop's part of the memory.
#[derive(Debug)]
pub(crate) struct LoopMemory {
    shared: Arc<ConnectionMemory>,
    /// Counted bytes of the connections, and bytes taken for them. Only the thread of the loop writes these.
    used: AtomicUsize,
    taken: AtomicUsize,
}

impl LoopMemory {
    pub(crate) fn new(shared: Arc<ConnectionMemory>) -> Arc<Self> {
        Arc::new(Self { shared, used: AtomicUsize::new(0), taken: AtomicUsize::new(0) })
    }

    fn used(&self) -> usize {
        // Relaxed: this thread alone writes it.
        self.used.load(Ordering::Relaxed)
    }

    fn taken(&self) -> usize {
        // Relaxed: this thread alone writes it.
        self.taken.load(Ordering::Relaxed)
    }

    fn set(&self, used: usize, taken: usize) {
        debug_assert!(used <= taken, "W16: what is used was taken");
        // Relaxed: this thread alone reads it.
        self.used.store(used, Ordering::Relaxed);
        // Relaxed: this thread alone reads it.
        self.taken.store(taken, Ordering::Relaxed);
    }

    /// Takes the bytes that lack for `used` bytes, a block at a time if the limit allows. The number of taken bytes;
    /// `None` if they are too few.
    fn taken_for(&self, used: usize) -> Option<usize> {
        let taken = self.taken();
        let Some(lacking) = used.checked_sub(taken).filter(|lacking| *lacking > 0) else {
            return Some(taken);
        };
        let blocks = lacking.max(self.shared.block_bytes);
        [blocks, lacking].into_iter().find(|bytes| self.shared.try_take(*bytes)).map(|bytes| taken + bytes)
    }

    /// Counts bytes that a connection is about to have, if there is room for them.
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

    /// Uncounts bytes of a connection. While memory is short all free bytes go back: other loops wait for them.
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

    /// Announces to all loops that a connection has waited for too long. The number of such demands so far.
    pub(crate) fn demand(&self) -> usize {
        // Relaxed: it carries nothing; a loop that sees it looks at its own connections.
        self.shared.demands.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Demands of all loops so far.
    #[inline]
    pub(crate) fn demands(&self) -> usize {
        // Relaxed: it carries nothing, and what is not seen yet is seen by the next step.
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

/// The answer to a wish for memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryFit {
    /// The memory is there.
    Fits,
    /// Not now: other connections may give memory back.
    Later,
    /// The wish alone is more than all connections may have.
    Never,
}

/// The memory of one connection.
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

    /// The connection has this number of bytes now.
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

    /// True if the connection may have this number of bytes, which count from now on.
    pub(crate) fn try_set(&mut self, bytes: usize) -> bool {
        let more = bytes.saturating_sub(self.free_bytes).saturating_sub(self.counted);
        let may = more == 0 || self.memory.try_grow(more);
        self.counted += if may { more } else { 0 };
        may
    }

    /// The answer to a wish for `bytes` in total. The answer is never if `least` alone, the part that stays when the
    /// client has taken all replies, is more than the limit.
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

    /// Checks that a connection with `bytes` has counted those beyond `free_bytes`. Returns the count.
    #[cfg(feature = "simulation")]
    pub(crate) fn check(&self, bytes: usize) -> usize {
        assert_eq!(self.counted, bytes.saturating_sub(self.free_bytes), "W16: {bytes} bytes");
        self.counted
    }

    /// True if the connection may have more bytes: it has few, or memory is there.
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
