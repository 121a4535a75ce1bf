//! Full buffers on their way to the logger, and empty ones on their way back (SiloR §3.4).
//!
//! Invariants:
//! - Bytes that are sealed and not yet written are bounded: beyond the bound a worker waits in `reserve`, before it
//!   binds (E1). One entry larger than the bound passes when nothing else is queued.
//! - Buffers come back after the write, not after the sync: a slow sync does not stop workers at once.
//!
//! Neighbours: appenders push and ask for fresh buffers, the logger drains and returns them.

use ensile_base::sync::{Condvar, Mutex, MutexGuard};

use super::buffer::Buffer;

/// Empty buffers kept for reuse beyond one per worker.
const SPARE_BUFFERS: usize = 4;

#[expect(clippy::vec_box, reason = "the slot hands boxes over by one exchange; here they only pass through")]
#[derive(Debug, Default)]
struct State {
    sealed: Vec<Box<Buffer>>,
    free: Vec<Box<Buffer>>,
    /// Bytes of sealed buffers not yet written, drained ones included.
    unwritten_bytes: usize,
}

#[derive(Debug)]
pub(crate) struct Queue {
    state: Mutex<State>,
    space: Condvar,
}

impl Queue {
    pub(crate) fn new() -> Self {
        Self { state: Mutex::new(State::default()), space: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing under this lock leaves the state half changed.
        self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// A worker hands over a buffer that has no room left.
    pub(crate) fn push(&self, buffer: Box<Buffer>) {
        let mut state = self.lock();
        state.unwritten_bytes += buffer.bytes();
        state.sealed.push(buffer);
    }

    /// Takes all that was pushed.
    #[expect(
        clippy::vec_box,
        reason = "the slot hands boxes over by one exchange; here they only pass through"
    )]
    pub(crate) fn drain(&self) -> Vec<Box<Buffer>> {
        std::mem::take(&mut self.lock().sealed)
    }

    /// Waits until fewer than `limit` bytes are unwritten; returns whether it had to wait. `stopped` ends the wait.
    pub(crate) fn wait_for_space(&self, limit: usize, stopped: impl Fn() -> bool) -> bool {
        let mut state = self.lock();
        let mut waited = false;
        while state.unwritten_bytes >= limit && !stopped() {
            waited = true;
            state = self.space.wait(state).unwrap_or_else(std::sync::PoisonError::into_inner);
        }
        waited
    }

    /// An empty buffer of the usual size, if one is at hand.
    pub(crate) fn spare(&self) -> Option<Box<Buffer>> {
        self.lock().free.pop()
    }

    /// Takes back buffers whose entries are written; `workers` bounds how many are kept. `queued_bytes` of them had
    /// come through `push`.
    pub(crate) fn give_back(
        &self,
        buffers: impl Iterator<Item = Box<Buffer>>,
        queued_bytes: usize,
        workers: usize,
    ) {
        let mut state = self.lock();
        for buffer in buffers.filter_map(Buffer::recycle) {
            if state.free.len() < workers + SPARE_BUFFERS {
                state.free.push(buffer);
            }
        }
        state.unwritten_bytes -= queued_bytes;
        drop(state);
        if queued_bytes > 0 {
            self.space.notify_all();
        }
    }

    /// Wakes workers that wait for space, to find the log stopped.
    pub(crate) fn wake_all(&self) {
        drop(self.lock());
        self.space.notify_all();
    }
}
