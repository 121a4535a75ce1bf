//! RocksDB, with its optimistic transactions.
//!
//! A process-safe commit hands the write-ahead log to the operating system. A strict commit syncs the log, and
//! concurrent commits share a sync.

use std::path::Path;
use std::thread;

use rocksdb::{
    BlockBasedOptions, Cache, DBCompressionType, DataBlockIndexType, ErrorKind, IngestExternalFileOptions,
    OptimisticTransactionDB, OptimisticTransactionOptions, Options, ReadOptions, SstFileWriter, WriteOptions,
};

use super::{CACHE_BYTES, Facts, Level, Store, missing};
use crate::failure::Result;
use crate::machine::cores;
use crate::rows::{Value, count_in, key_in, updated, value_of};

/// Rows of a table file of the load: some 28 MB.
const ROWS_PER_FILE: usize = 250_000;
/// Bytes of a memtable.
const WRITE_BUFFER_BYTES: usize = 128 << 20;
/// Bits of the Bloom filter for a key.
const FILTER_BITS: f64 = 10.0;
/// RocksDB's default column family.
const DEFAULT_FAMILY: &str = "default";

pub(super) struct RocksdbStore {
    db: OptimisticTransactionDB,
    writing: WriteOptions,
}

impl RocksdbStore {
    pub(super) fn load(folder: &Path, mut keys: Vec<u64>) -> Result<Self> {
        let store = Self::open(folder, Level::Process)?;
        keys.sort_unstable();
        let files: Vec<_> = keys.chunks(ROWS_PER_FILE).enumerate().collect();
        let path = |number: &usize| folder.join(format!("load-{number}.sst"));
        thread::scope(|scope| {
            let share = files.len().div_ceil(cores());
            let threads: Vec<_> = files
                .chunks(share)
                .map(|files| {
                    let write =
                        || files.iter().try_for_each(|(number, keys)| write_file(&path(number), keys));
                    scope.spawn(write)
                })
                .collect();
            threads.into_iter().try_for_each(|thread| thread.join().expect("a load fails by its result"))
        })?;
        let mut ingestion = IngestExternalFileOptions::default();
        ingestion.set_move_files(true);
        let paths = files.iter().map(|(number, _keys)| path(number)).collect();
        store.db.ingest_external_file_opts(&ingestion, paths)?;
        Ok(store)
    }

    pub(super) fn open(folder: &Path, level: Level) -> Result<Self> {
        let db = OptimisticTransactionDB::open_cf_descriptors(
            &options(),
            folder.join("rows.rocksdb"),
            [rocksdb::ColumnFamilyDescriptor::new(DEFAULT_FAMILY, options())],
        )?;
        let mut writing = WriteOptions::default();
        writing.set_sync(level == Level::Strict);
        Ok(Self { db, writing })
    }

    fn raw_iterator(&self, from: u64) -> rocksdb::DBRawIteratorWithThreadMode<'_, OptimisticTransactionDB> {
        let mut rows = self.db.raw_iterator_opt(ReadOptions::default());
        rows.seek(from.to_be_bytes());
        rows
    }
}

fn options() -> Options {
    let mut tables = BlockBasedOptions::default();
    tables.set_block_cache(&Cache::new_lru_cache(CACHE_BYTES).expect("RocksDB makes a cache"));
    tables.set_bloom_filter(FILTER_BITS, false);
    tables.set_data_block_index_type(DataBlockIndexType::BinaryAndHash);
    tables.set_format_version(5);
    let mut options = Options::default();
    options.create_if_missing(true);
    options.set_block_based_table_factory(&tables);
    options.set_compression_type(DBCompressionType::None);
    options.set_optimize_filters_for_hits(true);
    options.set_write_buffer_size(WRITE_BUFFER_BYTES);
    options.increase_parallelism(i32::try_from(cores()).unwrap_or(i32::MAX));
    options
}

/// Writes sorted rows to a table file, and syncs it.
fn write_file(path: &Path, keys: &[u64]) -> Result<()> {
    let options = options();
    let mut file = SstFileWriter::create(&options);
    file.open(path)?;
    for key in keys {
        file.put(key.to_be_bytes(), value_of(*key))?;
    }
    Ok(file.finish()?)
}

