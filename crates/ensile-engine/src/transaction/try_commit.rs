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

use ensile_base::Epoch;
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

/// Error text for the begin of the next transaction before the end of this one.
const IS_OPEN: &str = "the transaction is open: begin_again follows a try_commit that is not busy";

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
        let committed = self.try_to_commit(waker)?;
        Ok(Receipt::new(committed, self.database.another()))
    }

    /// As [`Transaction::try_commit`], and returns the epoch of the commit in place of a receipt: the result is durable
    /// once the epoch is durable ([`Database::durable`](crate::Database::durable)). A receipt of a transaction that
    /// owns its database counts as an owner too, in a cache line that all cores share.
    ///
    /// # Errors
    /// As for [`Transaction::try_commit`].
    pub fn try_commit_epoch(&mut self, waker: &Waker) -> Result<Epoch> {
        Ok(self.try_to_commit(waker)?.epoch)
    }

    fn try_to_commit(&mut self, waker: &Waker) -> Result<Committed> {
        if self.is_of_closure {
            return Err(Error::Misuse(OF_CLOSURE.to_owned()));
        }
        let mut attempt = CommitTry { transaction: self, is_busy: false };
        let tried = UserCode::check_outside().map_err(Error::from);
        let committed = tried.and_then(|()| attempt.transaction.try_finish(waker));
        attempt.is_busy = matches!(committed, Err(Error::Busy));
        if !attempt.is_busy {
            attempt.transaction.end_tries(committed.is_err());
        }
        drop(attempt);
        committed
    }

    /// Begins the next transaction in the place of one that [`try_commit`](Self::try_commit) has committed or refused,
    /// for an event loop that takes several requests in a turn: less work than the begin of another transaction. Keys
    /// that [`prefetch_ahead`](Self::prefetch_ahead) has named stay fetched, unless the commit was refused. Both
    /// transactions are one for the reclamation of memory: drop the transaction at the end of the turn.
    ///
    /// ```
    /// # extern crate ensile_engine as ensile;
    /// use std::task::Waker;
    /// use ensile::{Database, Readable};
    /// # fn main() -> ensile::Result<()> {
    /// let db = Database::in_memory()?;
    /// let stock = db.table::<u64, u64>("stock")?;
    /// let requests = [3, 14, 15];
    /// let mut tx = db.begin();
    /// tx.prefetch_ahead(|prefetch| requests.iter().for_each(|item| prefetch.key(&stock, item)))?;
    /// for item in requests {
    ///     let left = tx.get(&stock, &item)?.unwrap_or(10);
    ///     tx.put(&stock, &item, &(left - 1))?;
    ///     tx.try_commit(Waker::noop())?;
    ///     tx.begin_again()?;
    /// }
    /// drop(tx);
    /// assert_eq!(db.run(|tx| tx.get(&stock, &15))?, Some(9));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`Error::Misuse`] if the transaction has not ended by `try_commit`; [`Error::Closed`]; [`Error::Expired`]. After
    /// a `try_commit` that has expired, the calls of the next transaction return [`Error::Expired`] too.
    pub fn begin_again(&mut self) -> Result<()> {
        match self.ended {
            Some(Ended::Tried) => {}
            Some(why) => return Err(super::error_of(why)),
            None => return Err(Error::Misuse(IS_OPEN.to_owned())),
        }
        self.database.life.check_open()?;
        debug_assert!(
            self.session.as_ref().is_some_and(|session| session.worker.is_none()),
            "a transaction between tries has no worker (E4)"
        );
        self.durability = self.database.settings.durability;
        self.ended = None;
        Ok(())
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

    /// Ends the transaction after its last try. A refused transaction may have met records that were replaced, so the
    /// next transaction in its place looks all keys up anew.
    fn end_tries(&mut self, is_refused: bool) {
        let Self { session, database, .. } = self;
        if let Some(session) = &mut **session {
            session.kept.run_outside_call(|context| {
                context.waits.end(database);
                context.clear();
                if is_refused {
                    context.sets.writes.end_batch();
                }
                debug_assert!(context.sets.is_empty(), "nothing of an ended transaction is left");
            });
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
