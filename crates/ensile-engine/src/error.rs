//! Errors of the engine: a value for each case that a program acts on, and a text for every other case.
//!
//! Every error has a kind. The kind is the caller's next action. Most callers use only [`Error::is_retryable`].
//!
//! Neighbours: every public function of the engine returns these errors. The errors of disk, durability and epochs
//! become these errors here.

use std::time::Duration;

use ensile_durability::{DurabilityError, ErrorKind, StorageError};
use ensile_memory::MemoryUse;

/// The engine's result.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Error of the engine, with its remedy. A program matches the cases that it acts on by itself, and decides by
/// [`Error::kind`] in every other case; the text is for people.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Another transaction changed a row that this transaction read. Nothing was written. Run it again.
    #[error("conflict with another transaction: run it again")]
    Conflict,
    /// The transaction stayed open and idle while too much garbage waited for its end. Nothing was written. Run the
    /// transaction again.
    #[error("the transaction stayed open too long and was ended to free memory: run it again")]
    Expired,
    /// [`Transaction::try_commit`](crate::Transaction::try_commit) would wait, for log space or for the end of another
    /// thread's turn. Nothing was written, and the transaction stays open. Call `try_commit` again after the call of
    /// the waker.
    #[error("the commit would wait: call try_commit again after the call of its waker")]
    Busy,
    /// A closure with a limit lost every run to other transactions, until the allowed number of runs or the allowed
    /// time was used up. Nothing was written. The limit is too small, or the closure can never win. Such a closure
    /// waits for another thread's commit, conflicts with transactions that it begins itself, or needs longer than a
    /// turn lasts.
    #[error(
        "lost to other transactions in {attempts} runs over {elapsed:?}: raise the limit, or make the closure shorter"
    )]
    LostTooOften {
        /// Number of runs.
        attempts: u32,
        /// Time since the first conflict.
        elapsed: Duration,
    },
    /// `insert` found an existing key. Nothing was written; the transaction continues.
    #[error("table {table}: the key exists already: use put to overwrite it")]
    KeyExists {
        /// Name of the table.
        table: String,
    },
    /// Two rows have the same key in a unique index. Nothing was written; the transaction continues.
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
    /// The memory in use has reached [`Builder::memory_bytes_max`](crate::Builder::memory_bytes_max). Nothing was
    /// written. A refused put leaves its transaction open for reads and deletes; a refused commit ends the transaction.
    /// Reads, deletes and checkpoints go on. Delete rows, and repeat the write a second later, or raise the limit.
    #[error(
        "not written: {bytes} bytes of memory are in use, and memory_bytes_max is {bytes_max}; delete rows and repeat the \
         write a second later, or raise the limit"
    )]
    MemoryFull {
        /// Bytes in use by rows, versions and indexes.
        bytes: u64,
        /// Limit in bytes.
        bytes_max: u64,
    },
    /// An incorrect call or setting: wrong type for an existing table, a table of another database, an unknown index,
    /// too many tables. Nothing was written.
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
    /// A call-back of objects called a handle of a database. Such a call-back is an operation, a codec, a replay, a
    /// look at an object, or a checkpoint's call-back. Or a future's waker made a call that would wait for the waker.
    /// Nothing was read or written. Return first, and then call; or call on a thread of your own.
    #[error(
        "not done, and nothing was changed: a call-back of objects, or a waker that the call would wait for, made this call; \
         return from the call-back, and call then, or on a thread of your own"
    )]
    InCallBack,
    /// The disk is full. Nothing was written, and no acknowledged commit is in doubt; reads still work. Free some space
    /// and run the transaction again: the log continues by itself, without a restart.
    #[error("not committed: the disk is full ({0}); free some space and run it again")]
    DiskFull(String),
    /// Failure of the log, the disk, a checkpoint, a folder or a copy. The text has the path, the offset and the
    /// remedy. [`StorageError::kind`] is the next action. After [`ErrorKind::Retry`], [`ErrorKind::FixCall`] and
    /// [`ErrorKind::WrongFolder`] nothing was committed. After any other kind a result may be committed.
    #[error(transparent)]
    Storage(StorageError),
}

/// Remedy for an item over its limit, by the name of the item in [`Error::TooLarge`].
fn too_large_remedy(what: &str) -> &'static str {
    if what.starts_with("the transaction's ") { "split the transaction" } else { "make it smaller" }
}

impl Error {
    /// True if an immediate repetition of the same transaction can succeed. [`Error::DiskFull`] needs space first, and
    /// after [`Error::Busy`] the transaction is still open: its next try comes after the call of its waker.
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

    /// The caller's next action.
    ///
    /// ```
    /// # extern crate ensile_engine as ensile;
    /// use ensile::{Database, ErrorKind};
    ///
    /// let refused = Database::open_existing("no/such/folder").map(drop);
    /// assert_eq!(refused.expect_err("no database is there").kind(), ErrorKind::WrongFolder);
    /// ```
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Busy | Self::Conflict | Self::Expired => ErrorKind::Retry,
            Self::LostTooOften { .. }
            | Self::KeyExists { .. }
            | Self::NotUnique { .. }
            | Self::TooLarge { .. }
            | Self::Misuse(_)
            | Self::Decode { .. }
            | Self::InCallBack => ErrorKind::FixCall,
            Self::Closed => ErrorKind::Closed,
            Self::DiskFull(_) | Self::MemoryFull { .. } => ErrorKind::FreeSpace,
            Self::Storage(error) => error.kind(),
        }
    }
}

