//! fjall, a log-structured store in Rust, with its transactions of a single writer.
//!
//! A commit reaches the operating system by default; `PersistMode::SyncData` makes it strict.

use std::path::Path;
use std::thread;
use std::time::Duration;

use fjall::{
    KeyspaceCreateOptions, PersistMode, Readable as _, SingleWriterTxDatabase, SingleWriterTxKeyspace, Slice,
};

use super::{CACHE_BYTES, Facts, Level, Store, missing};
use crate::failure::{Failure, Result};
use crate::rows::{Value, count_in, key_in, updated, value_of};

/// Time between two looks at the background work.
const SETTLE_POLL: Duration = Duration::from_millis(10);

pub(super) struct FjallStore {
    db: SingleWriterTxDatabase,
    rows: SingleWriterTxKeyspace,
    level: Level,
}

impl FjallStore {
    pub(super) fn load(folder: &Path, mut keys: Vec<u64>) -> Result<Self> {
        let store = Self::open(folder, Level::Process)?;
        keys.sort_unstable();
        let mut ingestion = store.rows.inner().start_ingestion()?;
        for key in keys {
            ingestion.write(key.to_be_bytes(), value_of(key))?;
        }
        ingestion.finish()?;
        store.db.persist(PersistMode::SyncAll)?;
        Ok(store)
    }

    pub(super) fn open(folder: &Path, level: Level) -> Result<Self> {
        let db = SingleWriterTxDatabase::builder(folder.join("rows.fjall"))
            .cache_size(CACHE_BYTES as u64)
            .open()?;
        let rows = db.keyspace("rows", || KeyspaceCreateOptions::default().expect_point_read_hits(true))?;
        Ok(Self { db, rows, level })
    }
}

/// The key of a row.
fn key_of(bytes: &[u8]) -> Result<u64> {
    Ok(u64::from_be_bytes(bytes.try_into()?))
}

impl Store for FjallStore {
    fn facts(&self) -> Result<Facts> {
        Ok(Facts {
            version: super::locked_version("fjall"),
            load: "Ingestion of sorted rows, then PersistMode::SyncAll".to_owned(),
            open: format!(
                "SingleWriterTxDatabase, cache of {} MiB, no compression, expect_point_read_hits",
                CACHE_BYTES >> 20
            ),
            process: "PersistMode::Buffer, the default".to_owned(),
            strict: "PersistMode::SyncData".to_owned(),
            calls: "get, get and range of a snapshot, fetch_update".to_owned(),
        })
    }

    #[inline]
    fn read(&self, key: u64) -> Result<u64> {
        let value = self.rows.get(key.to_be_bytes())?;
        value.map(|value| key_in(&value)).ok_or_else(|| missing(key))
    }

    fn read_many(&self, keys: &[u64]) -> Result<u64> {
        let tx = self.db.read_tx();
        let mut sum = 0;
        for key in keys {
            let value = tx.get(&self.rows, key.to_be_bytes())?;
            sum += value.map(|value| key_in(&value)).ok_or_else(|| missing(*key))?;
        }
        Ok(sum)
    }

    fn scan(&self, from: u64, rows: usize) -> Result<u64> {
        let tx = self.db.read_tx();
        let mut sum = 0;
        for row in tx.range(&self.rows, from.to_be_bytes()..).take(rows) {
            sum += key_in(&row.value()?);
        }
        Ok(sum)
    }

    fn range(&self, from: u64, rows: usize, into: &mut Vec<(u64, Value)>) -> Result<()> {
        let tx = self.db.read_tx();
        into.clear();
        for row in tx.range(&self.rows, from.to_be_bytes()..).take(rows) {
            let (key, value) = row.into_inner()?;
            into.push((key_of(&key)?, value.as_ref().try_into()?));
        }
        Ok(())
    }

    fn update(&self, key: u64) -> Result<()> {
        let mut tx = self.db.write_tx();
        if self.level == Level::Strict {
            tx = tx.durability(Some(PersistMode::SyncData));
        }
        let change = |old: Option<&Slice>| old.map(|old| Slice::from(updated(old)));
        tx.fetch_update(&self.rows, key.to_be_bytes(), change)?.ok_or_else(|| missing(key))?;
        Ok(tx.commit()?)
    }

    fn totals(&self) -> Result<(u64, u64)> {
        self.db.read_tx().iter(&self.rows).try_fold((0, 0), |(rows, counts), row| {
            Ok::<_, Failure>((rows + 1, counts + count_in(&row.value()?)))
        })
    }

    fn settle(&self) -> Result<()> {
        while self.db.inner().outstanding_flushes() + self.db.inner().active_compactions() > 0 {
            thread::sleep(SETTLE_POLL);
        }
        Ok(())
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.db.persist(PersistMode::SyncAll)?;
        Ok(())
    }
}
