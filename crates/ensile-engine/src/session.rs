//! Who has which worker and which context: per thread first, then a pool of the database.
//!
//! A thread that commits again and again finds its worker and its context where it left them, in one visit to its own
//! memory and without touching a shared line. When a thread ends, its worker goes to the pool, where the heartbeat
//! collects its garbage until another thread takes it; no transaction is bound to a thread (E4).
//!
//! Neighbours: `database` and `transaction` borrow here; `worker` and `transaction::context` are what is lent.

use std::cell::{Cell, RefCell};

use ensile_base::sync::{AtomicBool, Mutex, MutexGuard, Ordering, thread_local};
use ensile_disk::Process;

use crate::database::Core;
use crate::sets::context::Context;
use crate::worker::Worker;

/// Idle seats that a thread keeps beside its last one: it may have several transactions open at once, or databases.
const SPARE_MAX: usize = 8;

/// Workers that no thread has.
pub(crate) struct Pool {
    #[expect(clippy::vec_box, reason = "a worker moves between seats, threads and the pool as a pointer")]
    idle: Mutex<Vec<Box<Worker>>>,
    closed: AtomicBool,
    /// The process that opened the database. In one forked from it nothing is given back: the lock may be held for ever (I4).
    process: Process,
}

impl Pool {
    pub(crate) fn new(process: Process) -> Self {
        Self { idle: Mutex::default(), closed: AtomicBool::new(false), process }
    }

    /// The idle workers, held still.
    #[expect(clippy::vec_box, reason = "as above")]
    pub(crate) fn idle(&self) -> MutexGuard<'_, Vec<Box<Worker>>> {
        // Pushing, popping and collecting leave a whole list at every point.
        self.idle.lock()
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

    pub(crate) fn give(&self, worker: Box<Worker>) {
        if !self.process.is_this() {
            return std::mem::forget(worker);
        }
        let mut idle = self.idle();
        // Under the lock: what comes later than `close` empties the pool would stay in it.
        if !self.is_closed() {
            idle.push(worker);
        }
    }
}

/// What one transaction sits on: its context, and a worker once it needs one.
///
/// A seat that is dropped, with its thread or because the thread has enough of them, leaves its worker to the pool.
pub(crate) struct Seat {
    pub(crate) context: Box<Context>,
    pub(crate) worker: Option<Box<Worker>>,
}

impl Seat {
    #[cold]
    fn new(core: &Core) -> Self {
        Self { context: Box::new(Context::new(core)), worker: None }
    }

    #[inline]
    fn is_of(&self, core: &Core) -> bool {
        self.context.database == core.id
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        if let Some(worker) = self.worker.take() {
            self.context.pool.give(worker);
        }
    }
}

impl Seat {
    /// Drops a seat that nobody wants, unless this is a forked child: there its pin's list may be locked for ever, and the
    /// seat is leaked (I4).
    #[cold]
    fn let_go(self) {
        if self.context.pool.process.is_this() {
            drop(self);
        } else {
            std::mem::forget(self);
        }
    }
}

/// Seats that go with their thread.
#[derive(Default)]
struct LastSeat(Cell<Option<Seat>>);

impl Drop for LastSeat {
    fn drop(&mut self) {
        self.0.take().into_iter().for_each(Seat::let_go);
    }
}

#[derive(Default)]
struct SpareSeats(RefCell<Vec<Seat>>);

impl Drop for SpareSeats {
    fn drop(&mut self) {
        self.0.take().into_iter().for_each(Seat::let_go);
    }
}

thread_local! {
    /// The seat of the transaction that ended last on this thread.
    static LAST: LastSeat = const { LastSeat(Cell::new(None)) };
    /// Its other idle seats: of transactions that overlapped, of other databases.
    static SPARE: SpareSeats = const { SpareSeats(RefCell::new(Vec::new())) };
}

/// A seat for a transaction that commits before its thread does anything else: with the thread's worker, if it has one.
#[inline(always)]
pub(crate) fn take_seat(core: &Core) -> Seat {
    match LAST.try_with(|last| last.0.take()) {
        Ok(Some(seat)) if seat.is_of(core) => seat,
        last => take_other_seat(core, last.ok().flatten()),
    }
}

#[inline(never)]
fn take_other_seat(core: &Core, last: Option<Seat>) -> Seat {
    if let Some(foreign) = last {
        keep(foreign);
    }
    let spare = with_spare(|spare| {
        let seated = spare.iter().position(|seat| seat.is_of(core) && seat.worker.is_some());
        let at = seated.or_else(|| spare.iter().position(|seat| seat.is_of(core)))?;
        Some(spare.swap_remove(at))
    });
    spare.flatten().unwrap_or_else(|| Seat::new(core))
}

