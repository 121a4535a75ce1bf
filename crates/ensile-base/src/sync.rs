//! The one door to atomics, locks and threads' hints: std, loom (`--cfg loom`), shuttle (`--cfg shuttle`), or std
//! counted (feature `counted`).
//!
//! Every crate takes its atomics from here and from nowhere else, so that model checkers see the shipped types.
//! Loom explores weak memory on small kernels; shuttle explores schedules (sequentially consistent ones only) on
//! whole structures. The counted door behaves as std's and notes which cache lines a thread touches, and how: it is
//! how reads are held to write no line that others touch. A feature and not a `cfg`, as counted and uncounted types can
//! stand in one build plan: with the feature off, none of it is compiled.
//!
//! Two things differ under a checker and code must not depend on them: an atomic may be larger than its value, and
//! it must be made by `new` (a zeroed page is not a valid loom atomic). The counted door differs in neither, but its
//! `Arc`, like loom's, cannot be a method's `self`.

#[cfg(all(feature = "counted", not(any(loom, shuttle))))]
pub mod counted;
pub mod note;

#[cfg(not(any(loom, shuttle)))]
mod door {
    #[cfg(feature = "counted")]
    pub use super::counted::{
        Arc, AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Condvar, Mutex, MutexGuard,
    };
    pub use std::hint::spin_loop;
    #[cfg(not(feature = "counted"))]
    pub use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize};
    pub use std::sync::atomic::{Ordering, fence};
    #[cfg(not(feature = "counted"))]
    pub use std::sync::{Arc, Condvar, Mutex, MutexGuard};
    pub use std::thread::yield_now;
}

#[cfg(loom)]
mod door {
    pub use loom::hint::spin_loop;
    pub use loom::sync::atomic::{
        AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
    };
    pub use loom::sync::{Arc, Condvar, Mutex, MutexGuard};
    pub use loom::thread::yield_now;
}

#[cfg(shuttle)]
mod door {
    pub use shuttle::hint::spin_loop;
    pub use shuttle::sync::atomic::{
        AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
    };
    pub use shuttle::sync::{Arc, Condvar, Mutex, MutexGuard};
    pub use shuttle::thread::yield_now;
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
