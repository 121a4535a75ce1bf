//! Closes that would wait for themselves by way of others.

use super::*;

/// Three logs of one test. The process has one list of all waits, and tests run at the same time.
fn logs(test: usize) -> [LogAddress; 3] {
    [1, 2, 3].map(|log| LogAddress((8 * test + log) << 40))
}

/// While this thread is in a waker of one log, and closes another.
fn beside_a_close(waits: LogAddress, closes: LogAddress, then: impl FnOnce()) {
    let _waker = CallBackScope::begin(CallBack::Waker, waits);
    let _leave = permit_wait(closes).expect("nothing waits for it");
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
            match permit_wait(closes) {
                Ok(_) => false,
                Err(DurabilityError::InCallBack) => true,
                Err(other) => panic!("{other}"),
            }
        };
        std::thread::Builder::new().spawn_scoped(scope, tries).expect("starts").join().expect("no panic")
    })
}

#[test]
fn o8_a_close_or_a_wait_in_user_code_that_would_wait_for_itself_is_refused() {
    let [a, b, c] = logs(0);
    beside_a_close(a, b, || {
        assert!(is_refused(b, a), "A's call-back waits for B's close");
        assert!(!is_refused(b, c) && !is_refused(c, a) && !is_refused(a, b));
    });
    beside_a_close(a, b, || {
        beside_a_close_of_another_thread(b, c, || assert!(is_refused(c, a), "by way of B"))
    });
    assert!(!is_refused(b, a), "the closes have ended");
    let [a, b, _] = logs(2);
    beside_a_wait_in_user_code(a, b, || assert!(is_refused(b, a), "by a call-back"));
    beside_a_close(a, b, || {
        let _user_code = OutermostUserCode::begin(b);
        let _nested = UserCode::begin();
        assert!(matches!(permit_wait(a), Err(DurabilityError::InCallBack)));
    });
    assert!(!is_refused(b, a), "the waits have ended");
}

#[test]
fn a_thread_is_in_the_call_backs_that_it_is_in() {
    let [a, b, _] = logs(1);
    let waker = CallBackScope::begin(CallBack::Waker, a);
    {
        let _step = CallBackScope::begin(CallBack::CheckpointStep, b);
        assert!(is_in(CallBack::Waker, a) && is_in(CallBack::CheckpointStep, b));
        assert!(!is_in(CallBack::CheckpointStep, a) && !is_in(CallBack::Waker, b));
    }
    assert!(!is_in(CallBack::CheckpointStep, b));
    drop(waker);
    assert!(!is_in(CallBack::Waker, a));
    let own = permit_wait(a).expect("it is in none");
    let _waker = CallBackScope::begin(CallBack::Waker, a);
    let again = permit_wait(a).expect("a log's own waker is refused, or not, by its owner");
    drop((own, again));
}

/// While this thread runs user code of one log's objects, and waits for another log, as the drop of a handle does.
fn beside_a_wait_in_user_code(of: LogAddress, awaited: LogAddress, then: impl FnOnce()) {
    let _user_code = OutermostUserCode::begin(of);
    let _leave = permit_wait(awaited).expect("nothing waits for it");
    then();
}

#[test]
fn o8_a_thread_is_in_user_code_until_its_mark_ends() {
    let [a, b, _] = logs(3);
    assert!(UserCode::check_outside().is_ok());
    let outer = OutermostUserCode::begin(a);
    {
        let _inner = UserCode::begin();
        assert!(matches!(UserCode::check_outside(), Err(DurabilityError::InCallBack)));
    }
    assert!(UserCode::is_running() && is_awaited(a) && !is_awaited(b));
    drop(outer);
    assert!(!UserCode::is_running() && !is_awaited(a));
}
