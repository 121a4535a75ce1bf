//! Full buffers on their way to the logger, and empty ones on their way back (SiloR §3.4); what all of them may take.
//!
//! Invariants:
//! - All buffers of a logger's workers take no more than the bound, or one buffer a worker where that is more. In use,
//!   sealed, being written and free ones count. One for a single larger entry may come on top. A worker that needs more
//!   waits in `reserve`, before it binds (E1).
//! - A worker that waits holds no buffer. So where there are as many buffers as workers, one is on its way to be
//!   written, and comes back once the disk has taken it.
//! - Buffers come back after the write, not after the sync: a slow sync does not stop workers at once.
//!
//! Neighbours: appenders push and ask for fresh buffers, the logger drains and returns them.

use ensile_base::limits::LOG_BUFFER_BYTES;
use ensile_base::sync::{Condvar, Mutex};
use ensile_disk::DiskError;

use super::buffer::Buffer;
use super::mapped::MappedFiles;
use crate::counter::Counter;

/// Empty buffers kept for reuse beyond one per worker.
const FREE_BUFFERS_MAX: usize = 4;

#[expect(clippy::vec_box, reason = "the slot hands boxes over by one exchange; here they only pass through")]
#[derive(Debug, Default)]
struct QueueState {
    sealed: Vec<Box<Buffer>>,
    free: Vec<Box<Buffer>>,
    /// Capacity of all buffers, wherever they are, and of those that are larger than usual.
    bytes: usize,
    large_bytes: usize,
    workers: usize,
    /// Workers that wait for a buffer.
    waiting: usize,
    /// Where the log is process-safe: files for the buffers.
    files: Option<Box<dyn MappedFiles>>,
}

impl QueueState {
    /// Counts and lists agree: asked by debug builds after each change.
    fn check(&self) {
        let usual_bytes = self.bytes - self.large_bytes;
        debug_assert!(usual_bytes.is_multiple_of(LOG_BUFFER_BYTES), "{usual_bytes} bytes of usual buffers");
        debug_assert!(self.free.len() * LOG_BUFFER_BYTES <= usual_bytes, "a free buffer is not counted");
        debug_assert!(self.free.iter().all(|buffer| buffer.is_empty() && !buffer.is_large()));
        debug_assert!(
            self.sealed.iter().all(|buffer| !buffer.is_empty()),
            "an empty buffer waits to be written"
        );
        let sealed_bytes: usize = self.sealed.iter().map(|buffer| buffer.capacity()).sum();
        debug_assert!(sealed_bytes <= self.bytes, "a sealed buffer is not counted");
        debug_assert!(self.waiting <= self.workers, "{} of {} workers wait", self.waiting, self.workers);
    }

    /// A buffer is no more: its entries, if it had any, are written.
    fn forget(&mut self, buffer: Box<Buffer>) {
        let capacity = buffer.capacity();
        if let (Some(files), Some(number)) = (&self.files, buffer.mapped_number()) {
            drop(buffer);
            files.remove(number);
        }
        assert!(capacity <= self.bytes, "a buffer that was not counted");
        self.bytes -= capacity;
        if capacity != LOG_BUFFER_BYTES {
            assert!(capacity <= self.large_bytes, "a large buffer that was not counted");
            self.large_bytes -= capacity;
        }
    }

    /// Takes back an empty buffer, or one that is written.
    fn take_back(&mut self, mut buffer: Box<Buffer>) {
        buffer.recycle();
        if buffer.capacity() == LOG_BUFFER_BYTES && self.free.len() < self.workers + FREE_BUFFERS_MAX {
            self.free.push(buffer);
        } else {
            self.forget(buffer);
        }
    }

    /// A new buffer, counted, and with a file where the log is process-safe.
    fn add(&mut self, buffer: Box<Buffer>) -> Result<Box<Buffer>, DiskError> {
        let buffer = match &mut self.files {
            Some(files) => buffer.with_mapped(&mut **files)?,
            None => buffer,
        };
        self.bytes += buffer.capacity();
        if buffer.is_large() {
            self.large_bytes += buffer.capacity();
        }
        Ok(buffer)
    }

    fn take_back_all(&mut self, buffers: impl IntoIterator<Item = Box<Buffer>>) {
        // A stub takes nothing.
        let real = buffers.into_iter().filter(|buffer| buffer.capacity() > 0);
        real.for_each(|buffer| self.take_back(buffer));
        self.check();
    }

