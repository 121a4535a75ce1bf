//! Receipts: the TID and the epoch of a commit, and how to wait until it is durable.
//!
//! Invariant R1: a receipt's epoch covers everything that the transaction read or wrote: once that epoch is durable,
//! the result may be shown.
//!
//! Neighbours: made by `transaction` and `database`; waits in the durability crate.

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::task::Poll;

use ensile_base::{Epoch, Tid};
use ensile_durability::{CheckpointReport, Durable};

use crate::commit::Committed;
use crate::database::DatabaseRef;
use crate::error::Result;

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
/// In asynchronous code it is awaited, on any executor: `receipt.await?`.
///
/// It borrows the handle that ran the transaction, so that making one touches no line of another thread; the receipt
/// of a transaction begun by [`Database::begin_owned`](crate::Database::begin_owned), and
/// [`Receipt::durable_async`]'s future, borrow nothing.
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

    /// The transaction's TID. Of a read-only transaction, the largest that it read.
    #[must_use]
    pub fn tid(&self) -> Tid {
        self.committed.tid
    }

    /// The epoch that must be durable for the result to be. Of a read-only transaction, the largest that it read, of
    /// deleted records too (R1, N19).
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        self.committed.epoch
    }

    /// Waits until the transaction is durable. In memory nothing outlives the process, and this returns at once. In a
    /// database [without a log](crate::Builder::without_log) it asks for a picture, which all that wait share.
    ///
    /// # Errors
    /// [`Error::Durability`](crate::Error::Durability) if the log stopped before: the outcome is unknown until the
    /// database is opened again. With
    /// [`DurabilityError::NotDurableYet`](ensile_durability::DurabilityError::NotDurableYet) in it, if the disk was
    /// full for [`Tuning::full_disk_wait`](crate::Tuning::full_disk_wait) meanwhile, or, without a log, if a picture
    /// failed: what was committed stays, and becomes durable once the cause is gone. The receipt can be waited on
    /// again.
    pub fn durable(&self) -> Result<()> {
        self.database.check_process()?;
        self.database.wait_durable(self.committed.epoch)
    }

    /// As [`Receipt::durable`], and says which picture holds the transaction. `None` if a log does, if it was durable
    /// when the database was opened, and in memory.
    ///
    /// # Errors
    /// As for [`Receipt::durable`].
    pub fn durable_in(&self) -> Result<Option<CheckpointReport>> {
        self.durable()?;
        Ok(self.database.checkpoints.as_ref().and_then(|all| all.report_of(self.committed.epoch)))
    }

    /// Whether it is durable by now.
    #[must_use]
    pub fn is_durable(&self) -> bool {
        self.database.durable_epoch() >= self.committed.epoch
    }

    /// As [`Receipt::durable`], as a future of any executor. `receipt.await` is the same where the receipt is not
    /// needed afterwards. Its waker is called on one of the database's own threads, or on one that waits for a result
    /// by itself: it may panic, but must not close the database, which waits for those threads.
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
        let epoch = self.committed.epoch;
        let wait = match &self.database.log {
            Some(log) => Ok(log.durable(epoch)),
            None => Err(Some(self.database.settled(epoch))),
        };
        DurableFuture { epoch, wait }
    }
}

impl IntoFuture for Receipt<'_> {
    type Output = Result<()>;
    type IntoFuture = DurableFuture;

    fn into_future(self) -> DurableFuture {
        self.durable_async()
    }
}

/// Ready once a receipt's transaction is durable: see [`Receipt::durable_async`]. It borrows nothing. A future that is
/// dropped early leaves nothing behind. One that is polled again waits with the waker of its last poll.
#[must_use = "a future waits when it is awaited"]
pub struct DurableFuture {
    epoch: Epoch,
    /// Of a database without a log: the answer, until it is taken.
    wait: std::result::Result<Durable, Option<Result<()>>>,
}

impl std::fmt::Debug for DurableFuture {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DurableFuture").field("epoch", &self.epoch).finish_non_exhaustive()
    }
}

impl Future for DurableFuture {
    type Output = Result<()>;

    fn poll(mut self: Pin<&mut Self>, context: &mut std::task::Context<'_>) -> Poll<Result<()>> {
        match &mut self.wait {
            Ok(wait) => Pin::new(wait).poll(context).map(|result| Ok(result?)),
            Err(answer) => Poll::Ready(answer.take().unwrap_or(Ok(()))),
        }
    }
}
