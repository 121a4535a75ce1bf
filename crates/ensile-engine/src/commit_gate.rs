//! Gate that every commit checks under its locks: the flag of a closed database, and the present turn (P1).
//!
//! A closure that lost to others again and again gets a turn. Until the turn ends, no other thread's commit takes
//! effect, and no other thread's insert or clean-up changes a leaf. So the closure's next run meets no change.
//!
//! ```text
//! closure   waits in order -> turn is set -> heavy fence -> nobody in the index or bound -> runs, commits -> turn ends
//! others    enter the index -> look: not mine? leave, wait;  lock -> look: not mine? unlock, unbind, wait, lock again
//! ```
//! A commit that is turned away twice takes a turn: the commit's locks took longer than the pause between two turns.
//!
//! Tasks of event loops wait here without a thread, each with a waker: commits that made way (`try_make_way`), and
//! requests of turns (`turn_requests`).
//!
//! Invariants:
//! - P1: Turns come one at a time, in the order of the requests. A turn ends with its guard, or when its time is over:
//!   a waiting thread ends an overdue turn.
//! - No thread waits here with a lock, a binding or log space. A commit that made way is done, or has waited
//!   [`PASSING_NANOS_MAX`], before the next turn begins. The begin of a turn ends the passing of tasks, so a task that
//!   does not try again delays one turn.
//! - P2: A task registers its waker under the lock under which it finds that it must wait. The wakers of commits are
//!   called at the end of the turn, the waker of a request once its turn may begin, all wakers at the close.
//! - Wakers are cloned, called and dropped without the lock, because wakers run foreign code. A panic of a waker ends
//!   at its call or drop. User code of objects may hold an object's lock, so a thread in user code leaves the released
//!   wakers to the heartbeat.
//! - A turn belongs to its thread: transactions that a closure begins inside pass. Two threads that wait for each
//!   other's turns, at the gates of two databases, go on once the first of the turns is overdue.
//! - I4: In a forked child no function of this module takes a lock.
//!
//! Neighbours: `commit` checks, `garbage` cleans up only without a turn, `transaction::retry_loop` and
//! `transaction::turn_request` ask for turns. The heartbeat (`open::threads`) ends overdue turns, and a close shuts the
//! gate.

mod turn_requests;

use std::collections::BTreeSet;
use std::task::Waker;
use std::time::Duration;

use crossbeam_utils::CachePadded;
use ensile_base::clock::Clock;
use ensile_base::sync::{
    AtomicU64, AtomicUsize, Backoff, Condvar, Mutex, MutexGuard, Ordering, thread_local,
};
use ensile_base::wakers::{WakerList, drop_waker};
use ensile_disk::Process;
use ensile_durability::{CallBackOwner, UserCode};
use ensile_epoch::Epochs;

use crate::error::{Error, Result};
pub(crate) use turn_requests::no_clone;
use turn_requests::{TurnQueue, TurnWaiter};

/// Bit of the word: the database is closed. Above the bit stands the number of the turn, 0 without a turn.
const CLOSED: u64 = 1;
/// Bit of the word at which the number of the turn begins.
const TURN_SHIFT: u32 = 1;
/// Longest wait of the next turn for commits that made way for the last turn, in nanoseconds.
const PASSING_NANOS_MAX: u64 = 10_000_000;
/// Longest time between two checks of the clock by a waiting thread: tests have clocks of their own.
const LOOK: Duration = Duration::from_millis(1);

thread_local! {
    /// The address of the variable identifies the thread.
    static THREAD: u8 = const { 0 };
}

/// A number that no other thread has during the life of this thread.
fn this_thread() -> usize {
    THREAD.with(|thread| (&raw const *thread).addr())
}

/// Reason for the refusal of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TurnedAway {
    /// The database is closed.
    Closed,
    /// Another thread has the turn.
    NotMyTurn,
}

