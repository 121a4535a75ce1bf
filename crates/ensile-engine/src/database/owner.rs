//! Who owns a database: its last handle closes it.
//!
//! Invariants:
//! - O8: a close waits for no waker that waits for it: a second one from a waker is refused, any from a waker that a
//!   checkpoint's step calls, and one that would wait for itself by way of other logs' closes.
//! - Whatever panics in a close, the database's threads end with it, and a second close returns an error.
//! - A shared store that does not answer holds a close up for a stated time, and no longer.
//!
//! Neighbours: `open` makes the owner; handles, transactions, snapshots and receipts refer to it.

use std::ops::RangeInclusive;

use ensile_base::Epoch;
use ensile_base::sync::{Arc, Mutex, MutexGuard};
use ensile_durability::DurabilityError;

use super::threads::{SHIPPER, Threads};
use crate::error::{Error, Result};
use crate::session;
use crate::shared::SharedState;

/// Why the log stops when a close panics.
const CLOSE_PANICKED: &str = "a close of the database panicked";
/// Why the log stops when a call-back drops the last handle.
const DROPPED_IN_CALL_BACK: &str =
    "the last handle of the database was dropped in a call-back that a close waits for";

/// What a close does about a picture of what no picture shows yet, in a database without a log (N18).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LastPicture {
    /// It is taken.
    Taken,
    /// It is not wanted: these changes go.
    Declined,
}

/// What is shared and the threads that drive it; the last handle that goes closes it.
pub(crate) struct OpenDatabase {
    pub(crate) shared: Arc<SharedState>,
    pub(crate) threads: Threads,
    /// The result of closing, once it was done.
    pub(crate) closed: Mutex<Option<Closed>>,
}

/// What a close came to; with the epochs that went without a picture.
type Closed = std::result::Result<Option<RangeInclusive<Epoch>>, DurabilityError>;

/// Ends the threads of a database when it is dropped, also by a panic in the midst of a close.
struct EndDatabaseThreads<'d> {
    open: &'d OpenDatabase,
    /// The files are ended: loggers and checkpointers stop by themselves.
    are_files_ended: bool,
}

impl Drop for EndDatabaseThreads<'_> {
    fn drop(&mut self) {
        let shared = &self.open.shared;
        if let Some(log) = shared.log.as_ref().filter(|_| !self.are_files_ended) {
            // Checkpointers stop with the loggers.
            log.stop(CLOSE_PANICKED);
        }
        // What it came to was told, or a panic is.
        let _ = self.open.end_shipping();
        shared.stop.stop();
        shared.memory.stop_preparing();
        self.open.threads.join();
        shared.folder_lock.lock().take();
    }
}

impl OpenDatabase {
    pub(crate) fn close(&self, last: LastPicture) -> Result<Option<RangeInclusive<Epoch>>> {
        self.close_by(|| self.end_files(last))
    }

    /// The first call ends the files so.
    fn close_by(&self, end_files: impl FnOnce() -> Closed) -> Result<Option<RangeInclusive<Epoch>>> {
        self.shared.check_process()?;
        // A second call waits for the first, and returns what it returned.
        let _leave = self.shared.log.as_ref().map(|log| log.leave_to_close()).transpose()?;
        let mut closed = self.lock_closed()?;
        if closed.is_none() {
            // If this one panics.
            *closed = Some(Err(DurabilityError::Stopped(CLOSE_PANICKED.into())));
            self.shared.mark_closed();
            let mut threads = EndDatabaseThreads { open: self, are_files_ended: false };
            let result = end_files();
            threads.are_files_ended = true;
            let shipped = self.end_shipping();
            drop(threads);
            *closed = Some(result.and_then(|lost| shipped.map(|()| lost)));
        }
        Ok(closed.clone().expect("it was just closed")?)
    }

    /// The result of closing, for a thread that may wait for a close that is under way (O8).
    fn lock_closed(&self) -> std::result::Result<MutexGuard<'_, Option<Closed>>, DurabilityError> {
        // A step of a checkpoint that calls a waker holds what any close waits for.
        if self.shared.log.as_ref().is_some_and(|log| log.is_awaited()) {
            return Err(DurabilityError::InCallBack);
        }
        // The close that is under way waits for the thread that calls this waker, or is below it on its stack.
        if self.shared.log.as_ref().is_some_and(|log| log.is_in_waker()) {
            return self.closed.try_lock().ok_or(DurabilityError::InCallBack);
        }
        Ok(self.closed.lock())
    }

    /// Waits for the shipper's step under way, or leaves its thread to itself if that takes too long.
    fn end_shipping(&self) -> std::result::Result<(), DurabilityError> {
        let ended = self.shared.shipping.as_ref().map_or(Ok(()), |shipping| shipping.end());
        if ended.is_err() {
            self.threads.leave(SHIPPER);
        }
        ended
    }

    /// Ends the checkpoints and the log: all that is committed is durable then, but for what goes without a picture.
    fn end_files(&self, last: LastPicture) -> Closed {
        let shared = &*self.shared;
        let (Some(log), Some(checkpoints)) = (&shared.log, &shared.checkpoints) else { return Ok(None) };
        let mut lost = None;
        if shared.settings.is_without_log {
            shared.wait_for_commits();
            match last {
                // What it failed with stops the log, whose close says it again.
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
        if !self.shared.is_own_process() {
            // I4: a child closes, frees, joins and waits for nothing. Its copy of the memory goes with it.
            std::mem::forget(Arc::clone(&self.shared));
            std::mem::forget(std::mem::replace(&mut self.threads, Threads::none()));
            return;
        }
        // An error has nowhere to go here. Strict results were waited for, and `close` returns errors.
        if let Err(Error::Durability(DurabilityError::InCallBack)) = self.close(LastPicture::Taken) {
            // Nobody else can close it. The threads end by themselves, and the folder is free with the last of them.
            self.shared.mark_closed();
            self.shared.log.iter().for_each(|log| log.stop(DROPPED_IN_CALL_BACK));
            self.shared.stop.stop();
            self.shared.memory.stop_preparing();
        }
        self.shared.idle_workers.close();
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

/// What is shared, borrowed from a handle or kept open by one of its own.
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
