//! Ensile: an in-memory database for Rust programs. Serializable on all cores, durable at in-memory speed, back within
//! seconds after a crash.
//!
//! ```toml
//! [dependencies]
//! ensile = { path = "../ensile/crates/ensile" } # where your copy of the repository is: it is not on crates.io yet
//! ```
//! ```
//! use ensile::prelude::*;
//!
//! /// Moves money, or says that there is not enough.
//! fn transfer(db: &Database, accounts: &Table<String, u64>, from: &str, to: &str, amount: u64) -> Result<bool> {
//!     db.run(|tx| {
//!         let balance = tx.get(accounts, from)?.unwrap_or(0);
//!         let Some(rest) = balance.checked_sub(amount) else { return Ok(false) };
//!         tx.put(accounts, from, &rest)?;
//!         let before = tx.get(accounts, to)?.unwrap_or(0);
//!         tx.put(accounts, to, &(before + amount))?;
//!         Ok(true)
//!     })
//! }
//!
//! # fn main() -> Result<()> {
//! let db = Database::in_memory()?; // or Database::open("bank.ensile") to keep it
//! let accounts = db.table("accounts")?;
//! db.run(|tx| tx.put(&accounts, "ada", &100))?;
//!
//! assert!(transfer(&db, &accounts, "ada", "bob", 30)?);
//! assert!(!transfer(&db, &accounts, "ada", "bob", 1000)?);
//!
//! let mut snapshot = db.snapshot_latest()?;
//! let total: u64 = snapshot.range(&accounts, ..).map(|row| row.map(|row| row.1)).sum::<Result<_>>()?;
//! assert_eq!(total, 100);
//! # Ok(())
//! # }
//! ```
//!
//! # Transactions
//! [`Database::run`] runs a closure as one serializable transaction: every write takes effect at one moment, or nothing
//! does. The closure runs again after a conflict with another transaction, so the closure must have no effect outside
//! the database. [`Database::begin`] starts a transaction that stays open across calls, threads and network round
//! trips. An open transaction locks nothing, and [`Transaction::commit`] returns an error after a conflict. [`Error`]
//! names the remedy for every error; most callers need only [`Error::is_retryable`].
//!
//! [`Database::snapshot`] reads the state of a moment ago, from any number of tables, without conflicts. [`Readable`]
//! has the reads for both kinds of transaction; [`Transaction`] has the writes.
//!
//! # Durability
//! A strict transaction (the default) returns after the transaction is on disk: a crash loses no returned result. A
//! relaxed transaction returns at commit. A crash may lose the last fraction of a second: the newest relaxed
//! transactions first, and never half a transaction. [`Database::submit`] always returns at commit, with a [`Receipt`]
//! to wait on, or to `await`.
//!
//! A database [without a log](Builder::without_log) is relaxed, and durable at checkpoints alone. The use is a cache
//! that survives a restart, or a replicated state machine with a log elsewhere. A crash loses the epochs after the last
//! checkpoint, and never half an epoch. A wait on a receipt demands a checkpoint.
//!
//! # Keys and values
//! A [`Table<K, V>`](Table) keeps its rows in the order of `K`. Keys are integers, text, bytes, [`Descending`] keys,
//! options, tuples of up to eight keys, and structs through [`composite_key!`]. A caller passes a key in the cheapest
//! form: a `&str` for a `String`, `&(7, "abc")` for a `(u32, String)` ([`codec::AsKey`]). Ranges and [`Prefix`]es
//! select rows ([`codec::KeyBounds`]).
//!
//! Values are integers, floats, text, bytes, options and tuples. Structs of fixed width become values through
//! [`fixed_layout!`], by a copy of memory. Types of serde become values through `serde_value!` (feature `serde`), and
//! your own types through [`Value`]. The table keeps the type's name, and the fields of a type of fixed width: an open
//! with other types is an error, not garbage.
//!
//! [`Database::define`] gives a table secondary indexes. Indexes follow the table by themselves, and can be unique.
//!
//! # Modules
//! The root has the names of daily use. The modules have the rest: [`checkpoint`], [`codec`] (keys and values),
//! [`folder`] (a database's files without an open), [`receipt`], [`recovery`] and [`stats`].
//!
//! # Features
//! - `laboratory`: `Database::key_value`, `Database::exclusive` and `Builder::variants`, for measurements; not for
//!   applications.
//! - `object-store`: `folder::SharedObjects`, for [`Builder::ship_to`] and [`folder::take_over`]: a shared store in an
//!   object store, over the crate `object_store` 0.14. An application also depends on `object_store`, with the features
//!   `aws`, `gcp` or `azure`.
//! - `serde`: values in postcard's format, `Serde<T>` and `serde_value!`; `Serialize` for the statistics and the health
//!   of [`stats`].
//! - `simulation`: a database for tests that drive clock and threads themselves; not for applications.
//!
//! Neighbours: applications above; `ensile-engine` has every item.
#![forbid(unsafe_code)]

pub use ensile_engine::{
    Builder, Database, Descending, Durability, Error, ErrorKind, Index, Key, Prefetch, Prefix, Readable,
    Receipt, Result, Rows, Snapshot, Source, Table, TableBuilder, Transaction, Tuning, Value,
};
#[cfg(feature = "laboratory")]
pub use ensile_engine::{Exclusive, ExclusiveRows, KeyValue, Variants};
#[cfg(feature = "serde")]
pub use ensile_engine::{Serde, serde_value};
pub use ensile_engine::{checkpoint, codec, composite_key, fixed_layout, folder, receipt, recovery, stats};

/// Usual names of a program that uses the database.
///
/// ```
/// use ensile::prelude::*;
/// ```
pub mod prelude {
    #[cfg(feature = "serde")]
    pub use crate::Serde;
    pub use crate::codec::{CodecError, ValueBuffer};
    pub use crate::{
        Database, Descending, Durability, Error, Index, Key, Prefetch, Prefix, Readable, Receipt, Result,
        Snapshot, Table, Transaction, Value,
    };
}

/// The documents for users. The programs of the documents compile as tests.
#[cfg(doctest)]
mod documents {
    #[doc = include_str!("../../../README.md")]
    struct Readme;

    #[doc = include_str!("../../../docs/guide/getting-started.md")]
    struct GettingStarted;

    #[doc = include_str!("../../../docs/guide/operations.md")]
    struct Operations;

    #[doc = include_str!("../../../docs/guide/metrics.md")]
    struct Metrics;

    #[doc = include_str!("../../../docs/guide/errors.md")]
    struct Errors;
}
