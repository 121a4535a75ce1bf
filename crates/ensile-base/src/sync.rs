//! The one door to atomics, locks and threads' hints: std, loom (`--cfg loom`) or shuttle (`--cfg shuttle`).
//!
//! Every crate takes its atomics from here and from nowhere else, so that model checkers see the shipped types.
//! Loom explores weak memory on small kernels; shuttle explores schedules (sequentially consistent ones only) on
//! whole structures, up to the whole engine: so what a thread keeps for itself, and what it waits by, come through here too.
//!
//! Two things differ under loom and what it explores must not depend on them: an atomic is larger than its value, and
//! it must be made by `new` (a zeroed page is not a valid loom atomic). Thread-locals are std's there: loom's threads
//! share one thread of the machine, so what loom explores keeps none.

#[cfg(shuttle)]
mod shuttled;

#[cfg(not(any(loom, shuttle)))]
mod door {
    pub use std::hint::spin_loop;
    pub use std::sync::atomic::{
        AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
    };
    pub use std::sync::{Arc, Condvar, Mutex, MutexGuard};
    pub use std::thread::{Thread, current, park, sleep, yield_now};
    pub use std::thread_local;
}

#[cfg(loom)]
mod door {
    pub use loom::hint::spin_loop;
    pub use loom::sync::atomic::{
        AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
    };
    pub use loom::sync::{Arc, Condvar, Mutex, MutexGuard};
    pub use loom::thread::{Thread, current, park, yield_now};
    pub use std::thread_local;

    /// Loom models no time.
    pub fn sleep(_: std::time::Duration) {
        yield_now();
    }
}

#[cfg(shuttle)]
mod door {
    pub use super::shuttled::{AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize};
    pub use shuttle::hint::spin_loop;
    pub use shuttle::sync::atomic::{Ordering, fence};
    pub use shuttle::sync::{Arc, Condvar, Mutex, MutexGuard};
    pub use shuttle::thread::{Thread, current, park, yield_now};
    pub use shuttle::thread_local;

    /// The schedule's next number: a run that is replayed draws the same.
    #[must_use]
    pub fn next_u64() -> u64 {
        shuttle::rand::RngCore::next_u64(&mut shuttle::rand::thread_rng())
    }

    /// Shuttle models no time: whoever sleeps waits for others.
    pub fn sleep(_: std::time::Duration) {
        yield_now();
    }
}

pub use door::*;

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
