//! Typed writes.
//!
//! Neighbours: reads stand in [`Readable`](crate::Readable); `transaction` keeps what is written here until commit.

use super::read::undecodable;
use super::table::Table;
use crate::codec::bounds::encoded;
use crate::codec::{AsKey, AsValue, Key, Value, ValueBuffer};
use crate::error::Result;
use crate::transaction::Transaction;

impl Transaction<'_> {
    /// Writes a row, over the one that has its key if there is one.
    ///
    /// Nobody else sees the write before the commit; this transaction's reads do at once.
    ///
    /// # Errors
    /// - [`Error::TooLarge`](crate::Error::TooLarge): the key, the value or the whole transaction is.
    /// - [`Error::NotUnique`](crate::Error::NotUnique): another row has the same key in a unique index.
    /// - [`Error::Expired`](crate::Error::Expired): run the transaction again.
    #[inline]
    pub fn put<K: Key, V: Value>(
        &mut self,
        table: &Table<K, V>,
        key: &(impl AsKey<K> + ?Sized),
        value: &(impl AsValue<V> + ?Sized),
    ) -> Result<()> {
        self.raw_put(&table.core, encoded(key).as_ref(), |bytes| {
            value.encode_value(&mut ValueBuffer::new(bytes));
        })
    }

    /// Writes a row whose key is free.
    ///
    /// # Errors
    /// [`Error::KeyExists`](crate::Error::KeyExists) if it is not; nothing is written and the transaction goes on. Else
    /// as for [`put`](Self::put).
    #[inline]
    pub fn insert<K: Key, V: Value>(
        &mut self,
        table: &Table<K, V>,
        key: &(impl AsKey<K> + ?Sized),
        value: &(impl AsValue<V> + ?Sized),
    ) -> Result<()> {
        self.raw_insert(&table.core, encoded(key).as_ref(), |bytes| {
            value.encode_value(&mut ValueBuffer::new(bytes));
        })
    }

    /// Reads a row, lets `change` change it, and writes it back: one way down the index instead of two. False if
    /// there is no such row.
    ///
    /// # Errors
    /// [`Error::Decode`](crate::Error::Decode) if the row is not of the table's type; else as for [`put`](Self::put).
    #[inline]
    pub fn update<K: Key, V: Value>(
        &mut self,
        table: &Table<K, V>,
        key: &(impl AsKey<K> + ?Sized),
        change: impl FnOnce(&mut V),
    ) -> Result<bool> {
        self.raw_update(&table.core, encoded(key).as_ref(), |old, new| {
            let mut value = V::decode(old).map_err(|error| undecodable::<V>(&table.core, error))?;
            change(&mut value);
            value.encode(&mut ValueBuffer::new(new));
            Ok(())
        })
    }

    /// Deletes a row. False if there is none; that there was none is then part of what the commit checks.
    ///
    /// # Errors
    /// As for [`put`](Self::put).
    #[inline]
    pub fn delete<K: Key, V: Value>(
        &mut self,
        table: &Table<K, V>,
        key: &(impl AsKey<K> + ?Sized),
    ) -> Result<bool> {
        self.raw_delete(&table.core, encoded(key).as_ref())
    }
}
