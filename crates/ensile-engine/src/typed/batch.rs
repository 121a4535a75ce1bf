//! Announcing the keys of a batch, so that their ways down the index are walked side by side.
//!
//! Neighbours: [`Database::run_batch`](crate::Database::run_batch) hands out the [`Touch`].

use super::table::Table;
use crate::codec::bounds::encoded;
use crate::codec::{AsKey, Key};
use crate::transaction::touch::Touch;

impl Touch<'_> {
    /// Announces that the request will read or write `key`. A hint: a key that is not announced is only slower, one
    /// that is announced in vain costs a descent.
    #[inline]
    pub fn key<K: Key, V>(&mut self, table: &Table<K, V>, key: &(impl AsKey<K> + ?Sized)) {
        self.raw_key(&table.core, encoded(key).as_ref());
    }
}
