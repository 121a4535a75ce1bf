//! Errors of the engine, with a kind for each next action of the caller.
//!
//! The kinds are few; detail is text. Most callers only use [`Error::is_retryable`].
//!
//! Neighbours: every public function of the engine returns these errors. Disk, durability and epoch errors end here.

use std::time::Duration;

use ensile_durability::DurabilityError;

/// The engine's result.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Error of the engine, with its remedy.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Another transaction changed a row that this transaction read. Nothing was written. Run it again.
    #[error("conflict with another transaction: run it again")]
    Conflict,
    /// The transaction was open and idle while too much garbage waited for it. Nothing was written. Run it again.
    #[error("the transaction stayed open too long and was ended to free memory: run it again")]
    Expired,
    /// A closure with a limit has lost to other transactions as often, or as long, as the limit allows. Nothing was
    /// written. The limit is too small, or the closure waits for another thread's commit, conflicts with transactions
    /// that the closure itself begins, or needs longer than a turn lasts.
    #[error(
        "lost to other transactions in {attempts} runs over {elapsed:?}: raise the limit, or make the closure shorter"
    )]
    LostTooOften {
        /// Number of runs.
        attempts: u32,
        /// Time since the first conflict.
        elapsed: Duration,
    },
    /// `insert` found an existing key. Nothing was written; the transaction goes on.
    #[error("table {table}: the key exists already: use put to overwrite it")]
    KeyExists {
        /// Name of the table.
        table: String,
    },
    /// Two rows have the same key in a unique index. Nothing was written; the transaction goes on.
    #[error("unique index {index} of table {table}: the key belongs to another row")]
    NotUnique {
        /// Name of the table.
        table: String,
        /// Name of the index.
        index: String,
    },
    /// A key, value, name or write-set is over its stated limit. Nothing was written.
    #[error("{what} is {bytes} bytes long, the limit is {bytes_max}: {}", too_large_remedy(what))]
    TooLarge {
        /// Name of the oversized item.
        what: &'static str,
        /// Size in bytes.
        bytes: usize,
        /// Limit in bytes.
        bytes_max: usize,
    },
    /// The number of tables or indexes is over the stated limit. Nothing was written.
    #[error("{what} is {count}, the limit is {count_max}: make fewer")]
    TooMany {
        /// Name of the counted items.
        what: &'static str,
        /// Number of items after the call.
        count: usize,
        /// Largest allowed number.
        count_max: usize,
    },
    /// An incorrect call: wrong type for an existing table, a table of another database, an unknown index.
    #[error("{0}")]
    Misuse(String),
    /// Stored bytes do not decode as the type that the table is used with.
    #[error("table {table}: stored bytes do not decode as {type_name}: {detail}")]
    Decode {
        /// Name of the table.
        table: Box<str>,
        /// Name of the requested type.
        type_name: Box<str>,
        /// Text of the codec's error.
        detail: Box<str>,
    },
    /// The database was closed.
    #[error("the database is closed: open it again")]
    Closed,
    /// This process was forked from the process that opened the database, and the database still runs in the other
    /// process. Nothing was read or written. Open the database again after the other process has closed it.
    #[error(
        "this process was forked from the one that opened the database: open it anew, once that one has closed it"
    )]
    Forked,
    /// A call-back of objects (an operation, a codec, a replay, a look at an object or a checkpoint's call-back) called
    /// a handle of a database; or a future's waker made a call that would wait for the waker. Nothing was read or
    /// written. Return from the call-back, and call then, or on a thread of your own.
    #[error(
        "not done, and nothing was changed: a call-back of objects, or a waker that the call would wait for, made this call; \
         return from the call-back, and call then, or on a thread of your own"
    )]
    InCallBack,
    /// The disk is full. Nothing was written, and no acknowledged commit is in doubt; reads go on. Free some space and
    /// run the transaction again: the log continues by itself, without a restart.
    #[error("not committed: the disk is full ({0}); free some space and run it again")]
    DiskFull(String),
    /// The system refused a thread that an open database needs. The database is not open, and its folder is free.
    #[error(
        "not opened: the system starts no thread ({0}); raise its limits on threads and memory and open again"
    )]
    NoThread(std::io::Error),
    /// Error of the log or of the disk: see [`DurabilityError`] for the remedy.
    #[error(transparent)]
    Durability(DurabilityError),
}

/// Remedy for an item over its limit.
fn too_large_remedy(what: &str) -> &'static str {
    if what.starts_with("the transaction's ") { "split the transaction" } else { "make it smaller" }
}

impl Error {
    /// True if an immediate repetition of the same transaction can succeed. [`Error::DiskFull`] needs space first.
    ///
    /// ```
    /// # extern crate ensile_engine as ensile;
    /// assert!(ensile::Error::Conflict.is_retryable());
    /// assert!(!ensile::Error::Closed.is_retryable());
    /// ```
    #[must_use]
    pub const fn is_retryable(&self) -> bool {
        matches!(self, Self::Conflict | Self::Expired)
    }
}

impl Error {
    pub(crate) fn decode(table: &str, type_name: String, detail: String) -> Self {
        Self::Decode { table: table.into(), type_name: type_name.into(), detail: detail.into() }
    }
}

/// Every call returns a result, so the size of an error is part of each call's cost: rare texts are boxed.
const _: () = assert!(size_of::<Error>() <= 56, "an error is moved on each call's path");

impl From<DurabilityError> for Error {
    fn from(error: DurabilityError) -> Self {
        match error {
            DurabilityError::DiskFull(reason) => Self::DiskFull(reason.to_string()),
            DurabilityError::TooLarge { bytes, limit } => {
                Self::TooLarge { what: "the transaction's log entry", bytes, bytes_max: limit }
            }
            DurabilityError::Config(what) => Self::Misuse(what.into_owned()),
            DurabilityError::Forked => Self::Forked,
            DurabilityError::InCallBack => Self::InCallBack,
            error => Self::Durability(error),
        }
    }
}

impl From<ensile_epoch::Expired> for Error {
    fn from(_: ensile_epoch::Expired) -> Self {
        Self::Expired
    }
}
