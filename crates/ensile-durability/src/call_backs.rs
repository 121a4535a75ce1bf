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
pub(crate) struct InCallBack {
    /// Those that it was in before.
    outer: usize,
}

impl InCallBack {
    pub(crate) fn begin(call_back: CallBack, log: LogAddress) -> Self {
        CALL_BACKS.with(|of| {
            let mut of = of.borrow_mut();
            of.push((call_back, log));
            Self { outer: of.len() - 1 }
        })
    }
}

impl Drop for InCallBack {
    fn drop(&mut self) {
        CALL_BACKS.with(|of| {
            let mut of = of.borrow_mut();
            debug_assert_eq!(
                of.len(),
                self.outer + 1,
                "call-backs within a call-back end before it does (O8)"
            );
            of.truncate(self.outer);
        });
    }
}

/// Whether this thread is in such a call-back of this log.
pub(crate) fn is_in(call_back: CallBack, log: LogAddress) -> bool {
    CALL_BACKS.with(|of| of.borrow().contains(&(call_back, log)))
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
        .with(|of| of.borrow().iter().map(awaited).filter(|of| of.waits != log).collect::<Vec<_>>());
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
mod tests {
    use super::{CallBack, InCallBack, LogAddress, is_in, leave_to_close};
    use crate::error::DurabilityError;

    const A: LogAddress = LogAddress(1 << 40);
    const B: LogAddress = LogAddress(2 << 40);
    const C: LogAddress = LogAddress(3 << 40);

    /// While this thread is in a waker of one log, and closes another.
    fn beside_a_close(waits: LogAddress, closes: LogAddress, then: impl FnOnce()) {
        let _waker = InCallBack::begin(CallBack::Waker, waits);
        let _leave = leave_to_close(closes).expect("nothing waits for it");
        then();
    }

    fn beside_a_close_of_another_thread(waits: LogAddress, closes: LogAddress, then: impl FnOnce() + Send) {
        std::thread::scope(|scope| {
            let both = || beside_a_close(waits, closes, then);
            std::thread::Builder::new().spawn_scoped(scope, both).expect("starts").join().expect("no panic");
        });
    }

    /// Whether another thread, in a checkpoint's call-back, may not close.
    fn is_refused(waits: LogAddress, closes: LogAddress) -> bool {
        std::thread::scope(|scope| {
            let tries = || {
                let _step = InCallBack::begin(CallBack::CheckpointStep, waits);
                match leave_to_close(closes) {
                    Ok(_) => false,
                    Err(DurabilityError::InCallBack) => true,
                    Err(other) => panic!("{other}"),
                }
            };
            std::thread::Builder::new().spawn_scoped(scope, tries).expect("starts").join().expect("no panic")
        })
    }

    #[test]
    fn o8_a_close_that_would_wait_for_itself_by_way_of_others_is_refused() {
        beside_a_close(A, B, || {
            assert!(is_refused(B, A), "A's call-back waits for B's close");
            assert!(!is_refused(B, C) && !is_refused(C, A) && !is_refused(A, B));
        });
        beside_a_close(A, B, || {
            beside_a_close_of_another_thread(B, C, || assert!(is_refused(C, A), "by way of B"))
        });
        assert!(!is_refused(B, A), "the closes have ended");
    }

    #[test]
    fn a_thread_is_in_the_call_backs_that_it_is_in() {
        let waker = InCallBack::begin(CallBack::Waker, A);
        {
            let _step = InCallBack::begin(CallBack::CheckpointStep, B);
            assert!(is_in(CallBack::Waker, A) && is_in(CallBack::CheckpointStep, B));
            assert!(!is_in(CallBack::CheckpointStep, A) && !is_in(CallBack::Waker, B));
        }
        assert!(!is_in(CallBack::CheckpointStep, B));
        drop(waker);
        assert!(!is_in(CallBack::Waker, A));
        let own = leave_to_close(A).expect("it is in none");
        let _waker = InCallBack::begin(CallBack::Waker, A);
        let again = leave_to_close(A).expect("a log's own waker is refused, or not, by its owner");
        drop((own, again));
    }
}
