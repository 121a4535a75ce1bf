//! Sessions: the assignment of contexts and workers to threads.
//!
//! A thread with repeated commits finds its worker and its context in its own memory, in a single visit and without a
//! shared line. At the end of a thread, its worker goes to the database. The heartbeat collects the worker's garbage
//! until another thread takes the worker. No transaction is bound to a thread (E4).
//!
//! Neighbours: transactions and snapshots take sessions. A session consists of a `worker` and a `sets::context`. The
//! opening of a table and the laboratory take only a worker.

use std::cell::{Cell, RefCell};

use ensile_base::Epoch;
use ensile_base::sync::thread_local;

use crate::sets::context::{Context, KeptContext, RestingContext, SnapshotContext};
use crate::shared_state::{CommitWaits, SharedState};
use crate::worker::Worker;

/// Largest number of idle sessions that a thread keeps beside its last session. A thread may have several open
/// transactions or databases at the same time.
const OTHERS_MAX: usize = 8;

/// Pin and context of a transaction, with a worker once the transaction needs a worker.
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
    /// Ends the waits of a busy commit.
    #[cold]
    #[inline(never)]
    pub(crate) fn end_waits(&mut self, shared: &SharedState) {
        debug_assert!(self.worker.is_none(), "a commit that waits has no worker");
        self.kept.run_outside_call(|context| context.waits.end(shared));
    }

    /// Ends the transaction's pin.
    #[inline(always)]
    fn end(self) -> IdleSession {
        IdleSession { resting: self.kept.end(), worker: self.worker }
    }
}

impl IdleSession {
    #[cold]
    fn new(shared: &SharedState) -> Self {
        Self { resting: RestingContext::for_new_session(shared), worker: None }
    }

    /// Begins a transaction.
    #[inline(always)]
    pub(crate) fn begin(self, shared: &SharedState) -> Session {
        debug_assert!(self.belongs_to(shared), "a session is of one database");
        debug_assert!(self.context().sets.is_empty(), "a transaction begins with empty sets");
        Session { kept: self.resting.begin(shared.epochs.now()), worker: self.worker }
    }

    /// Begins a snapshot, without a worker. Also returns the snapshot's epoch.
    pub(crate) fn begin_snapshot(self, shared: &SharedState) -> (SnapshotContext, Epoch) {
        debug_assert!(self.worker.is_none(), "the session of a snapshot has no worker");
        self.begin(shared).kept.open_snapshot(&shared.epochs)
    }

    #[inline(always)]
    fn context(&self) -> &Context<'static> {
        self.resting.get()
    }

    #[inline]
    fn belongs_to(&self, shared: &SharedState) -> bool {
        self.context().database == shared.life.id
    }

    /// Drops a session that no thread keeps, and gives its worker to the database. In a forked child the session is
    /// leaked: the list of the session's pin may be locked for ever (I4).
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

/// A session dropped at the end of its thread.
#[derive(Default)]
struct LastSession(Cell<Option<IdleSession>>);

impl Drop for LastSession {
    fn drop(&mut self) {
        self.0.take().into_iter().for_each(IdleSession::let_go);
    }
}

/// Sessions dropped at the end of their thread.
#[derive(Default)]
struct OtherSessions(RefCell<Vec<IdleSession>>);

impl Drop for OtherSessions {
    fn drop(&mut self) {
        self.0.take().into_iter().for_each(IdleSession::let_go);
    }
}

thread_local! {
    /// Session of the thread's last transaction.
    static LAST: LastSession = const { LastSession(Cell::new(None)) };
    /// Other idle sessions of the thread: of overlapping transactions, and of other databases.
    static OTHERS: OtherSessions = const { OtherSessions(RefCell::new(Vec::new())) };
}

/// A session for a transaction that commits before any other work of its thread, with the thread's worker, if the
/// thread has a worker.
#[inline(always)]
pub(crate) fn take(shared: &SharedState) -> IdleSession {
    match LAST.try_with(|last| last.0.take()) {
        Ok(Some(session)) if session.belongs_to(shared) => session,
        last => take_other(shared, last.ok().flatten()),
    }
}

