//! The one door to atomics, locks and threads' hints: std, loom (`--cfg loom`), shuttle (`--cfg shuttle`), or std
//! counted (feature `counted`).
//!
//! Every crate takes its atomics from here and from nowhere else, so that model checkers see the shipped types. Loom
//! explores weak memory on small kernels; shuttle explores schedules (sequentially consistent ones only) on whole
//! structures, up to the whole engine: so what a thread keeps for itself, and what it waits by, come through here too.
//! The counted door behaves as std's and notes which cache lines a thread touches, and how: it is how reads are held to
//! write no line that others touch. A feature and not a `cfg`, as counted and uncounted types can stand in one build
//! plan: with the feature off, none of it is compiled.
//!
//! Two things differ under loom and what it explores must not depend on them: an atomic is larger than its value, and
//! it must be made by `new` (a zeroed page is not a valid loom atomic). Thread-locals are std's there: loom's threads
//! share one thread of the machine, so what loom explores keeps none. The counted door differs in neither.
//!
//! Locks are the door's own types, which do not speak of std's poison.
//!
//! [`Arc`] is for what a transaction's path reaches: tables, the database's core, the slots of epochs and logs. There
//! the counting door notes its counts of owners, and loom its last drop. Neither kind can be a method's `self`, hold a
//! `dyn` or be made weak, so all else names `std::sync::Arc`; a file that needs both calls std's `StdArc`.

#[cfg(all(feature = "counted", not(any(loom, shuttle))))]
pub mod counted;
mod locks;
pub mod note;
#[cfg(shuttle)]
mod shuttled;

#[cfg(not(any(loom, shuttle)))]
mod door {
    #[cfg(feature = "counted")]
    pub use super::counted::{Arc, AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize};
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

    /// Loom's fence, made a step of its own: loom does not switch threads at a fence, so that it would explore only
    /// those orders of two threads' fences that the steps beside them happen to make differ.
    pub fn fence(order: Ordering) {
        // SeqCst: only such fences stand in one order with each other, which is what a Dekker pair rests on.
        if order == Ordering::SeqCst {
            // Relaxed: a step that depends on every other fence's, and orders nothing.
            FENCES.fetch_add(1, Ordering::Relaxed);
        }
        loom::sync::atomic::fence(order);
    }
}

#[cfg(shuttle)]
mod door {
    pub use super::shuttled::{AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize};
    pub use shuttle::hint::spin_loop;
    pub use shuttle::sync::Arc;
    pub use shuttle::sync::atomic::{Ordering, fence};
    pub use shuttle::thread::{Thread, current, park, yield_now};
    pub use shuttle::thread_local;

    /// The schedule's next number: a run that is replayed draws the same.
    #[must_use]
    pub fn next_u64() -> u64 {
        shuttle::rand::RngCore::next_u64(&mut shuttle::rand::thread_rng())
    }

    /// Shuttle models no time: a thread that sleeps yields to others.
    pub fn sleep(_: std::time::Duration) {
        yield_now();
    }
}

/// The locks inside the door's own.
mod machine {
    #[cfg(all(feature = "counted", not(any(loom, shuttle))))]
    pub use super::counted::MutexGuard;
    #[cfg(all(feature = "counted", not(any(loom, shuttle))))]
    pub(super) use super::counted::{Condvar, Mutex};
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

/// The fence that x86-64 needs not execute: its locked exchanges wait until all stores before them are visible, and its
/// loads stay in order. What is left for it to do there is to hold the compiler.
#[inline]
fn fence_for_other_machines() {
    if cfg!(all(target_arch = "x86_64", not(any(loom, shuttle, miri)))) {
        // SeqCst: nothing moves across this in the code that the compiler makes.
        std::sync::atomic::compiler_fence(Ordering::SeqCst);
    } else {
        // SeqCst: the order that the two callers promise, on any machine.
        fence(Ordering::SeqCst);
    }
}

/// `fence(SeqCst)` between an exchange and what follows it: all that this thread stored up to its last swap, or its
/// last successful compare-exchange, comes before all that it loads from here on. Stores since that exchange are not
/// covered.
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

/// `fence(SeqCst)` between loads and later loads (and stores), where no earlier store has to be seen by others first.
#[inline]
pub fn fence_after_loads() {
    fence_for_other_machines();
}

/// Waits politely inside a spin loop: a few processor hints, then the scheduler.
///
/// On a machine with as many busy threads as cores the holder of a latch may be descheduled; spinning on without
/// yielding would burn the slice that it needs.
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

    /// One wait, longer than the one before, up to yielding the processor.
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

/// A flag that a signal's handler sets: std's own, which crates that register handlers take. No model checker explores
/// it, so it carries one bit and orders nothing.
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
