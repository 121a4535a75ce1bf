//! The database handle of applications, calls for the whole database, and its close.
//!
//! Neighbours: `open` makes a database; `read_path`, `transaction` and `typed_api` add the operations.

pub(crate) mod figures;
pub(crate) mod health;
pub(crate) mod owner;
pub(crate) mod threads;

use std::ops::RangeInclusive;

use ensile_base::Epoch;
use ensile_base::sync::{Arc, plain_access};
use ensile_durability::{Checkpoints, RecoveryReport, UserCode};

use crate::error::{Error, Result};
use crate::shared_state::SharedState;

use owner::LastPicture;
pub(crate) use owner::{DatabaseRef, OpenDatabase};

/// Handle of a checkpoint that [`Database::checkpoint`] requests.
pub type CheckpointHandle = ensile_durability::CheckpointHandle<Error>;

/// An open database. Clones are handles to the same database. The drop of the last handle closes the database and
/// releases its memory. Transactions and snapshots that hold the database, and their receipts, count as handles.
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
        plain_access::load(&*self.open.shared);
        &self.open.shared
    }

    /// The durable epoch D: every transaction of an epoch up to D survives a crash. Without a log, the epoch of the
    /// last picture.
    #[must_use]
    pub fn durable_epoch(&self) -> Epoch {
        self.shared().storage.durable_epoch()
    }

    /// The global epoch E.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        self.shared().epochs.now()
    }

    /// True if commits go to a log. False in memory, and in a database [without a log](crate::Builder::without_log).
    #[must_use]
    pub fn has_log(&self) -> bool {
        let shared = self.shared();
        shared.storage.log.is_some() && !shared.settings.is_without_log
    }

    /// Report of the recovery at the open of this database; `None` in memory.
    #[must_use]
    pub fn recovery_report(&self) -> Option<&RecoveryReport> {
        self.shared().storage.report.as_ref()
    }

    /// Requests a checkpoint that begins now, or after the end of a checkpoint under way. The checkpoint holds all
    /// commits, so the log before it can be removed and the next open is shorter. A
    /// [cycling](crate::checkpoint::Strategy::Cycling) checkpoint takes all ranges at once.
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
        Ok(self.own_checkpoints()?.demand().returning())
    }

    /// The checkpoints of this database. Fails for a closed or forked database, and for a database without a folder.
    pub(crate) fn own_checkpoints(&self) -> Result<&Checkpoints> {
        let shared = self.shared();
        shared.life.check_open()?;
        match &shared.storage.checkpoints {
            Some(checkpoints) => Ok(checkpoints),
            None if shared.storage.read_only.is_some() => Err(shared.storage.refusal_to_write()),
            None => Err(Error::Misuse("a database without a folder has no checkpoints".to_owned())),
        }
    }

    /// Makes all commits durable, stops the threads and frees the folder. Without a log, a last picture after any
    /// change makes the commits durable. From then on every run, commit, new transaction or snapshot and opening of a
    /// table returns [`Error::Closed`]. Reads of open transactions and snapshots continue, so the memory is released
    /// with the last handle. A second call waits for the first and returns the same result. The drop of the last handle
    /// also closes the database, but cannot return an error. A call from a future's waker is refused while another
    /// thread closes the database, because the close waits for the waker (O8). A call from a waker within a
    /// checkpoint's step is refused, too, as without a log. A call from a call-back of objects is always refused.
    ///
    /// ```
    /// # extern crate ensile_engine as ensile;
    /// use ensile::{Database, Durability, Error};
    /// # fn main() -> ensile::Result<()> {
    /// # let data = std::env::temp_dir().join(format!("ensile-close-{}", std::process::id()));
    /// let db = Database::builder(&data).durability(Durability::Relaxed).open()?;
    /// let table = db.table::<u64, u64>("table")?;
    /// db.run(|tx| tx.put(&table, &1, &1))?;
    /// db.close()?; // The row is on disk now.
    /// assert!(matches!(db.run(|tx| tx.put(&table, &1, &2)), Err(Error::Closed)));
    /// # std::fs::remove_dir_all(&data).expect("it was there");
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`Error::Storage`] after a failure of the log, earlier or in the close. Without a log, if the last picture
    /// failed: the error contains the durable epoch. Also if a shared store does not answer within
    /// [`close_wait`](crate::folder::ShippingConfig::close_wait) ("not shipped yet"): the error names the missing
    /// epochs, and all commits are durable in the folder. [`Error::InCallBack`]: close on a thread of your own.
    pub fn close(&self) -> Result<()> {
        UserCode::check_outside()?;
        self.open.close(LastPicture::Taken).map(drop)
    }

    /// As [`Database::close`], but a database [without a log](crate::Builder::without_log) takes no last picture.
    /// Commits since the last picture are lost: the call returns their epochs, or `None` without a loss. With a log no
    /// commit is lost.
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
        UserCode::check_outside()?;
        self.open.close(LastPicture::Declined)
    }
}