/// As [`take`], if the last session is missing or of another database. `last` is kept for later. Prefers a session with
/// a worker, and makes a new session as a last resort.
#[inline(never)]
fn take_other(shared: &SharedState, last: Option<IdleSession>) -> IdleSession {
    if let Some(foreign) = last {
        keep(foreign);
    }
    let kept = with_others(|others| {
        let attached =
            others.iter().position(|session| session.belongs_to(shared) && session.worker.is_some());
        let at = attached.or_else(|| others.iter().position(|session| session.belongs_to(shared)))?;
        Some(others.swap_remove(at))
    });
    kept.flatten().unwrap_or_else(|| IdleSession::new(shared))
}

/// A session for a transaction or a snapshot that may stay open. The session has no worker: the thread keeps its
/// worker.
#[inline]
pub(crate) fn take_unattached(shared: &SharedState) -> IdleSession {
    let kept = with_others(|others| {
        let at = others.iter().position(|session| session.belongs_to(shared) && session.worker.is_none())?;
        Some(others.swap_remove(at))
    });
    kept.flatten().unwrap_or_else(|| IdleSession::new(shared))
}

/// Ends a transaction's session, and keeps the session for the thread's next transaction. `unattached` is called for a
/// session without a worker: its commit may wait for its next try.
#[inline(always)]
pub(crate) fn give_back(from: &mut Option<Session>, unattached: impl FnOnce(&mut Session)) {
    let Some(session) = from else { return };
    session.kept.run_outside_call(
        #[inline(always)]
        |context| context.end(),
    );
    if session.worker.is_none() {
        unattached(session);
        return from.take().into_iter().for_each(|session| keep(session.end()));
    }
    match LAST.try_with(|last| last.0.replace(from.take().map(Session::end))) {
        Ok(Some(displaced)) => keep_displaced(displaced),
        Ok(None) => {}
        // The thread is being torn down.
        Err(_) => from.take().into_iter().for_each(|session| session.end().let_go()),
    }
}

/// Ends a snapshot's session, and keeps the session for the thread's next use.
pub(crate) fn end_snapshot(mut snapshot: SnapshotContext) {
    snapshot.run_outside_call(|context| context.end());
    keep(IdleSession { resting: snapshot.end(), worker: None });
}

/// Keeps a session displaced from the last place by another session. A transaction within another transaction left the
/// displaced session. Its worker goes to the database, so that the worker's garbage does not wait for the thread's next
/// nested transaction.
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

/// Keeps an idle session beside the last session, up to a limit.
#[inline(never)]
fn keep(session: IdleSession) {
    let mut session = Some(session);
    let dropped = with_others(|others| {
        others.extend(session.take());
        let surplus = if others.len() > OTHERS_MAX { Some(others.swap_remove(0)) } else { None };
        // Sessions of a closed database hold its memory.
        let stale = others.extract_if(.., |session| session.context().idle_workers.is_closed());
        stale.chain(surplus).collect::<Vec<IdleSession>>()
    });
    // Outside the visit, because a session dropped here gives its worker away. During the thread's teardown only
    // `session` is left.
    dropped.into_iter().flatten().chain(session).for_each(IdleSession::let_go);
}

/// Drops the thread's sessions of closed databases. The sessions of other threads are small without the memory, and
/// the memory is released anyway. The other sessions end with their threads, or when their threads run a transaction of
/// another database.
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
    // Outside the visits, because a session dropped here gives its worker away.
    last.ok().flatten().into_iter().chain(closed.into_iter().flatten()).for_each(IdleSession::let_go);
}

/// Runs `f` on the thread's other sessions; `None` during the thread's teardown.
#[inline]
fn with_others<R>(f: impl FnOnce(&mut Vec<IdleSession>) -> R) -> Option<R> {
    OTHERS.try_with(|others| f(&mut others.0.borrow_mut())).ok()
}

