//! What can go wrong: a kind for each thing that the caller can do next.
//!
//! Few kinds; detail is text. [`Error::is_retryable`] is the one question that most callers ask.
//!
//! Neighbours: every public function of the engine; disk, durability and epoch errors end here.

use std::time::Duration;

use ensile_durability::DurabilityError;

/// The engine's result.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong, and what to do about it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Another transaction changed what this one read. Nothing was written. Run it again.
    #[error("conflict with another transaction: run it again")]
    Conflict,
    /// The transaction was open and idle while too much garbage waited for it. Nothing was written. Run it again.
    #[error("the transaction stayed open too long and was ended to free memory: run it again")]
    Expired,
    /// A closure that was run with a limit has lost to other transactions as often, or as long, as the limit says.
    /// Nothing was written. It waits for another thread's commit, conflicts with transactions that it begins, or needs
    /// longer than a turn lasts; or the limit is too small.
    #[error(
        "lost to other transactions in {attempts} runs over {elapsed:?}: raise the limit, or make the closure shorter"
    )]
    LostTooOften {
        /// Runs that were made.
        attempts: u32,
        /// Since the first one lost.
        elapsed: Duration,
    },
    /// `insert` found the key taken. Nothing was written; the transaction goes on.
    #[error("table {table}: the key exists already: use put to overwrite it")]
    KeyExists {
        /// The table.
        table: String,
    },
    /// Two rows have the same key in a unique index. Nothing was written; the transaction goes on.
    #[error("unique index {index} of table {table}: the key belongs to another row")]
    NotUnique {
        /// The table.
        table: String,
        /// The index.
        index: String,
    },
    /// A key, value, name or write-set is over its stated limit. Nothing was written.
    #[error("{what} is {bytes} bytes long, the limit is {bytes_max}: make it smaller")]
    TooLarge {
        /// What is too large.
        what: &'static str,
        /// Its size.
        bytes: usize,
        /// The limit.
        bytes_max: usize,
    },
    /// There are more tables or indexes than the stated limit. Nothing was written.
    #[error("{what} is {count}, the limit is {count_max}: make fewer")]
    TooMany {
        /// What is counted.
        what: &'static str,
        /// How many there would be.
        count: usize,
        /// The limit.
        count_max: usize,
    },
    /// A call that cannot be right: wrong type for an existing table, a table of another database, an unknown index.
    #[error("{0}")]
    Misuse(String),
    /// Stored bytes do not decode as the type that the table is used with.
    #[error("table {table}: stored bytes do not decode as {type_name}: {detail}")]
    Decode {
        /// The table.
        table: Box<str>,
        /// The type asked for.
        type_name: Box<str>,
        /// What the codec said.
        detail: Box<str>,
    },
    /// The database was closed.
    #[error("the database is closed: open it again")]
    Closed,
    /// This process was forked from the one that opened the database, which goes on there. Nothing was read or written.
    /// Open it anew once the other process has closed it.
    #[error(
        "this process was forked from the one that opened the database: open it anew, once that one has closed it"
    )]
    Forked,
    /// The disk is full. Nothing was written, and nothing that was acknowledged is in doubt; reads go on. Free some
    /// space and run it again: the log goes on by itself, without a restart.
    #[error("not committed: the disk is full ({0}); free some space and run it again")]
    DiskFull(String),
    /// The system refused a thread that an open database needs. The database is not open, and its folder is free.
    #[error(
        "not opened: the system starts no thread ({0}); raise its limits on threads and memory and open again"
    )]
    NoThread(std::io::Error),
    /// The log or the disk under it: see [`DurabilityError`] for what to do.
    #[error(transparent)]
    Durability(DurabilityError),
}

impl Error {
    /// Whether running the same transaction again at once can succeed. [`Error::DiskFull`] asks for space first.
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

/// Every call hands a result up, so its size is part of each call's cost: texts that are rarely there are boxed.
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
            error => Self::Durability(error),
        }
    }
}

impl From<ensile_epoch::Expired> for Error {
    fn from(_: ensile_epoch::Expired) -> Self {
        Self::Expired
    }
}
