//! The waiters for D, and the announced D.
//!
//! Invariants:
//! - D and the end change under one lock. So no epoch is announced after the log's end, and no waiter sleeps for ever.
//! - A waiting future or thread has one slot, however often the future is polled. The drop of the waiter gives the slot
//!   back. Only `expire` removes a slot without an answer.
//! - Wakers are cloned, woken and dropped with no lock held, because wakers run foreign code. A panic in a waker ends
//!   there. A step for log space may run under locks of its caller, so the next thread that wakes waiters wakes its
//!   wakers.
//!
//! Neighbours: `durable_epoch` waits for threads and polls for futures; loggers announce D, and read the wanted epoch
//! to close epochs early.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::{Wake, Waker};

use ensile_base::Epoch;
use ensile_base::sync::{AtomicBool, AtomicU64, Mutex, Ordering, Thread, current, park, thread_local};
use ensile_disk::DiskError;

use crate::DurabilityError;
use crate::reentrancy::{CallBack, CallBackScope, LogAddress, is_in};

/// Cause of a log's end. D stands still from the end on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LogEnd {
    /// The log was complete and durable.
    Closed,
    /// A write or sync failed, with the reason.
    Poisoned(std::sync::Arc<str>),
    /// The log's file or a folder was removed, with its name.
    Removed(std::sync::Arc<str>),
    /// The database was fenced before the log had an entry, with the name of the other machine.
    Fenced(std::sync::Arc<str>),
}

impl LogEnd {
    /// End by a failed call of the disk.
    pub(crate) fn from_disk_error(error: &DiskError) -> Self {
        let reason: std::sync::Arc<str> = error.to_string().into();
        assert!(!reason.is_empty(), "a log ends for a reason");
        if matches!(error, DiskError::Removed { .. }) {
            Self::Removed(reason)
        } else {
            Self::Poisoned(reason)
        }
    }

    /// Result of a close.
    pub(crate) fn of_close(&self) -> Result<(), DurabilityError> {
        debug_assert!(!self.reason().is_empty(), "a log ends for a reason");
        // A fenced log has no entry that could be lost.
        if matches!(self, Self::Closed | Self::Fenced(_)) { Ok(()) } else { Err(self.of_result()) }
    }

    /// Error of a result that was not durable before the end.
    pub(crate) fn of_result(&self) -> DurabilityError {
        match self {
            Self::Removed(what) => DurabilityError::Removed(std::sync::Arc::clone(what)),
            Self::Fenced(detail) => DurabilityError::Fenced { detail: std::sync::Arc::clone(detail) },
            Self::Closed | Self::Poisoned(_) => DurabilityError::OutcomeUnknown(self.reason()),
        }
    }

    /// Error of a call that begins after the end.
    pub(crate) fn of_call(&self) -> DurabilityError {
        match self {
            Self::Closed => DurabilityError::Closed(self.reason()),
            Self::Poisoned(_) => DurabilityError::Stopped(self.reason()),
            Self::Removed(_) | Self::Fenced(_) => self.of_result(),
        }
    }

    /// Reason why an ended log gives no further answers.
    pub(crate) fn reason(&self) -> std::sync::Arc<str> {
        match self {
            Self::Closed => "the log was closed".into(),
            Self::Poisoned(reason) | Self::Removed(reason) => std::sync::Arc::clone(reason),
            Self::Fenced(_) => self.of_call().to_string().into(),
        }
    }
}

/// Place of a waiter's waker: the epoch, and a number unique among waiters.
type WaiterKey = (Epoch, u64);

#[derive(Debug)]
struct Waiter {
    waker: Waker,
    since_nanos: u64,
}

#[derive(Debug, Default)]
struct WaiterList {
    waiting: BTreeMap<WaiterKey, Waiter>,
    next: u64,
    /// Number of waiters that the last announcement with waiters woke.
    woken_together: usize,
    end: Option<LogEnd>,
    /// Reason of the last expiry.
    full: std::sync::Arc<str>,
}

