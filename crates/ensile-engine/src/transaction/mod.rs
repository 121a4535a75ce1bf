//! Transactions: until commit, reads are remembered and writes are kept private (Silo §4.4 to §4.7).
//!
//! ```text
//! reads       own writes, then table -> index -> record    -> read-set, node-set
//! writes      new values and deletes, kept private         -> write-set
//! indexes     the entries of secondary indexes move with their rows
//! prefetch    keys named ahead, so that their descents overlap
//! retry_loop  closures: begin, run, commit, again after a conflict
//! try_commit  a commit without a wait, for event loops
//! turn_request turns without a wait, for event loops
//! receipt     the TID and the epoch of a commit, and the wait until the commit is durable
//! ```
//! A transaction belongs to no thread and holds nothing that another transaction waits for. A transaction may stay open
//! for as long as its client likes, and delays only the reclamation of memory, within a stated limit (E4).
//!
//! Neighbours: up, `typed_api` encodes keys and values for these calls; down, `read_path`, `commit`, `session`.

mod indexes;
pub(crate) mod prefetch;
mod reads;
pub(crate) mod receipt;
mod retry_loop;
mod try_commit;
pub(crate) mod turn_request;
mod writes;

use std::mem::ManuallyDrop;

use ensile_base::Epoch;
use ensile_base::sync::Arc;
use ensile_durability::{DurabilityError, UserCode};
use ensile_epoch::Pinned;
use ensile_memory::MemoryRoom;

use crate::commit::{self, Committed};
use crate::database::{Database, DatabaseRef};
use crate::error::{Error, Result};
use crate::session::{self, Session};
use crate::sets::context::{Context, KeptContext};
use crate::shared_state::{Durability, SharedState};
use crate::tables::{CATALOG_ID, TableCore};
use crate::worker::WorkerCounters;
use receipt::Receipt;

/// A serializable transaction. A drop aborts the transaction.
///
/// A transaction sees its own writes, and takes effect as if at one moment, at commit. It may stay open for as long as
/// its client likes and move between threads. If another transaction commits between two reads, the reads may see
/// states that were never consistent. Then commit fails with [`Error::Conflict`], and so does a closure with such
/// reads.
pub struct Transaction<'db> {
    pub(crate) database: DatabaseRef<'db>,
    /// The session. The transaction's drop gives the session back, and nothing is left to drop.
    pub(crate) session: ManuallyDrop<Option<Session>>,
    durability: Durability,
    /// Reason why later reads, writes and the commit fail; `None` while the transaction is open.
    ended: Option<Ended>,
    /// True for the transaction of a closure, which the database commits.
    is_of_closure: bool,
}

#[derive(Clone, Copy, Debug)]
enum Ended {
    /// A call found the pin taken away (E4).
    Expired,
    /// The database was closed before the transaction began.
    Closed,
    /// The transaction began in a process that was forked from the process with the open database.
    Forked,
    /// The transaction began in user code of objects (O8).
    InCallBack,
    /// The transaction asked to be strict in a database without a log.
    Strict,
    /// A try has committed the transaction, or has failed for another reason than a wait.
    Tried,
}

/// Error text for a call after the last try of a commit.
const HAS_ENDED: &str = "the transaction has ended: try_commit has committed or refused the transaction; begin another transaction";
/// Error text for a strict transaction without a log.
const NEEDS_LOG: &str =
    "a strict transaction needs a log: without one submit it, and ask its receipt for a picture";

impl std::fmt::Debug for Transaction<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Transaction").field("ended", &self.ended).finish_non_exhaustive()
    }
}

impl Database {
    /// Begins a transaction that stays open until its commit, rollback or drop. See [`Transaction`].
    ///
    /// ```
    /// # extern crate ensile_engine as ensile;
    /// use ensile::{Database, Readable};
    /// # fn main() -> ensile::Result<()> {
    /// let db = Database::in_memory()?;
    /// let seats = db.table::<u32, String>("seats")?;
    ///
    /// let mut tx = db.begin();
    /// assert!(!tx.contains(&seats, &12)?);
    /// // Its client makes up its mind. Nothing is locked meanwhile.
    /// tx.put(&seats, &12, "Ada")?;
    /// match tx.commit() {
    ///     Ok(_receipt) => println!("taken, and durable"),
    ///     Err(error) if error.is_retryable() => println!("somebody was faster: begin again"),
    ///     Err(error) => return Err(error),
    /// }
    /// # assert!(db.run(|tx| tx.contains(&seats, &12))?);
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn begin(&self) -> Transaction<'_> {
        Transaction::begin(DatabaseRef::Borrowed(self.shared()), self.shared().settings.durability)
    }

    /// As [`Database::begin`], and the transaction keeps the database open. The transaction counts as an owner, in a
    /// cache line that all cores share; [`Database::begin`] does not touch the line.
    #[must_use]
    pub fn begin_owned(&self) -> Transaction<'static> {
        let database = DatabaseRef::Owned(Arc::clone(&self.open));
        Transaction::begin(database, self.shared().settings.durability)
    }
}

