//! The systems behind one trait, with the best ordinary settings and calls of each system.
//!
//! Each module names the settings in words for the program to print. `Sync` lets client threads share a store.

mod ensile;
mod fjall;
mod lmdb;
mod redb;
mod rocksdb;
mod sqlite;

use std::fmt::{Display, Formatter};
use std::path::Path;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::failure::Result;
use crate::rows::Value;

/// Bytes of a system's own cache: more than the rows of the default run.
const CACHE_BYTES: usize = 1 << 30;

/// A system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Peer {
    Ensile,
    Lmdb,
    Redb,
    Fjall,
    Rocksdb,
    Sqlite,
}

impl Peer {
    /// All, in the order of the tables.
    pub(crate) const ALL: [Self; 6] =
        [Self::Ensile, Self::Lmdb, Self::Redb, Self::Fjall, Self::Rocksdb, Self::Sqlite];

    /// Name in the tables.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Ensile => "Ensile",
            Self::Lmdb => "LMDB",
            Self::Redb => "redb",
            Self::Fjall => "fjall",
            Self::Rocksdb => "RocksDB",
            Self::Sqlite => "SQLite",
        }
    }
}

impl Display for Peer {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.to_possible_value().expect("no system is hidden").get_name())
    }
}

/// The commits that survive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Level {
    /// A commit that returned survives a kill of the process, not a power cut.
    Process,
    /// A commit that returned is on the device.
    Strict,
}

/// Version and settings of a system, in words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Facts {
    pub(crate) version: String,
    /// Settings of the load.
    pub(crate) load: String,
    /// Settings of the other opens.
    pub(crate) open: String,
    /// Settings of process-safe commits.
    pub(crate) process: String,
    /// Settings of strict commits.
    pub(crate) strict: String,
    /// The calls of the workloads.
    pub(crate) calls: String,
}

/// An open database with the rows of [`crate::rows`].
pub(crate) trait Store: Sync {
    /// Version and settings.
    fn facts(&self) -> Result<Facts>;

    /// Reads one row in one transaction. Returns the key in the value.
    fn read(&self, key: u64) -> Result<u64>;

    /// Reads rows in one transaction. Returns the sum of the keys in the values.
    fn read_many(&self, keys: &[u64]) -> Result<u64>;

    /// Visits `rows` rows from a key on, without a copy if possible. Returns the sum of the keys in the values.
    fn scan(&self, from: u64, rows: usize) -> Result<u64>;

    /// As [`scan`](Self::scan), by a call for each row. An iterator that lends rows is such a scan already.
    fn lend(&self, from: u64, rows: usize) -> Result<u64> {
        self.scan(from, rows)
    }

    /// Copies `rows` rows from a key on out of an iterator into `into`.
    fn range(&self, from: u64, rows: usize, into: &mut Vec<(u64, Value)>) -> Result<()>;

    /// Reads one row, adds one to the count and writes the row, in one transaction.
    fn update(&self, key: u64) -> Result<()>;

    /// Number of rows, and the sum of the counts. Reads every row, so caches are full afterwards.
    fn totals(&self) -> Result<(u64, u64)>;

    /// Ends the background work of a load.
    fn settle(&self) -> Result<()>;

    /// Closes the database cleanly.
    fn close(self: Box<Self>) -> Result<()>;
}

/// Makes a database in an empty folder and loads rows with these keys, which come in random order. At the return the
/// rows are durable.
pub(crate) fn load(peer: Peer, folder: &Path, keys: Vec<u64>) -> Result<Box<dyn Store>> {
    Ok(match peer {
        Peer::Ensile => Box::new(ensile::EnsileStore::load(folder, keys)?),
        Peer::Lmdb => Box::new(lmdb::LmdbStore::load(folder, keys)?),
        Peer::Redb => Box::new(redb::RedbStore::load(folder, keys)?),
        Peer::Fjall => Box::new(fjall::FjallStore::load(folder, keys)?),
        Peer::Rocksdb => Box::new(rocksdb::RocksdbStore::load(folder, keys)?),
        Peer::Sqlite => Box::new(sqlite::SqliteStore::load(folder, keys)?),
    })
}

/// Opens a database with commits at a level.
pub(crate) fn open(peer: Peer, folder: &Path, level: Level) -> Result<Box<dyn Store>> {
    Ok(match peer {
        Peer::Ensile => Box::new(ensile::EnsileStore::open(folder, level)?),
        Peer::Lmdb => Box::new(lmdb::LmdbStore::open(folder, level)?),
        Peer::Redb => Box::new(redb::RedbStore::open(folder, level)?),
        Peer::Fjall => Box::new(fjall::FjallStore::open(folder, level)?),
        Peer::Rocksdb => Box::new(rocksdb::RocksdbStore::open(folder, level)?),
        Peer::Sqlite => Box::new(sqlite::SqliteStore::open(folder, level)?),
    })
}

/// The error for a missing row.
fn missing(key: u64) -> crate::failure::Failure {
    format!("there is no row with key {key}").into()
}

/// Version of a crate in the lock file.
fn locked_version(name: &str) -> String {
    let lock = include_str!("../Cargo.lock");
    let package = lock.split("[[package]]").find(|package| package.contains(&format!("name = \"{name}\"\n")));
    let version = package.and_then(|package| package.split("version = \"").nth(1)?.split('"').next());
    version.unwrap_or("unknown").to_owned()
}