/// A seat for a transaction or a snapshot that may stay open, so without a worker: that one stays with the thread.
#[inline]
pub(crate) fn take_seat_to_keep(core: &Core) -> Seat {
    let spare = with_spare(|spare| {
        let at = spare.iter().position(|seat| seat.is_of(core) && seat.worker.is_none())?;
        Some(spare.swap_remove(at))
    });
    spare.flatten().unwrap_or_else(|| Seat::new(core))
}

/// Takes a seat back. Its transaction has ended its pin.
#[inline(always)]
pub(crate) fn give_seat(from: &mut Option<Seat>) {
    let Some(seat) = from else { return };
    seat.context.clear();
    // Found under the pin that has ended; a batch may end by a panic.
    seat.context.hints.clear();
    if seat.worker.is_none() {
        return from.take().into_iter().for_each(keep);
    }
    match LAST.try_with(|last| last.0.replace(from.take())) {
        Ok(Some(displaced)) => keep_displaced(displaced),
        Ok(None) => {}
        // The thread is being torn down.
        Err(_) => from.take().into_iter().for_each(Seat::let_go),
    }
}

/// Keeps a seat that another one took the last place from. A transaction that ran within another's left it: its worker
/// goes to the pool, so that its garbage does not wait for the thread to nest transactions again.
#[inline(never)]
fn keep_displaced(mut displaced: Seat) {
    let database = displaced.context.database;
    let nested = LAST.try_with(|last| {
        let seat = last.0.take();
        let nested = seat.as_ref().is_some_and(|seat| seat.context.database == database);
        last.0.set(seat);
        nested
    });
    if nested == Ok(true)
        && let Some(worker) = displaced.worker.take()
    {
        displaced.context.pool.give(worker);
    }
    keep(displaced);
}

/// Keeps an idle seat beside the last one, as long as there are few.
#[inline(never)]
fn keep(seat: Seat) {
    let mut seat = Some(seat);
    let dropped = with_spare(|spare| {
        spare.extend(seat.take());
        let surplus = if spare.len() > SPARE_MAX { Some(spare.swap_remove(0)) } else { None };
        // A closed database's seats hold its memory.
        let stale = spare.extract_if(.., |seat| seat.context.pool.is_closed());
        stale.chain(surplus).collect::<Vec<Seat>>()
    });
    // Outside the visit: what is dropped here gives its worker away. With the thread being torn down it is all that is left.
    dropped.into_iter().flatten().chain(seat).for_each(Seat::let_go);
}

/// Drops this thread's seats of closed databases. What other threads have of them is small without the memory, which
/// is given back all the same, and goes when they run a transaction of another database, or end.
pub(crate) fn forget_closed() {
    let is_closed = |seat: &Seat| seat.context.pool.is_closed();
    let last = LAST.try_with(|last| {
        let (closed, kept) = last.0.take().map_or((None, None), |seat| {
            if is_closed(&seat) { (Some(seat), None) } else { (None, Some(seat)) }
        });
        last.0.set(kept);
        closed
    });
    let spare = with_spare(|spare| spare.extract_if(.., |seat| is_closed(seat)).collect::<Vec<Seat>>());
    // Outside the visits: what is dropped here gives its worker away.
    last.ok().flatten().into_iter().chain(spare.into_iter().flatten()).for_each(Seat::let_go);
}

/// Runs `f` on the thread's spare seats; `None` while the thread is being torn down.
#[inline]
fn with_spare<R>(f: impl FnOnce(&mut Vec<Seat>) -> R) -> Option<R> {
    SPARE.try_with(|spare| f(&mut spare.0.borrow_mut())).ok()
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

#[inline(never)]
fn take_worker(core: &Core) -> Box<Worker> {
    let own = at_last_seat(core, |last| last.worker.take()).flatten();
    let own = own.or_else(|| {
        with_spare(|spare| {
            spare.iter_mut().find(|seat| seat.is_of(core) && seat.worker.is_some())?.worker.take()
        })
        .flatten()
    });
    own.unwrap_or_else(|| {
        if let Some(cores) = &core.cores {
            cores.keep_this_thread();
        }
        let idle = core.pool.idle().pop();
        idle.unwrap_or_else(|| Box::new(Worker::new(core)))
    })
}

/// Runs `f` on the thread's last seat if it is one of this database.
fn at_last_seat<R>(core: &Core, f: impl FnOnce(&mut Seat) -> R) -> Option<R> {
    LAST.try_with(|last| {
        let mut seat = last.0.take();
        let done = seat.as_mut().filter(|seat| seat.is_of(core)).map(f);
        last.0.set(seat);
        done
    })
    .ok()
    .flatten()
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
        at_last_seat(self.core, |last| {
            if last.worker.is_none() {
                last.worker = worker.take();
            }
        });
        if let Some(homeless) = worker.take() {
            self.core.pool.give(homeless);
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
