//! redb, a copy-on-write B-tree in Rust.
//!
//! redb has two levels: a commit with `Durability::None` is in the memory of the process alone, one with `Immediate` is
//! on the device.

use std::path::Path;

use redb::{Builder, Database, Durability, ReadableDatabase as _, ReadableTable as _, TableDefinition};

use super::{CACHE_BYTES, Facts, Level, Store, missing};
use crate::failure::Result;
use crate::rows::{VALUE_BYTES, Value, count_in, key_in, updated, value_of};

const ROWS: TableDefinition<'_, u64, &[u8; VALUE_BYTES]> = TableDefinition::new("rows");

pub(super) struct RedbStore {
    db: Database,
    durability: Durability,
}

impl RedbStore {
    pub(super) fn load(folder: &Path, mut keys: Vec<u64>) -> Result<Self> {
        let store = Self::open(folder, Level::Strict)?;
        keys.sort_unstable();
        let tx = store.db.begin_write()?;
        {
            let mut table = tx.open_table(ROWS)?;
            for key in keys {
                table.insert(key, &value_of(key))?;
            }
        }
        tx.commit()?;
        Ok(store)
    }

    pub(super) fn open(folder: &Path, level: Level) -> Result<Self> {
        let db = Builder::new().set_cache_size(CACHE_BYTES).create(folder.join("rows.redb"))?;
        let durability = match level {
            Level::Process => Durability::None,
            Level::Strict => Durability::Immediate,
        };
        Ok(Self { db, durability })
    }
}

impl Store for RedbStore {
    fn facts(&self) -> Result<Facts> {
        Ok(Facts {
            version: super::locked_version("redb"),
            load: "one transaction of sorted rows, Durability::Immediate".to_owned(),
            open: format!("cache of {} MiB, values of fixed width", CACHE_BYTES >> 20),
            process: "Durability::None".to_owned(),
            strict: "Durability::Immediate, the default".to_owned(),
            calls: "get, range, insert".to_owned(),
        })
    }

    #[inline]
    fn read(&self, key: u64) -> Result<u64> {
        let table = self.db.begin_read()?.open_table(ROWS)?;
        let value = table.get(key)?.ok_or_else(|| missing(key))?;
        Ok(key_in(value.value()))
    }

    fn read_many(&self, keys: &[u64]) -> Result<u64> {
        let table = self.db.begin_read()?.open_table(ROWS)?;
        let mut sum = 0;
        for key in keys {
            let value = table.get(key)?.ok_or_else(|| missing(*key))?;
            sum += key_in(value.value());
        }
        Ok(sum)
    }

    fn scan(&self, from: u64, rows: usize) -> Result<u64> {
        let table = self.db.begin_read()?.open_table(ROWS)?;
        let mut sum = 0;
        for row in table.range(from..)?.take(rows) {
            sum += key_in(row?.1.value());
        }
        Ok(sum)
    }

    fn range(&self, from: u64, rows: usize, into: &mut Vec<(u64, Value)>) -> Result<()> {
        let table = self.db.begin_read()?.open_table(ROWS)?;
        into.clear();
        for row in table.range(from..)?.take(rows) {
            let (key, value) = row?;
            into.push((key.value(), *value.value()));
        }
        Ok(())
    }

    fn update(&self, key: u64) -> Result<()> {
        let mut tx = self.db.begin_write()?;
        tx.set_durability(self.durability)?;
        {
            let mut table = tx.open_table(ROWS)?;
            let new = table.get(key)?.map(|value| updated(value.value())).ok_or_else(|| missing(key))?;
            table.insert(key, &new)?;
        }
        Ok(tx.commit()?)
    }

    fn totals(&self) -> Result<(u64, u64)> {
        let table = self.db.begin_read()?.open_table(ROWS)?;
        let mut totals = (0, 0);
        for row in table.iter()? {
            totals = (totals.0 + 1, totals.1 + count_in(row?.1.value()));
        }
        Ok(totals)
    }

    fn settle(&self) -> Result<()> {
        Ok(())
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(self.db.close()?)
    }
}
