//! Queue of full buffers for the logger, stock of empty buffers for workers (SiloR §3.4), and the bound of their
//! memory: all buffers of a logger's workers, or one buffer a worker, and a single buffer for a larger entry.
//!
//! Invariants: a worker that needs more waits in `reserve`, before it binds (E1), and holds no buffer meanwhile. So
//! some buffer is on its way to the disk, and comes back after the write, not after the sync: a slow sync does not stop
//! workers at once. A buffer that needs a file is handed out once the file is listed (B4).
//! Invariant P2: A worker without a thread registers its waker under the lock under which it finds no space. Each
//! return of space releases all wakers. The end of the logger's step, or the heartbeat, calls the wakers, without a
//! lock.
//!
//! Neighbours: appenders push and ask for fresh buffers, the logger drains and returns them.

use std::task::Waker;

use ensile_base::limits::LOG_BUFFER_BYTES;
use ensile_base::sync::{Condvar, Mutex};
use ensile_base::wakers::{WakerList, drop_waker};
use ensile_disk::DiskError;

use super::buffer::Buffer;
use super::mapped_entries::MappedFiles;
use crate::counter::Counter;

/// Number of empty buffers kept for reuse beyond one per worker.
const FREE_BUFFERS_MAX: usize = 4;

/// List of boxes: the slot hands a box over by one exchange, so the queue keeps boxes.
type BoxedBuffers = Vec<Box<Buffer>>;

/// Full and empty buffers, and the counts of all buffers.
#[derive(Debug, Default)]
struct QueueState {
    /// Full buffers for the logger.
    sealed: BoxedBuffers,
    /// Empty buffers of the usual size for workers.
    free: BoxedBuffers,
    /// Capacity of all counted buffers in bytes, including buffers that are being made; and the capacity of the larger
    /// buffers among them.
    bytes: usize,
    large_bytes: usize,
    workers: usize,
    /// Number of workers whose threads wait for a buffer.
    waiting: usize,
    /// Wakers of workers that wait without a thread.
    wakers: WakerList,
}

/// Source of a worker's buffer.
#[derive(Debug)]
enum FreshBuffer {
    /// An empty buffer of the usual size.
    Free(Box<Buffer>),
    /// The worker makes a buffer of this capacity, already counted, with the file of this number, if any. The worker
    /// first drops the `forgotten` buffers, which made room.
    Make { capacity: usize, number: Option<u64>, forgotten: BoxedBuffers },
    /// The worker drops the `forgotten` buffers, and waits.
    NoRoom { forgotten: BoxedBuffers },
}

impl QueueState {
    /// Checks in debug builds that counts and lists agree.
    fn check(&self) {
        let usual_bytes = self.bytes - self.large_bytes;
        debug_assert!(usual_bytes.is_multiple_of(LOG_BUFFER_BYTES), "{usual_bytes} bytes of usual buffers");
        debug_assert!(self.free.len() * LOG_BUFFER_BYTES <= usual_bytes, "a free buffer is not counted");
        debug_assert!(self.free.iter().all(|buffer| buffer.is_empty() && !buffer.is_large()));
        debug_assert!(self.sealed.iter().all(|buffer| !buffer.is_empty()), "an empty buffer waits");
        let sealed_bytes: usize = self.sealed.iter().map(|buffer| buffer.capacity()).sum();
        debug_assert!(sealed_bytes <= self.bytes, "a sealed buffer is not counted");
        debug_assert!(self.waiting <= self.workers, "{} of {} workers wait", self.waiting, self.workers);
    }

    /// Counts a buffer of this capacity before the worker makes the buffer.
    fn count(&mut self, capacity: usize) {
        self.bytes += capacity;
        if capacity > LOG_BUFFER_BYTES {
            self.large_bytes += capacity;
        }
    }