impl<'db> Transaction<'db> {
    /// Begins a transaction that may stay open: the transaction takes a worker only at commit.
    #[inline]
    pub(crate) fn begin(database: DatabaseRef<'db>, durability: Durability) -> Self {
        let session = session::take_unattached(&database).begin(&database);
        let ended = match database.life.check_open() {
            Ok(()) => None,
            Err(Error::InCallBack) => Some(Ended::InCallBack),
            Err(error) if matches!(error.cause(), Some(DurabilityError::Forked)) => Some(Ended::Forked),
            Err(_) => Some(Ended::Closed),
        };
        Self { database, session: ManuallyDrop::new(Some(session)), durability, ended, is_of_closure: false }
    }

    /// Begins a transaction that commits before its thread does anything else: the transaction takes the worker at
    /// once.
    #[inline(always)]
    pub(crate) fn begin_at_once(database: DatabaseRef<'db>, durability: Durability) -> Self {
        let session = session::take(&database).begin(&database);
        let session = ManuallyDrop::new(Some(session));
        Self { database, session, durability, ended: None, is_of_closure: true }
    }

    /// Pin and context.
    #[inline(always)]
    pub(crate) fn kept_context(&mut self) -> &mut KeptContext {
        let Some(session) = &mut *self.session else { unreachable!("taken when the transaction ends") };
        &mut session.kept
    }

    /// Runs `work`, which follows no record, outside the pin's calls. Application code may run for any time, and the
    /// database can end the transaction meanwhile (E4).
    #[inline(always)]
    pub(crate) fn run_outside_call<R>(&mut self, work: impl for<'p> FnOnce(&mut Context<'p>) -> R) -> R {
        self.kept_context().run_outside_call(work)
    }

    /// Runs a call under the transaction's pin.
    ///
    /// # Errors
    /// The error of `call`, and [`Error::Expired`].
    #[inline(always)]
    fn enter<R>(
        &mut self,
        call: impl for<'p> FnOnce(Pinned<'p>, &mut Context<'p>) -> Result<R>,
    ) -> Result<R> {
        let Self { session, ended, .. } = self;
        let Some(session) = &mut **session else { unreachable!("taken when the transaction ends") };
        session.kept.enter(call, |_| expire(ended))
    }

    /// Runs `call` under the transaction's pin, and afterwards `then`, which follows no record.
    ///
    /// # Errors
    /// The error of `then`, and [`Error::Expired`].
    #[inline(always)]
    fn enter_then<T, R>(
        &mut self,
        call: impl for<'p> FnOnce(Pinned<'p>, &mut Context<'p>) -> T,
        then: impl for<'p> FnOnce(T, &mut Context<'p>) -> Result<R>,
    ) -> Result<R> {
        let Self { session, ended, .. } = self;
        let Some(session) = &mut **session else { unreachable!("taken when the transaction ends") };
        session.kept.enter_then(call, then, |_| expire(ended))
    }

    /// Refuses tables of another database, and calls after a failure.
    #[inline(always)]
    fn check(&self, table: &TableCore) -> Result<()> {
        self.check_alive()?;
        self.database.life.check_table(table)
    }

    /// As [`Self::check`], for new data: also refuses the call while the memory is full (M4).
    #[inline(always)]
    fn check_put(&self, table: &TableCore) -> Result<()> {
        self.check_alive()?;
        if self.database.life.takes_puts(table) { Ok(()) } else { self.check_put_again(table) }
    }

    /// Slow path of [`Self::check_put`], in databases with a limit of the memory. The catalogue is never refused:
    /// tables must open.
    #[cold]
    fn check_put_again(&self, table: &TableCore) -> Result<()> {
        debug_assert!(self.ended.is_none(), "the caller refuses calls after a failure");
        self.database.life.check_table(table)?;
        let memory = &self.database.memory;
        let refused_from = if table.uses_reserve() { MemoryRoom::Exhausted } else { MemoryRoom::Full };
        if memory.room() < refused_from || table.id == CATALOG_ID {
            return Ok(());
        }
        Err(Error::memory_full(memory.memory_use()))
    }

    /// Refuses calls after a failure.
    #[inline]
    fn check_alive(&self) -> Result<()> {
        match self.ended {
            None => Ok(()),
            Some(why) => Err(error_of(why)),
        }
    }
}

