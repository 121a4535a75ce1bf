//! Index and records without transactions: Silo's Key-Value (§5.2), the baseline for the cost of transactions.
//!
//! The record's lock and the optimistic read make single-key reads and writes atomic. Key-value access has no sets, no
//! epochs beyond the pin, no log and no versions. Use it for measurements in a separate database, and do not share
//! tables with transactions: snapshots do not see these writes correctly. A database with a log is refused, because no
//! recovery would find these writes.
//!
//! Neighbours: `ensile-bench` is the user; `record` and the trees of `tables` do the work.

use ensile_base::sync::{Arc, fence_after_exchange};
use ensile_base::{Epoch, Tid};
use ensile_epoch::PinHandle;

use std::marker::PhantomData;

use crate::codec::{CodecError, Key, KeyBuffer, Value, ValueBuffer};
use crate::database::Database;
use crate::error::{Error, Result};
use crate::record::tid_word::Word;
use crate::record::tree::{RecordInsert, RecordLookup, Successor};
use crate::record::{Record, Scratch, Seen};
use crate::session;
use crate::shared_state::SharedState;
use crate::tables::TableCore;
use crate::typed_api::Table;

/// Guard of a locked record, which unlocks the record unchanged: after a panic in the caller's code, or for a value
/// that does not fit.
struct Unchanged<'p> {
    record: Record<'p>,
    before: Word,
}

impl Drop for Unchanged<'_> {
    #[inline]
    fn drop(&mut self) {
        self.record.unlock_with(self.before);
    }
}

/// Single-key access to the bytes of a table by a single thread.
struct RawKeyValue<'db> {
    shared: &'db SharedState,
    table: Arc<TableCore>,
    pin: PinHandle,
    scratch: Scratch,
    value: Vec<u8>,
}

impl Drop for RawKeyValue<'_> {
    fn drop(&mut self) {
        // I4: in a forked child the pins' list may be locked for ever, and the pin is leaked.
        if !self.shared.life.is_own_process() {
            // In a forked child `register_pin` uses a list of the child.
            let unrelated = self.shared.register_pin();
            std::mem::forget(std::mem::replace(&mut self.pin, unrelated));
        }
    }
}

impl<'db> RawKeyValue<'db> {
    fn new(database: &'db Database, table: Arc<TableCore>) -> Self {
        let shared = database.shared();
        let pin = shared.register_pin();
        Self { shared, table, pin, scratch: Scratch::default(), value: Vec::new() }
    }

    /// Reads a key's value. The caller has checked that the database is open.
    #[inline]
    fn get<R>(&mut self, key: &[u8], read: impl FnOnce(&[u8]) -> R) -> Option<R> {
        let call = self.pin.begin(self.shared.epochs.now());
        let found = loop {
            let RecordLookup::Found(record) = self.table.tree.get(key, call.pin_token()) else { break false };
            match record.read(&mut self.scratch) {
                Seen::Present(_) => break true,
                Seen::Absent(_) => break false,
                Seen::Superseded => {}
            }
        };
        drop(call);
        self.pin.end();
        found.then(|| read(self.scratch.bytes()))
    }

    /// Reads a key's value and writes the result of `change`, atomically. False if the key is missing. The caller has
    /// checked that the database is open.
    #[inline]
    fn modify(&mut self, key: &[u8], change: impl FnOnce(&[u8], &mut Vec<u8>)) -> Result<bool, TooLong> {
        let call = self.pin.begin(self.shared.epochs.now());
        let result = (|| {
            let RecordLookup::Found(record) = self.table.tree.get(key, call.pin_token()) else {
                return Ok(false);
            };
            let before = record.lock();
            if !before.is_latest() || before.is_absent() {
                record.unlock_with(before);
                return Ok(false);
            }
            // As in commit, the lock comes before the data stores (C5).
            fence_after_exchange();
            let unchanged = Unchanged { record, before };
            record.copy_out(&mut self.scratch);
            self.value.clear();
            change(self.scratch.bytes(), &mut self.value);
            if !record.fits(self.value.len()) {
                return Err(TooLong(self.value.len()));
            }
            std::mem::forget(unchanged);
            record.overwrite(&self.value);
            record.unlock_with(Word::for_write(
                before.tid().successor().unwrap_or(Tid::first_of(Epoch::FIRST)),
            ));
            Ok(true)
        })();
        drop(call);
        self.pin.end();
        result
    }

    /// Writes a value, of at most the capacity of the key's record.
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.shared.life.check_open()?;
        // Another thread may add the key, or supersede its record, between the two calls.
        while !(self.modify(key, |_, out| out.extend_from_slice(value))? || self.add(key, value)) {}
        Ok(())
    }

    /// Adds a row with a missing or deleted key. False if the row exists.
    fn add(&mut self, key: &[u8], value: &[u8]) -> bool {
        let shared = self.shared;
        let call = self.pin.begin(shared.epochs.now());
        let added = session::with_worker(shared, |worker| {
            let record = worker.blocks.create_record(value, Word::for_write(Tid::first_of(Epoch::FIRST)));
            worker.changes.clear();
            let (mut nodes, changes) = worker.nodes(&shared.epochs);
            let tree = &self.table.tree;
            match tree.insert_if_absent(key, record, &mut nodes, changes, call.pin_token()) {
                RecordInsert::Inserted(_) => true,
                RecordInsert::Exists(there, record) => {
                    let before = there.lock();
                    if before.is_latest() && before.is_absent() {
                        // As in commit: the thread that registered the absent record for removal frees the record (U1).
                        let tid = before.tid().successor().unwrap_or(Tid::first_of(Epoch::FIRST));
                        let new = Successor { record, word: Word::for_write(tid), keeps_old: false };
                        let old = tree.supersede(key, there, new, call.pin_token());
                        there.unlock_with(before.to_superseded());
                        worker.shared.lock_garbage().add_replaced(tid.epoch(), old, &shared.epochs);
                        true
                    } else {
                        there.unlock_with(before);
                        worker.blocks.discard(record);
                        false
                    }
                }
            }
        });
        drop(call);
        self.pin.end();
        added
    }
}

