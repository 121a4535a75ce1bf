//! Closes that would wait for themselves by way of others.

use super::{CallBack, CallBackScope, LogAddress, UnderLock, is_awaited, is_in, leave_to_wait};
use crate::error::DurabilityError;

const A: LogAddress = LogAddress(1 << 40);
const B: LogAddress = LogAddress(2 << 40);
const C: LogAddress = LogAddress(3 << 40);

/// While this thread is in a waker of one log, and closes another.
fn beside_a_close(waits: LogAddress, closes: LogAddress, then: impl FnOnce()) {
    let _waker = CallBackScope::begin(CallBack::Waker, waits);
    let _leave = leave_to_wait(closes).expect("nothing waits for it");
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
            let _step = CallBackScope::begin(CallBack::CheckpointStep, waits);
            match leave_to_wait(closes) {
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
    let waker = CallBackScope::begin(CallBack::Waker, A);
    {
        let _step = CallBackScope::begin(CallBack::CheckpointStep, B);
        assert!(is_in(CallBack::Waker, A) && is_in(CallBack::CheckpointStep, B));
        assert!(!is_in(CallBack::CheckpointStep, A) && !is_in(CallBack::Waker, B));
    }
    assert!(!is_in(CallBack::CheckpointStep, B));
    drop(waker);
    assert!(!is_in(CallBack::Waker, A));
    let own = leave_to_wait(A).expect("it is in none");
    let _waker = CallBackScope::begin(CallBack::Waker, A);
    let again = leave_to_wait(A).expect("a log's own waker is refused, or not, by its owner");
    drop((own, again));
}

/// While this thread has a lock of one log's objects, and waits for another log.
fn beside_a_wait_under_a_lock(of: LogAddress, awaited: LogAddress, then: impl FnOnce()) {
    let _under_lock = UnderLock::begin(of);
    let _leave = leave_to_wait(awaited).expect("nothing waits for it");
    then();
}

#[test]
fn o8_a_wait_under_a_lock_that_would_wait_for_itself_is_refused() {
    beside_a_wait_under_a_lock(A, B, || assert!(is_refused(B, A), "by a call-back"));
    beside_a_close(A, B, || {
        let _under_lock = UnderLock::begin(B);
        assert!(matches!(leave_to_wait(A), Err(DurabilityError::InCallBack)));
    });
    beside_a_wait_under_a_lock(A, B, || {
        // An operation on C within one on B, on another thread.
        let within = || {
            let (_outer, _inner) = (UnderLock::begin(B), UnderLock::begin(C));
            matches!(leave_to_wait(A), Err(DurabilityError::InCallBack))
        };
        std::thread::scope(|scope| {
            let inner = std::thread::Builder::new().spawn_scoped(scope, within).expect("starts");
            assert!(inner.join().expect("no panic"), "B's operation is the outer one");
        });
    });
    assert!(!is_refused(B, A), "the waits have ended");
}

#[test]
fn a_thread_has_the_locks_that_it_has() {
    let outer = UnderLock::begin(A);
    {
        let (_inner, _again) = (UnderLock::begin(B), UnderLock::begin(B));
        assert!(is_awaited(A) && is_awaited(B) && !is_awaited(C));
    }
    assert!(is_awaited(A) && !is_awaited(B));
    drop(outer);
    assert!(!is_awaited(A));
}
