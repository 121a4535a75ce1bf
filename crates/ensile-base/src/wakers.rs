//! Wakers of tasks that wait without a thread: for log space, or for the end of another thread's turn.
//!
//! ```text
//! register --release--> released --take_released--> the caller unlocks, and calls the wakers
//!          --withdraw-> dropped by the caller, unlocked
//! ```
//! Invariants:
//! - A waker is foreign code. So no function of this module clones, calls or drops a waker: the list lies under a lock
//!   of its owner, and the caller acts without the lock.
//! - A registered waker is released or withdrawn, and a released waker is taken once.
//! - A panic of a waker ends in the function that clones, calls or drops the waker. No panic meets half a change.
//!
//! Neighbours: the log's buffer queue and the engine's commit gate have a list each.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Waker;

/// Registered wakers by their numbers, and wakers that are to be called.
#[derive(Debug, Default)]
pub struct WakerList {
    waiting: BTreeMap<u64, Waker>,
    released: Vec<Waker>,
    /// Number of the last new registration.
    last: u64,
}

impl WakerList {
    /// Registers a waker under its number, or under a new number. Returns the earlier waker of the number, which the
    /// caller drops without the owner's lock.
    pub fn register(&mut self, number: &mut Option<u64>, waker: Waker) -> Option<Waker> {
        if number.is_none() {
            self.last += 1;
        }
        let number = *number.get_or_insert(self.last);
        assert!(number <= self.last, "a number that this list has given");
        self.waiting.insert(number, waker)
    }

    /// Removes the waker of a number, if the waker is not released yet. The caller drops the waker without the owner's
    /// lock.
    #[must_use = "the caller drops it without the lock"]
    pub fn withdraw(&mut self, number: u64) -> Option<Waker> {
        assert!(number <= self.last, "a number that this list has given");
        self.waiting.remove(&number)
    }

    /// Releases all registered wakers.
    pub fn release_all(&mut self) {
        self.released.extend(std::mem::take(&mut self.waiting).into_values());
    }

    /// Releases a waker that is not registered here.
    pub fn release(&mut self, waker: Waker) {
        self.released.push(waker);
    }

    /// Takes the released wakers. The caller calls the wakers without the owner's lock.
    #[must_use = "a released waker is called"]
    pub fn take_released(&mut self) -> Vec<Waker> {
        std::mem::take(&mut self.released)
    }

    /// True if a waker is registered.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// True if a waker is to be called.
    #[must_use]
    pub fn has_released(&self) -> bool {
        !self.released.is_empty()
    }
}

/// Calls a waker. A panic of the waker ends here: the panic hook has reported the panic, and the waker's owner answers
/// for the waker's state.
pub fn call_waker(waker: Waker) {
    let _ = catch_unwind(AssertUnwindSafe(|| waker.wake()));
}

/// Clones a waker. `None` after a panic of the waker's clone, which the panic hook has reported.
#[must_use]
pub fn clone_waker(waker: &Waker) -> Option<Waker> {
    catch_unwind(AssertUnwindSafe(|| waker.clone())).ok()
}

/// Drops a waker, or a value with a waker. A panic of the drop ends here.
pub fn drop_waker<W>(waker: W) {
    let _ = catch_unwind(AssertUnwindSafe(|| drop(waker)));
}

#[cfg(test)]
mod tests;