    /// Removes a buffer of this capacity from the counts.
    fn uncount(&mut self, capacity: usize) {
        assert!(capacity <= self.bytes, "a buffer that was not counted");
        self.bytes -= capacity;
        if capacity != LOG_BUFFER_BYTES {
            assert!(capacity <= self.large_bytes, "a large buffer that was not counted");
            self.large_bytes -= capacity;
        }
    }

    /// Takes back empty buffers; returns the buffers beyond the stock, uncounted.
    fn take_back(&mut self, buffers: BoxedBuffers) -> BoxedBuffers {
        let mut forgotten = Vec::new();
        for buffer in buffers {
            if buffer.capacity() == LOG_BUFFER_BYTES && self.free.len() < self.workers + FREE_BUFFERS_MAX {
                self.free.push(buffer);
            } else {
                self.uncount(buffer.capacity());
                forgotten.push(buffer);
            }
        }
        self.check();
        forgotten
    }

    /// A buffer with room for an entry, if the bound allows a buffer. A buffer with a file also needs a free file
    /// number.
    fn fresh(&mut self, body_bytes: usize, bound: usize, files: Option<&dyn MappedFiles>) -> FreshBuffer {
        let needed = Buffer::bytes_for(body_bytes).max(LOG_BUFFER_BYTES);
        let mut forgotten = Vec::new();
        let fits = if needed == LOG_BUFFER_BYTES {
            if let Some(buffer) = self.free.pop() {
                return FreshBuffer::Free(buffer);
            }
            let is_due = self.bytes - self.large_bytes < self.workers * LOG_BUFFER_BYTES;
            is_due || self.bytes + LOG_BUFFER_BYTES <= bound
        } else {
            while self.bytes + needed > bound {
                let Some(buffer) = self.free.pop() else { break };
                self.uncount(buffer.capacity());
                forgotten.push(buffer);
            }
            self.large_bytes == 0 || self.bytes + needed <= bound
        };
        let number = if fits { files.map(MappedFiles::take_number) } else { None };
        if !fits || number == Some(None) {
            return FreshBuffer::NoRoom { forgotten };
        }
        self.count(needed);
        FreshBuffer::Make { capacity: needed, number: number.flatten(), forgotten }
    }
}

/// Outcome of a search for a buffer without a wait.
#[derive(Debug)]
pub(crate) enum FoundBuffer {
    Fresh(Box<Buffer>),
    /// The log refuses entries.
    Refused,
    /// The waker is registered, and is called once a new search is worthwhile.
    Registered,
}

/// The buffers of one log. Files are made and removed, and pages touched, outside of the lock. The system may take long
/// for this work, and other workers do not wait.
#[derive(Debug)]
pub(crate) struct BufferQueue {
    /// No panic under this lock leaves the state half changed.
    state: Mutex<QueueState>,
    space: Condvar,
    /// Files for the buffers of a process-safe log.
    files: Option<Box<dyn MappedFiles>>,
}

impl BufferQueue {
    pub(crate) fn new() -> Self {
        Self { state: Mutex::new(QueueState::default()), space: Condvar::new(), files: None }
    }

    /// Queue of a process-safe log; `first` is a buffer with a file of `files`.
    pub(crate) fn with_mapped_files(files: Box<dyn MappedFiles>, first: Box<Buffer>) -> Self {
        assert!(first.is_empty() && first.mapped_number().is_some(), "its file shows the kind of life (B4)");
        let mut state = QueueState::default();
        state.count(first.capacity());
        state.free.push(first);
        state.check();
        Self { state: Mutex::new(state), space: Condvar::new(), files: Some(files) }
    }

    /// Records that the process is alive at this time, in seconds since 1970.
    pub(crate) fn note_alive(&self, unix_seconds: u64) {
        if let Some(files) = &self.files {
            files.note_alive(unix_seconds);
        }
    }