/// Version of the library, from the file of options that RocksDB writes.
fn library_version(folder: &Path) -> Result<String> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("OPTIONS-")) {
            let text = std::fs::read_to_string(path)?;
            let version = text.lines().find_map(|line| line.trim().strip_prefix("rocksdb_version="));
            return Ok(version.ok_or("RocksDB's file of options has no version")?.to_owned());
        }
    }
    Err("RocksDB has no file of options".into())
}

impl Store for RocksdbStore {
    fn facts(&self) -> Result<Facts> {
        let (library, wrapper) = (library_version(self.db.path())?, super::locked_version("rocksdb"));
        Ok(Facts {
            version: format!("{library} (crate {wrapper})"),
            load: format!(
                "sorted table files of {ROWS_PER_FILE} rows, written by a thread a core, then ingested"
            ),
            open: format!(
                "OptimisticTransactionDB, block cache of {} MiB, no compression, Bloom filter of {FILTER_BITS} bits \
                 but for the last level, hash index in data blocks, memtable of {} MiB, a background thread a core",
                CACHE_BYTES >> 20,
                WRITE_BUFFER_BYTES >> 20,
            ),
            process: "write-ahead log, sync = false".to_owned(),
            strict: "write-ahead log, sync = true".to_owned(),
            calls: "get_pinned, batched multi_get, raw iterator, get_pinned_for_update and put".to_owned(),
        })
    }

    #[inline]
    fn read(&self, key: u64) -> Result<u64> {
        let value = self.db.get_pinned(key.to_be_bytes())?;
        value.map(|value| key_in(&value)).ok_or_else(|| missing(key))
    }

    fn read_many(&self, keys: &[u64]) -> Result<u64> {
        let family = self.db.cf_handle(DEFAULT_FAMILY).ok_or("RocksDB has no default column family")?;
        let keys_of_bytes = keys.iter().map(|key| key.to_be_bytes());
        let values = self.db.batched_multi_get_cf(family, keys_of_bytes, false);
        let mut sum = 0;
        for (key, value) in keys.iter().zip(values) {
            sum += value?.map(|value| key_in(&value)).ok_or_else(|| missing(*key))?;
        }
        Ok(sum)
    }

    fn scan(&self, from: u64, rows: usize) -> Result<u64> {
        let mut iterator = self.raw_iterator(from);
        let (mut sum, mut left) = (0, rows);
        while left > 0
            && let Some(value) = iterator.value()
        {
            sum += key_in(value);
            left -= 1;
            iterator.next();
        }
        iterator.status()?;
        Ok(sum)
    }

    fn range(&self, from: u64, rows: usize, into: &mut Vec<(u64, Value)>) -> Result<()> {
        let mut iterator = self.raw_iterator(from);
        into.clear();
        while into.len() < rows
            && let Some((key, value)) = iterator.item()
        {
            into.push((u64::from_be_bytes(key.try_into()?), value.try_into()?));
            iterator.next();
        }
        Ok(iterator.status()?)
    }

    fn update(&self, key: u64) -> Result<()> {
        let bytes = key.to_be_bytes();
        loop {
            let tx = self.db.transaction_opt(&self.writing, &OptimisticTransactionOptions::default());
            let old = tx.get_pinned_for_update(bytes, true)?;
            let new = old.map(|old| updated(&old)).ok_or_else(|| missing(key))?;
            tx.put(bytes, new)?;
            match tx.commit() {
                Ok(()) => return Ok(()),
                // A conflict with another thread's transaction.
                Err(error) if matches!(error.kind(), ErrorKind::Busy | ErrorKind::TryAgain) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn totals(&self) -> Result<(u64, u64)> {
        let mut iterator = self.raw_iterator(0);
        let mut totals = (0, 0);
        while let Some(value) = iterator.value() {
            totals = (totals.0 + 1, totals.1 + count_in(value));
            iterator.next();
        }
        iterator.status()?;
        Ok(totals)
    }

    fn settle(&self) -> Result<()> {
        self.db.compact_range(None::<&[u8]>, None::<&[u8]>);
        Ok(())
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.db.flush_wal(true)?;
        self.db.cancel_all_background_work(true);
        Ok(())
    }
}
