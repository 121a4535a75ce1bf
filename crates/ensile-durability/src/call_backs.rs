//! Where a thread runs the application's code: call-backs of logs and checkpoints, and under an object's lock. And what
//! is called there and waits: closes, and waits for checkpoints (O8).
//!
//! ```text
//! code of A, in a waker, a step or under a lock, closes B     A's close, or checkpoint, waits for that code, it for B
//! meanwhile code of B closes A                                and B for this code: refused
//! ```
//! Invariant: O8: no such wait is begun that would wait for itself, by way of others of these.
//!
//! Neighbours: `log::waiters`, `checkpoint::manager` and objects say when a thread is in such code; engine and objects
//! ask for leave before they close, and `checkpoint::ticket` before a wait.

use std::cell::{Cell, RefCell};

use ensile_base::sync::{Mutex, OnceLock, thread_local};

use crate::error::DurabilityError;

/// Which call-backs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallBack {
    /// Of a future.
    Waker,
    /// Of a checkpoint's step, which encodes an object.
    CheckpointStep,
}

/// A log, by its address: what runs the application's code holds it open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LogAddress(pub(crate) usize);

thread_local! {
    /// The call-backs that this thread is in: one may end another log, and so be in one of that.
    static CALL_BACKS: RefCell<Vec<(CallBack, LogAddress)>> = const { RefCell::new(Vec::new()) };
}

thread_local! {
    /// The log of the objects one of whose locks this thread has while it runs the application's code; or 0.
    static UNDER_LOCK_OF: Cell<usize> = const { Cell::new(0) };
    /// Those that it had before: an operation on one collection may call another one.
    static OUTER_LOCKS_OF: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

/// Waits that the application's code has begun.
static WAITS: OnceLock<Mutex<Vec<AwaitedLog>>> = OnceLock::new();

/// Code that one log may have to wait for waits for the close, or a checkpoint, of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct AwaitedLog {
    waits: LogAddress,
    awaited: LogAddress,
}

/// Until it is dropped this thread is in a call-back.
#[derive(Debug)]
pub(crate) struct CallBackScope {
    /// Those that it was in before; `None` on a thread that ends and keeps no more of them.
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

    /// Whether a close in it sees that.
    pub(crate) fn is_kept(&self) -> bool {
        self.outer.is_some()
    }
}

impl Drop for CallBackScope {
    fn drop(&mut self) {
        let Some(outer) = self.outer else { return };
        // A thread's values go behind its calls: if they are gone, so is this one.
        let _ = CALL_BACKS.try_with(|of| {
            let mut of = of.borrow_mut();
            debug_assert_eq!(of.len(), outer + 1, "call-backs within a call-back end before it does (O8)");
            of.truncate(outer);
        });
    }
}

/// Whether this thread is in such a call-back of this log. A handle that goes with the values of its thread may ask
/// behind those: it is in none.
pub(crate) fn is_in(call_back: CallBack, log: LogAddress) -> bool {
    CALL_BACKS.try_with(|of| of.borrow().contains(&(call_back, log))).unwrap_or(false)
}

/// Until it is dropped this thread runs the application's code under the lock of an object (O8).
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
    // A thread that ends keeps no more of them.
    let _ = OUTER_LOCKS_OF.try_with(|of| of.borrow_mut().push(outer));
}

#[cold]
fn forget_outer() {
    let forgotten = OUTER_LOCKS_OF.try_with(|of| of.borrow_mut().pop());
    debug_assert!(forgotten != Ok(None), "what begins within an operation ends before it does");
}

/// Whether a checkpoint of this log waits for this thread, and so does a close: it is in a step, or has an object's
/// lock.
pub(crate) fn is_awaited(log: LogAddress) -> bool {
    let is_outer = || OUTER_LOCKS_OF.try_with(|of| of.borrow().contains(&log.0)).unwrap_or(false);
    is_in(CallBack::CheckpointStep, log) || UNDER_LOCK_OF.with(Cell::get) == log.0 || is_outer()
}

/// The logs, one or more times, that may have to wait for the code that this thread is in.
fn held() -> Vec<LogAddress> {
    let call_backs = CALL_BACKS.try_with(|of| of.borrow().iter().map(|&(_, log)| log).collect::<Vec<_>>());
    let mut logs = call_backs.unwrap_or_default();
    let _ = OUTER_LOCKS_OF.try_with(|of| logs.extend(of.borrow().iter().map(|&log| LogAddress(log))));
    logs.extend(Some(UNDER_LOCK_OF.with(Cell::get)).filter(|&log| log != 0).map(LogAddress));
    logs
}

/// Leave to close a log, or to wait for a checkpoint of it, until it is dropped.
#[derive(Debug)]
#[must_use = "it lasts as long as the wait"]
pub struct WaitLeave(
    /// What waits for it.
    Vec<AwaitedLog>,
);

/// Leave to close this log on this thread, or to wait for a checkpoint of it. Whether it may be closed in its own
/// code, its owner says.
///
/// # Errors
/// [`DurabilityError::InCallBack`]: that would wait for code that waits for it.
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

/// Whether code of one log waits for the other, by way of others too. What waits has no cycle.
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