    /// Makes a buffer that is already counted.
    fn make(&self, capacity: usize, number: Option<u64>) -> Result<Box<Buffer>, DiskError> {
        let buffer = Buffer::of_capacity(capacity);
        let (Some(files), Some(number)) = (&self.files, number) else { return Ok(buffer) };
        let made = buffer.with_mapped(&**files, number);
        if made.is_err() {
            let mut state = self.state.lock();
            state.uncount(capacity);
            state.wakers.release_all();
            state.check();
            drop(state);
            self.space.notify_all();
        }
        made
    }

    /// Drops uncounted buffers and removes their files.
    fn forget(&self, buffers: BoxedBuffers) {
        for buffer in buffers {
            if let (Some(files), Some(mapped)) = (&self.files, buffer.into_mapped()) {
                files.remove(mapped);
            }
        }
    }

    /// Takes back empty buffers, or buffers whose entries stand in a log of this number of blocks. Wakes waiting
    /// threads, and releases the wakers of workers without a thread.
    pub(crate) fn give_back(&self, buffers: impl IntoIterator<Item = Box<Buffer>>, log_blocks: u64) {
        // A stub has no capacity.
        let mut buffers: Vec<_> = buffers.into_iter().filter(|buffer| buffer.capacity() > 0).collect();
        if buffers.is_empty() {
            return;
        }
        buffers.iter_mut().for_each(|buffer| buffer.recycle(log_blocks));
        let mut state = self.state.lock();
        let forgotten = state.take_back(buffers);
        if !forgotten.is_empty() {
            drop(state);
            // The numbers of removed files are space too, so the wakers are released afterwards.
            self.forget(forgotten);
            state = self.state.lock();
        }
        state.wakers.release_all();
        let are_waiting = state.waiting > 0;
        drop(state);
        if are_waiting {
            self.space.notify_all();
        }
    }

    pub(crate) fn add_worker(&self) {
        let mut state = self.state.lock();
        state.workers += 1;
        state.check();
    }

    /// Removes a worker, and takes back its empty buffer.
    pub(crate) fn remove_worker(&self, left: Option<Box<Buffer>>) {
        assert!(left.iter().all(|left| left.is_empty()), "L2: its entries are taken");
        let mut state = self.state.lock();
        assert!(state.workers > 0, "a worker goes that did not join");
        state.workers -= 1;
        drop(state);
        self.give_back(left, 0);
    }

    /// Takes a full buffer from a worker.
    pub(crate) fn push(&self, buffer: Box<Buffer>) {
        assert!(!buffer.is_empty(), "a buffer without entries is given back, not written");
        let mut state = self.state.lock();
        state.sealed.push(buffer);
        state.check();
    }

    /// Returns all pushed buffers. The logger calls `drain` after the scan of its workers' slots (L1).
    pub(crate) fn drain(&self) -> BoxedBuffers {
        std::mem::take(&mut self.state.lock().sealed)
    }

    /// A buffer with room for an entry with a body of `body_bytes`. The call waits while all buffers together take more
    /// than `bound`. `waits` counts the wait at its beginning, so that figures show a lasting wait. `stopped` ends the
    /// wait without a buffer. With `step` the thread waits by calling `step` repeatedly, without a lock of this queue:
    /// `step` writes full buffers. The error is that a process-safe log gets no file for a new buffer.
    pub(crate) fn fresh(
        &self,
        body_bytes: usize,
        bound: usize,
        waits: &Counter,
        stopped: impl Fn() -> bool,
        step: Option<&dyn Fn()>,
    ) -> Result<Option<Box<Buffer>>, DiskError> {
        let mut state = self.state.lock();
        let mut waited = false;
        loop {
            if stopped() {
                return Ok(None);
            }
            let fresh = state.fresh(body_bytes, bound, self.files.as_deref());
            state.check();
            let buffer = match fresh {
                FreshBuffer::Free(buffer) => buffer,
                FreshBuffer::Make { capacity, number, forgotten } => {
                    drop(state);
                    self.forget(forgotten);
                    self.make(capacity, number)?
                }
                FreshBuffer::NoRoom { forgotten } => {
                    if !waited {
                        waits.add(1);
                    }
                    waited = true;
                    if !forgotten.is_empty() {
                        drop(state);
                        self.forget(forgotten);
                        // A buffer may have come back meanwhile.
                        state = self.state.lock();
                        continue;
                    }
                    state.waiting += 1;
                    state = match step {
                        Some(step) => {
                            drop(state);
                            step();
                            self.state.lock()
                        }
                        None => self.space.wait(state),
                    };
                    state.waiting -= 1;
                    continue;
                }
            };
            assert!(buffer.is_empty() && buffer.has_room(body_bytes), "a buffer without its room (E1)");
            return Ok(Some(buffer));
        }
    }

