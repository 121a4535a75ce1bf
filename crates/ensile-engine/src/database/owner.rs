//! Owner of a database: the drop of the last handle closes the database.
//!
//! Invariants:
//! - O8: A close waits for no waker that waits for the close. A second close from a waker is refused. A close is also
//!   refused from a waker called by a checkpoint's step, and from a waker that would wait for itself through closes of
//!   other logs.
//! - After a panic in a close, the database's threads still end, and a second close returns an error.
//! - A shared store without an answer delays a close for a stated time at most.
//!
//! Neighbours: `open` makes the owner. Handles, transactions, snapshots and receipts refer to the owner.

use std::ops::RangeInclusive;

use ensile_base::Epoch;
use ensile_base::sync::{Arc, Mutex, MutexGuard};
use ensile_durability::DurabilityError;

use super::threads::{SHIPPER, Threads};
use crate::commit_gate::Gate;
use crate::error::{Error, Result};
use crate::session;
use crate::shared_state::SharedState;

/// Reason for the stop of the log after a panic in a close.
const CLOSE_PANICKED: &str = "a close of the database panicked";
/// Reason for the stop of the log after a drop of the last handle in a call-back.
const DROPPED_IN_CALL_BACK: &str =
    "the last handle of the database was dropped in a call-back that a close waits for";

/// Last picture at the close of a database without a log, with the changes since the picture before (N18).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LastPicture {
    /// The close takes the picture.
    Taken,
    /// The close takes no picture, and the changes are lost.
    Declined,
}

/// Shared state of a database, with its threads. The drop of the last handle closes the database.
pub(crate) struct OpenDatabase {
    pub(crate) shared: Arc<SharedState>,
    pub(crate) threads: Threads,
    /// Result of the close; `None` before.
    pub(crate) closed: Mutex<Option<Closed>>,
}

/// Result of a close, with the lost epochs of a close without a picture.
type Closed = std::result::Result<Option<RangeInclusive<Epoch>>, DurabilityError>;

/// Guard that ends the threads of a database, also after a panic in a close.
struct EndDatabaseThreads<'d> {
    open: &'d OpenDatabase,
    /// True once the files are ended: loggers and checkpointers then stop by themselves.
    are_files_ended: bool,
}

impl Drop for EndDatabaseThreads<'_> {
    fn drop(&mut self) {
        let shared = &self.open.shared;
        if let Some(log) = shared.storage.log.as_ref().filter(|_| !self.are_files_ended) {
            // Checkpointers stop with the loggers.
            log.stop(CLOSE_PANICKED);
        }
        // The result was returned before, or a panic is under way.
        let _ = self.open.end_shipping();
        shared.heartbeat.stop.stop();
        shared.memory.stop_preparing();
        self.open.threads.join();
        shared.storage.folder_lock.lock().take();
    }
}

/// Guard that wakes the tasks at the gate of a closed database. The drop comes after the release of the close's lock,
/// because wakers run foreign code.
struct WakeTasks<'d> {
    gate: &'d Gate,
}

impl Drop for WakeTasks<'_> {
    fn drop(&mut self) {
        self.gate.wake_released();
    }
}

impl OpenDatabase {
    /// Closes the database for `Database::close`, `Database::close_without_picture` and the drop of the last handle.
    /// Returns the epochs of lost commits; `None` without a loss.
    pub(crate) fn close(&self, last: LastPicture) -> Result<Option<RangeInclusive<Epoch>>> {
        self.close_by(|| self.end_files(last))
    }

    /// Closes the database. The first call ends the files with `end_files`.
    fn close_by(&self, end_files: impl FnOnce() -> Closed) -> Result<Option<RangeInclusive<Epoch>>> {
        self.shared.life.check_process()?;
        // A second call waits for the first, and returns the same result.
        let _wake = WakeTasks { gate: &self.shared.life.gate };
        let _leave = self.shared.storage.log.as_ref().map(|log| log.permit_close()).transpose()?;
        let mut closed = self.lock_closed()?;
        if closed.is_none() {
            // The result in the case of a panic below.
            *closed = Some(Err(DurabilityError::Stopped(CLOSE_PANICKED.into())));
            self.shared.life.mark_closed();
            let mut threads = EndDatabaseThreads { open: self, are_files_ended: false };
            let result = end_files();
            threads.are_files_ended = true;
            let shipped = self.end_shipping();
            drop(threads);
            *closed = Some(result.and_then(|lost| shipped.map(|()| lost)));
        }
        Ok(closed.clone().expect("it was just closed")?)
    }

