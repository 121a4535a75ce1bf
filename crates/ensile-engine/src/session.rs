//! Sessions: which thread has which context and which worker.
//!
//! A thread that commits again and again finds its worker and its context where it left them, in one visit to its own
//! memory and without touching a shared line. When a thread ends, its worker goes to the database, where the heartbeat
//! collects its garbage until another thread takes it; no transaction is bound to a thread (E4).
//!
//! Neighbours: transactions and snapshots take sessions; a session consists of a `worker` and a `sets::context`.

use std::cell::{Cell, RefCell};

use ensile_base::Epoch;
use ensile_base::sync::thread_local;

use crate::sets::context::{Context, KeptContext, RestingContext, SnapshotContext};
use crate::shared::SharedState;
use crate::worker::Worker;

/// Idle sessions that a thread keeps beside its last one: it may have several transactions open at once, or databases.
const OTHERS_MAX: usize = 8;

/// Pin and context of one transaction, and a worker once the transaction needs one.
pub(crate) struct Session {
    pub(crate) kept: KeptContext,
    pub(crate) worker: Option<Box<Worker>>,
}

/// A session between two transactions.
#[must_use = "a session that is not kept is let go, so that its worker goes to the database"]
pub(crate) struct IdleSession {
    resting: RestingContext,
    worker: Option<Box<Worker>>,
}

impl Session {
    /// Ends the transaction's pin.
    #[inline(always)]
    fn end(self) -> IdleSession {
        IdleSession { resting: self.kept.end(), worker: self.worker }
    }
}

impl IdleSession {
    #[cold]
    fn new(shared: &SharedState) -> Self {
        Self { resting: RestingContext::of(shared), worker: None }
    }

    /// Begins a transaction.
    #[inline(always)]
    pub(crate) fn begin(self, shared: &SharedState) -> Session {
        debug_assert!(self.is_of(shared), "a session is of one database");
        debug_assert!(self.context().sets.is_empty(), "a transaction begins with empty sets");
        Session { kept: self.resting.begin(shared.epochs.now()), worker: self.worker }
    }

    /// Begins a snapshot, which needs no worker; says which one.
    pub(crate) fn begin_snapshot(self, shared: &SharedState) -> (SnapshotContext, Epoch) {
        debug_assert!(self.worker.is_none(), "the session of a snapshot has no worker");
        self.begin(shared).kept.open_snapshot(&shared.epochs)
    }

    #[inline(always)]
    fn context(&self) -> &Context<'static> {
        self.resting.get()
    }

    #[inline]
    fn is_of(&self, shared: &SharedState) -> bool {
        self.context().database == shared.id
    }

    /// Drops a session that no thread keeps, and leaves its worker to the database. In a forked child the session is
    /// leaked: there its pin's list may be locked for ever (I4).
    #[cold]
    fn let_go(mut self) {
        if !self.context().idle_workers.process.is_this() {
            return std::mem::forget(self);
        }
        if let Some(worker) = self.worker.take() {
            self.context().idle_workers.give(worker);
        }
    }
}

/// A session that goes with its thread.
#[derive(Default)]
struct LastSession(Cell<Option<IdleSession>>);

impl Drop for LastSession {
    fn drop(&mut self) {
        self.0.take().into_iter().for_each(IdleSession::let_go);
    }
}

/// Sessions that go with their thread.
#[derive(Default)]
struct OtherSessions(RefCell<Vec<IdleSession>>);

impl Drop for OtherSessions {
    fn drop(&mut self) {
        self.0.take().into_iter().for_each(IdleSession::let_go);
    }
}

thread_local! {
    /// The session of the transaction that ended last on this thread.
    static LAST: LastSession = const { LastSession(Cell::new(None)) };
    /// Its other idle sessions: of transactions that overlapped, of other databases.
    static OTHERS: OtherSessions = const { OtherSessions(RefCell::new(Vec::new())) };
}

/// A session for a transaction that commits before its thread does anything else: with the thread's worker, if it has
/// one.
#[inline(always)]
pub(crate) fn take(shared: &SharedState) -> IdleSession {
    match LAST.try_with(|last| last.0.take()) {
        Ok(Some(session)) if session.is_of(shared) => session,
        last => take_other(shared, last.ok().flatten()),
    }
}

#[inline(never)]
fn take_other(shared: &SharedState, last: Option<IdleSession>) -> IdleSession {
    if let Some(foreign) = last {
        keep(foreign);
    }
    let kept = with_others(|others| {
        let attached = others.iter().position(|session| session.is_of(shared) && session.worker.is_some());
        let at = attached.or_else(|| others.iter().position(|session| session.is_of(shared)))?;
        Some(others.swap_remove(at))
    });
    kept.flatten().unwrap_or_else(|| IdleSession::new(shared))
}

/// A session for a transaction or a snapshot that may stay open. It has no worker: the thread keeps its own.
#[inline]
pub(crate) fn take_unattached(shared: &SharedState) -> IdleSession {
    let kept = with_others(|others| {
        let at = others.iter().position(|session| session.is_of(shared) && session.worker.is_none())?;
        Some(others.swap_remove(at))
    });
    kept.flatten().unwrap_or_else(|| IdleSession::new(shared))
}

/// Ends a transaction's session, and keeps it for the thread's next one.
#[inline(always)]
pub(crate) fn give_back(from: &mut Option<Session>) {
    let Some(session) = from else { return };
    session.kept.between(
        #[inline(always)]
        |context| context.end(),
    );
    if session.worker.is_none() {
        return from.take().into_iter().for_each(|session| keep(session.end()));
    }
    match LAST.try_with(|last| last.0.replace(from.take().map(Session::end))) {
        Ok(Some(displaced)) => keep_displaced(displaced),
        Ok(None) => {}
        // The thread is being torn down.
        Err(_) => from.take().into_iter().for_each(|session| session.end().let_go()),
    }
}