/// The worker of a session: the session's own worker, the thread's worker, an idle worker, or a new worker.
#[inline]
pub(crate) fn worker_of<'s>(shared: &SharedState, worker: &'s mut Option<Box<Worker>>) -> &'s mut Worker {
    if worker.is_none() {
        *worker = Some(take_worker(shared));
    }
    let Some(worker) = worker else { unreachable!("just put there") };
    worker
}

/// As [`worker_of`], for a commit that is no task's. A commit that was busy has no worker: it begins anew.
#[inline(always)]
pub(crate) fn worker_after_waits<'s>(
    shared: &SharedState,
    worker: &'s mut Option<Box<Worker>>,
    waits: &mut CommitWaits,
) -> &'s mut Worker {
    if worker.is_none() {
        *worker = Some(take_worker_after_waits(shared, waits));
    }
    let Some(worker) = worker else { unreachable!("just put there") };
    worker
}

#[cold]
#[inline(never)]
fn take_worker_after_waits(shared: &SharedState, waits: &mut CommitWaits) -> Box<Worker> {
    waits.end(shared);
    take_worker(shared)
}

/// Takes the thread's worker from a session of the thread, or an idle worker of the database, or makes a new worker.
#[inline(never)]
fn take_worker(shared: &SharedState) -> Box<Worker> {
    let own = with_last(|last| if last.belongs_to(shared) { last.worker.take() } else { None }).flatten();
    let own = own.or_else(|| {
        with_others(|others| {
            others
                .iter_mut()
                .find(|session| session.belongs_to(shared) && session.worker.is_some())?
                .worker
                .take()
        })
        .flatten()
    });
    own.unwrap_or_else(|| {
        if let Some(cores) = &shared.workers.cores {
            cores.keep_this_thread();
        }
        let idle = shared.workers.idle.lock().pop();
        idle.unwrap_or_else(|| shared.new_worker())
    })
}

/// Runs `f` on the thread's last session; `None` without a session, or during the thread's teardown.
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

/// Returns the worker of a session after a try of its commit: the transaction may stay open or undropped (E4). The
/// thread keeps the worker, so that its next commit takes no lock and fetches no other core's lines.
pub(crate) fn return_worker(shared: &SharedState, worker: &mut Option<Box<Worker>>) {
    if worker.is_none() {
        return;
    }
    debug_assert!(
        worker.as_ref().is_none_or(|worker| worker.commit.slot().bound_epoch().is_none()),
        "a worker between two commits is not bound (E2)"
    );
    if with_last(|last| last.belongs_to(shared)) != Some(true) {
        put_last(take_unattached(shared));
    }
    drop(BorrowedWorker { shared, worker: worker.take() });
}

/// Makes an idle session the thread's last session. The session before is of another database.
#[cold]
fn put_last(session: IdleSession) {
    debug_assert!(session.worker.is_none(), "the caller gives a worker to the session");
    let mut session = Some(session);
    let displaced = LAST.try_with(|last| last.0.replace(session.take()));
    displaced.ok().flatten().into_iter().for_each(keep);
    // The thread is being torn down.
    session.into_iter().for_each(IdleSession::let_go);
}

/// A borrowed worker, returned at any end of its use. A panic of application code, such as an index's key function,
/// must not lose the worker's garbage.
struct BorrowedWorker<'c> {
    shared: &'c SharedState,
    worker: Option<Box<Worker>>,
}

impl Drop for BorrowedWorker<'_> {
    fn drop(&mut self) {
        let worker = &mut self.worker;
        // A forked child takes no lock that another thread of the parent may have held (I4).
        if let Some(worker) = worker
            && self.shared.life.is_own_process()
        {
            // The worker's thread may never commit, and the heartbeat only frees garbage (E6).
            worker.hand_over_nodes(&self.shared.epochs);
        }
        with_last(|last| {
            if last.belongs_to(self.shared) && last.worker.is_none() {
                last.worker = worker.take();
            }
        });
        if let Some(unattached) = worker.take() {
            self.shared.workers.idle.give(unattached);
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
