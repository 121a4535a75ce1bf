//! A lock after a panic: taken by those who do not ask, refused to those who do.

use super::{Condvar, Mutex, OnceLock};

fn panicked() -> Mutex<u64> {
    let lock = Mutex::new(7);
    let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _guard = lock.lock();
        panic!("on purpose");
    }));
    assert!(ended.is_err());
    lock
}

#[test]
fn a_panic_under_a_lock_does_not_close_it() {
    let mut lock = panicked();
    *lock.lock() += 1;
    *lock.try_lock().expect("it is free") += 1;
    *lock.get_mut() += 1;
    assert_eq!(lock.into_inner(), 10);
}

#[test]
fn a_panic_under_a_lock_is_seen_by_those_who_ask() {
    let lock = panicked();
    assert!(lock.lock_unless_panicked().is_none());
    assert!(lock.try_lock_unless_panicked().is_none());
    let sound = Mutex::new(7);
    assert_eq!(sound.lock_unless_panicked().map(|guard| *guard), Some(7));
}

#[test]
fn a_lock_that_is_held_is_not_taken_twice() {
    let lock = Mutex::new(7);
    let held = lock.lock();
    assert!(lock.try_lock_unless_panicked().is_none() && lock.try_lock().is_none());
    drop(held);
    assert!(lock.try_lock_unless_panicked().is_some());
}

#[test]
fn a_waiting_thread_has_the_lock_again_once_woken() {
    let (lock, changed) = (Mutex::new(false), Condvar::new());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            *lock.lock() = true;
            changed.notify_all();
        });
        let mut guard = lock.lock();
        while !*guard {
            guard = changed.wait(guard);
        }
    });
}

#[test]
fn a_value_is_set_once() {
    let once = OnceLock::new();
    assert_eq!(once.get(), None);
    assert_eq!(once.set(1), Ok(()));
    assert_eq!((once.set(2), once.get()), (Err(2), Some(&1)));
    assert_eq!(*once.get_or_init(|| 3), 1);
}
