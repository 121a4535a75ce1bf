//! Index and records for a thread without other users of the tables. Silo's Partitioned-Store does the same inside a
//! locked partition (§5.4). Exclusive access has no record lock, no fence, no sets, no TID, no versions and no log.
//!
//! For tables without any other reader or writer in the meantime. Two concurrent callers in a table would lose each
//! other's changes. Memory stays safe, because data are atomic words and the tree keeps its own latches: a reader of
//! the tree writes nothing, and an insert latches its leaf. A database with a log is refused, because no recovery would
//! find these writes.
//!
//! Neighbours: `ensile-papers silo` is the user. `key_value` is the same access for shared records.

use ensile_base::{Epoch, Tid};
use ensile_epoch::{PinHandle, Pinned};

use crate::codec::{Key, Value, ValueBuffer};
use crate::database::Database;
use crate::error::{Error, Result};
use crate::laboratory::key_value::encode_key;
use crate::record::tid_word::Word;
use crate::record::tree::{RecordInsert, RecordLookup};
use crate::record::{Record, Scratch};
use crate::session;
use crate::shared_state::SharedState;
use crate::tables::TableCore;
use crate::typed_api::Table;
use crate::typed_api::read::undecodable;
use crate::worker::Worker;

/// Access of a single thread to tables without other users.
pub struct Exclusive<'db> {
    shared: &'db SharedState,
    pin: PinHandle,
    buffers: Buffers,
}

#[derive(Default)]
struct Buffers {
    scratch: Scratch,
    value: Vec<u8>,
    index_key: Vec<u8>,
}

impl std::fmt::Debug for Exclusive<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Exclusive").finish_non_exhaustive()
    }
}

impl Database {
    /// Access without concurrency control, for a single thread: see the module's warning.
    ///
    /// # Errors
    /// [`Error::Misuse`] if the database has a log or makes pictures, because recovery would not find these writes.
    pub fn exclusive(&self) -> Result<Exclusive<'_>> {
        self.check_unlogged("access without concurrency control")?;
        let shared = self.shared();
        Ok(Exclusive { shared, pin: shared.register_pin(), buffers: Buffers::default() })
    }
}

impl Exclusive<'_> {
    /// Runs `work` on rows without other users until `work` returns. The writes stay, with any result of `work`.
    #[inline]
    pub fn run<R>(&mut self, work: impl FnOnce(&mut ExclusiveRows<'_>) -> R) -> R {
        let Self { shared, pin, buffers } = self;
        let call = pin.begin(shared.epochs.now());
        let result = session::with_worker(shared, |worker| {
            work(&mut ExclusiveRows { shared, worker, pinned: call.pin_token(), buffers })
        });
        drop(call);
        pin.end();
        result
    }
}

/// Rows without other users.
pub struct ExclusiveRows<'x> {
    shared: &'x SharedState,
    worker: &'x mut Worker,
    pinned: Pinned<'x>,
    buffers: &'x mut Buffers,
}

impl std::fmt::Debug for ExclusiveRows<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ExclusiveRows").finish_non_exhaustive()
    }
}

