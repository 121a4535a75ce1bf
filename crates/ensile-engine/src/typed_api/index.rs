//! Typed handles of secondary indexes, and the computation of secondary keys.
//!
//! Neighbours: [`Table::index`](crate::Table::index) makes a handle. [`Readable`](crate::Readable) reads through the
//! handle. The engine calls the key function at every write of a row.

use std::any::type_name;
use std::fmt;
use std::marker::PhantomData;

use ensile_base::sync::Arc;

use crate::codec::bounds::encode_key_delimited;
use crate::codec::{Key, Value};
use crate::tables::{IndexCore, IndexKeyFn, TableCore};

/// A handle on a secondary index: rows of a `Table<K, V>` in the order of a secondary key `S`. Rows with the same
/// secondary key are in the order of their primary keys.
///
/// Cheap to clone, and freely shared between threads. The engine updates the index with its table: an application never
/// writes to the index.
pub struct Index<S, K, V> {
    pub(crate) table: Arc<TableCore>,
    pub(crate) core: Arc<IndexCore>,
    types: Types<S, K, V>,
}

/// Marker without a value of `S`, `K` or `V`, so a handle is `Send` and `Sync` for any of these types.
type Types<S, K, V> = PhantomData<fn() -> (S, K, V)>;

impl<S, K, V> Index<S, K, V> {
    pub(super) fn new(table: Arc<TableCore>, core: Arc<IndexCore>) -> Self {
        Self { table, core, types: PhantomData }
    }

    /// Name of the index.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.core.name
    }

    /// True if no two rows have the same secondary key.
    #[must_use]
    pub fn is_unique(&self) -> bool {
        self.core.unique
    }
}

impl<S, K, V> Clone for Index<S, K, V> {
    fn clone(&self) -> Self {
        Self::new(Arc::clone(&self.table), Arc::clone(&self.core))
    }
}

impl<S, K, V> fmt::Debug for Index<S, K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (table, name) = (self.table.name(), &self.core.name);
        write!(
            f,
            "Index<{}, {}, {}>({table:?}, {name:?})",
            type_name::<S>(),
            type_name::<K>(),
            type_name::<V>()
        )
    }
}

/// The function that computes a row's secondary key from the bytes of the row. The key is delimited, because in an
/// index that is not unique the primary key follows.
pub(super) fn key_function<S: Key, K: Key, V: Value>(
    key: impl Fn(&K, &V) -> Option<S> + Send + Sync + 'static,
) -> IndexKeyFn {
    Box::new(move |primary, row, out| {
        let primary = K::decode(primary).map_err(|error| format!("primary key: {error}"))?;
        let secondary = V::view(row, |row| key(&primary, row)).map_err(|error| format!("row: {error}"))?;
        if let Some(secondary) = &secondary {
            out.extend_from_slice(encode_key_delimited::<S>(secondary).as_ref());
        }
        Ok(secondary.is_some())
    })
}