impl Error {
    /// Error of a call that would make more tables or indexes than the limit. `what` names the counted objects.
    pub(crate) fn too_many(what: &str, count: usize, count_max: usize) -> Self {
        Self::Misuse(format!("{what} is {count}, the limit is {count_max}: make fewer"))
    }

    /// Error of an open to which the system refuses a thread. The database is not open, and its folder is free.
    pub(crate) fn no_thread(reason: &std::io::Error) -> Self {
        let text = format!(
            "not opened: the system starts no thread ({reason}); raise its limits on threads and memory and open again"
        );
        DurabilityError::NotOpened { kind: ErrorKind::Retry, text: text.into() }.into()
    }

    /// Error of a write while the memory is full (M4).
    #[cold]
    pub(crate) fn memory_full(memory: MemoryUse) -> Self {
        Self::MemoryFull { bytes: memory.bytes, bytes_max: memory.bytes_max }
    }

    /// Error of an open whose rows exceed the limit of the memory. `memory` has the bytes of the rows. The database is
    /// not open, and its folder is free.
    #[cold]
    pub(crate) fn too_large_for_memory(memory: MemoryUse) -> Self {
        let MemoryUse { bytes, bytes_max } = memory;
        let text = format!(
            "not opened: the rows take at least {bytes} bytes of memory, and memory_bytes_max is {bytes_max}; raise the \
             limit and open again"
        );
        DurabilityError::NotOpened { kind: ErrorKind::FixCall, text: text.into() }.into()
    }

    /// Error of a call in a process that was forked from the one that opened the database.
    pub(crate) fn forked() -> Self {
        DurabilityError::Forked.into()
    }

    /// Cause in the log or on the disk, if there is one.
    pub(crate) fn cause(&self) -> Option<&DurabilityError> {
        match self {
            Self::Storage(error) => Some(error.cause()),
            _ => None,
        }
    }

    /// Error of stored bytes of `table` that do not decode as `type_name`; `detail` is the codec's text.
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
            DurabilityError::Closed(_) => Self::Closed,
            DurabilityError::InCallBack => Self::InCallBack,
            error => Self::Storage(error.into()),
        }
    }
}

impl From<StorageError> for Error {
    fn from(error: StorageError) -> Self {
        DurabilityError::from(error).into()
    }
}

impl From<ensile_epoch::Expired> for Error {
    fn from(_: ensile_epoch::Expired) -> Self {
        Self::Expired
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::{DurabilityError, Error, ErrorKind};

    fn of(error: DurabilityError) -> Error {
        error.into()
    }

    #[test]
    fn each_error_has_the_kind_of_the_callers_next_action() {
        let table = || "t".to_owned();
        for (error, kind) in [
            (Error::Busy, ErrorKind::Retry),
            (Error::Conflict, ErrorKind::Retry),
            (Error::Expired, ErrorKind::Retry),
            (Error::LostTooOften { attempts: 3, elapsed: super::Duration::ZERO }, ErrorKind::FixCall),
            (Error::KeyExists { table: table() }, ErrorKind::FixCall),
            (Error::NotUnique { table: table(), index: "i".to_owned() }, ErrorKind::FixCall),
            (Error::decode("t", "u64".to_owned(), "too short".to_owned()), ErrorKind::FixCall),
            (Error::too_many("the number", 3, 2), ErrorKind::FixCall),
            (Error::no_thread(&std::io::ErrorKind::WouldBlock.into()), ErrorKind::Retry),
            (Error::memory_full(super::MemoryUse { bytes: 3, bytes_max: 2 }), ErrorKind::FreeSpace),
            (Error::too_large_for_memory(super::MemoryUse { bytes: 3, bytes_max: 2 }), ErrorKind::FixCall),
            (Error::forked(), ErrorKind::Reopen),
            (of(DurabilityError::OutcomeUnknown("why".into())), ErrorKind::Reopen),
            (of(DurabilityError::NotDurableYet("why".into())), ErrorKind::FreeSpace),
            (of(DurabilityError::Removed("why".into())), ErrorKind::Restore),
        ] {
            assert_eq!(error.kind(), kind, "{error}");
            assert!(!error.is_retryable() || kind == ErrorKind::Retry, "{error}");
        }
    }

    #[test]
    fn a_case_that_a_program_acts_on_stays_a_value() {
        assert!(matches!(of(DurabilityError::DiskFull("why".into())), Error::DiskFull(_)));
        assert!(matches!(of(DurabilityError::Closed("why".into())), Error::Closed));
        assert!(matches!(of(DurabilityError::InCallBack), Error::InCallBack));
        assert!(matches!(of(DurabilityError::Config("why".into())), Error::Misuse(_)));
        let large = of(DurabilityError::TooLarge { bytes: 2, limit: 1 });
        assert!(matches!(large, Error::TooLarge { bytes: 2, bytes_max: 1, .. }));
        // It is committed, so it is no `DiskFull`: a program that runs such a transaction again would commit it twice.
        assert!(matches!(of(DurabilityError::NotDurableYet("why".into())), Error::Storage(_)));
    }
}
