//! Requests of turns: the order of the threads and tasks that wait, and the calls of tasks without a thread.
//!
//! ```text
//! Task --its turn may begin--> CalledTask --tries in time--> the turn, or Task again if it may not begin
//!                                         --no try for PASSING_NANOS_MAX--> passed over, in its place
//! ```
//! Invariants:
//! - P1: A turn begins if each request in front of it is passed over. A passed-over request keeps its place: a try of
//!   its task begins the turn, or waits as before.
//! - P2: A task that waits has its waker in the queue. The waker leaves the queue once its turn may begin.
//!
//! Neighbours: [`super`] has the lock and the word, `transaction::turn_request` has the requests of applications.

use std::collections::VecDeque;
use std::task::Waker;
use std::time::Duration;

use ensile_base::clock::Clock;
use ensile_base::wakers::{clone_waker, drop_waker};
use ensile_epoch::Epochs;

use super::{ClosureTurn, Gate, PASSING_NANOS_MAX};
use crate::error::{Error, Result};

/// Party that waits for a turn.
#[derive(Debug)]
pub(super) enum TurnWaiter {
    /// A thread, which looks again and again.
    Thread,
    /// A task that is to be called.
    Task(Waker),
    /// A task that was called at this time, in nanoseconds of the database's clock.
    CalledTask(u64),
}

impl TurnWaiter {
    /// True if the task was called, and has not tried in time.
    fn is_passed_over(&self, now_nanos: u64) -> bool {
        matches!(self, Self::CalledTask(called) if now_nanos >= called.saturating_add(PASSING_NANOS_MAX))
    }

    /// Takes the waker of a task that is to be called.
    fn call(&mut self, now_nanos: u64) -> Option<Waker> {
        if !matches!(self, Self::Task(_)) {
            return None;
        }
        match std::mem::replace(self, Self::CalledTask(now_nanos)) {
            Self::Task(waker) => Some(waker),
            Self::Thread | Self::CalledTask(_) => unreachable!("a task, just now"),
        }
    }
}

/// A waiting party, with the number of its turn.
#[derive(Debug)]
struct QueuedTurn {
    number: u64,
    waiter: TurnWaiter,
}

/// Waiting threads and tasks, in the order of arrival.
#[derive(Debug, Default)]
pub(super) struct TurnQueue {
    waiting: VecDeque<QueuedTurn>,
    /// Number of the last requested turn.
    last_number: u64,
}

impl TurnQueue {
    /// Adds a waiting party behind all others. Returns the number of its turn.
    pub(super) fn add(&mut self, waiter: TurnWaiter) -> u64 {
        self.last_number += 1;
        self.waiting.push_back(QueuedTurn { number: self.last_number, waiter });
        self.last_number
    }

    /// Removes a party, which the caller drops without the lock.
    #[must_use = "a waker is dropped without the lock"]
    pub(super) fn remove(&mut self, number: u64) -> Option<TurnWaiter> {
        let at = self.waiting.iter().position(|queued| queued.number == number)?;
        self.waiting.remove(at).map(|queued| queued.waiter)
    }

    /// True if no party waits.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Number of waiting parties.
    #[cfg(all(test, not(any(loom, shuttle))))]
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// True if all parties in front of this party are passed over.
    pub(super) fn is_next(&self, number: u64, now_nanos: u64) -> bool {
        let is_in_the_way = |queued: &&QueuedTurn| !queued.waiter.is_passed_over(now_nanos);
        let next = self.waiting.iter().find(|queued| queued.number == number || is_in_the_way(queued));
        debug_assert!(next.is_some(), "a turn that may begin is waited for");
        next.is_some_and(|queued| queued.number == number)
    }

    /// The waker of the task whose turn is the next, if the task waits for a call.
    pub(super) fn call_next(&mut self, now_nanos: u64) -> Option<Waker> {
        let mut waiters = self.waiting.iter_mut().map(|queued| &mut queued.waiter);
        waiters.find(|waiter| !waiter.is_passed_over(now_nanos))?.call(now_nanos)
    }

