//! Who waits for D, and D itself as it was announced.
//!
//! Invariants:
//! - D and the end change under one lock, so that no epoch is announced after the log has ended, and no waiter
//!   registers between the two and sleeps on.
//! - A commit that nobody waits for never comes here.
//! - Wakers are woken with no lock held, as that runs code of others, and a panic of theirs ends there: the log and the other waiters go on.
//!
//! Neighbours: receipts wait (threads) or poll (futures); loggers announce; `Log` asks `wanted` to close epochs early.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::{Wake, Waker};

use ensile_base::Epoch;
use ensile_base::sync::{
    AtomicBool, AtomicU64, Mutex, MutexGuard, Ordering, Thread, current, park, thread_local,
};

use crate::DurabilityError;

/// How a log ended: D stands still from then on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Everything was durable.
    Closed,
    /// A write or sync failed, and why.
    Poisoned(std::sync::Arc<str>),
}

impl End {
    /// Why a log that ended gives no further answers.
    pub(crate) fn reason(&self) -> std::sync::Arc<str> {
        match self {
            Self::Closed => "the log was closed".into(),
            Self::Poisoned(reason) => std::sync::Arc::clone(reason),
        }
    }
}

#[derive(Debug)]
struct List {
    waiting: BTreeMap<Epoch, Vec<Waker>>,
    /// How many the last announcement woke that woke any.
    woken_together: usize,
    end: Option<End>,
}

/// The announced D and who waits for it.
#[derive(Debug)]
pub(crate) struct Waiters {
    durable: AtomicU64,
    wanted: AtomicU64,
    ended: AtomicBool,
    list: Mutex<List>,
}

impl Waiters {
    pub(crate) fn new(durable: Epoch) -> Self {
        Self {
            durable: AtomicU64::new(durable.number()),
            wanted: AtomicU64::new(0),
            ended: AtomicBool::new(false),
            list: Mutex::new(List { waiting: BTreeMap::new(), woken_together: 0, end: None }),
        }
    }

    fn lock(&self) -> MutexGuard<'_, List> {
        // Nothing under this lock leaves the list half changed.
        self.list.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// D.
    #[inline]
    pub(crate) fn durable(&self) -> Epoch {
        // Acquire: who sees D also sees what was published before it was announced (partner: `announce`).
        Epoch::new(self.durable.load(Ordering::Acquire))
    }

    /// The largest epoch that anybody has waited for.
    pub(crate) fn wanted(&self) -> Epoch {
        // Acquire: partner is the Release in `poll`.
        Epoch::new(self.wanted.load(Ordering::Acquire))
    }

    #[inline]
    pub(crate) fn has_ended(&self) -> bool {
        // Acquire: who sees that it has finds how (partner: `end`).
        self.ended.load(Ordering::Acquire)
    }

    /// How the log ended, if it has.
    pub(crate) fn how_ended(&self) -> Option<End> {
        self.lock().end.clone()
    }

    /// Is `epoch` durable, or known to have no answer? If neither, `waker` is called once it is. The second result
    /// says that loggers should be told.
    pub(crate) fn poll(&self, epoch: Epoch, waker: &Waker) -> (Option<Result<(), DurabilityError>>, bool) {
        if self.durable() >= epoch {
            return (Some(Ok(())), false);
        }
        let mut list = self.lock();
        // Again, under the lock: D moves under it only, so from here on the announcement finds the waker.
        if self.durable() >= epoch {
            return (Some(Ok(())), false);
        }
        if let Some(end) = &list.end {
            return (Some(Err(DurabilityError::OutcomeUnknown(end.reason()))), false);
        }
        let wakers = list.waiting.entry(epoch).or_default();
        let first = wakers.is_empty();
        // A future that is polled again and again is held once, unless others came between; then it is woken twice.
        if !wakers.last().is_some_and(|last| last.will_wake(waker)) {
            wakers.push(waker.clone());
        }
        drop(list);
        // Release: partner is the Acquire in `wanted`, read by the logger that the caller wakes.
        let before = self.wanted.fetch_max(epoch.number(), Ordering::Release);
        (None, first || before < epoch.number())
    }

    /// Does one registered waiter wait by itself, as the one before it did? Where several wait, those that the next sync
    /// releases together are about to come.
    fn is_one_alone(&self) -> bool {
        let list = self.lock();
        list.woken_together <= 1 && list.waiting.len() == 1 && list.waiting.values().all(|one| one.len() == 1)
    }

