//! Who has which worker and which context: per thread first, then a pool of the database.
//!
//! A thread that commits again and again finds its worker and its context where it left them, without touching a
//! shared line. When a thread ends, its worker goes to the pool, where the heartbeat collects its garbage until
//! another thread takes it; no transaction is bound to a thread (E4).
//!
//! Neighbours: `database` and `transaction` borrow here; `worker` and `transaction::context` are what is lent.

use std::cell::RefCell;

use ensile_base::sync::{Arc, AtomicBool, Mutex, MutexGuard, Ordering, thread_local};

use crate::database::Core;
use crate::transaction::context::Context;
use crate::worker::Worker;

/// Idle seats that a thread keeps: it may have several transactions open at once.
const SEATS_PER_THREAD: usize = 4;

/// Workers that no thread has.
#[derive(Default)]
pub(crate) struct Pool {
    #[expect(clippy::vec_box, reason = "a worker moves between seats, threads and the pool as a pointer")]
    idle: Mutex<Vec<Box<Worker>>>,
    closed: AtomicBool,
}

impl Pool {
    /// The idle workers, held still.
    #[expect(clippy::vec_box, reason = "as above")]
    pub(crate) fn idle(&self) -> MutexGuard<'_, Vec<Box<Worker>>> {
        // Pushing, popping and collecting leave a whole list at every point.
        self.idle.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// The database is going: whatever its threads still hold is not wanted back.
    pub(crate) fn close(&self) {
        // Release: partner is the Acquire in `is_closed`.
        self.closed.store(true, Ordering::Release);
        self.idle().clear();
    }

    fn is_closed(&self) -> bool {
        // Acquire: partner is the Release in `close`.
        self.closed.load(Ordering::Acquire)
    }

    fn give(&self, worker: Box<Worker>) {
        if !self.is_closed() {
            self.idle().push(worker);
        }
    }
}

/// What one transaction sits on: its context, and the thread's worker if it came to commit soon.
pub(crate) struct Seat {
    pub(crate) context: Box<Context>,
    pub(crate) worker: Option<Box<Worker>>,
}

/// What one thread keeps of one database.
struct Local {
    database: u64,
    pool: Arc<Pool>,
    worker: Option<Box<Worker>>,
    #[expect(clippy::vec_box, reason = "as for workers")]
    contexts: Vec<Box<Context>>,
}

impl Drop for Local {
    fn drop(&mut self) {
        if let Some(worker) = self.worker.take() {
            self.pool.give(worker);
        }
    }
}

thread_local! {
    static LOCALS: RefCell<Vec<Local>> = const { RefCell::new(Vec::new()) };
}

/// Runs `f` on this thread's share of the database; `None` while the thread is being torn down.
#[inline]
fn with_local<R>(core: &Core, f: impl FnOnce(&mut Local) -> R) -> Option<R> {
    LOCALS
        .try_with(|locals| {
            let mut locals = locals.borrow_mut();
            let at = match locals.iter().position(|local| local.database == core.id) {
                Some(at) => at,
                None => add_local(core, &mut locals),
            };
            f(&mut locals[at])
        })
        .ok()
}

#[cold]
fn add_local(core: &Core, locals: &mut Vec<Local>) -> usize {
    locals.retain(|local| !local.pool.is_closed());
    let pool = Arc::clone(&core.pool);
    locals.push(Local { database: core.id, pool, worker: None, contexts: Vec::new() });
    locals.len() - 1
}

/// A seat for a new transaction; with the thread's worker if it will commit before anything else happens here.
#[inline]
pub(crate) fn take_seat(core: &Core, with_worker: bool) -> Seat {
    let taken = with_local(core, |local| {
        let worker = if with_worker { local.worker.take() } else { None };
        (local.contexts.pop(), worker)
    });
    match taken {
        Some((Some(context), worker)) => Seat { context, worker },
        taken => Seat { context: Box::new(Context::new(core)), worker: taken.and_then(|(_, worker)| worker) },
    }
}

/// Takes a seat back. Its transaction has ended its pin.
#[inline]
pub(crate) fn give_seat(core: &Core, seat: Seat) {
    let Seat { mut context, mut worker } = seat;
    context.clear();
    // Found under the pin that has ended; a batch may end by a panic.
    context.hints.clear();
    with_local(core, |local| {
        if worker.is_some() && local.worker.is_none() {
            local.worker = worker.take();
        }
        if local.contexts.len() < SEATS_PER_THREAD {
            local.contexts.push(context);
        }
    });
    if let Some(homeless) = worker {
        core.pool.give(homeless);
    }
}

/// Runs `f` with the seat's worker: the one that it has, this thread's, an idle one, or a new one.
#[inline]
pub(crate) fn seated_worker<'s>(core: &Core, worker: &'s mut Option<Box<Worker>>) -> &'s mut Worker {
    if worker.is_none() {
        *worker = Some(take_worker(core));
    }
    let Some(worker) = worker else { unreachable!("just put there") };
    worker
}

#[cold]
fn take_worker(core: &Core) -> Box<Worker> {
    let own = with_local(core, |local| local.worker.take()).flatten();
    own.or_else(|| core.pool.idle().pop()).unwrap_or_else(|| Box::new(Worker::new(core)))
}

/// Runs `f` with a worker, outside any transaction.
pub(crate) fn with_worker<R>(core: &Core, f: impl FnOnce(&mut Worker) -> R) -> R {
    let mut lent = Lent { core, worker: Some(take_worker(core)) };
    f(seated_worker(core, &mut lent.worker))
}

/// A worker that goes back however its use ends: its garbage is not to be lost when application code (an index's key
/// function) panics.
struct Lent<'c> {
    core: &'c Core,
    worker: Option<Box<Worker>>,
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        let worker = &mut self.worker;
        with_local(self.core, |local| {
            if local.worker.is_none() {
                local.worker = worker.take();
            }
        });
        if let Some(homeless) = worker.take() {
            self.core.pool.give(homeless);
        }
    }
}
