//! The database as applications hold it: the handle, what is asked of the whole database, its end.
//!
//! Neighbours: `open` makes one; `reading`, `transaction` and `typed` add what is done with it.

pub(crate) mod health;
pub(crate) mod owner;
pub(crate) mod threads;

use std::ops::RangeInclusive;

use ensile_base::Epoch;
use ensile_base::sync::{Arc, note};
use ensile_durability::{CheckpointHandle, Checkpoints, RecoveryReport};

use crate::error::{Error, Result};
use crate::shared::SharedState;

use owner::LastPicture;
pub(crate) use owner::{DatabaseRef, OpenDatabase};

/// An open database. Clones are handles to the same one; the last one that is dropped closes it, and gives its memory
/// back. Transactions and snapshots that hold the database, and their receipts, count as handles.
///
/// ```
/// # extern crate ensile_engine as ensile;
/// use ensile::{Database, Readable};
/// # fn main() -> ensile::Result<()> {
/// let db = Database::in_memory()?;
/// let accounts = db.table::<u64, u64>("accounts")?;
/// db.run(|tx| tx.put(&accounts, &1, &100))?;
/// assert_eq!(db.run(|tx| tx.get(&accounts, &1))?, Some(100));
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Database {
    pub(crate) open: Arc<OpenDatabase>,
}

impl std::fmt::Debug for Database {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Database").field("epoch", &self.shared().epochs.now()).finish_non_exhaustive()
    }
}

impl Database {
    #[inline]
    pub(crate) fn shared(&self) -> &SharedState {
        note::load(&*self.open.shared);
        &self.open.shared
    }

    /// The durable epoch D: every transaction of an epoch up to it survives a crash. Without a log, the epoch of the
    /// last picture.
    #[must_use]
    pub fn durable_epoch(&self) -> Epoch {
        self.shared().durable_epoch()
    }

    /// The global epoch E.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        self.shared().epochs.now()
    }

    /// What recovery found when this database was opened; `None` in memory.
    #[must_use]
    pub fn recovery_report(&self) -> Option<&RecoveryReport> {
        self.shared().report.as_ref()
    }

    /// Asks for a checkpoint that begins now; one that is under way ends first. It holds everything that is committed,
    /// so that the log before it can go and the next open is shorter. A
    /// [cycling](crate::checkpoint::Strategy::Cycling) one takes all ranges at once.
    ///
    /// ```no_run
    /// # extern crate ensile_engine as ensile;
    /// # fn main() -> ensile::Result<()> {
    /// let db = ensile::Database::open("data")?;
    /// let report = db.checkpoint()?.wait()?;
    /// println!("{} entries, {} bytes", report.entries, report.bytes);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`Error::Misuse`] for a database without a folder, [`Error::Closed`].
    pub fn checkpoint(&self) -> Result<CheckpointHandle> {
        Ok(self.own_checkpoints()?.demand())
    }

    /// The checkpoints of a database that has some.
    pub(crate) fn own_checkpoints(&self) -> Result<&Checkpoints> {
        let shared = self.shared();
        shared.check_open()?;
        match &shared.checkpoints {
            Some(checkpoints) => Ok(checkpoints),
            None if shared.read_only.is_some() => Err(shared.refusal_to_write()),
            None => Err(Error::Misuse("a database without a folder has no checkpoints".to_owned())),
        }
    }

    /// Makes everything committed durable, without a log by a last picture if anything has changed, stops the threads
    /// and gives the folder free. From then on every run, commit, new transaction or snapshot and opening of a table
    /// returns [`Error::Closed`]. Reads of transactions and snapshots that are open go on, so the memory is given back
    /// when the last handle goes. A second call waits for the first and returns what it returned. The last handle that
    /// is dropped closes too, but cannot tell of an error. A future's waker that calls this while another thread closes
    /// is refused, as that one waits for it; so is one that a checkpoint's step calls, as without a log (O8).
    ///
    /// ```
    /// # extern crate ensile_engine as ensile;
    /// use ensile::{Database, Durability, Error};
    /// # fn main() -> ensile::Result<()> {
    /// # let data = std::env::temp_dir().join(format!("ensile-close-{}", std::process::id()));
    /// let db = Database::builder(&data).durability(Durability::Relaxed).open()?;
    /// let table = db.table::<u64, u64>("table")?;
    /// db.run(|tx| tx.put(&table, &1, &1))?;
    /// db.close()?; // What was written is on disk now.
    /// assert!(matches!(db.run(|tx| tx.put(&table, &1, &2)), Err(Error::Closed)));
    /// # std::fs::remove_dir_all(&data).expect("it was there");
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`Error::Durability`] if the log was stopped by a failure, or is now. Without a log, if the last picture failed:
    /// the error says up to which epoch the database is durable. With a shared store that does not answer,
    /// [`DurabilityError::NotShipped`](crate::DurabilityError::NotShipped) says what that lacks, after
    /// [`close_wait`](crate::folder::ShippingConfig::close_wait): everything is durable in the folder then.
    /// [`DurabilityError::InCallBack`](crate::DurabilityError::InCallBack): close on a thread of your own.
    pub fn close(&self) -> Result<()> {
        self.open.close(LastPicture::Taken).map(drop)
    }

    /// As [`Database::close`], but a database [without a log](crate::Builder::without_log) takes no last picture. What
    /// was committed since the last one is lost: the epochs are returned in which that was, `None` if nothing was. With
    /// a log nothing is lost.
    ///
    /// ```
    /// # extern crate ensile_engine as ensile;
    /// # fn main() -> ensile::Result<()> {
    /// # let data = std::env::temp_dir().join(format!("ensile-without-picture-{}", std::process::id()));
    /// let db = ensile::Database::builder(&data).without_log().open()?;
    /// let table = db.table::<u64, u64>("table")?;
    /// db.checkpoint()?.wait()?;
    /// let ((), receipt) = db.submit(|tx| tx.put(&table, &1, &1))?;
    /// let lost = db.close_without_picture()?.expect("a put");
    /// assert!(lost.contains(&receipt.epoch()));
    /// # std::fs::remove_dir_all(&data).expect("it was there");
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As for [`Database::close`].
    pub fn close_without_picture(&self) -> Result<Option<RangeInclusive<Epoch>>> {
        self.open.close(LastPicture::Declined)
    }
}
