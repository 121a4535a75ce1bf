//! Receipts: the TID and the epoch of a commit, and the wait for its durability.
//!
//! Invariant R1: A receipt's epoch covers everything that the transaction read or wrote: once the epoch is durable, the
//! result may be shown.
//!
//! Neighbours: `transaction` and `database` make receipts; the durability crate waits.

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::task::Poll;

use ensile_base::{Epoch, Tid};
use ensile_durability::{CheckpointReport, Durable, UserCode};

use crate::commit::Committed;
use crate::database::{Database, DatabaseRef};
use crate::error::{Error, Result};
use crate::shared_state::SharedState;

/// A committed transaction's receipt.
///
/// ```
/// # extern crate ensile_engine as ensile;
/// # fn main() -> ensile::Result<()> {
/// let db = ensile::Database::in_memory()?;
/// let (value, receipt) = db.submit(|_tx| Ok(42))?;
/// receipt.durable()?;
/// assert_eq!(value, 42);
/// # Ok(()) }
/// ```
///
/// Asynchronous code awaits the receipt, on any executor: `receipt.await?`.
///
/// A receipt borrows the handle that ran the transaction, so that a new receipt touches no cache line of another
/// thread. The receipt of a transaction begun by [`Database::begin_owned`](crate::Database::begin_owned), and the
/// future of [`Receipt::durable_async`], borrow nothing.
pub struct Receipt<'db> {
    committed: Committed,
    database: DatabaseRef<'db>,
}

impl std::fmt::Debug for Receipt<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Receipt").field("committed", &self.committed).finish_non_exhaustive()
    }
}

impl<'db> Receipt<'db> {
    #[inline]
    pub(crate) fn new(committed: Committed, database: DatabaseRef<'db>) -> Self {
        debug_assert!(committed.epoch >= committed.tid.epoch(), "a receipt covers its TID's epoch (R1)");
        Self { committed, database }
    }

    /// The transaction's TID. For a read-only transaction, the largest TID read.
    #[must_use]
    pub fn tid(&self) -> Tid {
        self.committed.tid
    }

    /// The epoch that must be durable before the result is durable. For a read-only transaction, the largest epoch
    /// read, including deleted records (R1, N19).
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        self.committed.epoch
    }

    /// Waits until the transaction is durable. In memory nothing outlives the process, and the call returns at once. In
    /// a database [without a log](crate::Builder::without_log) the call asks for a picture, which all waiting calls
    /// share.
    ///
    /// # Errors
    /// [`Error::Storage`](crate::Error::Storage) if the log stopped before: the outcome is unknown until the
    /// database is opened again ([`ErrorKind::Reopen`](crate::ErrorKind::Reopen)). The kind is
    /// [`FreeSpace`](crate::ErrorKind::FreeSpace) if the disk was full for
    /// [`Tuning::full_disk_wait`](crate::Tuning::full_disk_wait) meanwhile, or, without a log, if a picture failed.
    /// Then the commit stays, and becomes durable once the cause is gone. The caller can wait on the receipt again.
    pub fn durable(&self) -> Result<()> {
        UserCode::check_outside()?;
        self.database.life.check_process()?;
        self.database.storage.wait_durable(self.committed.epoch)
    }

    /// As [`Receipt::durable`], and returns the report of the picture that holds the transaction. `None` if a log holds
    /// the transaction, if the transaction was durable when the database was opened, and in memory.
    ///
    /// # Errors
    /// As for [`Receipt::durable`].
    pub fn durable_in(&self) -> Result<Option<CheckpointReport>> {
        self.durable()?;
        Ok(self.database.storage.checkpoints.as_ref().and_then(|all| all.report_of(self.committed.epoch)))
    }

    /// True if the transaction is durable by now.
    #[must_use]
    pub fn is_durable(&self) -> bool {
        self.database.storage.durable_epoch() >= self.committed.epoch
    }

    /// As [`Receipt::durable`], as a future of any executor. `receipt.await` is the same, and uses the receipt up. The
    /// future's waker is called on a thread of the database, or on a thread that waits for a result by itself. The
    /// waker may panic, but must not close the database, because a close waits for these threads.
    ///
    /// ```
    /// # extern crate ensile_engine as ensile;
    /// use ensile::{Database, Result, Table};
    ///
    /// /// Commits at once, and holds no thread while the disk works.
    /// async fn deposit(db: &Database, accounts: &Table<u64, u64>, id: u64, amount: u64) -> Result<()> {
    ///     let ((), receipt) = db.submit(|tx| tx.put(accounts, &id, &amount))?;
    ///     receipt.durable_async().await
    /// }
    /// ```
    pub fn durable_async(&self) -> DurableFuture {
        DurableFuture::new(&self.database, self.committed.epoch)
    }
}

impl Database {
    /// Future of the durability of everything up to an epoch, as [`Receipt::durable_async`] for a receipt of this
    /// epoch. Serves a program that keeps the epochs of receipts, and waits once for many results.
    ///
    /// ```
    /// # extern crate ensile_engine as ensile;
    /// use ensile::{Database, Result, Table};
    ///
    /// /// Waits for two transactions at once: an epoch covers all earlier epochs.
    /// async fn deposit_twice(db: &Database, accounts: &Table<u64, u64>) -> Result<()> {
    ///     let ((), first) = db.submit(|tx| tx.put(accounts, &1, &10))?;
    ///     let ((), second) = db.submit(|tx| tx.put(accounts, &2, &10))?;
    ///     db.durable(first.epoch().max(second.epoch())).await
    /// }
    /// ```
    pub fn durable(&self, epoch: Epoch) -> DurableFuture {
        DurableFuture::new(self.shared(), epoch)
    }
}

impl IntoFuture for Receipt<'_> {
    type Output = Result<()>;
    type IntoFuture = DurableFuture;

    fn into_future(self) -> DurableFuture {
        self.durable_async()
    }
}

/// Future of a durable transaction: see [`Receipt::durable_async`]. The future borrows nothing. A future that is
/// dropped early leaves nothing behind. A future that is polled again waits with the waker of its last poll.
#[must_use = "a future waits when it is awaited"]
pub struct DurableFuture {
    epoch: Epoch,
    /// The wait for the log; without a log the answer, until a poll takes it.
    wait: std::result::Result<Durable, Option<Result<()>>>,
}

impl std::fmt::Debug for DurableFuture {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DurableFuture").field("epoch", &self.epoch).finish_non_exhaustive()
    }
}

impl DurableFuture {
    fn new(shared: &SharedState, epoch: Epoch) -> Self {
        let wait = match &shared.storage.log {
            Some(log) => Ok(log.durable(epoch)),
            None => Err(Some(shared.storage.check_durable(epoch))),
        };
        Self { epoch, wait }
    }
}

impl Future for DurableFuture {
    type Output = Result<()>;

    fn poll(mut self: Pin<&mut Self>, context: &mut std::task::Context<'_>) -> Poll<Result<()>> {
        if UserCode::is_running() {
            return Poll::Ready(Err(Error::InCallBack));
        }
        match &mut self.wait {
            Ok(wait) => Pin::new(wait).poll(context).map(|result| Ok(result?)),
            Err(answer) => Poll::Ready(answer.take().unwrap_or(Ok(()))),
        }
    }
}