/// Times by which waiters expire, in nanoseconds: now, the start of the lack of space or epochs, and the wait limit of
/// results.
#[derive(Clone, Debug)]
pub(crate) struct Fullness {
    pub(crate) now_nanos: u64,
    pub(crate) since_nanos: u64,
    pub(crate) wait_nanos: u64,
    pub(crate) reason: std::sync::Arc<str>,
}

#[derive(Debug, Default)]
pub(crate) struct Waiters {
    durable: AtomicU64,
    wanted: AtomicU64,
    ended: AtomicBool,
    /// Number of expiries. A parked thread finds an expiry by a changed number.
    expiries: AtomicU64,
    /// No panic under this lock leaves the list half changed.
    list: Mutex<WaiterList>,
    /// Wakers of waiters that a step for log space has released.
    kept: Mutex<Vec<Waker>>,
}

impl WaiterList {
    /// Checks that no waiter waits for an announced epoch, or for an ended log.
    fn check(&self, durable: Epoch) {
        let first = self.waiting.keys().next();
        debug_assert!(first.is_none_or(|(epoch, _)| *epoch > durable), "{first:?} waits for what is durable");
        debug_assert!(self.end.is_none() || self.waiting.is_empty(), "a waiter of a log that has ended");
        debug_assert!(self.waiting.keys().all(|(_, number)| *number < self.next), "an unknown number");
    }
}

impl Waiters {
    /// Creates an empty list of waiters; `durable` is the announced epoch.
    pub(crate) fn new(durable: Epoch) -> Self {
        Self { durable: AtomicU64::new(durable.number()), ..Self::default() }
    }

    /// Last announced epoch: D.
    #[inline]
    pub(crate) fn durable(&self) -> Epoch {
        // Acquire: a thread that sees D also sees everything published before the announcement of D (partner:
        // `announce`).
        Epoch::new(self.durable.load(Ordering::Acquire))
    }

    /// Largest epoch for which a result has waited so far. The waiter may have an answer by now.
    pub(crate) fn wanted_epoch(&self) -> Epoch {
        // Acquire: partner is the Release in `poll`.
        Epoch::new(self.wanted.load(Ordering::Acquire))
    }

    #[inline]
    pub(crate) fn has_ended(&self) -> bool {
        // Acquire: a thread that sees the flag also finds the log's end in `list` (partner: `end`).
        self.ended.load(Ordering::Acquire)
    }

    pub(crate) fn how_ended(&self) -> Option<LogEnd> {
        self.list.lock().end.clone()
    }

    /// The answer for `epoch`, if known: success for a durable epoch, or an error after an expiry or the log's end.
    /// Otherwise `waker` is registered in `slot` and called once an answer exists. A waiter owns `slot`, and gives
    /// `slot` back if dropped earlier. The second result is true if the waiter is the first for `epoch`: the caller
    /// then wakes loggers.
    pub(crate) fn poll(
        &self,
        epoch: Epoch,
        slot: &mut Option<u64>,
        waker: &Waker,
        now_nanos: u64,
    ) -> (Option<Result<(), DurabilityError>>, bool) {
        if self.durable() >= epoch {
            // The announcement removes the slot, or has removed it.
            *slot = None;
            return (Some(Ok(())), false);
        }
        let mut waker = waker.clone();
        let mut list = self.list.lock();
        // Second check, under the lock: D moves only under the lock, so the announcement finds the waker from here on.
        if self.durable() >= epoch {
            *slot = None;
            return (Some(Ok(())), false);
        }
        if let Some(end) = &list.end {
            *slot = None;
            return (Some(Err(end.of_result())), false);
        }
        if let Some(number) = *slot {
            let Some(waiter) = list.waiting.get_mut(&(epoch, number)) else {
                *slot = None;
                return (Some(Err(DurabilityError::NotDurableYet(std::sync::Arc::clone(&list.full)))), false);
            };
            // `waker` is now the waker of the last poll, dropped after the unlock.
            std::mem::swap(&mut waiter.waker, &mut waker);
            drop(list);
            return (None, false);
        }
        let first = list.waiting.range((epoch, 0)..=(epoch, u64::MAX)).next().is_none();
        let number = list.next;
        list.next += 1;
        list.waiting.insert((epoch, number), Waiter { waker, since_nanos: now_nanos });
        *slot = Some(number);
        list.check(self.durable());
        drop(list);
        // Release: partner is the Acquire in `wanted_epoch`, read by the logger that the caller wakes.
        let before = self.wanted.fetch_max(epoch.number(), Ordering::Release);
        (None, first || before < epoch.number())
    }

