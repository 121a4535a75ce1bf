//! Who has which worker and which context: per thread first, then a pool of the database.
//!
//! A thread that commits again and again finds its worker and its context where it left them, without touching a
//! shared line. When a thread ends, its worker goes to the pool, where the heartbeat collects its garbage until
//! another thread takes it; no transaction is bound to a thread (E4).
//!
//! Neighbours: `database` and `transaction` borrow here; `worker` and `transaction::context` are what is lent.

use std::cell::RefCell;

use ensile_base::sync::{Arc, AtomicBool, Mutex, MutexGuard, Ordering};

use crate::database::Core;
use crate::transaction::context::Context;
use crate::worker::Worker;

/// Idle contexts that a thread keeps: it may have several transactions open at once.
const CONTEXTS_PER_THREAD: usize = 4;

/// Workers that no thread has.
#[derive(Default)]
pub(crate) struct Pool {
    idle: Mutex<Vec<Box<Worker>>>,
    closed: AtomicBool,
}

impl Pool {
    /// The idle workers, held still.
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
}

/// What one thread keeps of one database.
struct Local {
    database: u64,
    pool: Arc<Pool>,
    worker: Option<Box<Worker>>,
    contexts: Vec<Box<Context>>,
}

impl Drop for Local {
    fn drop(&mut self) {
        if let Some(worker) = self.worker.take()
            && !self.pool.is_closed()
        {
            self.pool.idle().push(worker);
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

/// A context for a new transaction.
#[inline]
pub(crate) fn take_context(core: &Core) -> Box<Context> {
    with_local(core, |local| local.contexts.pop()).flatten().unwrap_or_else(|| Box::new(Context::new(core)))
}

/// Takes a context back. Its transaction has ended its pin.
#[inline]
pub(crate) fn give_context(core: &Core, mut context: Box<Context>) {
    context.clear();
    with_local(core, |local| {
        if local.contexts.len() < CONTEXTS_PER_THREAD {
            local.contexts.push(context);
        }
    });
}

/// Runs `f` with a worker: this thread's, an idle one, or a new one.
#[inline]
pub(crate) fn with_worker<R>(core: &Core, f: impl FnOnce(&mut Worker) -> R) -> R {
    let mut worker =
        with_local(core, |local| local.worker.take()).flatten().unwrap_or_else(|| find_worker(core));
    let result = f(&mut worker);
    let mut worker = Some(worker);
    with_local(core, |local| local.worker = worker.take());
    if let Some(homeless) = worker {
        core.pool.idle().push(homeless);
    }
    result
}

#[cold]
fn find_worker(core: &Core) -> Box<Worker> {
    let idle = core.pool.idle().pop();
    idle.unwrap_or_else(|| Box::new(Worker::new(core)))
}
