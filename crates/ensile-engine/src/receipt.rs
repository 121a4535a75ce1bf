//! Receipts: what a commit was given, and how to wait until it is durable.
//!
//! Invariant R1: a receipt's epoch covers everything that the transaction read or wrote: once that epoch is durable,
//! the result may be shown.
//!
//! Neighbours: made by `transaction` and `database`; waits in the durability crate.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc as StdArc;
use std::task::Poll;

use ensile_base::{Epoch, Tid};
use ensile_durability::Log;

use crate::database::CoreRef;
use crate::error::Result;
use crate::transaction::commit::Committed;

/// When a transaction's result is released.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Durability {
    /// When it is durable: nothing that was released is lost by a crash.
    #[default]
    Strict,
    /// At commit: a crash may lose the last epochs (whole ones, the newest first), never a part of a transaction.
    Relaxed,
}

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
/// It borrows the handle that ran the transaction, so that making one touches no line of another thread; the receipt
/// of a transaction begun by [`Database::begin_owned`](crate::Database::begin_owned), and
/// [`Receipt::durable_async`]'s future, borrow nothing.
pub struct Receipt<'db> {
    committed: Committed,
    core: CoreRef<'db>,
}

impl std::fmt::Debug for Receipt<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Receipt").field("committed", &self.committed).finish_non_exhaustive()
    }
}

impl<'db> Receipt<'db> {
    #[inline]
    pub(crate) fn new(committed: Committed, core: CoreRef<'db>) -> Self {
        Self { committed, core }
    }

    /// The transaction's TID. Of a read-only transaction, the largest that it read.
    #[must_use]
    pub fn tid(&self) -> Tid {
        self.committed.tid
    }

    /// The epoch that must be durable for the result to be. Of a read-only transaction, the largest that it read, of
    /// deleted records too (R1).
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        self.committed.epoch
    }

    /// Waits until the transaction is durable. In a database without a log nothing outlives the process, and this
    /// returns at once.
    ///
    /// # Errors
    /// [`Error::Durability`](crate::Error::Durability) if the log stopped before: the outcome is unknown until the
    /// database is opened again.
    pub fn durable(&self) -> Result<()> {
        self.core.wait_durable(self.committed.epoch)
    }

    /// Whether it is durable by now.
    #[must_use]
    pub fn is_durable(&self) -> bool {
        self.core.durable_epoch() >= self.committed.epoch
    }

    /// As [`Receipt::durable`], as a future of any executor.
    pub fn durable_async(&self) -> impl Future<Output = Result<()>> + Send + 'static {
        DurableFuture { epoch: self.committed.epoch, log: self.core.log.clone() }
    }
}

struct DurableFuture {
    epoch: Epoch,
    log: Option<StdArc<Log>>,
}

impl Future for DurableFuture {
    type Output = Result<()>;

    fn poll(self: Pin<&mut Self>, context: &mut std::task::Context<'_>) -> Poll<Result<()>> {
        match &self.log {
            Some(log) => log.poll_durable(self.epoch, context.waker()).map(|result| Ok(result?)),
            None => Poll::Ready(Ok(())),
        }
    }
}