    /// True if one waiter is registered, and the last announcement woke one waiter at most. If several waiters were
    /// woken together, more of them are about to wait again, and one sync should serve all.
    fn is_one_alone(&self) -> bool {
        let list = self.list.lock();
        list.woken_together <= 1 && list.waiting.len() == 1
    }

    /// Removes the waiter of a dropped future, answered or not.
    pub(crate) fn give_back(&self, epoch: Epoch, slot: u64) {
        let waiter = self.list.lock().waiting.remove(&(epoch, slot));
        drop(waiter);
    }

    /// Expires waiters that have waited too long for space, and returns their wakers. An expired waiter finds its slot
    /// removed.
    pub(crate) fn expire(&self, full: &Fullness) -> Vec<Waker> {
        let mut list = self.list.lock();
        let is_overdue = |waiter: &Waiter| {
            let since = waiter.since_nanos.max(full.since_nanos);
            full.now_nanos.saturating_sub(since) >= full.wait_nanos
        };
        assert!(!full.reason.is_empty(), "waiters hear why they waited in vain");
        let mut overdue = Vec::new();
        for (key, waiter) in std::mem::take(&mut list.waiting) {
            if is_overdue(&waiter) {
                overdue.push(waiter.waker);
            } else {
                list.waiting.insert(key, waiter);
            }
        }
        if !overdue.is_empty() {
            list.full = std::sync::Arc::clone(&full.reason);
            // Release: partner is the Acquire in `wait`.
            self.expiries.fetch_add(1, Ordering::Release);
        }
        overdue
    }

    /// Expires all waiters after a failure of a picture, and returns their wakers.
    pub(crate) fn expire_all(&self, reason: &std::sync::Arc<str>) -> Vec<Waker> {
        let reason = std::sync::Arc::clone(reason);
        self.expire(&Fullness { now_nanos: 0, since_nanos: 0, wait_nanos: 0, reason })
    }

    /// Blocks until `epoch` is durable, or until an error is known. `begin` makes loggers step; its argument is true if
    /// the caller waits alone. `now` reads the clock.
    pub(crate) fn wait(
        &self,
        epoch: Epoch,
        now: impl Fn() -> u64,
        begin: impl Fn(bool),
    ) -> Result<(), DurabilityError> {
        if self.durable() >= epoch {
            return Ok(());
        }
        with_thread_waker(|waker| {
            let mut slot = None;
            loop {
                // Acquire: partner is the Release in `expire`. The load precedes the poll, so a later expiry ends the
                // loop below.
                let expiries = self.expiries.load(Ordering::Acquire);
                let (answer, new) = self.poll(epoch, &mut slot, waker, now());
                if let Some(answer) = answer {
                    return answer;
                }
                if new {
                    begin(self.is_one_alone());
                }
                // Acquire: partner is the Release in `expire`.
                let is_as_before = || self.expiries.load(Ordering::Acquire) == expiries;
                while self.durable() < epoch && !self.has_ended() && is_as_before() {
                    park();
                }
            }
        })
    }

    /// Announces the D that `compute` returns, unless the log has ended. Returns D if D has grown.
    pub(crate) fn announce(&self, compute: impl FnOnce() -> Epoch) -> Option<Epoch> {
        let mut list = self.list.lock();
        if list.end.is_some() {
            return None;
        }
        let epoch = compute();
        if epoch <= self.durable() {
            return None;
        }
        // Release: partner is the Acquire in `durable`. The store is under the lock, so D never goes back.
        self.durable.store(epoch.number(), Ordering::Release);
        debug_assert!(epoch < Epoch::MAX, "no epoch is behind the largest");
        let later = list.waiting.split_off(&(epoch.next(), 0));
        let woken = std::mem::replace(&mut list.waiting, later);
        if !woken.is_empty() {
            list.woken_together = woken.len();
        }
        list.check(epoch);
        drop(list);
        self.wake_all(woken.into_values().map(|waiter| waiter.waker));
        Some(epoch)
    }