    /// The waker of any task that waits for a call.
    pub(super) fn call_any(&mut self) -> Option<Waker> {
        self.waiting.iter_mut().find_map(|queued| queued.waiter.call(u64::MAX))
    }

    /// Makes a task wait with this waker. Returns the task's former state, which the caller drops without the lock.
    fn set_waker(&mut self, number: u64, waker: Waker) -> Option<TurnWaiter> {
        let found = self.waiting.iter_mut().find(|queued| queued.number == number);
        debug_assert!(found.is_some(), "a request waits until its turn begins, or until its drop");
        found.map(|queued| std::mem::replace(&mut queued.waiter, TurnWaiter::Task(waker)))
    }
}

impl Gate {
    /// Queues a task's request of a turn. Returns the number of the turn. `waker` is called once the turn may begin,
    /// also before the return.
    ///
    /// # Errors
    /// [`Error::Closed`]. [`Error::Misuse`] if the waker cannot be cloned.
    pub(crate) fn request_turn(&self, waker: &Waker, clock: &Clock) -> Result<u64> {
        let waker = clone_waker(waker).ok_or_else(no_clone)?;
        let mut turns = self.turns.lock();
        // Under the lock: a close from now on finds the request (P2).
        if self.is_closed() {
            turns.wakers.release(waker);
            self.unlock_and_wake(turns);
            return Err(Error::Closed);
        }
        let number = turns.waiting.add(TurnWaiter::Task(waker));
        self.end_if_overdue(&mut turns, clock);
        turns.release_next(clock);
        self.unlock_and_wake(turns);
        Ok(number)
    }

    /// Calls the waker of a refused request, so that its task asks for the reason.
    pub(crate) fn call_refused(&self, waker: &Waker) {
        let Some(waker) = clone_waker(waker) else { return };
        if !self.process.is_this() {
            // I4: a forked child takes no lock.
            return self.call_backs().call(waker);
        }
        let mut turns = self.turns.lock();
        turns.wakers.release(waker);
        self.unlock_and_wake(turns);
    }

    /// Begins the requested turn for this thread, for at most `longest`, if the turn may begin. Otherwise `waker` is
    /// called once the turn may begin.
    ///
    /// # Errors
    /// As for [`Gate::request_turn`].
    pub(crate) fn try_begin_turn<'g>(
        &'g self,
        number: u64,
        waker: &Waker,
        longest: Duration,
        epochs: &Epochs,
        clock: &'g Clock,
    ) -> Result<Option<ClosureTurn<'g>>> {
        let waker = clone_waker(waker).ok_or_else(no_clone)?;
        let mut turns = self.turns.lock();
        self.end_if_overdue(&mut turns, clock);
        if self.is_closed() {
            self.unlock_and_wake(turns);
            drop_waker(waker);
            return Err(Error::Closed);
        }
        if turns.may_begin(number, clock) {
            let turn = self.begin(turns, number, longest, epochs, clock);
            drop_waker(waker);
            return Ok(Some(turn));
        }
        // Under the lock that has shown another turn: the end of the other turn finds the waker (P2).
        let replaced = turns.waiting.set_waker(number, waker);
        turns.release_next(clock);
        self.unlock_and_wake(turns);
        drop_waker(replaced);
        Ok(None)
    }

    /// Withdraws a request: the turn does not begin any more.
    pub(crate) fn withdraw_turn(&self, number: u64, clock: &Clock) {
        let mut turns = self.turns.lock();
        let withdrawn = turns.waiting.remove(number);
        self.changed.notify_all();
        turns.release_next(clock);
        self.unlock_and_wake(turns);
        drop_waker(withdrawn);
    }
}

/// Error of a call whose waker panicked at its clone.
#[cold]
pub(crate) fn no_clone() -> Error {
    Error::Misuse("the clone of the waker panicked: use a waker that can be cloned".to_owned())
}
