//! The one door to atomics, locks, thread-locals and waits of threads: std, loom (`--cfg loom`), shuttle
//! (`--cfg shuttle`), or std counted (feature `counted`).
//!
//! Loom explores weak memory on small kernels. Shuttle explores schedules (sequentially consistent ones only), up to
//! the whole engine. The counted door behaves as std's and notes the cache lines that a thread touches. It is a feature
//! and not a `cfg`, as counted and uncounted types can stand in one build plan.
//!
//! Explored code must not depend on loom's differences: an atomic is larger than its value, and must be made by `new`.
//! Thread-locals are std's under loom: the threads of loom share one thread of the machine.
//!
//! [`Arc`] is for the objects on a transaction's path: tables, the database's core, the slots of epochs and logs. The
//! counting door notes the counts of owners, and loom the last drop. Neither kind can be a method's `self`, hold a
//! `dyn` or be made weak. Other code therefore names `std::sync::Arc`. A file with both kinds calls std's `StdArc`.
//!
//! Neighbours: every crate uses the door; `locks`, `stepped_atomics`, `access_trace`, `plain_access` and `shuttled` are
//! its parts.

#[cfg(all(feature = "counted", not(any(loom, shuttle))))]
pub mod access_trace;
mod locks;
pub mod plain_access;
#[cfg(shuttle)]
mod shuttled;
#[cfg(any(shuttle, all(feature = "counted", not(loom))))]
mod stepped_atomics;

#[cfg(not(any(loom, shuttle)))]
mod door {
    #[cfg(feature = "counted")]
    pub use super::access_trace::Arc;
    #[cfg(feature = "counted")]
    pub use super::stepped_atomics::{AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize};
    pub use std::hint::spin_loop;
    #[cfg(not(feature = "counted"))]
    pub use std::sync::Arc;
    #[cfg(not(feature = "counted"))]
    pub use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize};
    pub use std::sync::atomic::{Ordering, fence};
    pub use std::thread::{Thread, current, park, sleep, yield_now};
    pub use std::thread_local;
}

#[cfg(loom)]
mod door {
    pub use loom::hint::spin_loop;
    pub use loom::sync::Arc;
    pub use loom::sync::atomic::{
        AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering,
    };
    pub use loom::thread::{Thread, current, park, yield_now};
    pub use std::thread_local;

    /// Loom models no time.
    pub fn sleep(_: std::time::Duration) {
        yield_now();
    }

    loom::lazy_static! {
        static ref FENCES: AtomicU64 = AtomicU64::new(0);
    }

    /// Loom's fence, made a step of its own. Loom does not switch threads at a fence, and would explore only the orders
    /// of two threads' fences that the neighbouring steps happen to separate.
    pub fn fence(order: Ordering) {
        // SeqCst: only such fences stand in one order with each other, the basis of a Dekker pair.
        if order == Ordering::SeqCst {
            // Relaxed: a step that depends on every other fence's, and orders nothing.
            FENCES.fetch_add(1, Ordering::Relaxed);
        }
        loom::sync::atomic::fence(order);
    }
}

#[cfg(shuttle)]
mod door {
    pub use super::stepped_atomics::{AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize};
    pub use shuttle::hint::spin_loop;
    pub use shuttle::sync::Arc;
    pub use shuttle::sync::atomic::{Ordering, fence};
    pub use shuttle::thread::{Thread, current, park, yield_now};
    pub use shuttle::thread_local;

    /// The schedule's next random number: a replayed run draws the same numbers.
    #[must_use]
    pub fn next_u64() -> u64 {
        shuttle::rand::RngCore::next_u64(&mut shuttle::rand::thread_rng())
    }

    /// Shuttle models no time: a sleeping thread yields to other threads.
    pub fn sleep(_: std::time::Duration) {
        yield_now();
    }
}