impl<'db> Transaction<'db> {
    /// Commits without a wait. Show no result before the receipt is durable, unless the loss of the result in a crash
    /// is acceptable.
    ///
    /// # Errors
    /// [`Error::Conflict`] and [`Error::Expired`]: nothing was written, run the transaction again.
    /// [`Error::MemoryFull`]: nothing was written, delete rows first. [`Error::Storage`]: the log takes no more writes.
    pub fn submit(mut self) -> Result<Receipt<'db>> {
        UserCode::check_outside()?;
        let committed = self.finish()?;
        Ok(Receipt::new(committed, self.database.another()))
    }

    /// Commits, and with [`Durability::Strict`] waits until the result is durable.
    ///
    /// ```
    /// # extern crate ensile_engine as ensile;
    /// use ensile::{Database, Error, Readable};
    /// # fn main() -> ensile::Result<()> {
    /// let db = Database::in_memory()?;
    /// let stock = db.table::<u64, u64>("stock")?;
    /// let mut slow = db.begin();
    /// assert_eq!(slow.get(&stock, &1)?, None);
    /// db.run(|tx| tx.put(&stock, &1, &9))?;
    /// slow.put(&stock, &1, &5)?;
    /// assert!(matches!(slow.commit(), Err(Error::Conflict)), "what it read has changed: nothing is written");
    /// # assert_eq!(db.run(|tx| tx.get(&stock, &1))?, Some(9));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As for [`Transaction::submit`]; and [`Error::Storage`] with an unknown outcome if the log stops during the
    /// wait.
    pub fn commit(self) -> Result<Receipt<'db>> {
        let durability = self.durability;
        let receipt = self.submit()?;
        if durability == Durability::Strict {
            receipt.durable()?;
        }
        Ok(receipt)
    }

    /// Chooses if [`commit`](Self::commit), or [`Database::run`] for its closure, waits until the result is durable.
    /// The choice is for this transaction, and overrides the database's default. Each attempt of a closure begins with
    /// the default.
    ///
    /// ```
    /// # extern crate ensile_engine as ensile;
    /// use ensile::{Database, Durability};
    /// # fn main() -> ensile::Result<()> {
    /// let db = Database::in_memory()?;
    /// let seen = db.table::<String, u64>("seen")?;
    /// db.run(|tx| {
    ///     tx.set_durability(Durability::Relaxed); // a crash may lose it
    ///     tx.put(&seen, "ada", &1)?;
    ///     Ok(())
    /// })?;
    /// # Ok(()) }
    /// ```
    ///
    /// In a database without a log a transaction that asks to be strict ends there: later calls return
    /// [`Error::Misuse`].
    #[inline]
    pub fn set_durability(&mut self, durability: Durability) {
        let settings = &self.database.settings;
        // In other databases only the strict level keeps the promise of the process-safe level.
        let is_elsewhere = durability == Durability::Process && !settings.process_safe;
        let durability = if is_elsewhere { Durability::Strict } else { durability };
        self.durability = durability;
        if durability == Durability::Strict && self.database.settings.is_without_log {
            self.ended = Some(Ended::Strict);
        }
    }

    /// Checks that all reads so far, and the absence of the keys of inserts, were consistent at one moment. Returns the
    /// epoch that an answer about the reads rests on: the answer is durable once the epoch is durable
    /// ([`Database::durable`]). A program that refuses a request because of the rows that it has read, and rolls back,
    /// checks first: rows that never existed together are no reason. [`Database::try_run`] checks by itself.
    ///
    /// ```
    /// # extern crate ensile_engine as ensile;
    /// use ensile::{Database, Readable};
    /// # fn main() -> ensile::Result<()> {
    /// let db = Database::in_memory()?;
    /// let stock = db.table::<u64, u64>("stock")?;
    /// let mut tx = db.begin();
    /// if tx.get(&stock, &7)?.unwrap_or(0) == 0 {
    ///     match tx.validate() {
    ///         Ok(_epoch) => println!("sold out"),
    ///         Err(error) if error.is_retryable() => println!("look again"),
    ///         Err(error) => return Err(error),
    ///     }
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`Error::Conflict`] and [`Error::Expired`]: run the transaction again.
    pub fn validate(&mut self) -> Result<Epoch> {
        UserCode::check_outside()?;
        let Committed { tid, epoch } = self.validate_reads()?;
        debug_assert!(epoch >= tid.epoch(), "an answer rests on the newest row that it tells of (R1)");
        Ok(epoch)
    }

    /// Ends the transaction without effect, as a drop does.
    pub fn rollback(self) {}

    /// Commits the sets; the context stays with the transaction. The caller is outside user code (O8).
    ///
    /// Always inline, as the whole path of a short transaction. With fewer instructions between one transaction's last
    /// miss to memory and the next transaction's first miss, the processor overlaps the two misses more.
    #[inline(always)]
    pub(crate) fn finish(&mut self) -> Result<Committed> {
        self.check_alive()?;
        self.database.life.check_still_open()?;
        let Some(Session { kept, worker }) = &mut *self.session else {
            unreachable!("taken when the transaction ends")
        };
        let shared: &SharedState = &self.database;
        kept.enter(
            #[inline(always)]
            |pinned, Context { sets, waits, .. }| {
                let worker = session::worker_after_waits(shared, worker, waits);
                debug_assert!(
                    worker.commit.slot().bound_epoch().is_none(),
                    "a session's worker commits nothing else (E2)"
                );
                if sets.writes.is_empty() {
                    commit::commit_reads(shared, worker, sets, pinned)
                } else {
                    commit::commit_writes(shared, worker, sets, pinned, None)
                }
            },
            |_| Err(Error::Expired),
        )
    }

    /// Checks that all reads so far, and the absence of the keys of inserts, were consistent at one moment (R2).
    /// Returns the epoch of the reads.
    pub(crate) fn validate_reads(&mut self) -> Result<Committed> {
        self.check_alive()?;
        self.database.life.check_process()?;
        let Some(Session { kept, .. }) = &mut *self.session else {
            unreachable!("taken when the transaction ends")
        };
        kept.enter(
            |pinned, Context { sets, scratch, .. }| {
                #[cfg(debug_assertions)]
                sets.check();
                sets.read_inserted_keys(|id| self.database.tables.table(id), scratch, pinned)?;
                commit::validate_reads_once(sets, &self.database.unhooked, pinned)
            },
            |_| Err(Error::Expired),
        )
    }

    /// Starts over with an empty transaction under the same pin, for the next request of a batch. Always inlined: a
    /// call would be a hundredth of a small request.
    #[inline(always)]
    pub(crate) fn restart(&mut self) {
        self.run_outside_call(
            #[inline(always)]
            |context| context.clear(),
        );
        self.ended = None;
    }

    /// Starts over with an empty transaction under a new pin, after `wait`, for the next attempt. Records found under
    /// the old pin are forgotten, including the records of a batch's later requests.
    #[cold]
    pub(crate) fn renew_after<R>(&mut self, wait: impl FnOnce() -> R) -> R {
        self.restart();
        self.durability = self.database.settings.durability;
        let Self { session, database, .. } = self;
        let Some(session) = &mut **session else { unreachable!("taken when the transaction ends") };
        session.kept.run_outside_call(|context| context.waits.end(database));
        session.kept.renew_after(&database.epochs, wait)
    }

    /// Number of reads that the last run remembers.
    pub(crate) fn reads(&mut self) -> usize {
        self.run_outside_call(|context| context.sets.reads.len())
    }

    /// Number of leaves that the last run remembers.
    #[cfg(all(test, not(any(loom, shuttle))))]
    pub(crate) fn leaves(&mut self) -> usize {
        self.run_outside_call(|context| context.sets.nodes.len())
    }

    pub(super) fn count_retry(&self) {
        if let Some(worker) = self.session.as_ref().and_then(|session| session.worker.as_ref()) {
            WorkerCounters::add(&worker.shared.counters.retries, 1);
        }
    }

    /// True if the transaction is of this database. A closure that borrows a transaction can exchange it for another.
    #[inline(always)]
    pub(crate) fn belongs_to(&self, shared: &SharedState) -> bool {
        std::ptr::eq(&raw const *self.database, shared)
    }
}

impl Drop for Transaction<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        let Self { session, database, .. } = self;
        session::give_back(
            session,
            #[inline(always)]
            |session| session.end_waits(database),
        );
    }
}

/// Notes that the pin was taken away, and returns the error.
#[cold]
fn expire<R>(ended: &mut Option<Ended>) -> Result<R> {
    debug_assert!(ended.is_none(), "a transaction ends once");
    *ended = Some(Ended::Expired);
    Err(Error::Expired)
}

/// The error of an ended transaction. Out of line: a transaction without a failure does not pass through here.
#[cold]
fn error_of(why: Ended) -> Error {
    match why {
        Ended::Expired => Error::Expired,
        Ended::Closed => Error::Closed,
        Ended::Forked => Error::forked(),
        Ended::InCallBack => Error::InCallBack,
        Ended::Strict => Error::Misuse(NEEDS_LOG.to_owned()),
        Ended::Tried => Error::Misuse(HAS_ENDED.to_owned()),
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
