//! Receipts: what a commit was given, and how to wait until it is durable.
//!
//! Invariant R1: a receipt's epoch covers everything that the transaction read or wrote: once that epoch is durable,
//! the result may be shown.
//!
//! Neighbours: made by `transaction` and `database`; waits in the durability crate.

use std::future::Future;
use std::pin::Pin;
use std::task::Poll;

use ensile_base::sync::Arc;
use ensile_base::{Epoch, Tid};
use ensile_durability::Log;

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

/// What receipts of one context share: its own line, so that making a receipt touches no line of another thread.
#[derive(Debug)]
pub(crate) struct Hub {
    pub(crate) log: Option<Arc<Log>>,
}

/// A committed transaction's receipt.
///
/// ```
/// # fn main() -> ensile_engine::Result<()> {
/// let db = ensile_engine::Database::in_memory()?;
/// let (value, receipt) = db.submit(|_tx| Ok(42))?;
/// receipt.durable()?;
/// assert_eq!(value, 42);
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
#[must_use = "a relaxed result may be lost until its receipt is durable"]
pub struct Receipt {
    committed: Committed,
    hub: Arc<Hub>,
}

impl Receipt {
    pub(crate) fn new(committed: Committed, hub: Arc<Hub>) -> Self {
        Self { committed, hub }
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
        match &self.hub.log {
            Some(log) => Ok(log.wait_durable(self.committed.epoch)?),
            None => Ok(()),
        }
    }

    /// Whether it is durable by now.
    #[must_use]
    pub fn is_durable(&self) -> bool {
        self.hub.log.as_ref().is_none_or(|log| log.durable_epoch() >= self.committed.epoch)
    }

    /// As [`Receipt::durable`], as a future of any executor.
    pub fn durable_async(&self) -> impl Future<Output = Result<()>> + Send + 'static {
        DurableFuture { epoch: self.committed.epoch, hub: Arc::clone(&self.hub) }
    }
}

struct DurableFuture {
    epoch: Epoch,
    hub: Arc<Hub>,
}

impl Future for DurableFuture {
    type Output = Result<()>;

    fn poll(self: Pin<&mut Self>, context: &mut std::task::Context<'_>) -> Poll<Result<()>> {
        match &self.hub.log {
            Some(log) => log.poll_durable(self.epoch, context.waker()).map(|result| Ok(result?)),
            None => Poll::Ready(Ok(())),
        }
    }
}