    /// Result of the close, locked by a thread that may wait for a close under way (O8).
    fn lock_closed(&self) -> std::result::Result<MutexGuard<'_, Option<Closed>>, DurabilityError> {
        // A checkpoint's step with a waker call holds a lock that every close waits for.
        if self.shared.storage.log.as_ref().is_some_and(|log| log.is_awaited()) {
            return Err(DurabilityError::InCallBack);
        }
        // The close under way waits for the thread of this waker, or is below the waker on the stack.
        let is_in_waker = self.shared.storage.log.as_ref().is_some_and(|log| log.is_in_waker());
        if is_in_waker || self.shared.life.gate.call_backs().is_in_waker() {
            return self.closed.try_lock().ok_or(DurabilityError::InCallBack);
        }
        Ok(self.closed.lock())
    }

    /// Waits for the shipper's step under way, at most for `ShippingConfig::close_wait`. After this time the thread is
    /// detached, and the result is an error.
    fn end_shipping(&self) -> std::result::Result<(), DurabilityError> {
        let ended = self.shared.storage.shipping.as_ref().map_or(Ok(()), |shipping| shipping.end());
        if ended.is_err() {
            self.threads.detach(SHIPPER);
        }
        ended
    }

    /// Ends the checkpoints and the log. All commits are then durable, except changes without a picture.
    fn end_files(&self, last: LastPicture) -> Closed {
        let shared = &*self.shared;
        let (Some(log), Some(checkpoints)) = (&shared.storage.log, &shared.storage.checkpoints) else {
            return Ok(None);
        };
        let mut lost = None;
        if shared.settings.is_without_log {
            shared.wait_for_commits();
            match last {
                // A failure stops the log, and the log's close returns the error.
                LastPicture::Taken => drop(checkpoints.take_last(shared)),
                LastPicture::Declined => {
                    let changed = checkpoints.has_changes(shared);
                    lost = changed.then(|| log.durable_epoch().next()..=shared.epochs.now());
                }
            }
        }
        // Before the log releases the folder.
        checkpoints.close(shared);
        if !shared.settings.is_without_log {
            shared.wait_for_commits();
        }
        log.close().map(|()| lost)
    }
}

impl Drop for OpenDatabase {
    fn drop(&mut self) {
        if !self.shared.life.is_own_process() {
            // I4: a child closes, frees, joins and waits for nothing. The child's copy of the memory ends with the
            // process.
            std::mem::forget(Arc::clone(&self.shared));
            std::mem::forget(std::mem::replace(&mut self.threads, Threads::new()));
            return;
        }
        // A drop returns no error. Strict results were waited for, and `close` returns errors.
        if let Err(Error::InCallBack) = self.close(LastPicture::Taken) {
            // No other handle can close the database. The threads end by themselves, and the last of them frees the
            // folder.
            self.shared.life.mark_closed();
            self.shared.storage.log.iter().for_each(|log| log.stop(DROPPED_IN_CALL_BACK));
            self.shared.heartbeat.stop.stop();
            self.shared.memory.stop_preparing();
        }
        self.shared.workers.idle.close();
        session::forget_closed();
        if self.threads.have_ended()
            && let Some(shared) = Arc::get_mut(&mut self.shared)
        {
            #[cfg(feature = "audit")]
            if !std::thread::panicking() {
                shared.audit();
            }
            shared.memory.release();
        }
    }
}

/// Shared state, borrowed from a handle or kept open by its own handle.
pub(crate) enum DatabaseRef<'db> {
    Borrowed(&'db SharedState),
    Owned(Arc<OpenDatabase>),
}

impl DatabaseRef<'_> {
    /// Another reference of the same kind.
    #[inline]
    pub(crate) fn another(&self) -> Self {
        match self {
            Self::Borrowed(shared) => Self::Borrowed(shared),
            Self::Owned(open) => Self::Owned(Arc::clone(open)),
        }
    }
}

impl std::ops::Deref for DatabaseRef<'_> {
    type Target = SharedState;

    #[inline]
    fn deref(&self) -> &SharedState {
        match self {
            Self::Borrowed(shared) => shared,
            Self::Owned(open) => &open.shared,
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