impl<'x> ExclusiveRows<'x> {
    /// The record of `key`, if the key has a row.
    #[inline]
    fn find(&self, table: &TableCore, key: &[u8]) -> Result<Option<Record<'x>>> {
        self.shared.life.check_table(table)?;
        let RecordLookup::Found(record) = table.tree.get(key, self.pinned) else { return Ok(None) };
        Ok((!record.word().is_absent()).then_some(record))
    }

    /// The result of `read` for the row of `key`; `None` without a row.
    ///
    /// # Errors
    /// [`Error::Decode`]; [`Error::Misuse`] for another database's table.
    #[inline]
    pub fn read<K: Key, V: Value, R>(
        &mut self,
        table: &Table<K, V>,
        key: &K,
        read: impl FnOnce(&V) -> R,
    ) -> Result<Option<R>> {
        let Some(record) = self.find(&table.core, encode_key(key).as_ref())? else { return Ok(None) };
        record.copy_out(&mut self.buffers.scratch);
        let seen = V::view(self.buffers.scratch.bytes(), read);
        seen.map(Some).map_err(|error| undecodable::<V>(&table.core, error))
    }

    /// Changes the row of `key` in place; false if the row is missing.
    ///
    /// # Errors
    /// As for [`read`](Self::read); [`Error::Misuse`] if the row outgrows its record or its table has indexes.
    #[inline]
    pub fn update<K: Key, V: Value>(
        &mut self,
        table: &Table<K, V>,
        key: &K,
        change: impl FnOnce(&mut V),
    ) -> Result<bool> {
        if !table.core.indexes.is_empty() {
            return Err(misuse(&table.core, "rows of a table with indexes are only inserted"));
        }
        let Some(record) = self.find(&table.core, encode_key(key).as_ref())? else { return Ok(false) };
        let Buffers { scratch, value, .. } = &mut *self.buffers;
        record.copy_out(scratch);
        let mut row = V::decode(scratch.bytes()).map_err(|error| undecodable::<V>(&table.core, error))?;
        change(&mut row);
        value.clear();
        row.encode(&mut ValueBuffer::new(value));
        overwrite(&table.core, record, value).map(|()| true)
    }

    /// Writes a row.
    ///
    /// # Errors
    /// As for [`update`](Self::update).
    #[inline]
    pub fn put<K: Key, V: Value>(&mut self, table: &Table<K, V>, key: &K, value: &V) -> Result<()> {
        if !table.core.indexes.is_empty() {
            return Err(misuse(&table.core, "rows of a table with indexes are only inserted"));
        }
        let mut bytes = std::mem::take(&mut self.buffers.value);
        bytes.clear();
        value.encode(&mut ValueBuffer::new(&mut bytes));
        let done = match self.add(&table.core, encode_key(key).as_ref(), &bytes) {
            Ok(Some(there)) => overwrite(&table.core, there, &bytes),
            added => added.map(|_| ()),
        };
        self.buffers.value = bytes;
        done
    }

    /// Writes a row with a free key, and its entries in the table's indexes.
    ///
    /// # Errors
    /// [`Error::KeyExists`], [`Error::NotUnique`]: writes before the error stay.
    #[inline]
    pub fn insert<K: Key, V: Value>(&mut self, table: &Table<K, V>, key: &K, value: &V) -> Result<()> {
        let (mut bytes, mut index_key) =
            (std::mem::take(&mut self.buffers.value), std::mem::take(&mut self.buffers.index_key));
        bytes.clear();
        value.encode(&mut ValueBuffer::new(&mut bytes));
        let done = self.insert_encoded(&table.core, encode_key(key).as_ref(), &bytes, &mut index_key);
        (self.buffers.value, self.buffers.index_key) = (bytes, index_key);
        done
    }

    /// As [`insert`](Self::insert), for encoded key and value; `index_key` is a buffer for the keys of entries.
    fn insert_encoded(
        &mut self,
        table: &TableCore,
        key: &[u8],
        value: &[u8],
        index_key: &mut Vec<u8>,
    ) -> Result<()> {
        if self.add(table, key, value)?.is_some() {
            return Err(Error::KeyExists { table: table.name().to_owned() });
        }
        for index in &table.indexes {
            index_key.clear();
            if index.entry_key(key, value, index_key)? && self.add(&index.entries, index_key, key)?.is_some()
            {
                return Err(Error::NotUnique { table: table.name().to_owned(), index: index.name.clone() });
            }
        }
        Ok(())
    }

    /// Adds a record for a key. Returns the existing record if the key exists, and `None` after an insertion.
    #[inline]
    fn add(&mut self, table: &TableCore, key: &[u8], value: &[u8]) -> Result<Option<Record<'x>>> {
        self.shared.life.check_table(table)?;
        let record = self.worker.blocks.create_record(value, Word::for_write(Tid::first_of(Epoch::FIRST)));
        self.worker.changes.clear();
        let (mut nodes, changes) = self.worker.nodes(&self.shared.epochs);
        match table.tree.insert_if_absent(key, record, &mut nodes, changes, self.pinned) {
            RecordInsert::Inserted(_) => Ok(None),
            RecordInsert::Exists(there, record) => {
                self.worker.blocks.discard(record);
                Ok(Some(there))
            }
        }
    }
}

/// Writes a value into an existing record. Fails if the value does not fit, or if the row is deleted.
#[inline]
fn overwrite(table: &TableCore, record: Record<'_>, value: &[u8]) -> Result<()> {
    if !record.fits(value.len()) || record.word().is_absent() {
        return Err(misuse(table, "a row was deleted, or outgrew its record"));
    }
    record.store_data(value);
    Ok(())
}

#[cold]
fn misuse(table: &TableCore, what: &str) -> Error {
    Error::Misuse(format!("table {}, used without concurrency control: {what}", table.name()))
}

#[cfg(test)]
mod tests {
    use crate::{Database, Error, Readable, Result};

    #[test]
    fn what_is_written_alone_is_read_by_transactions_and_in_indexes() -> Result<()> {
        let db = Database::in_memory()?;
        let numbers = db.table::<u64, u64>("numbers")?;
        let people = db
            .define::<u64, String>("people")
            .unique_index("by_name", 1, |_id, name: &String| name.clone())
            .open()?;
        let by_name = people.index::<String>("by_name")?;
        db.run(|tx| tx.put(&numbers, &1, &10))?;
        let mut alone = db.exclusive()?;
        alone.run(|rows| {
            assert!(rows.update(&numbers, &1, |number| *number += 1)?);
            assert!(!rows.update(&numbers, &2, |number| *number += 1)?);
            rows.put(&numbers, &2, &20)?;
            rows.put(&numbers, &2, &21)?;
            assert_eq!(rows.read(&numbers, &2, |number| *number)?, Some(21));
            rows.insert(&people, &1, &"ada".to_owned())?;
            assert!(matches!(rows.insert(&people, &1, &"bob".to_owned()), Err(Error::KeyExists { .. })));
            assert!(matches!(rows.insert(&people, &2, &"ada".to_owned()), Err(Error::NotUnique { .. })));
            assert!(matches!(rows.put(&people, &3, &"eve".to_owned()), Err(Error::Misuse(_))));
            Ok::<_, Error>(())
        })?;
        db.run(|tx| {
            assert_eq!((tx.get(&numbers, &1)?, tx.get(&numbers, &2)?), (Some(11), Some(21)));
            let mut found = Vec::new();
            tx.scan_keys(&by_name, .., |key| {
                found.push(key);
                std::ops::ControlFlow::Continue(())
            })?;
            assert_eq!(found, [1]);
            Ok(())
        })
    }
}