/// The gate of a database: a word that commits check, and the queue of threads that wait for turns.
#[derive(Debug)]
pub(crate) struct Gate {
    /// The bit of the closed database and the number of the turn. Begin and end of a turn and close write the word,
    /// under the lock; commits only read.
    word: CachePadded<AtomicU64>,
    /// The thread with the present turn, or with the last turn.
    holder: AtomicUsize,
    /// Number of turns that have begun.
    pub(crate) begun: AtomicU64,
    turns: Mutex<TurnOrder>,
    changed: Condvar,
    /// The process that opened the database.
    process: Process,
}

#[derive(Debug, Default)]
struct TurnOrder {
    /// Threads and tasks that wait for turns, in the order of arrival.
    waiting: TurnQueue,
    /// Wakers of tasks' commits that made way. Each of these commits is one of `passing_tasks`.
    wakers: WakerList,
    /// End of the present turn's time in nanoseconds, by the database's clock. `None` without a turn.
    until_nanos: Option<u64>,
    /// Number of threads whose commits made way and are not done.
    passing: usize,
    /// Numbers of tasks' commits that made way since the begin of the last turn, and are not done.
    passing_tasks: BTreeSet<u64>,
    /// End of the last turn in nanoseconds, by the database's clock.
    ended_nanos: u64,
}

impl Gate {
    pub(crate) fn new(process: Process) -> Self {
        Self {
            word: CachePadded::new(AtomicU64::new(0)),
            holder: AtomicUsize::new(0),
            begun: AtomicU64::new(0),
            turns: Mutex::new(TurnOrder::default()),
            changed: Condvar::new(),
            process,
        }
    }

    /// Checks the word, for a commit that holds its locks, or a worker that has entered the index. Refuses if the
    /// database is closed, or if another thread has the turn.
    #[inline]
    pub(crate) fn look(&self) -> std::result::Result<(), TurnedAway> {
        // Acquire: partner is the Release in `close`, so that the work before the close is visible. For a turn the
        // order comes from the caller's fence: behind its locks, or in `enter_index`; partner: `fence_turn` (P1).
        match self.word.load(Ordering::Acquire) {
            0 => Ok(()),
            word => self.look_closely(word),
        }
    }

    /// As [`Gate::look`], for a word with the bit or with a turn.
    #[cold]
    fn look_closely(&self, word: u64) -> std::result::Result<(), TurnedAway> {
        if word & CLOSED != 0 {
            return Err(TurnedAway::Closed);
        }
        if self.is_mine() { Ok(()) } else { Err(TurnedAway::NotMyTurn) }
    }

    /// True if this thread has the present turn.
    pub(crate) fn is_mine(&self) -> bool {
        // Relaxed: the caller's fence orders this load as it orders the load of the word. Only this thread makes itself
        // the holder.
        self.has_turn() && self.holder.load(Ordering::Relaxed) == this_thread()
    }

    /// True if any thread has a turn.
    #[inline]
    pub(crate) fn has_turn(&self) -> bool {
        // Relaxed: the caller's fence orders the load, in `enter_index`; partner: `fence_turn` (P1).
        self.word.load(Ordering::Relaxed) >> TURN_SHIFT != 0
    }

    /// Closes the database: later commits are refused.
    ///
    /// The caller calls [`Gate::wake_released`] afterwards, once it holds no lock.
    pub(crate) fn close(&self) {
        let mut turns = self.turns.lock();
        // Relaxed: the word is written under the lock only.
        let word = self.word.load(Ordering::Relaxed) | CLOSED;
        // Release: partner is the Acquire in `look`.
        self.word.store(word, Ordering::Release);
        self.changed.notify_all();
        turns.release_all();
        drop(turns);
    }

    /// True if the database is closed.
    #[inline]
    pub(crate) fn is_closed(&self) -> bool {
        // Acquire: partner is the Release in `close`.
        self.word.load(Ordering::Acquire) & CLOSED != 0
    }

    /// Number of commits that made way and are not done.
    #[cfg(all(test, not(any(loom, shuttle))))]
    pub(crate) fn passing_commits(&self) -> usize {
        let turns = self.turns.lock();
        turns.passing + turns.passing_tasks.len()
    }

