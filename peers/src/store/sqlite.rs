//! SQLite through rusqlite. The threads share a connection.
//!
//! The connection owns the file, so SQLite takes neither shared memory nor file locks. Commits go to the write-ahead
//! log. An update is a single statement with a function of the program.

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rusqlite::functions::FunctionFlags;
use rusqlite::{Connection, params};

use super::{CACHE_BYTES, Facts, Level, Store, missing};
use crate::failure::Result;
use crate::rows::{Value, count_in, key_in, updated, value_of};

const READ: &str = "select value from rows where id = ?";
const SCAN: &str = "select id, value from rows where id >= ? order by id limit ?";
const UPDATE: &str = "update rows set value = updated(value) where id = ?";

pub(super) struct SqliteStore {
    connection: Mutex<Connection>,
}

impl SqliteStore {
    pub(super) fn load(folder: &Path, mut keys: Vec<u64>) -> Result<Self> {
        let store = Self::with(folder, "journal_mode = off; pragma synchronous = full;")?;
        keys.sort_unstable();
        {
            let mut connection = store.lock();
            let tx = connection.transaction()?;
            tx.execute_batch("create table rows (id integer primary key, value blob not null) strict;")?;
            {
                let mut insert = tx.prepare("insert into rows values (?, ?)")?;
                for key in keys {
                    insert.execute(params![key.cast_signed(), value_of(key)])?;
                }
            }
            tx.commit()?;
        }
        Ok(store)
    }

    pub(super) fn open(folder: &Path, level: Level) -> Result<Self> {
        let synchronous = match level {
            Level::Process => "off",
            Level::Strict => "full",
        };
        Self::with(folder, &format!("journal_mode = wal; pragma synchronous = {synchronous};"))
    }

    fn with(folder: &Path, journal: &str) -> Result<Self> {
        let connection = Connection::open(folder.join("rows.sqlite"))?;
        let cache = CACHE_BYTES >> 10;
        connection.execute_batch(&format!(
            "pragma locking_mode = exclusive; pragma {journal} pragma cache_size = -{cache};\
             pragma temp_store = memory;"
        ))?;
        let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC;
        connection.create_scalar_function("updated", 1, flags, |arguments| {
            let old = arguments
                .get_raw(0)
                .as_blob()
                .map_err(|error| rusqlite::Error::UserFunctionError(error.into()))?;
            Ok(updated(old).to_vec())
        })?;
        Ok(Self { connection: Mutex::new(connection) })
    }

    fn lock(&self) -> MutexGuard<'_, Connection> {
        // A thread that panicked ends the comparison, so the lock ignores poison.
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads a row, in the open transaction if a transaction is open.
fn read_one(connection: &Connection, key: u64) -> Result<u64> {
    let mut statement = connection.prepare_cached(READ)?;
    let mut rows = statement.query([key.cast_signed()])?;
    let row = rows.next()?.ok_or_else(|| missing(key))?;
    Ok(key_in(row.get_ref(0)?.as_blob()?))
}

impl Store for SqliteStore {
    fn facts(&self) -> Result<Facts> {
        Ok(Facts {
            version: format!("{} (rusqlite {})", rusqlite::version(), super::locked_version("rusqlite")),
            load: "journal_mode = off, synchronous = full, one transaction of sorted rows".to_owned(),
            open: format!(
                "journal_mode = wal, locking_mode = exclusive, cache_size of {} MiB, integer primary key, prepared \
                 statements, one connection behind a mutex",
                CACHE_BYTES >> 20
            ),
            process: "synchronous = off".to_owned(),
            strict: "synchronous = full".to_owned(),
            calls: "select by key, select of a range with a limit, update with a function of the program"
                .to_owned(),
        })
    }

    #[inline]
    fn read(&self, key: u64) -> Result<u64> {
        read_one(&self.lock(), key)
    }

    fn read_many(&self, keys: &[u64]) -> Result<u64> {
        let connection = self.lock();
        connection.prepare_cached("begin")?.execute([])?;
        let mut sum = 0;
        for key in keys {
            sum += read_one(&connection, *key)?;
        }
        connection.prepare_cached("commit")?.execute([])?;
        Ok(sum)
    }

    fn scan(&self, from: u64, rows: usize) -> Result<u64> {
        let connection = self.lock();
        let mut statement = connection.prepare_cached(SCAN)?;
        let mut found = statement.query([from.cast_signed(), i64::try_from(rows)?])?;
        let mut sum = 0;
        while let Some(row) = found.next()? {
            sum += key_in(row.get_ref(1)?.as_blob()?);
        }
        Ok(sum)
    }

    fn range(&self, from: u64, rows: usize, into: &mut Vec<(u64, Value)>) -> Result<()> {
        let connection = self.lock();
        let mut statement = connection.prepare_cached(SCAN)?;
        let mut found = statement.query([from.cast_signed(), i64::try_from(rows)?])?;
        into.clear();
        while let Some(row) = found.next()? {
            into.push((row.get::<_, i64>(0)?.cast_unsigned(), row.get_ref(1)?.as_blob()?.try_into()?));
        }
        Ok(())
    }

    fn update(&self, key: u64) -> Result<()> {
        let changed = self.lock().prepare_cached(UPDATE)?.execute([key.cast_signed()])?;
        if changed == 1 { Ok(()) } else { Err(missing(key)) }
    }

    fn totals(&self) -> Result<(u64, u64)> {
        let connection = self.lock();
        let mut statement = connection.prepare("select value from rows")?;
        let mut found = statement.query([])?;
        let mut totals = (0, 0);
        while let Some(row) = found.next()? {
            totals = (totals.0 + 1, totals.1 + count_in(row.get_ref(0)?.as_blob()?));
        }
        Ok(totals)
    }

    fn settle(&self) -> Result<()> {
        Ok(())
    }

    fn close(self: Box<Self>) -> Result<()> {
        let connection = self.connection.into_inner().unwrap_or_else(PoisonError::into_inner);
        connection.close().map_err(|(_connection, error)| error.into())
    }
}
