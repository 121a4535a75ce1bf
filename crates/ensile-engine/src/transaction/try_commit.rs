//! A commit without a wait, for event loops (P2).
//!
//! Invariants:
//! - A busy commit changes nothing: reads, writes and the pin stay. Its waits stand in the context until the next try,
//!   another commit, or the drop.
//! - Any other outcome ends the transaction.
//! - The session gives its worker back after each try, because the transaction may stay open or undropped (E4).
//! - The waker is foreign code. No panic of the waker leaves this module or interrupts a commit.
//!
//! Neighbours: `commit` returns [`Error::Busy`] where a commit would wait; the gate and the log call the waker.

use std::task::Waker;

use ensile_base::wakers::{clone_waker, drop_waker};
use ensile_durability::UserCode;

use super::receipt::Receipt;
use super::{Ended, Transaction};
use crate::commit::{self, CommitTask, Committed};
use crate::commit_gate::no_clone;
use crate::error::{Error, Result};
use crate::session::{self, Session};
use crate::sets::context::Context;
use crate::shared_state::SharedState;

/// Error text for a try inside a closure.
const OF_CLOSURE: &str = "the database commits the transaction of a closure at the closure's end: call try_commit for a transaction of Database::begin";

/// A try under way. The drop returns the worker, and a try that is not busy ends its transaction.
struct CommitTry<'t, 'db> {
    transaction: &'t mut Transaction<'db>,
    is_busy: bool,
}

impl Drop for CommitTry<'_, '_> {
    fn drop(&mut self) {
        let Self { transaction, is_busy } = self;
        if !*is_busy {
            transaction.ended.get_or_insert(Ended::Tried);
        }
        transaction.return_worker();
        debug_assert!(*is_busy != transaction.ended.is_some(), "a try is busy, or ends its transaction");
    }
}

impl<'db> Transaction<'db> {
    /// Commits as [`Transaction::submit`], and never waits for log space or for the end of another thread's turn.
    /// Instead the call returns [`Error::Busy`]: nothing is written, and the transaction stays open as before. The
    /// database calls `waker` once a new call is worthwhile: log space has come, the turn has ended, the log has
    /// failed, or the database is closed. Each call replaces the waker of the call before.
    ///
    /// A waker may be called once more than needed, by any thread of the database or of the application. So a waker
    /// returns soon, and takes no lock that the application holds around calls of the database. A waker may panic, but
    /// must not wait for commits of other threads, nor close the database. During a slow sync of the disk the waker for
    /// log space is called with the next tick of the database's clock.
    ///
    /// Any other outcome ends the transaction: later calls return [`Error::Misuse`]. Drop the transaction soon, because
    /// the transaction holds memory back until its drop. In a closure of [`Database::run`](crate::Database::run) the
    /// call returns [`Error::Misuse`], and does nothing: the database commits the closure's transaction.
    ///
    /// A commit that is busy because of a turn gets through before the next turn, if it is tried within 10 ms of the
    /// end of the turn. [`Database::request_turn`](crate::Database::request_turn) helps a transaction that loses again
    /// and again.
    ///
    /// ```
    /// # extern crate ensile_engine as ensile;
    /// use std::task::Waker;
    /// use ensile::{Database, Error, Readable};
    /// # fn main() -> ensile::Result<()> {
    /// let db = Database::in_memory()?;
    /// let seats = db.table::<u32, String>("seats")?;
    ///
    /// let mut tx = db.begin();
    /// tx.put(&seats, &12, "Ada")?;
    /// // An event loop has a waker of its own, which makes the loop call again.
    /// match tx.try_commit(Waker::noop()) {
    ///     Ok(receipt) => println!("taken in epoch {}", receipt.epoch()),
    ///     Err(Error::Busy) => println!("serve other clients, and call again after the call of the waker"),
    ///     Err(error) if error.is_retryable() => println!("somebody was faster: begin again"),
    ///     Err(error) => return Err(error),
    /// }
    /// assert!(matches!(tx.get(&seats, &12), Err(Error::Misuse(_))), "the transaction has ended");
    /// # assert!(db.run(|tx| tx.contains(&seats, &12))?);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`Error::Busy`]; [`Error::DiskFull`] at once, if the disk is full; otherwise as for [`Transaction::submit`].
    pub fn try_commit(&mut self, waker: &Waker) -> Result<Receipt<'db>> {
        if self.is_of_closure {
            return Err(Error::Misuse(OF_CLOSURE.to_owned()));
        }
        let mut attempt = CommitTry { transaction: self, is_busy: false };
        let tried = UserCode::check_outside().map_err(Error::from);
        let committed = tried.and_then(|()| attempt.transaction.try_finish(waker));
        attempt.is_busy = matches!(committed, Err(Error::Busy));
        if !attempt.is_busy {
            attempt.transaction.end_tries();
        }
        drop(attempt);
        Ok(Receipt::new(committed?, self.database.another()))
    }

    /// As [`Transaction::finish`], without a wait.
    fn try_finish(&mut self, waker: &Waker) -> Result<Committed> {
        self.check_alive()?;
        self.database.life.check_still_open()?;
        let Some(Session { kept, worker }) = &mut *self.session else {
            unreachable!("taken when the transaction ends")
        };
        let shared: &SharedState = &self.database;
        kept.enter(
            |pinned, Context { sets, waits, .. }| {
                let worker = session::worker_of(shared, worker);
                debug_assert!(
                    worker.commit.slot().bound_epoch().is_none(),
                    "a session's worker commits nothing else (E2)"
                );
                if sets.writes.is_empty() {
                    return commit::commit_reads(shared, worker, sets, pinned);
                }
                let Some(waker) = clone_waker(waker) else { return Err(no_clone()) };
                let (mut waker, has_witnesses) = (Some(waker), sets.nodes.len() > 0);
                let mut task = CommitTask { waker: &mut waker, waits, has_witnesses };
                let looked = task.look_ahead(shared, worker, sets);
                let committed =
                    looked.and_then(|()| commit::commit_writes(shared, worker, sets, pinned, Some(task)));
                debug_assert!(
                    waker.is_none() == matches!(committed, Err(Error::Busy)),
                    "a busy try waits (P2)"
                );
                drop_waker(waker);
                committed
            },
            |_| Err(Error::Expired),
        )
    }

    /// Returns the worker after a try: another transaction of the thread may need the worker (E4).
    fn return_worker(&mut self) {
        let Self { session, database, .. } = self;
        if let Some(session) = &mut **session {
            session::return_worker(database, &mut session.worker);
            debug_assert!(session.worker.is_none(), "a transaction between tries has no worker");
        }
    }

    /// Ends the transaction after its last try.
    fn end_tries(&mut self) {
        let Self { session, database, .. } = self;
        if let Some(session) = &mut **session {
            session.kept.run_outside_call(|context| {
                context.waits.end(database);
                context.clear();
                debug_assert!(context.sets.is_empty(), "nothing of an ended transaction is left");
            });
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