/// Single-key access to a table by a single thread, without transactions: the baseline of `ensile-bench` for the cost
/// of transactions. [`Database::key_value`] lists the limits.
pub struct KeyValue<'db, K, V> {
    raw: RawKeyValue<'db>,
    types: PhantomData<fn() -> (K, V)>,
}

impl<K, V> std::fmt::Debug for KeyValue<'_, K, V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KeyValue").field("table", &self.raw.table.name()).finish_non_exhaustive()
    }
}

impl Database {
    /// Single-key access to `table` without transactions, for a single thread: only index and records, to measure the
    /// cost of transactions (Silo §5.2). Only for tables without writes by transactions: snapshots do not see writes
    /// through this access.
    ///
    /// # Errors
    /// [`Error::Misuse`] if the database has a log or makes pictures, because recovery would not find these writes;
    /// also for a table of another database.
    ///
    /// ```
    /// # extern crate ensile_engine as ensile;
    /// # fn main() -> ensile::Result<()> {
    /// let db = ensile::Database::in_memory()?;
    /// let table = db.table::<u64, u64>("numbers")?;
    /// let mut numbers = db.key_value(&table)?;
    /// numbers.put(&1, &10)?;
    /// assert!(numbers.modify(&1, |value| *value += 1)?);
    /// assert_eq!(numbers.get(&1)?, Some(11));
    /// # Ok(()) }
    /// ```
    pub fn key_value<K: Key, V: Value>(&self, table: &Table<K, V>) -> Result<KeyValue<'_, K, V>> {
        let shared = Arc::clone(&table.core);
        self.shared().life.check_table(&shared)?;
        self.check_unlogged("key-value access")?;
        Ok(KeyValue { raw: RawKeyValue::new(self, shared), types: PhantomData })
    }

    /// Refuses an operation that bypasses the log; `what` names the operation in the error. `log` is also present in a
    /// database that only makes pictures.
    pub(crate) fn check_unlogged(&self, what: &str) -> Result<()> {
        if self.shared().storage.log.is_none() {
            return Ok(());
        }
        let advice = "use a database in memory";
        Err(Error::Misuse(format!("{what} writes no log, and this database has one: {advice}")))
    }
}

impl<K: Key, V: Value> KeyValue<'_, K, V> {
    /// The value of `key`.
    ///
    /// # Errors
    /// [`Error::Decode`] if the stored bytes are not a `V`; [`Error::Closed`].
    #[inline]
    pub fn get(&mut self, key: &K) -> Result<Option<V>> {
        self.raw.shared.life.check_open()?;
        let found = self.raw.get(encode_key(key).as_ref(), V::decode);
        found.transpose().map_err(|error| self.undecodable(&error))
    }

    /// The result of `read` for the value of `key`.
    ///
    /// # Errors
    /// As for [`KeyValue::get`].
    #[inline]
    pub fn get_with<R>(&mut self, key: &K, read: impl FnOnce(&V) -> R) -> Result<Option<R>> {
        self.raw.shared.life.check_open()?;
        let found = self.raw.get(encode_key(key).as_ref(), |bytes| V::view(bytes, read));
        found.transpose().map_err(|error| self.undecodable(&error))
    }

    /// Changes the value of `key` atomically. False if the key is missing. The record is locked during `change`, so
    /// `change` must not access this table. After a panic of `change` the value is unchanged.
    ///
    /// # Errors
    /// [`Error::Decode`]; [`Error::Misuse`] if the value has outgrown its record; [`Error::Closed`].
    #[inline]
    pub fn modify(&mut self, key: &K, change: impl FnOnce(&mut V)) -> Result<bool> {
        self.raw.shared.life.check_open()?;
        let mut broken = None;
        let found = self.raw.modify(encode_key(key).as_ref(), |old, out| match V::decode(old) {
            Ok(mut value) => {
                change(&mut value);
                value.encode(&mut ValueBuffer::new(out));
            }
            Err(error) => {
                out.extend_from_slice(old);
                broken = Some(error);
            }
        })?;
        broken.map_or(Ok(found), |error| Err(self.undecodable(&error)))
    }

    /// Writes a value. A replacement must fit the record of the first value.
    ///
    /// # Errors
    /// [`Error::Misuse`] if the value does not fit its record; [`Error::Closed`].
    pub fn put(&mut self, key: &K, value: &V) -> Result<()> {
        let mut bytes = Vec::new();
        value.encode(&mut ValueBuffer::new(&mut bytes));
        self.raw.put(encode_key(key).as_ref(), &bytes)
    }

    #[cold]
    fn undecodable(&self, error: &CodecError) -> Error {
        Error::decode(self.raw.table.name(), V::type_name(), error.to_string())
    }
}

/// Encodes a key in its last form.
#[inline]
pub(crate) fn encode_key<K: Key>(key: &K) -> KeyBuffer {
    let mut buffer = KeyBuffer::new();
    key.encode(&mut buffer);
    buffer
}

/// Length in bytes of a value that does not fit its record.
struct TooLong(usize);

impl From<TooLong> for Error {
    #[cold]
    fn from(TooLong(bytes): TooLong) -> Self {
        Self::Misuse(format!("key-value records keep their size: {bytes} bytes do not fit"))
    }
}

#[cfg(test)]
mod tests;