    /// A buffer with room for an entry, if the bound allows it.
    fn fresh(&mut self, body_bytes: usize, bound: usize) -> Result<Option<Box<Buffer>>, DiskError> {
        let needed = Buffer::bytes_for(body_bytes);
        if needed <= LOG_BUFFER_BYTES {
            if let Some(buffer) = self.free.pop() {
                return Ok(Some(buffer));
            }
            let is_due = self.bytes - self.large_bytes < self.workers * LOG_BUFFER_BYTES;
            let fits = is_due || self.bytes + LOG_BUFFER_BYTES <= bound;
            return fits.then(|| self.add(Buffer::usual())).transpose();
        }
        while self.bytes + needed > bound {
            let Some(buffer) = self.free.pop() else { break };
            self.forget(buffer);
        }
        let fits = self.large_bytes == 0 || self.bytes + needed <= bound;
        fits.then(|| self.add(Buffer::for_entry(body_bytes))).transpose()
    }
}

#[derive(Debug)]
pub(crate) struct BufferQueue {
    /// Nothing under this lock leaves it half changed.
    state: Mutex<QueueState>,
    space: Condvar,
}

impl BufferQueue {
    pub(crate) fn new() -> Self {
        Self { state: Mutex::new(QueueState::default()), space: Condvar::new() }
    }

    /// Of a log that is process-safe: `first` is a buffer with a file that these made.
    pub(crate) fn mapped(files: Box<dyn MappedFiles>, first: Box<Buffer>) -> Self {
        assert!(
            first.is_empty() && first.mapped_number().is_some(),
            "its file shows what kind of life it is (B4)"
        );
        let bytes = first.capacity();
        let state = QueueState { bytes, free: vec![first], files: Some(files), ..QueueState::default() };
        state.check();
        Self { state: Mutex::new(state), space: Condvar::new() }
    }

    /// A worker joins.
    pub(crate) fn add_worker(&self) {
        let mut state = self.state.lock();
        state.workers += 1;
        state.check();
    }

    /// A worker has gone, and leaves this.
    pub(crate) fn remove_worker(&self, left: Option<Box<Buffer>>) {
        let mut state = self.state.lock();
        assert!(state.workers > 0, "a worker goes that did not join");
        state.workers -= 1;
        state.take_back_all(left);
    }

    /// A worker hands over a buffer that has no room left.
    pub(crate) fn push(&self, buffer: Box<Buffer>) {
        assert!(!buffer.is_empty(), "a buffer without entries is given back, not written");
        let mut state = self.state.lock();
        state.sealed.push(buffer);
        state.check();
    }

    /// Takes all that was pushed.
    #[expect(
        clippy::vec_box,
        reason = "the slot hands boxes over by one exchange; here they only pass through"
    )]
    pub(crate) fn drain(&self) -> Vec<Box<Buffer>> {
        std::mem::take(&mut self.state.lock().sealed)
    }

    /// A buffer with room for an entry with a body of `body_bytes`, waited for while all together take more than
    /// `bound`. The wait is counted in `waits` when it begins, so that it is seen while it lasts. `stopped` ends the
    /// wait, with none.
    ///
    /// # Errors
    /// The log is process-safe, and no file can be had for a new buffer.
    pub(crate) fn fresh(
        &self,
        body_bytes: usize,
        bound: usize,
        waits: &Counter,
        stopped: impl Fn() -> bool,
    ) -> Result<Option<Box<Buffer>>, DiskError> {
        let mut state = self.state.lock();
        let mut waited = false;
        loop {
            if stopped() {
                return Ok(None);
            }
            if let Some(buffer) = state.fresh(body_bytes, bound)? {
                state.check();
                assert!(
                    buffer.is_empty() && buffer.has_room(body_bytes),
                    "a buffer without the room it is for (E1)"
                );
                return Ok(Some(buffer));
            }
            if !waited {
                waits.add(1);
            }
            waited = true;
            state.waiting += 1;
            state = self.space.wait(state);
            state.waiting -= 1;
        }
    }

    /// An empty buffer of the usual size to put in the place of one that is taken, if one is free and no worker waits
    /// for it.
    pub(crate) fn free_buffer(&self) -> Option<Box<Buffer>> {
        let mut state = self.state.lock();
        if state.waiting > 0 { None } else { state.free.pop() }
    }

    /// Takes back buffers that are empty, or whose entries are written.
    pub(crate) fn give_back(&self, buffers: impl IntoIterator<Item = Box<Buffer>>) {
        let mut state = self.state.lock();
        state.take_back_all(buffers);
        let wake = state.waiting > 0;
        drop(state);
        if wake {
            self.space.notify_all();
        }
    }

    /// Capacity of all buffers.
    pub(crate) fn bytes(&self) -> usize {
        self.state.lock().bytes
    }

    /// Wakes workers that wait for space, to find the log stopped.
    pub(crate) fn wake_all(&self) {
        drop(self.state.lock());
        self.space.notify_all();
    }
}