/// The locks inside the door's own locks.
mod machine {
    #[cfg(all(feature = "counted", not(any(loom, shuttle))))]
    pub use super::access_trace::MutexGuard;
    #[cfg(all(feature = "counted", not(any(loom, shuttle))))]
    pub(super) use super::access_trace::{Condvar, Mutex};
    #[cfg(loom)]
    pub use loom::sync::MutexGuard;
    #[cfg(loom)]
    pub(super) use loom::sync::{Condvar, Mutex};
    #[cfg(shuttle)]
    pub use shuttle::sync::MutexGuard;
    #[cfg(shuttle)]
    pub(super) use shuttle::sync::{Condvar, Mutex};
    #[cfg(not(any(loom, shuttle, feature = "counted")))]
    pub use std::sync::MutexGuard;
    #[cfg(not(any(loom, shuttle, feature = "counted")))]
    pub(super) use std::sync::{Condvar, Mutex};
}

pub use door::*;
pub use locks::{Condvar, Mutex, MutexGuard, OnceLock};

/// Adds to a counter with one writer at a time, this thread. A reader sees some value of the counter, in no order with
/// other memory.
#[inline]
#[cfg_attr(feature = "counted", track_caller)]
pub fn add_as_only_writer(counter: &AtomicU64, by: u64) {
    // Relaxed, both: a counter has one writer, and readers need a value, not an order.
    counter.store(counter.load(Ordering::Relaxed).wrapping_add(by), Ordering::Relaxed);
}

/// The fence that x86-64 need not execute: its locked exchanges wait until the stores before are visible, and its loads
/// stay in order. There only the compiler must be held.
#[inline]
fn fence_for_other_machines() {
    if cfg!(all(target_arch = "x86_64", not(any(loom, shuttle, miri)))) {
        // SeqCst: nothing moves across this fence in the code that the compiler makes.
        std::sync::atomic::compiler_fence(Ordering::SeqCst);
    } else {
        // SeqCst: the order that the two callers promise, on any machine.
        fence(Ordering::SeqCst);
    }
}

/// `fence(SeqCst)` between an exchange and later loads. The thread's stores up to its last swap, or its last successful
/// compare-exchange, come before the thread's later loads. Stores since the exchange are not covered.
///
/// ```
/// use ensile_base::sync::{AtomicU64, Ordering, fence_after_exchange};
/// let (lock, epoch) = (AtomicU64::new(0), AtomicU64::new(7));
/// if lock.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_ok() {
///     fence_after_exchange();
///     assert_eq!(epoch.load(Ordering::Relaxed), 7);
/// }
/// ```
#[inline]
pub fn fence_after_exchange() {
    fence_for_other_machines();
}

/// `fence(SeqCst)` between loads and later loads (and stores), if no earlier store has to be seen by other threads
/// first.
#[inline]
pub fn fence_after_loads() {
    fence_for_other_machines();
}

/// Waits politely inside a spin loop: a few processor hints, then the scheduler.
///
/// On a machine with as many busy threads as cores the holder of a latch may be descheduled. Spinning on without
/// yielding would burn the time slice that the holder needs.
#[derive(Debug, Default)]
pub struct Backoff {
    rounds: u32,
}

impl Backoff {
    /// Rounds of processor hints before the first yield.
    const SPIN_ROUNDS: u32 = 6;

    /// A fresh wait.
    #[inline]
    #[must_use]
    pub fn new() -> Self {
        Self { rounds: 0 }
    }

    /// Waits once, longer than before, up to yielding the processor.
    #[inline]
    pub fn wait(&mut self) {
        if cfg!(any(loom, shuttle)) {
            yield_now();
            return;
        }
        if self.rounds < Self::SPIN_ROUNDS {
            for _ in 0..1u32 << self.rounds {
                spin_loop();
            }
            self.rounds += 1;
        } else {
            yield_now();
        }
    }
}

/// A flag that a signal's handler sets: std's own type, for crates that register handlers. No model checker explores
/// the flag, so the flag carries one bit and orders nothing.
pub type SignalFlag = std::sync::atomic::AtomicBool;

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::Backoff;

    #[test]
    fn backoff_reaches_the_yielding_stage_and_stays_there() {
        let mut backoff = Backoff::new();
        for _ in 0..Backoff::SPIN_ROUNDS + 3 {
            backoff.wait();
        }
        assert_eq!(backoff.rounds, Backoff::SPIN_ROUNDS);
    }
}
