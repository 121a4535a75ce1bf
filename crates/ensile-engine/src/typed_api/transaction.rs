//! Typed writes.
//!
//! Neighbours: [`Readable`](crate::Readable) has the reads; `transaction` keeps the writes until commit.

use super::read::undecodable;
use super::source::Source;
use super::table::Table;
use crate::codec::bounds::encode_key;
use crate::codec::{AsKey, AsValue, CodecError, Key, Value, ValueBuffer};
use crate::error::Result;
use crate::transaction::Transaction;

impl Transaction<'_> {
    /// Calls `read` with the encoded row of `key`, if the row exists. For rows whose decoded form would be a copy, such
    /// as bytes on their way to a client. `read` is called once, with the bytes of one version.
    ///
    /// # Errors
    /// As for [`get`](crate::Readable::get): the error of `read` becomes [`Error::Decode`](crate::Error::Decode).
    #[inline]
    pub fn get_encoded<S: Source, R>(
        &mut self,
        source: &S,
        key: &(impl AsKey<S::Key> + ?Sized),
        read: impl FnOnce(&[u8]) -> std::result::Result<R, CodecError>,
    ) -> Result<Option<R>> {
        let seen = source.read_one(self, key, |_key, row| read(row))?;
        seen.transpose().map_err(|error| undecodable::<S::Row>(source.table(), error))
    }

    /// Writes a row. A row with the same key is overwritten.
    ///
    /// Other transactions do not see the write before the commit; this transaction's reads see the write at once.
    ///
    /// # Errors
    /// - [`Error::TooLarge`](crate::Error::TooLarge): the key, the value or the whole transaction is too large.
    /// - [`Error::NotUnique`](crate::Error::NotUnique): another row has the same key in a unique index.
    /// - [`Error::MemoryFull`](crate::Error::MemoryFull): the memory has reached its limit. Nothing is written, and the
    ///   transaction continues.
    /// - [`Error::Expired`](crate::Error::Expired): run the transaction again.
    #[inline]
    pub fn put<K: Key, V: Value>(
        &mut self,
        table: &Table<K, V>,
        key: &(impl AsKey<K> + ?Sized),
        value: &(impl AsValue<V> + ?Sized),
    ) -> Result<()> {
        self.raw_put(&table.core, encode_key(key).as_ref(), |bytes| {
            value.encode_value(&mut ValueBuffer::new(bytes));
        })
    }

    /// Writes a row with a free key.
    ///
    /// # Errors
    /// [`Error::KeyExists`](crate::Error::KeyExists) if the key exists; nothing is written and the transaction
    /// continues. Otherwise as for [`put`](Self::put).
    #[inline]
    pub fn insert<K: Key, V: Value>(
        &mut self,
        table: &Table<K, V>,
        key: &(impl AsKey<K> + ?Sized),
        value: &(impl AsValue<V> + ?Sized),
    ) -> Result<()> {
        self.raw_insert(&table.core, encode_key(key).as_ref(), |bytes| {
            value.encode_value(&mut ValueBuffer::new(bytes));
        })
    }

    /// Reads a row, changes the row by `change`, and writes the row back: a single descent in the index instead of two.
    /// False if the row is missing.
    ///
    /// # Errors
    /// [`Error::Decode`](crate::Error::Decode) if the row is not of the table's type; otherwise as for
    /// [`put`](Self::put).
    #[inline]
    pub fn update<K: Key, V: Value>(
        &mut self,
        table: &Table<K, V>,
        key: &(impl AsKey<K> + ?Sized),
        change: impl FnOnce(&mut V),
    ) -> Result<bool> {
        self.raw_update(&table.core, encode_key(key).as_ref(), |old, new| {
            let mut value = V::decode(old).map_err(|error| undecodable::<V>(&table.core, error))?;
            change(&mut value);
            value.encode(&mut ValueBuffer::new(new));
            Ok(())
        })
    }

    /// Deletes a row. False if the row is missing; the commit then checks the absence.
    ///
    /// # Errors
    /// As for [`put`](Self::put), without [`Error::MemoryFull`](crate::Error::MemoryFull).
    #[inline]
    pub fn delete<K: Key, V: Value>(
        &mut self,
        table: &Table<K, V>,
        key: &(impl AsKey<K> + ?Sized),
    ) -> Result<bool> {
        self.raw_delete(&table.core, encode_key(key).as_ref())
    }
}
