//! The list of wakers, and wakers that panic.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Wake, Waker};

use super::{WakerList, call_waker, clone_waker, drop_waker};

#[derive(Default)]
struct Counts(AtomicU32);

impl Wake for Counts {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn a_waker_is_called_once_for_its_last_registration_and_not_after_its_withdrawal() {
    let (counts, mut list) = (Arc::new(Counts::default()), WakerList::default());
    let waker = || Waker::from(Arc::clone(&counts));
    let (mut first, mut second) = (None, None);
    assert!(list.register(&mut first, waker()).is_none());
    assert!(list.register(&mut second, waker()).is_none() && first != second);
    assert!(list.register(&mut first, waker()).is_some(), "the earlier waker of the same number");
    assert!(list.withdraw(second.expect("registered")).is_some());
    list.release_all();
    assert!(list.has_released() && !list.is_waiting());
    list.take_released().into_iter().for_each(call_waker);
    assert_eq!((counts.0.load(Ordering::Relaxed), list.has_released()), (1, false));
    assert!(list.withdraw(first.expect("registered")).is_none(), "it was released");
}

#[test]
fn a_waker_that_panics_does_not_reach_its_caller() {
    struct Panics;
    impl Wake for Panics {
        fn wake(self: Arc<Self>) {
            panic!("a waker panics in this test");
        }
    }
    call_waker(Waker::from(Arc::new(Panics)));
}

#[test]
fn a_drop_of_a_waker_that_panics_does_not_reach_its_caller() {
    struct Panics;
    impl Wake for Panics {
        fn wake(self: Arc<Self>) {}
    }
    impl Drop for Panics {
        fn drop(&mut self) {
            panic!("the drop of a waker panics in this test");
        }
    }
    let waker = Waker::from(Arc::new(Panics));
    let clone = clone_waker(&waker).expect("its clone does not panic");
    drop_waker(waker);
    drop_waker(Some(clone));
}