    /// Waits for the end of the present turn, if a turn is under way. The next turn waits for the drop of the guard, so
    /// the caller's commit gets through between the two turns.
    pub(crate) fn make_way<'g>(&'g self, clock: &'g Clock) -> Passing<'g> {
        let mut turns = self.turns.lock();
        turns.passing += 1;
        while self.must_make_way(&turns) {
            turns = self.wait(turns, clock);
        }
        Passing { gate: self, clock }
    }

    /// As [`Gate::make_way`], for a commit of a task: does not wait. Returns false during another thread's turn.
    /// Then `waker` is taken, and called at the end of the turn. The next turn waits until [`Gate::leave`] is called
    /// with `number`. A commit that made way before keeps its number.
    pub(crate) fn try_make_way(
        &self,
        clock: &Clock,
        waker: &mut Option<Waker>,
        number: &mut Option<u64>,
    ) -> bool {
        let mut turns = self.turns.lock();
        self.end_if_overdue(&mut turns, clock);
        // Under the lock: the end of the turn finds the waker (P2).
        let must_wait = self.must_make_way(&turns);
        let mut replaced = None;
        if must_wait {
            let waker = waker.take().expect("a task registers its waker once a try");
            replaced = turns.wakers.register(number, waker);
            turns.passing_tasks.extend(*number);
        }
        self.unlock_and_wake(turns);
        drop_waker(replaced);
        !must_wait
    }

    /// Ends the passing of a task's commit: the commit is done, or given up. A turn that has begun since has ended the
    /// passing before.
    pub(crate) fn leave(&self, number: u64, clock: &Clock) {
        let mut turns = self.turns.lock();
        let withdrawn = turns.wakers.withdraw(number);
        if turns.passing_tasks.remove(&number) {
            self.changed.notify_all();
            turns.release_next(clock);
        }
        self.unlock_and_wake(turns);
        drop_waker(withdrawn);
    }

    /// True if a commit of this thread must wait for the end of the present turn.
    fn must_make_way(&self, turns: &TurnOrder) -> bool {
        turns.until_nanos.is_some() && !self.is_mine() && !self.is_closed()
    }

