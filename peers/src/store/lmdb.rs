//! LMDB, through heed.
//!
//! A process-safe commit writes into the shared map and syncs nothing: the operating system has the pages when the
//! process dies. A strict commit is LMDB's default, which writes pages and then the root, each with a sync.

use std::path::Path;

use heed::byteorder::NativeEndian;
use heed::types::{Bytes, U64};
use heed::{CommitOrAbort, Database, Env, EnvFlags, EnvOpenOptions, IntegerComparator, PutFlags};

use super::{Facts, Level, Store, missing};
use crate::failure::Result;
use crate::rows::{Value, count_in, key_in, updated, value_of};

/// Bytes of address space: an upper limit of the file, which grows as it is needed.
const MAP_BYTES: usize = 16 << 30;

type Rows = Database<'static, U64<NativeEndian>, Bytes, IntegerComparator>;

pub(super) struct LmdbStore {
    env: Env,
    rows: Rows,
}

impl LmdbStore {
    pub(super) fn load(folder: &Path, mut keys: Vec<u64>) -> Result<Self> {
        let store = Self::with(folder, EnvFlags::WRITE_MAP | EnvFlags::NO_SYNC)?;
        keys.sort_unstable();
        let mut tx = store.env.write_txn()?;
        for key in keys {
            store.rows.put_with_flags(&mut tx, PutFlags::APPEND, &key, &value_of(key))?;
        }
        tx.commit()?;
        store.env.force_sync()?;
        Ok(store)
    }

    pub(super) fn open(folder: &Path, level: Level) -> Result<Self> {
        Self::with(
            folder,
            match level {
                Level::Process => EnvFlags::WRITE_MAP | EnvFlags::NO_SYNC,
                Level::Strict => EnvFlags::empty(),
            },
        )
    }

    fn with(folder: &Path, flags: EnvFlags) -> Result<Self> {
        let mut options = EnvOpenOptions::new();
        options.map_size(MAP_BYTES).max_dbs(1);
        // SAFETY: no other process opens this folder, and nothing else changes the file. NO_SYNC risks the file in a
        // crash of the machine only, after which no comparison goes on.
        let env = unsafe { options.flags(flags).open(folder)? };
        let tx = env.write_txn()?;
        let made = env.create_databases_and_commit(tx, |opener, tx| {
            let mut options = opener.database_options().types::<U64<NativeEndian>, Bytes>();
            options.name("rows");
            let rows = options.key_comparator::<IntegerComparator>().create(tx)?;
            Ok::<_, heed::Error>(CommitOrAbort::<_, ()>::Commit(rows))
        })?;
        let rows = made.commit().ok_or("LMDB did not make its table")?;
        Ok(Self { env, rows })
    }
}

impl Store for LmdbStore {
    fn facts(&self) -> Result<Facts> {
        let version = heed::lmdb_version();
        Ok(Facts {
            version: format!(
                "{}.{}.{} (heed {})",
                version.major,
                version.minor,
                version.patch,
                super::locked_version("heed")
            ),
            load: "WRITEMAP, NOSYNC, one transaction of sorted rows, APPEND, then a sync".to_owned(),
            open: format!("map of {} GiB, integer keys", MAP_BYTES >> 30),
            process: "WRITEMAP, NOSYNC".to_owned(),
            strict: "no flags".to_owned(),
            calls: "get, iterator over a range, put".to_owned(),
        })
    }

    #[inline]
    fn read(&self, key: u64) -> Result<u64> {
        let tx = self.env.read_txn()?;
        self.rows.get(&tx, &key)?.map(key_in).ok_or_else(|| missing(key))
    }

    fn read_many(&self, keys: &[u64]) -> Result<u64> {
        let tx = self.env.read_txn()?;
        let mut sum = 0;
        for key in keys {
            sum += self.rows.get(&tx, key)?.map(key_in).ok_or_else(|| missing(*key))?;
        }
        Ok(sum)
    }

    fn scan(&self, from: u64, rows: usize) -> Result<u64> {
        let tx = self.env.read_txn()?;
        let mut sum = 0;
        for row in self.rows.range(&tx, &(from..))?.take(rows) {
            sum += key_in(row?.1);
        }
        Ok(sum)
    }

    fn range(&self, from: u64, rows: usize, into: &mut Vec<(u64, Value)>) -> Result<()> {
        let tx = self.env.read_txn()?;
        into.clear();
        for row in self.rows.range(&tx, &(from..))?.take(rows) {
            let (key, value) = row?;
            into.push((key, value.try_into()?));
        }
        Ok(())
    }

    fn update(&self, key: u64) -> Result<()> {
        let mut tx = self.env.write_txn()?;
        let new = self.rows.get(&tx, &key)?.map(updated).ok_or_else(|| missing(key))?;
        self.rows.put(&mut tx, &key, &new)?;
        Ok(tx.commit()?)
    }

    fn totals(&self) -> Result<(u64, u64)> {
        let tx = self.env.read_txn()?;
        let mut totals = (0, 0);
        for row in self.rows.iter(&tx)? {
            totals = (totals.0 + 1, totals.1 + count_in(row?.1));
        }
        Ok(totals)
    }

    fn settle(&self) -> Result<()> {
        Ok(())
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.env.force_sync()?;
        self.env.prepare_for_closing().wait();
        Ok(())
    }
}
