//! Names of keys to prefetch: the descents for the keys are interleaved, so that their cache misses overlap.
//!
//! Neighbours: [`Database::run_batch`](crate::Database::run_batch) hands out the [`Prefetch`].

use super::table::Table;
use crate::codec::bounds::encode_key;
use crate::codec::{AsKey, Key};
use crate::transaction::prefetch::Prefetch;

impl Prefetch<'_> {
    /// Names a key that is about to be read or written.
    #[inline]
    pub fn key<K: Key, V>(&mut self, table: &Table<K, V>, key: &(impl AsKey<K> + ?Sized)) {
        self.raw_key(&table.core, encode_key(key).as_ref());
    }
}
