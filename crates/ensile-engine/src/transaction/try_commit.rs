//! A commit without a wait, for event loops (P2).
//!
//! Invariants:
//! - A busy commit changes nothing: reads, writes and the pin stay. The session gives its worker back, and its waits
//!   stand in the context until the next try, another commit, or the drop.
//! - Any other outcome ends the transaction.
//!
//! Neighbours: `commit` returns [`Error::Busy`] where a commit would wait; the gate and the log call the waker.

use std::task::Waker;

use ensile_durability::UserCode;

use super::receipt::Receipt;
use super::{Ended, Transaction};
use crate::commit::{self, CommitTask, Committed};
use crate::error::{Error, Result};
use crate::session::{self, Session};
use crate::sets::context::Context;
use crate::shared_state::SharedState;

impl<'db> Transaction<'db> {
    /// Commits as [`Transaction::submit`], and never waits for log space or for the end of another thread's turn.
    /// Instead the call returns [`Error::Busy`]: nothing is written, and the transaction stays open as before. The
    /// database calls `waker` once a new call is worthwhile: log space has come, the turn has ended, the log has
    /// failed, or the database is closed. A waker may be called once more than needed. A waker may panic, but must not
    /// wait for commits of other threads, nor close the database. Each call replaces the waker of the call before.
    ///
    /// Any other outcome ends the transaction: later calls return [`Error::Misuse`]. Drop the transaction soon, because
    /// the transaction holds memory back until its drop.
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
        let committed = UserCode::check_outside().map_err(Error::from).and_then(|()| self.try_finish(waker));
        if matches!(committed, Err(Error::Busy)) {
            self.return_worker();
        } else {
            self.end_tries();
        }
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
                let mut task = CommitTask { waker, waits };
                task.look_ahead(shared, worker, sets)?;
                commit::commit_writes(shared, worker, sets, pinned, Some(task))
            },
            |_| Err(Error::Expired),
        )
    }

    /// Returns the worker of a busy commit: another transaction of the thread may need the worker (E4).
    fn return_worker(&mut self) {
        let Self { session, database, .. } = self;
        if let Some(session) = &mut **session {
            session::return_worker(database, &mut session.worker);
            debug_assert!(session.worker.is_none(), "a commit that waits has no worker");
        }
    }

    /// Ends the transaction after its last try.
    fn end_tries(&mut self) {
        self.ended.get_or_insert(Ended::Tried);
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