    /// Ends the log for good: every waiter above D gets "outcome unknown", and D stands still. The first end stays.
    /// Returns the wakers, because the caller may hold a lock, and wakers run foreign code.
    pub(crate) fn end(&self, end: LogEnd) -> Vec<Waker> {
        let mut list = self.list.lock();
        if list.end.is_some() {
            return Vec::new();
        }
        list.end = Some(end);
        // Release: partner is the Acquire in `has_ended`.
        self.ended.store(true, Ordering::Release);
        let waiting = std::mem::take(&mut list.waiting);
        list.check(self.durable());
        waiting.into_values().map(|waiter| waiter.waker).collect()
    }
}

thread_local! {
    /// True while this thread steps for log space: the thread then wakes no waiter.
    static KEEPS_WAKERS: Cell<bool> = const { Cell::new(false) };
}

impl Waiters {
    /// Wakes every waker of `wakers`, also after a panic of an earlier waker, and the wakers kept by steps for log
    /// space. The panic hook has reported the panic.
    pub(crate) fn wake_all(&self, wakers: impl IntoIterator<Item = Waker>) {
        if KEEPS_WAKERS.with(Cell::get) {
            self.kept.lock().extend(wakers);
            return;
        }
        wakers.into_iter().for_each(|waker| self.wake_one(waker));
        loop {
            let kept = std::mem::take(&mut *self.kept.lock());
            if kept.is_empty() {
                return;
            }
            kept.into_iter().for_each(|waker| self.wake_one(waker));
        }
    }

    fn wake_one(&self, waker: Waker) {
        let in_waker = CallBackScope::begin(CallBack::Waker, self.address());
        debug_assert!(self.is_waking() || !in_waker.is_kept(), "O8: a close in it sees that");
        // The log has nothing half changed across this call, and the waker's owner answers for the waker's state.
        let _ = catch_unwind(AssertUnwindSafe(|| waker.wake()));
    }

    /// Runs `step` for log space: `step` wakes no waiter. The caller may hold an object's lock, for which a waker may
    /// wait.
    pub(crate) fn keeping_wakers<R>(&self, step: impl FnOnce() -> R) -> R {
        let before = KEEPS_WAKERS.with(|keeps| keeps.replace(true));
        let outcome = step();
        let kept = KEEPS_WAKERS.with(|keeps| keeps.replace(before));
        debug_assert!(kept, "a step for log space is one to its end (O9)");
        outcome
    }

    /// Wakes the wakers that steps for log space have kept. The calling thread holds no lock.
    pub(crate) fn wake_kept(&self) {
        debug_assert!(!KEEPS_WAKERS.with(Cell::get), "within a step for log space nobody is woken (O9)");
        self.wake_all([]);
    }

    /// True if this thread runs in a waker called by this log.
    pub(crate) fn is_waking(&self) -> bool {
        is_in(CallBack::Waker, self.address())
    }

    /// Address of this list as the log's address; a log has one list.
    #[inline]
    pub(crate) fn address(&self) -> LogAddress {
        LogAddress(std::ptr::from_ref(self).addr())
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: std::sync::Arc<Self>) {
        self.0.unpark();
    }
}

/// Runs `f` with this thread's waker. The thread makes its waker once.
fn with_thread_waker<R>(f: impl FnOnce(&Waker) -> R) -> R {
    thread_local! {
        static WAKER: RefCell<Option<Waker>> = const { RefCell::new(None) };
    }
    let waker = WAKER.with(|cell| {
        let fresh = || Waker::from(std::sync::Arc::new(Unpark(current())));
        cell.borrow_mut().get_or_insert_with(fresh).clone()
    });
    f(&waker)
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
