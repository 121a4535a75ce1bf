//! Counts of two loops: which loop closes a connection, and when.

use ensile_base::sync::{Arc, AtomicUsize, Ordering};

use super::{ConnectionMemory, LoopMemory};
use crate::event::ConnectionId;
use crate::transport::LoopWakeUp;

const LIMIT: usize = 1000;
const ONE: ConnectionId = ConnectionId { index: 1, generation: 0 };
const OTHER: ConnectionId = ConnectionId { index: 2, generation: 0 };

/// A loop with the number of its wake-ups.
fn new_loop(shared: &Arc<ConnectionMemory>) -> (LoopMemory, Arc<AtomicUsize>) {
    let woken = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&woken);
    let wake_up = LoopWakeUp::new(move || {
        // Relaxed: a count of this thread.
        count.fetch_add(1, Ordering::Relaxed);
    });
    (LoopMemory::new(Arc::clone(shared), wake_up), woken)
}

#[test]
fn w16_the_loop_of_the_largest_connection_closes_it_and_is_woken_by_others() {
    let shared = ConnectionMemory::new(LIMIT);
    let ((mut one, _), (mut other, woken)) = (new_loop(&shared), new_loop(&shared));
    other.change(OTHER, 0, 600);
    one.change(ONE, 0, 300);
    one.change(OTHER, 0, 100);
    assert!(!one.exceeds_limit(), "W16: the limit is not exceeded");
    one.change(ONE, 300, 301);
    assert!(one.exceeds_limit() && one.to_close().is_none(), "W16: the other loop has the largest");
    // Relaxed: a count of this thread.
    assert_eq!(woken.load(Ordering::Relaxed), 1, "W16");
    assert_eq!(other.to_close(), Some(OTHER), "W16");
    other.change(OTHER, 600, 0);
    assert!(!one.exceeds_limit() && one.to_close().is_none(), "W16: no other is closed");
    one.change(OTHER, 100, 800);
    assert_eq!(one.to_close(), Some(OTHER), "W16: the largest of its own");
}

#[test]
fn w16_a_loop_that_ends_gives_its_memory_back() {
    let shared = ConnectionMemory::new(LIMIT);
    let ((mut one, _), (mut other, _)) = (new_loop(&shared), new_loop(&shared));
    one.change(ONE, 0, 900);
    other.change(ONE, 0, 200);
    drop(one);
    assert_eq!(shared.bytes(), 200, "W16");
    other.change(ONE, 200, 1001);
    assert_eq!(other.to_close(), Some(ONE), "W16: no loop is waited for that has ended");
}

#[test]
fn a_peak_is_reported_once() {
    let (mut one, _) = new_loop(&ConnectionMemory::new(usize::MAX));
    one.change(ONE, 0, 500);
    one.change(ONE, 500, 100);
    assert_eq!((one.take_peak(), one.take_peak(), one.bytes()), (500, 100, 100));
}