/// Ends a snapshot's session, and keeps it for the thread's next one.
pub(crate) fn end_snapshot(mut snapshot: SnapshotContext) {
    snapshot.between(|context| context.end());
    keep(IdleSession { resting: snapshot.end(), worker: None });
}

/// Keeps a session that another one took the last place from. A transaction that ran within another's left it: its
/// worker goes to the database, so that its garbage does not wait for the thread to nest transactions again.
#[inline(never)]
fn keep_displaced(mut displaced: IdleSession) {
    let database = displaced.context().database;
    if with_last(|last| last.context().database == database) == Some(true)
        && let Some(worker) = displaced.worker.take()
    {
        displaced.context().idle_workers.give(worker);
    }
    keep(displaced);
}

/// Keeps an idle session beside the last one, as long as there are few.
#[inline(never)]
fn keep(session: IdleSession) {
    let mut session = Some(session);
    let dropped = with_others(|others| {
        others.extend(session.take());
        let surplus = if others.len() > OTHERS_MAX { Some(others.swap_remove(0)) } else { None };
        // A closed database's sessions hold its memory.
        let stale = others.extract_if(.., |session| session.context().idle_workers.is_closed());
        stale.chain(surplus).collect::<Vec<IdleSession>>()
    });
    // Outside the visit: a session that is dropped here gives its worker away. While the thread is torn down, `session`
    // is all that is left.
    dropped.into_iter().flatten().chain(session).for_each(IdleSession::let_go);
}

/// Drops this thread's sessions of closed databases. The sessions of other threads are small without the memory, which
/// is given back all the same. They go when their threads run a transaction of another database, or end.
pub(crate) fn forget_closed() {
    let is_closed = |session: &IdleSession| session.context().idle_workers.is_closed();
    let last = LAST.try_with(|last| {
        let (closed, kept) = last.0.take().map_or((None, None), |session| {
            if is_closed(&session) { (Some(session), None) } else { (None, Some(session)) }
        });
        last.0.set(kept);
        closed
    });
    let closed = with_others(|others| {
        others.extract_if(.., |session| is_closed(session)).collect::<Vec<IdleSession>>()
    });
    // Outside the visits: a session that is dropped here gives its worker away.
    last.ok().flatten().into_iter().chain(closed.into_iter().flatten()).for_each(IdleSession::let_go);
}

/// Runs `f` on the thread's other sessions; `None` while the thread is being torn down.
#[inline]
fn with_others<R>(f: impl FnOnce(&mut Vec<IdleSession>) -> R) -> Option<R> {
    OTHERS.try_with(|others| f(&mut others.0.borrow_mut())).ok()
}

/// A session's worker: the one that it has, this thread's, an idle one, or a new one.
#[inline]
pub(crate) fn worker_of<'s>(shared: &SharedState, worker: &'s mut Option<Box<Worker>>) -> &'s mut Worker {
    if worker.is_none() {
        *worker = Some(take_worker(shared));
    }
    let Some(worker) = worker else { unreachable!("just put there") };
    worker
}

#[inline(never)]
fn take_worker(shared: &SharedState) -> Box<Worker> {
    let own = with_last(|last| if last.is_of(shared) { last.worker.take() } else { None }).flatten();
    let own = own.or_else(|| {
        with_others(|others| {
            others.iter_mut().find(|session| session.is_of(shared) && session.worker.is_some())?.worker.take()
        })
        .flatten()
    });
    own.unwrap_or_else(|| {
        if let Some(cores) = &shared.cores {
            cores.keep_this_thread();
        }
        let idle = shared.idle_workers.lock().pop();
        idle.unwrap_or_else(|| shared.new_worker())
    })
}

/// Runs `f` on the thread's last session; `None` if there is none, or the thread is being torn down.
fn with_last<R>(f: impl FnOnce(&mut IdleSession) -> R) -> Option<R> {
    LAST.try_with(|last| {
        let mut session = last.0.take();
        let done = session.as_mut().map(f);
        last.0.set(session);
        done
    })
    .ok()
    .flatten()
}

/// Runs `f` with a worker, outside any transaction.
pub(crate) fn with_worker<R>(shared: &SharedState, f: impl FnOnce(&mut Worker) -> R) -> R {
    let mut borrowed = BorrowedWorker { shared, worker: Some(take_worker(shared)) };
    f(worker_of(shared, &mut borrowed.worker))
}

/// A worker that goes back however its use ends: its garbage is not to be lost when application code (an index's key
/// function) panics.
struct BorrowedWorker<'c> {
    shared: &'c SharedState,
    worker: Option<Box<Worker>>,
}

impl Drop for BorrowedWorker<'_> {
    fn drop(&mut self) {
        let worker = &mut self.worker;
        // A forked child takes no lock that another thread of its parent may have held (I4).
        if let Some(worker) = worker
            && self.shared.is_own_process()
        {
            // The worker's thread may never commit, and the heartbeat frees garbage only (E6).
            worker.hand_over_nodes(&self.shared.epochs);
        }
        with_last(|last| {
            if last.is_of(self.shared) && last.worker.is_none() {
                last.worker = worker.take();
            }
        });
        if let Some(unattached) = worker.take() {
            self.shared.idle_workers.give(unattached);
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