    /// Waits for a turn, and begins the turn, for at most `longest`. From then on the thread sees no change by other
    /// threads. Returns `None` if this thread has a turn already, because the present turn suffices. Returns `None` too
    /// if no turn has begun by `deadline`, in nanoseconds of the database's clock.
    ///
    /// # Errors
    /// [`Error::Closed`].
    pub(crate) fn take_turn<'g>(
        &'g self,
        epochs: &Epochs,
        clock: &'g Clock,
        longest: Duration,
        deadline: Option<u64>,
    ) -> Result<Option<ClosureTurn<'g>>> {
        if self.is_mine() {
            return Ok(None);
        }
        let mut turns = self.turns.lock();
        let number = turns.waiting.add(TurnWaiter::Thread);
        let is_late = || deadline.is_some_and(|deadline| clock.nanos() >= deadline);
        while !turns.may_begin(number, clock) && !self.is_closed() && !is_late() {
            turns = self.wait(turns, clock);
        }
        let may_begin = !self.is_closed() && turns.may_begin(number, clock);
        if may_begin {
            return Ok(Some(self.begin(turns, number, longest, epochs, clock)));
        }
        let thread = turns.waiting.remove(number);
        debug_assert!(matches!(thread, Some(TurnWaiter::Thread)), "this thread has waited until now");
        // Another thread or task may be the first now.
        self.changed.notify_all();
        turns.release_next(clock);
        self.unlock_and_wake(turns);
        if self.is_closed() { Err(Error::Closed) } else { Ok(None) }
    }

    /// Begins the turn of this number, which may begin now, for this thread.
    fn begin<'g>(
        &'g self,
        mut turns: MutexGuard<'g, TurnOrder>,
        number: u64,
        longest: Duration,
        epochs: &Epochs,
        clock: &'g Clock,
    ) -> ClosureTurn<'g> {
        debug_assert!(turns.until_nanos.is_none(), "one turn at a time (P1)");
        let withdrawn = turns.waiting.remove(number);
        // These tasks had their time, and are called already. Otherwise a task that does not try again would delay each
        // later turn.
        turns.passing_tasks.clear();
        let longest = u64::try_from(longest.as_nanos()).unwrap_or(u64::MAX);
        turns.until_nanos = Some(clock.nanos().saturating_add(longest));
        // Relaxed: only this thread compares the holder with itself.
        self.holder.store(this_thread(), Ordering::Relaxed);
        // Relaxed: the counter is only reported.
        self.begun.fetch_add(1, Ordering::Relaxed);
        // Relaxed: the fence below orders the store (P1); the word is written under the lock only.
        self.word.store(number << TURN_SHIFT, Ordering::Relaxed);
        // Another thread may be the first now.
        self.changed.notify_all();
        self.unlock_and_wake(turns);
        drop_waker(withdrawn);
        let turn = ClosureTurn { gate: self, number, clock };
        epochs.fence_turn();
        let mut backoff = Backoff::new();
        // A commit bound before the fence may have checked the word before the turn, and takes effect. A commit bound
        // later makes way, unbound.
        while epochs.is_index_entered() || epochs.is_any_bound() {
            backoff.wait();
        }
        turn
    }

    /// Waits for a change of the turns, for [`LOOK`] at most. Ends a turn that is overdue, and wakes the task whose
    /// turn may begin.
    fn wait<'g>(&'g self, turns: MutexGuard<'g, TurnOrder>, clock: &Clock) -> MutexGuard<'g, TurnOrder> {
        let mut turns = self.changed.wait_timeout(turns, LOOK);
        self.end_if_overdue(&mut turns, clock);
        turns.release_next(clock);
        if !turns.wakers.has_released() {
            return turns;
        }
        self.unlock_and_wake(turns);
        self.turns.lock()
    }

    /// Ends a turn that is overdue, and wakes the task whose turn may begin. The heartbeat calls this function, because
    /// perhaps no thread waits at the gate.
    pub(crate) fn tick(&self, clock: &Clock) {
        let mut turns = self.turns.lock();
        self.end_if_overdue(&mut turns, clock);
        turns.release_next(clock);
        self.unlock_and_wake(turns);
    }

    /// Releases the lock, and calls the released wakers. In user code of objects the wakers stay released for the next
    /// tick, because a waker may wait for a lock that surrounds the user code.
    fn unlock_and_wake(&self, mut turns: MutexGuard<'_, TurnOrder>) {
        if UserCode::is_running() {
            return;
        }
        let released = turns.wakers.take_released();
        drop(turns);
        for waker in released {
            self.call_backs().call(waker);
        }
    }

    /// Calls the released wakers, after [`Gate::close`]. The caller holds no lock.
    pub(crate) fn wake_released(&self) {
        self.unlock_and_wake(self.turns.lock());
    }

    /// The gate as the source of call-backs: a close in one of its wakers waits for no other close (O8).
    pub(crate) fn call_backs(&self) -> CallBackOwner {
        CallBackOwner::at_address(self)
    }

    fn end_if_overdue(&self, turns: &mut TurnOrder, clock: &Clock) {
        if turns.until_nanos.is_some_and(|until| clock.nanos() >= until) {
            self.end(turns, clock);
        }
    }

    /// Checks that no turn is left.
    ///
    /// # Panics
    /// If a turn has not ended, or a thread waits for a turn or after a turn.
    #[cfg(feature = "audit")]
    pub(crate) fn check_at_rest(&self) {
        let turns = self.turns.lock();
        let is_idle = turns.until_nanos.is_none() && turns.waiting.is_empty() && turns.passing == 0;
        let is_idle = is_idle && turns.passing_tasks.is_empty();
        assert!(is_idle && !self.has_turn(), "a turn is left at the end: {turns:?}");
    }

    /// True if the turn of this number, which has begun, has ended.
    pub(crate) fn is_turn_over(&self, number: u64) -> bool {
        // Relaxed: this thread wrote the number, or the number is gone.
        self.word.load(Ordering::Relaxed) >> TURN_SHIFT != number
    }

    /// Ends the turn of this number, unless its time was over before.
    pub(crate) fn end_turn(&self, number: u64, clock: &Clock) {
        if !self.process.is_this() {
            return;
        }
        let mut turns = self.turns.lock();
        if !self.is_turn_over(number) {
            self.end(&mut turns, clock);
        }
        self.unlock_and_wake(turns);
    }

    /// Ends the present turn, and wakes all waiting threads. The caller calls the released wakers of tasks.
    fn end(&self, turns: &mut TurnOrder, clock: &Clock) {
        let ended = turns.until_nanos.take();
        debug_assert!(ended.is_some(), "a turn that ends was somebody's");
        turns.ended_nanos = clock.nanos();
        // Relaxed: the word is written under the lock only.
        let word = self.word.load(Ordering::Relaxed) & CLOSED;
        // Release: the holder's reads come before the changes of others; partner: the Acquire in `look`.
        self.word.store(word, Ordering::Release);
        self.changed.notify_all();
        turns.wakers.release_all();
        turns.release_next(clock);
    }
}

