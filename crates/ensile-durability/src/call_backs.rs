//! Threads inside the application's code (call-backs of logs and checkpoints, code under an object's lock), and the
//! waits begun in such code: closes, and waits for checkpoints (O8).
//!
//! ```text
//! code of A, in a waker, a step or under a lock, closes B     A's close, or checkpoint, waits for that code, it for B
//! meanwhile code of B closes A                                and B for this code: refused
//! ```
//! Invariant: O8: no wait begins that would wait for itself, by a chain of such waits.
//!
//! Neighbours: `log::waiters`, `checkpoint::manager` and objects report a thread inside such code. Engine and objects
//! ask for leave before a close, and `checkpoint::ticket` before a wait.

use std::cell::{Cell, RefCell};

use ensile_base::sync::{Mutex, OnceLock, thread_local};

use crate::error::DurabilityError;

/// Kind of a call-back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallBack {
    /// Waker of a future.
    Waker,
    /// Step of a checkpoint that encodes an object.
    CheckpointStep,
}

/// A log, by its address; the runner of the application's code keeps the log open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LogAddress(pub(crate) usize);

thread_local! {
    /// Call-backs around this thread's code: a call-back may end another log, and so run inside a call-back of the
    /// other log.
    static CALL_BACKS: RefCell<Vec<(CallBack, LogAddress)>> = const { RefCell::new(Vec::new()) };
}

thread_local! {
    /// Log of the objects whose lock this thread holds while the thread runs the application's code; or 0.
    static UNDER_LOCK_OF: Cell<usize> = const { Cell::new(0) };
    /// Logs of the outer locks: an operation on a collection may call another collection.
    static OUTER_LOCKS_OF: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

/// Waits that the application's code has begun.
static WAITS: OnceLock<Mutex<Vec<AwaitedLog>>> = OnceLock::new();

/// A wait for the close or a checkpoint of the log `awaited`, begun in code for which the log `waits` may have to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct AwaitedLog {
    waits: LogAddress,
    awaited: LogAddress,
}

/// Marks this thread as inside a call-back until the drop.
#[derive(Debug)]
pub(crate) struct CallBackScope {
    /// Number of outer call-backs; `None` on an ending thread, which records no call-backs.
    outer: Option<usize>,
}

impl CallBackScope {
    pub(crate) fn begin(call_back: CallBack, log: LogAddress) -> Self {
        let begun = CALL_BACKS.try_with(|of| {
            let mut of = of.borrow_mut();
            of.push((call_back, log));
            of.len() - 1
        });
        Self { outer: begun.ok() }
    }

    /// True if a close inside the call-back finds the record.
    pub(crate) fn is_kept(&self) -> bool {
        self.outer.is_some()
    }
}

impl Drop for CallBackScope {
    fn drop(&mut self) {
        let Some(outer) = self.outer else { return };
        // An ending thread drops its thread-local values after its calls: without the values the record is gone too.
        let _ = CALL_BACKS.try_with(|of| {
            let mut of = of.borrow_mut();
            debug_assert_eq!(of.len(), outer + 1, "call-backs within a call-back end before it does (O8)");
            of.truncate(outer);
        });
    }
}

/// True if this thread is in a call-back of this kind and log. A handle dropped with the thread-local values may ask
/// after the values are gone: the thread is then in no call-back.
pub(crate) fn is_in(call_back: CallBack, log: LogAddress) -> bool {
    CALL_BACKS.try_with(|of| of.borrow().contains(&(call_back, log))).unwrap_or(false)
}

/// Marks this thread as running the application's code under the lock of an object (O8), until the drop.
#[derive(Debug)]
pub struct UnderLock {
    outer: usize,
}

impl UnderLock {
    #[inline]
    pub(crate) fn begin(LogAddress(log): LogAddress) -> Self {
        let outer = UNDER_LOCK_OF.with(|of| of.replace(log));
        if outer != 0 {
            keep_outer(outer);
        }
        Self { outer }
    }
}

impl Drop for UnderLock {
    #[inline]
    fn drop(&mut self) {
        UNDER_LOCK_OF.with(|of| of.set(self.outer));
        if self.outer != 0 {
            forget_outer();
        }
    }
}

#[cold]
fn keep_outer(outer: usize) {
    // An ending thread records no outer locks.
    let _ = OUTER_LOCKS_OF.try_with(|of| of.borrow_mut().push(outer));
}

#[cold]
fn forget_outer() {
    let forgotten = OUTER_LOCKS_OF.try_with(|of| of.borrow_mut().pop());
    debug_assert!(forgotten != Ok(None), "what begins within an operation ends before it does");
}

/// True if a checkpoint of this log, and so a close, waits for this thread: the thread is in a step, or holds an
/// object's lock.
pub(crate) fn is_awaited(log: LogAddress) -> bool {
    let is_outer = || OUTER_LOCKS_OF.try_with(|of| of.borrow().contains(&log.0)).unwrap_or(false);
    is_in(CallBack::CheckpointStep, log) || UNDER_LOCK_OF.with(Cell::get) == log.0 || is_outer()
}

/// Logs that may have to wait for this thread's code, possibly repeated.
fn held() -> Vec<LogAddress> {
    let call_backs = CALL_BACKS.try_with(|of| of.borrow().iter().map(|&(_, log)| log).collect::<Vec<_>>());
    let mut logs = call_backs.unwrap_or_default();
    let _ = OUTER_LOCKS_OF.try_with(|of| logs.extend(of.borrow().iter().map(|&log| LogAddress(log))));
    logs.extend(Some(UNDER_LOCK_OF.with(Cell::get)).filter(|&log| log != 0).map(LogAddress));
    logs
}

/// Leave to close a log, or to wait for a checkpoint of the log, until the drop.
#[derive(Debug)]
#[must_use = "it lasts as long as the wait"]
pub struct WaitLeave(
    /// Waits under this leave.
    Vec<AwaitedLog>,
);

/// Leave to close this log on this thread, or to wait for a checkpoint of the log. The log's owner decides about a
/// close in the log's own code.
///
/// # Errors
/// [`DurabilityError::InCallBack`]: the wait would wait for code that waits for the caller.
pub(crate) fn leave_to_wait(log: LogAddress) -> Result<WaitLeave, DurabilityError> {
    let others = held().into_iter().filter(|&waits| waits != log);
    let others: Vec<_> = others.map(|waits| AwaitedLog { waits, awaited: log }).collect();
    if others.is_empty() {
        return Ok(WaitLeave(others));
    }
    let mut waits = waits().lock();
    if others.iter().any(|of| waits_for(&waits, log, of.waits)) {
        return Err(DurabilityError::InCallBack);
    }
    waits.extend(&others);
    Ok(WaitLeave(others))
}

fn waits() -> &'static Mutex<Vec<AwaitedLog>> {
    WAITS.get_or_init(Mutex::default)
}

/// True if code of `log` waits for `other`, directly or by a chain of logs. The waits have no cycle.
fn waits_for(waits: &[AwaitedLog], log: LogAddress, other: LogAddress) -> bool {
    let mut its = waits.iter().filter(|of| of.waits == log);
    its.any(|of| of.awaited == other || waits_for(waits, of.awaited, other))
}

impl Drop for WaitLeave {
    fn drop(&mut self) {
        if self.0.is_empty() {
            return;
        }
        let mut waits = waits().lock();
        for ended in &self.0 {
            let at = waits.iter().position(|of| of == ended).expect("it is there until now");
            waits.swap_remove(at);
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
