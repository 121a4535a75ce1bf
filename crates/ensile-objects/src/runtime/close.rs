//! The owner of open objects: the last handle closes them, except in a forked child (I4).
//!
//! Invariants:
//! - O8: a close never waits for a call-back that waits for the close. The refused calls are a second close from a
//!   waker, any close from user code, and a close that would wait for itself by way of other logs. The drop of a last
//!   handle in user code closes, unless the close would wait for that user code.
//! - If a part of a close panics, the threads end all the same, and a second close returns an error.
//!
//! Neighbours: `open` makes the owner; handles of collections and applications share it.

use std::sync::Arc as StdArc;
use std::time::Duration;

use ensile_base::limits::EPOCH_MICROS_MIN;
use ensile_base::sync::{Mutex, MutexGuard, Ordering, fence, sleep};
use ensile_durability::{DurabilityError, HeldGuard, WaitPermit};
use ensile_epoch::Advance;

use super::open_folder::Runtime;
use super::threads::ObjectThreads;
use crate::error::{ObjectsError, ObjectsResult as Result};

pub(crate) struct OpenRuntime {
    runtime: StdArc<Runtime>,
    threads: ObjectThreads,
    /// Result of the close, once finished.
    closed: Mutex<Option<Result<(), DurabilityError>>>,
}

impl std::ops::Deref for OpenRuntime {
    type Target = Runtime;

    #[inline]
    fn deref(&self) -> &Runtime {
        &self.runtime
    }
}

impl OpenRuntime {
    pub(super) fn start(runtime: StdArc<Runtime>, own_threads: bool) -> Result<Self> {
        let open = Self { runtime, threads: ObjectThreads::default(), closed: Mutex::default() };
        if own_threads {
            open.threads.start(&open.runtime)?;
        }
        Ok(open)
    }

    pub(super) fn shared(&self) -> &StdArc<Runtime> {
        &self.runtime
    }

    /// Makes all logged operations durable, and releases the folder. A second call returns the result of the first.
    pub(crate) fn close(&self) -> Result<()> {
        self.check_caller()?;
        HeldGuard::check_none()?;
        self.close_by(|| self.end_files())
    }

    fn end_files(&self) -> Result<(), DurabilityError> {
        // Before the log releases the folder.
        self.runtime.checkpoints.close(&*self.runtime.state);
        self.runtime.wait_for_entries();
        self.runtime.log.close()
    }

    /// Closes the objects; the first call ends the files by `end_files`.
    fn close_by(&self, end_files: impl FnOnce() -> Result<(), DurabilityError>) -> Result<()> {
        self.check_process()?;
        let (mut closed, _leave) = self.lock_closed()?;
        if closed.is_none() {
            // Result if this close panics.
            *closed = Some(Err(DurabilityError::Stopped(CLOSE_PANICKED.into())));
            self.runtime.mark_closed();
            let mut threads = EndObjectThreads { open: self, are_files_ended: false };
            let result = end_files();
            threads.are_files_ended = true;
            let shipped = self.end_shipping();
            drop(threads);
            *closed = Some(result.and(shipped));
        }
        debug_assert!(self.is_detour_taken(), "no entry is logged at once after a close");
        Ok(closed.clone().expect("it was just closed")?)
    }
}

type LockedClose<'o> = MutexGuard<'o, Option<Result<(), DurabilityError>>>;

impl OpenRuntime {
    /// Locks the result of the close, for a thread that may wait for a close under way (O8).
    fn lock_closed(&self) -> Result<(LockedClose<'_>, WaitPermit), DurabilityError> {
        // A close waits for the checkpoint's step that this thread is in, or for a step that waits for an object of
        // this thread.
        if self.runtime.log.is_awaited() {
            return Err(DurabilityError::InCallBack);
        }
        let leave = self.runtime.log.permit_close()?;
        // The close under way waits for the thread of this waker, or is below the waker on its stack.
        if self.runtime.log.is_in_waker() {
            let closed = self.closed.try_lock().ok_or(DurabilityError::InCallBack)?;
            return Ok((closed, leave));
        }
        Ok((self.closed.lock(), leave))
    }

    /// Waits for the shipper's step under way, or leaves the shipper's thread to itself if the step takes too long.
    fn end_shipping(&self) -> Result<(), DurabilityError> {
        let ended = self.runtime.shipping.as_ref().map_or(Ok(()), |shipping| shipping.end());
        if ended.is_err() {
            self.threads.leave_shipper();
        }
        ended
    }
}

/// Reason for the stop of the log when a close panics.
const CLOSE_PANICKED: &str = "a close of the objects panicked";
/// Reason for the stop of the log when a call-back drops the last handle.
const DROPPED_IN_CALL_BACK: &str =
    "the last handle of the objects was dropped in a call-back that a close waits for";

/// Ends the threads of open objects at its drop, also by a panic in the midst of a close.
struct EndObjectThreads<'o> {
    open: &'o OpenRuntime,
    /// True if the files are ended: loggers and checkpointers stop by themselves.
    are_files_ended: bool,
}

impl Drop for EndObjectThreads<'_> {
    fn drop(&mut self) {
        let runtime = &self.open.runtime;
        if !self.are_files_ended {
            // Checkpointers stop with the loggers.
            runtime.log.stop(CLOSE_PANICKED);
        }
        // The result was returned already, or a panic is under way.
        let _ = self.open.end_shipping();
        runtime.stop.stop();
        self.open.threads.join();
        // Relaxed: this thread has set the mark.
        let is_marked = runtime.marks.closed.load(Ordering::Relaxed);
        debug_assert!(std::thread::panicking() || is_marked, "threads end after the mark");
        runtime.workers.end();
    }
}

impl Runtime {
    /// Waits until no entry that missed the mark of a close is being appended.
    fn wait_for_entries(&self) {
        // Relaxed: this thread has set the mark.
        assert!(self.marks.closed.load(Ordering::Relaxed), "an entry that comes later sees the mark");
        // SeqCst: the mark comes before the look at E and at bindings; partner: the fence behind an entry's bind. An
        // entry that missed the mark is bound to this E or an earlier epoch.
        fence(Ordering::SeqCst);
        self.log.use_kept_epochs();
        let over = self.epochs.now().plus(2);
        while self.epochs.now() < over {
            // A clock that stands still would never let the epoch close; the machine's clock ignores the call.
            self.clock.advance(Duration::from_micros(EPOCH_MICROS_MIN));
            match self.epochs.try_advance_early(self.clock.nanos()) {
                Advance::Advanced(_) => {}
                Advance::AtLimit => return,
                _ => sleep(Duration::from_micros(EPOCH_MICROS_MIN / 2)),
            }
        }
    }
}

impl Drop for OpenRuntime {
    fn drop(&mut self) {
        if self.check_process().is_err() {
            // I4: the child's copy of the memory ends with the child, and the child has none of these threads.
            std::mem::forget(StdArc::clone(&self.runtime));
            self.threads.forget();
            return;
        }
        // An error has no receiver here. Strict results were waited for, and `close` returns errors.
        if let Err(ObjectsError::InCallBack) = self.close_by(|| self.end_files()) {
            // No other handle can close the objects. The threads end by themselves, and the folder is free with the
            // last thread.
            self.runtime.mark_closed();
            self.runtime.log.stop(DROPPED_IN_CALL_BACK);
            self.runtime.stop.stop();
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