impl TurnOrder {
    /// True if this turn is the next, and commits that made way for the last turn are done, or had their time.
    fn may_begin(&self, number: u64, clock: &Clock) -> bool {
        self.may_begin_alone(clock) && self.waiting.is_next(number, clock.nanos())
    }

    /// Releases the waker of the task whose turn may begin now.
    fn release_next(&mut self, clock: &Clock) {
        if !self.waiting.is_empty()
            && self.may_begin_alone(clock)
            && let Some(waker) = self.waiting.call_next(clock.nanos())
        {
            self.wakers.release(waker);
        }
    }

    /// Releases all wakers, at the close.
    fn release_all(&mut self) {
        self.wakers.release_all();
        while let Some(waker) = self.waiting.call_any() {
            self.wakers.release(waker);
        }
    }

    /// As [`TurnOrder::may_begin`], for a turn that no other thread waits for.
    fn may_begin_alone(&self, clock: &Clock) -> bool {
        let are_done = self.passing == 0 && self.passing_tasks.is_empty();
        let has_passed = are_done || clock.nanos() >= self.ended_nanos + PASSING_NANOS_MAX;
        self.until_nanos.is_none() && has_passed
    }
}

/// A commit that made way for a turn. The next turn waits for the drop of the guard.
#[derive(Debug)]
#[must_use = "dropping it lets the next turn begin"]
pub(crate) struct Passing<'g> {
    gate: &'g Gate,
    clock: &'g Clock,
}

impl Drop for Passing<'_> {
    fn drop(&mut self) {
        if !self.gate.process.is_this() {
            return;
        }
        let mut turns = self.gate.turns.lock();
        turns.passing -= 1;
        self.gate.changed.notify_all();
        turns.release_next(self.clock);
        self.gate.unlock_and_wake(turns);
    }
}

/// A turn of a closure or of a task. The turn ends with the drop of the guard, or when its time is over.
#[derive(Debug)]
#[must_use = "dropping it ends the turn"]
pub(crate) struct ClosureTurn<'g> {
    gate: &'g Gate,
    number: u64,
    clock: &'g Clock,
}

impl ClosureTurn<'_> {
    /// True if another thread has ended the turn, because the turn's time was over.
    pub(crate) fn is_over(&self) -> bool {
        self.gate.is_turn_over(self.number)
    }

    /// The number of the turn, which goes on without the guard until [`Gate::end_turn`].
    pub(crate) fn into_number(self) -> u64 {
        let number = self.number;
        std::mem::forget(self);
        number
    }
}

impl Drop for ClosureTurn<'_> {
    fn drop(&mut self) {
        self.gate.end_turn(self.number, self.clock);
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