    /// As [`BufferQueue::fresh`], without a wait: without space `waker` is taken, and registered under `number`, or
    /// under a new number.
    ///
    /// # Errors
    /// As for [`BufferQueue::fresh`].
    pub(crate) fn find_fresh(
        &self,
        body_bytes: usize,
        bound: usize,
        stopped: impl Fn() -> bool,
        waker: &mut Option<Waker>,
        number: &mut Option<u64>,
    ) -> Result<FoundBuffer, DiskError> {
        loop {
            let mut state = self.state.lock();
            // Under the lock: a refusal from now on finds the waker (P2).
            if stopped() {
                return Ok(FoundBuffer::Refused);
            }
            let fresh = state.fresh(body_bytes, bound, self.files.as_deref());
            state.check();
            let buffer = match fresh {
                FreshBuffer::Free(buffer) => buffer,
                FreshBuffer::Make { capacity, number, forgotten } => {
                    drop(state);
                    self.forget(forgotten);
                    self.make(capacity, number)?
                }
                FreshBuffer::NoRoom { forgotten } if !forgotten.is_empty() => {
                    drop(state);
                    self.forget(forgotten);
                    // A buffer may have come back meanwhile.
                    continue;
                }
                FreshBuffer::NoRoom { .. } => {
                    // Under the lock that has shown no space: each return of space from now on finds the waker (P2).
                    let waker = waker.take().expect("a task registers its waker once a try");
                    let replaced = state.wakers.register(number, waker);
                    drop(state);
                    drop_waker(replaced);
                    return Ok(FoundBuffer::Registered);
                }
            };
            assert!(
                buffer.is_empty() && buffer.has_room(body_bytes),
                "a buffer without the room it is for (E1)"
            );
            return Ok(FoundBuffer::Fresh(buffer));
        }
    }

    /// Removes the waker of a worker that waits no more.
    pub(crate) fn withdraw(&self, number: u64) {
        let waker = self.state.lock().wakers.withdraw(number);
        drop_waker(waker);
    }

    /// Takes the wakers for which space has come. The caller calls the wakers without a lock.
    #[must_use = "a released waker is called"]
    pub(crate) fn take_released(&self) -> Vec<Waker> {
        self.state.lock().wakers.take_released()
    }

    /// A free buffer of the usual size as the replacement of a taken buffer, if no worker waits for a buffer.
    pub(crate) fn free_buffer(&self) -> Option<Box<Buffer>> {
        let mut state = self.state.lock();
        if state.waiting > 0 || state.wakers.is_waiting() { None } else { state.free.pop() }
    }

    /// Takes back an empty buffer. True if wakers are to be called: the caller makes the logger step.
    pub(crate) fn give_back_empty(&self, buffer: Box<Buffer>) -> bool {
        assert!(buffer.is_empty(), "what has entries is written first");
        self.give_back([buffer], 0);
        self.state.lock().wakers.has_released()
    }

    /// Capacity of all buffers, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.state.lock().bytes
    }

    /// Wakes the threads that wait for space, which then find the log stopped. Releases the wakers of workers without
    /// a thread.
    pub(crate) fn wake_all(&self) {
        self.state.lock().wakers.release_all();
        self.space.notify_all();
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
