//! Call-backs of logs and checkpoints, and closes that are called in them (O8).
//!
//! ```text
//! a waker of log A, or a call-back of its checkpoint, closes B    A's close waits for that call-back, it for B's close
//! meanwhile one of B's closes A                                   and B's close for this one: refused
//! ```
//! Invariant: O8: no close is begun that would wait for itself, by way of other closes that call-backs wait for.
//!
//! Neighbours: `log::waiters` and `checkpoint::manager` say when a thread is in a call-back; engine and objects ask for
//! leave before they close.

use std::cell::RefCell;

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

/// A log, by its address: a call-back holds it open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LogAddress(pub(crate) usize);

thread_local! {
    /// The call-backs that this thread is in: one may end another log, and so be in one of that.
    static CALL_BACKS: RefCell<Vec<(CallBack, LogAddress)>> = const { RefCell::new(Vec::new()) };
}

/// Closes that call-backs wait for.
static CLOSES: OnceLock<Mutex<Vec<AwaitedClose>>> = OnceLock::new();

/// A call-back of one log waits for the close of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct AwaitedClose {
    waits: LogAddress,
    closes: LogAddress,
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

/// Leave to close a log, until it is dropped.
#[derive(Debug)]
#[must_use = "it lasts as long as the close"]
pub struct CloseLeave(
    /// What waits for the close.
    Vec<AwaitedClose>,
);

/// Leave to close this log on this thread.
///
/// # Errors
/// [`DurabilityError::InCallBack`]: the close would wait for a call-back that waits for it.
pub(crate) fn leave_to_close(log: LogAddress) -> Result<CloseLeave, DurabilityError> {
    let awaited = |&(_, waits): &(CallBack, LogAddress)| AwaitedClose { waits, closes: log };
    let others = CALL_BACKS
        .try_with(|of| of.borrow().iter().map(awaited).filter(|of| of.waits != log).collect::<Vec<_>>())
        .unwrap_or_default();
    if others.is_empty() {
        return Ok(CloseLeave(others));
    }
    let mut closes = closes().lock();
    if others.iter().any(|of| waits_for(&closes, log, of.waits)) {
        return Err(DurabilityError::InCallBack);
    }
    closes.extend(&others);
    Ok(CloseLeave(others))
}

fn closes() -> &'static Mutex<Vec<AwaitedClose>> {
    CLOSES.get_or_init(Mutex::default)
}

/// Whether call-backs of one log wait for the other's close, by way of others too. What waits has no cycle.
fn waits_for(closes: &[AwaitedClose], log: LogAddress, other: LogAddress) -> bool {
    let mut its = closes.iter().filter(|of| of.waits == log);
    its.any(|of| of.closes == other || waits_for(closes, of.closes, other))
}

impl Drop for CloseLeave {
    fn drop(&mut self) {
        if self.0.is_empty() {
            return;
        }
        let mut closes = closes().lock();
        for ended in &self.0 {
            let at = closes.iter().position(|of| of == ended).expect("it is there until now");
            closes.swap_remove(at);
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