    /// Blocks until `epoch` is durable or has no answer. `begin` sees to it that loggers step; it is told whether the caller
    /// waits alone.
    pub(crate) fn wait(&self, epoch: Epoch, begin: impl Fn(bool)) -> Result<(), DurabilityError> {
        if self.durable() >= epoch {
            return Ok(());
        }
        with_thread_waker(|waker| {
            loop {
                let (answer, new) = self.poll(epoch, waker);
                if let Some(answer) = answer {
                    return answer;
                }
                if new {
                    begin(self.is_one_alone());
                }
                while self.durable() < epoch && !self.has_ended() {
                    park();
                }
            }
        })
    }

    /// Announces the D that `compute` finds, unless the log has ended. Returns it if it is news.
    pub(crate) fn announce(&self, compute: impl FnOnce() -> Epoch) -> Option<Epoch> {
        let mut list = self.lock();
        if list.end.is_some() {
            return None;
        }
        let epoch = compute();
        if epoch <= self.durable() {
            return None;
        }
        // Release: partner is the Acquire in `durable`. Under the lock, so D never goes back.
        self.durable.store(epoch.number(), Ordering::Release);
        let later = list.waiting.split_off(&epoch.next());
        let woken = std::mem::replace(&mut list.waiting, later);
        let count = woken.values().map(Vec::len).sum();
        if count > 0 {
            list.woken_together = count;
        }
        drop(list);
        wake_all(woken.into_values().flatten());
        Some(epoch)
    }

    /// Ends the log for good: every waiter above D gets "outcome unknown", and D stands still. The first end
    /// stays. Returns whom to wake: the caller may hold a lock, and wakers run code of others.
    pub(crate) fn end(&self, end: End) -> Vec<Waker> {
        let mut list = self.lock();
        if list.end.is_some() {
            return Vec::new();
        }
        list.end = Some(end);
        // Release: partner is the Acquire in `has_ended`.
        self.ended.store(true, Ordering::Release);
        std::mem::take(&mut list.waiting).into_values().flatten().collect()
    }
}

/// Wakes each of them, also those behind one that panics. The panic hook has told of the panic.
pub(crate) fn wake_all(wakers: impl IntoIterator<Item = Waker>) {
    for waker in wakers {
        // The log keeps nothing half changed across this call, and what the waker leaves behind is its owner's.
        let _ = catch_unwind(AssertUnwindSafe(|| waker.wake()));
    }
}

/// Wakes a parked thread.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: std::sync::Arc<Self>) {
        self.0.unpark();
    }
}

/// Runs `f` with this thread's waker, which is made once.
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
mod tests {
    use super::{End, Waiters};
    use crate::DurabilityError;
    use ensile_base::Epoch;
    use std::task::Waker;

    #[test]
    fn nothing_is_announced_after_the_poison() {
        let waiters = Waiters::new(Epoch::new(3));
        waiters.end(End::Poisoned("sync failed".into()));
        waiters.end(End::Poisoned("again".into()));
        assert_eq!(waiters.announce(|| Epoch::new(9)), None);
        assert_eq!(waiters.durable(), Epoch::new(3));
        assert!(
            matches!(waiters.poll(Epoch::new(3), Waker::noop()), (Some(Ok(())), _)),
            "was durable, stays so"
        );
        let (answer, _) = waiters.poll(Epoch::new(4), Waker::noop());
        let Some(Err(DurabilityError::OutcomeUnknown(reason))) = answer else { panic!("an unknown outcome") };
        assert_eq!(&*reason, "sync failed", "the first reason stays");
    }

    #[test]
    fn waiters_are_woken_by_their_own_epoch_only() {
        let waiters = Waiters::new(Epoch::ZERO);
        assert!(waiters.poll(Epoch::new(5), Waker::noop()).0.is_none());
        assert!(waiters.poll(Epoch::new(7), Waker::noop()).0.is_none());
        assert_eq!(waiters.wanted(), Epoch::new(7));
        assert_eq!(waiters.announce(|| Epoch::new(5)), Some(Epoch::new(5)));
        assert_eq!(waiters.lock().waiting.keys().copied().collect::<Vec<_>>(), [Epoch::new(7)]);
        assert_eq!(waiters.announce(|| Epoch::new(4)), None, "D never goes back");
    }
}
